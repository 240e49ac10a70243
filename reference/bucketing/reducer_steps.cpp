#include "reference/bucketing/reducer_steps.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/bucketing/scaled_copy.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

// FNV-1a, number by number.
class Hash {
 public:
  void add(std::int64_t value) {
    for (int byte = 0; byte < 8; ++byte)
      mix(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * byte)));
  }
  void add(std::string_view text) {
    for (const char c : text) mix(static_cast<std::uint8_t>(c));
    add(static_cast<std::int64_t>(text.size()));
  }
  [[nodiscard]] std::int64_t value() const { return static_cast<std::int64_t>(value_); }

 private:
  void mix(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

// A number for each gradient that says all that ranks must agree on: what it is and where it lies. Last, the buckets.
std::vector<std::int64_t> digest(const Plan& plan, std::span<const Gradient> gradients,
                                 std::span<const std::string> names) {
  std::vector<Hash> hashes(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Gradient& gradient = gradients[i];
    for (const std::int64_t part : {gradient.elements, static_cast<std::int64_t>(gradient.dtype),
                                    std::int64_t{gradient.numbers}, std::int64_t{gradient.sparse}})
      hashes[i].add(part);
    if (!names.empty()) hashes[i].add(names[i]);
  }
  Hash whole;
  for (std::size_t k = 0; k < plan.buckets.size(); ++k) {
    whole.add(plan.buckets[k].elements);
    whole.add(static_cast<std::int64_t>(plan.buckets[k].dtype));
    for (const Member& member : plan.members_of(plan.buckets[k])) {
      hashes[static_cast<std::size_t>(member.gradient)].add(static_cast<std::int64_t>(k));
      hashes[static_cast<std::size_t>(member.gradient)].add(member.begin);
    }
  }
  std::vector<std::int64_t> values;
  for (const Hash& hash : hashes) values.push_back(hash.value());
  values.push_back(whole.value());
  return values;
}

std::vector<std::int64_t> gathered(comm::Communicator& group, std::vector<std::int64_t> own, comm::Timeout timeout) {
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather({own.data(), static_cast<std::int64_t>(own.size()), comm::DType::i64},
                   {all.data(), static_cast<std::int64_t>(all.size()), comm::DType::i64}, timeout);
  return all;
}

// The ranks whose number is another than rank 0's.
std::vector<int> dissenters(std::span<const std::int64_t> all, std::size_t width, std::size_t at) {
  std::vector<int> ranks;
  for (std::size_t rank = 1; rank * width < all.size(); ++rank)
    if (all[rank * width + at] != all[at]) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

}  // namespace

Divisors divisors_of(const Scaling& scaling) {
  if (!scaling.average || scaling.is_integer) return {.op = comm::ReduceOp::sum};
  if (scaling.split)
    return {.op = comm::ReduceOp::sum,
            .before = static_cast<double>(scaling.split->before),
            .after = static_cast<double>(scaling.split->after)};
  if (scaling.present > 0) return {.op = comm::ReduceOp::sum, .after = static_cast<double>(scaling.present)};
  return {.op = comm::ReduceOp::avg};
}

std::int64_t place_of(const Plan& plan, const Bucket& bucket, int member) {
  return plan.members_of(bucket)[static_cast<std::size_t>(member)].begin;
}

std::vector<int> order_of(const Plan& plan, const comm::Communicator&) {
  std::vector<int> order(plan.buckets.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void take_order_of_rank_0(comm::Communicator& group, std::span<std::int64_t> order, comm::Timeout timeout) {
  group.broadcast({order.data(), static_cast<std::int64_t>(order.size()), comm::DType::i64}, 0, timeout);
}

void agree_on_plan(comm::Communicator& group, const Plan& plan, std::span<const Gradient> gradients,
                   std::span<const std::string> names, comm::Timeout timeout) {
  const auto refuse = [&](const std::string& what, const std::vector<int>& ranks) {
    throw comm::MismatchError(fmt::format("reduction of gradients, rank {} of group {}: {} on rank{} {} than on rank 0",
                                          group.rank(), group.group().name, what, ranks.size() == 1 ? "" : "s",
                                          fmt::join(ranks, ", ")));
  };
  const std::vector<std::int64_t> own = digest(plan, gradients, names);
  const auto count = static_cast<std::int64_t>(gradients.size());
  Hash whole;
  for (const std::int64_t value : own) whole.add(value);
  const auto counts_and_hashes = gathered(group, {count, whole.value()}, timeout);
  if (const auto ranks = dissenters(counts_and_hashes, 2, 0); !ranks.empty())
    refuse(fmt::format("another number of parameters ({} here)", count), ranks);
  if (dissenters(counts_and_hashes, 2, 1).empty()) return;
  const std::vector<std::int64_t> all = gathered(group, own, timeout);
  for (std::size_t at = 0; at < own.size(); ++at) {
    const std::vector<int> ranks = dissenters(all, own.size(), at);
    if (ranks.empty()) continue;
    if (at == gradients.size()) refuse("other buckets", ranks);
    refuse(fmt::format("parameter {} has another size, type or place in the buckets",
                       names.empty() ? fmt::format("{}", at) : fmt::format("'{}'", names[at])),
           ranks);
  }
}

ReducerSteps::ReducerSteps()
    : lack(fill_zeros), start([](comm::Communicator& group, comm::Buffer values, comm::ReduceOp op) {
        return group.start(comm::Call{.operation = comm::Operation::all_reduce, .op = op, .in = values, .out = values});
      }) {}

}  // namespace plumbline::bucketing
