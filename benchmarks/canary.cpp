#include "benchmarks/canary.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/format.h>

#include "harness/bench/canary_probe.hpp"
#include "harness/bench/reduction_order.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bench {
namespace {

using comm::Communicator;
using nlohmann::json;

CanaryProbe probe_of(const json& arguments, int ranks) {
  const std::string operation = arguments.at("operation");
  for (const comm::Operation one : canary_operations())
    if (name_of(one) == operation)
      return {.operation = one,
              .dtype = comm::parse_dtype(arguments.at("dtype").get<std::string>()).value(),
              .ranks = ranks,
              .elements = arguments.at("elements"),
              .seed = arguments.at("seed")};
  throw InvalidArgument(fmt::format("no operation '{}' to compare", operation));
}

json values(Communicator& world, const device::MemorySpace&, const json& arguments) {
  const CanaryProbe probe = probe_of(arguments, world.size());
  std::vector<std::byte> in = canary_inputs(probe, world.rank());
  std::vector<std::byte> out(static_cast<std::size_t>(elements_out(probe, world.rank())) * size_of(probe.dtype));
  if (probe.operation == comm::Operation::broadcast && world.rank() == 0) out = in;
  comm::Call call{.operation = probe.operation,
                  .in = {in.data(), elements_in(probe, world.rank()), probe.dtype},
                  .out = {out.data(), elements_out(probe, world.rank()), probe.dtype}};
  if (is_rooted(probe.operation)) call.root = 0;
  world.run(call);
  const std::string file = fmt::format("{}/{}", arguments.at("folder").get<std::string>(), world.rank());
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(out.data()), static_cast<std::streamsize>(out.size()));
  if (!stream.flush()) throw RuntimeFailure(fmt::format("cannot write '{}'", file));
  return world.rank() == 0 ? json::object() : json();
}

// For each element the sizes that the probes show, pair after pair: a character each, and 0 for what is no size.
std::vector<std::string> probe_orders(Communicator& world, std::int64_t elements) {
  std::vector<std::string> sizes(static_cast<std::size_t>(elements));
  std::vector<float> in(sizes.size()), out(sizes.size());
  for (int i = 0; i < world.size(); ++i)
    for (int j = i + 1; j < world.size(); ++j) {
      std::ranges::fill(in, world.rank() == i ? kAbsorbing : world.rank() == j ? -kAbsorbing : 1.0F);
      world.all_reduce(comm::ConstBuffer::of(in), comm::Buffer::of(out), comm::ReduceOp::sum);
      for (std::size_t k = 0; k < sizes.size(); ++k) {
        const bool is_count = out[k] >= 0 && out[k] <= static_cast<float>(world.size()) && out[k] == std::floor(out[k]);
        sizes[k] += static_cast<char>(is_count ? world.size() - static_cast<int>(out[k]) : 0);
      }
    }
  return sizes;
}

std::string order_of(int ranks, const std::string& sizes) {
  SubtreeSizes of_pairs;
  std::size_t at = 0;
  for (int i = 0; i < ranks; ++i)
    for (int j = i + 1; j < ranks; ++j) of_pairs[{i, j}] = sizes[at++];
  return order_of_additions(ranks, of_pairs);
}

// The elements that are added in one order, from the first on.
json parts_of(int ranks, const std::vector<std::string>& sizes) {
  json parts = json::array();
  for (std::size_t first = 0; first < sizes.size();) {
    std::size_t end = first + 1;
    while (end < sizes.size() && sizes[end] == sizes[first]) ++end;
    parts.push_back({{"first", first}, {"count", end - first}, {"order", order_of(ranks, sizes[first])}});
    first = end;
  }
  return parts;
}

json order(Communicator& world, const device::MemorySpace&, const json& arguments) {
  const std::int64_t elements = arguments.at("elements");
  const auto sizes = probe_orders(world, elements);
  bool changes = false;
  for (int again = 1; again < arguments.at("repetitions").get<int>(); ++again)
    changes = probe_orders(world, elements) != sizes || changes;  // on every rank, whatever it saw before
  if (world.rank() != 0) return {};
  return {{"parts", parts_of(world.size(), sizes)}, {"changes", changes}};
}

}  // namespace

void add_canary(Registry& registry) {
  registry.push_back({.name = "canary.values",
                      .title = "what one call computes, to compare libraries: canary",
                      .only_on_host = "its answers are compared on the host",
                      .study = values});
  registry.push_back({.name = "canary.order",
                      .title = "in which order all_reduce adds: canary",
                      .only_on_host = "its answers are compared on the host",
                      .study = order});
}

}  // namespace plumbline::bench
