// Collectives of adapters with as many ranks and as much memory as an answer holds. Whole numbers, whose sums are exact
// in any order.
#include <cstdint>

#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/sizes.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;

namespace {

int number_at(int rank, int element) { return (rank * 13 + element * 5) % 101 - 50; }

// Every other rank, in a ring of so many that chunks are uneven.
JudgeSize ring_sums(const std::string& convention) {
  return [convention](Adapter& adapter, int elements) {
    const int ranks = elements < 100 ? 4 : 60;
    json inputs = json::array(), group = json::array(), output = json::array();
    for (int rank = 0; rank < ranks; ++rank) {
      json& row = inputs.emplace_back(json::array());
      for (int element = 0; element < elements; ++element) row.push_back(number_at(rank, element));
      if (rank % 2 == 1) group.push_back(rank);
    }
    for (int element = 0; element < elements; ++element) {
      double sum = 0;
      for (int rank = 1; rank < ranks; rank += 2) sum += number_at(rank, element);
      output.push_back(sum);
    }
    const json args{{"convention", convention}, {"world_size", ranks}, {"elements", elements}, {"dtype", "float32"},
                    {"op", "all_reduce"},       {"dst", nullptr},      {"group", group},       {"inputs", inputs}};
    return problem_of(adapter, "comm.ring_sum", args,
                      [&](const json& result) { return first_difference({{"output", output}}, result, "result"); });
  };
}

// Sixteen ranks: a sum of all of the first half, from the second one, and then a broadcast of what a rank has there.
std::string long_calls(Adapter& adapter, int elements) {
  constexpr int ranks = 16, root = 11;
  const int half = elements / 2;
  const json low{{"first", 0}, {"count", half}}, high{{"first", half}, {"count", half}};
  json memory = json::array(), summed = json::array(), spread = json::array();
  for (int rank = 0; rank < ranks; ++rank) {
    json& mine = memory.emplace_back(json::array());
    for (int element = 0; element < elements; ++element) mine.push_back(number_at(rank, element));
  }
  summed = memory;
  for (int element = 0; element < half; ++element) {
    std::int64_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += number_at(rank, half + element);
    for (json& mine : summed) mine[static_cast<std::size_t>(element)] = sum;
  }
  spread = summed;
  for (json& mine : spread)
    for (int element = half; element < 2 * half; ++element)
      mine[static_cast<std::size_t>(element)] = summed[root][static_cast<std::size_t>(element)];
  const json args{{"world_size", ranks},
                  {"dtype", "int64"},
                  {"memory", memory},
                  {"calls",
                   {{{"operation", "all_reduce"}, {"op", "sum"}, {"in", high}, {"out", low}},
                    {{"operation", "broadcast"}, {"root", root}, {"in", high}, {"out", high}}}}};
  return problem_of(adapter, "comm.calls", args, [&](const json& result) {
    const json none(ranks, nullptr);
    return first_difference({{{"errors", none}, {"memory", summed}}, {{"errors", none}, {"memory", spread}}},
                            result.at("calls"), "calls");
  });
}

// Many calls one after the other, each on what the last one left: maxima and broadcasts of 3 ranks, alternately.
std::string many_calls(Adapter& adapter, int count) {
  constexpr int ranks = 3, elements = 5;
  std::vector<std::vector<std::int64_t>> memory(ranks, std::vector<std::int64_t>(elements));
  for (int rank = 0; rank < ranks; ++rank)
    for (int element = 0; element < elements; ++element)
      memory[static_cast<std::size_t>(rank)][static_cast<std::size_t>(element)] = number_at(rank, element);
  json args{{"world_size", ranks}, {"dtype", "int64"}, {"memory", memory}, {"calls", json::array()}},
      expected = json::array();
  for (int call = 0; call < count; ++call) {
    const auto from = static_cast<std::size_t>(call % elements), to = static_cast<std::size_t>((call + 2) % elements);
    const auto root = static_cast<std::size_t>(call % ranks);
    const bool copies = call % 3 == 2;
    std::int64_t most = memory[0][from];
    for (const auto& mine : memory) most = std::max(most, mine[from]);
    const std::int64_t value = copies ? memory[root][from] : most;
    for (auto& mine : memory) mine[copies ? from : to] = value;
    const json source{{"first", from}, {"count", 1}}, target{{"first", copies ? from : to}, {"count", 1}};
    json made{{"operation", copies ? "broadcast" : "all_reduce"}, {"in", source}, {"out", target}};
    if (copies) made["root"] = root;
    if (!copies) made["op"] = "max";
    args["calls"].push_back(std::move(made));
    expected.push_back({{"errors", json(ranks, nullptr)}, {"memory", memory}});
  }
  return problem_of(adapter, "comm.calls", args,
                    [&](const json& result) { return first_difference(expected, result.at("calls"), "calls"); });
}

}  // namespace

void add_adapter_size_checks(suite::Suite& suite) {
  const auto add = [&](SizedCheck one) { add_sized_check(suite, "collectives", std::move(one)); };
  const std::vector<int> elements{7, 333, 4099, 20'000};
  add(asking({{"dtype", {"float32"}}}, {"comm.ring_sum", "COLL-060@3097", elements, ring_sums("gloo"), "gloo"}));
  add(asking({{"dtype", {"int64"}}}, {"comm.calls", "COLL-001@041a", elements, long_calls}));
  add(asking({{"dtype", {"int64"}}},
             {"comm.calls", "COLL-001@041a", {5, 60, 700, 5000}, many_calls, "plumbline", "many"}));
}

}  // namespace plumbline::conformance
