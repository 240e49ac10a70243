// Groups of a dozen ranks to 65,536: each answer held to arithmetic on rank numbers.
#include <algorithm>
#include <ranges>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/groups/groups_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/rank_grid.hpp"
#include "conformance/support/sizes.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;

namespace {

using Lists = std::vector<std::vector<int>>;

// ColossalAI's order, data slowest, and that of the others, pipeline slowest.
constexpr std::size_t kData = 0, kPipeline = 1, kTensor = 2;

json question_of_grid(const RankGrid& grid, const std::string& convention) {
  return {
      {"convention", convention},
      {"world_size", grid.ranks()},
      {"parallel", {{"pipeline", grid.size(kPipeline)}, {"tensor", {{"size", grid.size(kTensor)}, {"mode", "1d"}}}}}};
}

struct GridMode {
  std::string name;
  Lists lists;
};
// In the order in which they are created.
std::vector<GridMode> modes_of_grid(const RankGrid& grid) {
  std::vector<GridMode> modes{{"DATA", grid.groups(kData)}, {"MODEL", grid.groups_beside(kData)}};
  if (grid.size(kPipeline) > 1) modes.push_back({"PIPELINE", grid.groups(kPipeline)});
  modes.push_back({"TENSOR", grid.groups(kTensor)});
  modes.push_back({"PARALLEL_1D", grid.groups(kTensor)});
  return modes;
}

JudgeSize all_modes(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const RankGrid grid(three_sizes(ranks));
    return problem_of(adapter, "groups.parallel_groups", question_of_grid(grid, convention), [&](const json& result) {
      json expected{{"data_parallel_size", grid.size(kData)}}, told = json::array();
      for (int rank = 0; rank < ranks; ++rank) told.push_back({{"rank", rank}});
      for (const auto& [mode, lists] : modes_of_grid(grid)) {
        expected["groups"][mode] = lists;
        for (const auto& list : lists) {
          const std::size_t size = list.size();
          for (std::size_t place = 0; place < size; ++place)
            told[static_cast<std::size_t>(list[place])][mode] = {
                {"local_rank", place},
                {"world_size", size},
                {"ranks", list},
                {"new_group_index", expected["new_group_calls"].size()},
                {"next", list[(place + 1) % size]},
                {"prev", list[(place + size - 1) % size]}};
          expected["new_group_calls"].push_back(list);
        }
      }
      expected["ranks"] = std::move(told);
      return first_difference(expected, result);
    });
  };
}

// The first and the last stage share a module, and of the stages between nobody has a part in it.
JudgeSize shared_ends(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const RankGrid grid(three_sizes(ranks));
    const int last = grid.size(kPipeline) - 1;
    json args = question_of_grid(grid, convention);
    args["pipeline_ranks"] = {0, last};
    return problem_of(adapter, "groups.shared_module", args, [&](const json& result) -> std::string {
      json calls = json::array();
      for (int rank = 0; rank < ranks; ++rank)
        if (grid.at(rank, kPipeline) == 0) calls.push_back({rank, grid.moved(rank, kPipeline, last)});
      if (std::string words = first_difference(calls, result.at("new_group_calls"), "new_group_calls"); !words.empty())
        return words;
      for (int rank = 0; rank < ranks; ++rank) {
        const json& row = result.at("ranks").at(static_cast<std::size_t>(rank));
        json expected{{"rank", rank}, {"ranks_in_group", nullptr}, {"new_group_index", nullptr}};
        if (const int stage = grid.at(rank, kPipeline); stage == 0 || stage == last) {
          const int number = grid.number(rank, kPipeline);
          const json& members = calls[static_cast<std::size_t>(number)];
          expected = {{"rank", rank}, {"ranks_in_group", members}, {"new_group_index", number}};
          if (convention == "plumbline") expected["register_module"] = {{"broadcast_src", members[0]}};
        } else if (!row.at("register_module").contains("error")) {
          return fmt::format("rank {} may register, on a stage without the module", rank);
        }
        if (std::string words = first_difference(expected, row, fmt::format("ranks[{}]", rank)); !words.empty())
          return words;
      }
      return {};
    });
  };
}

// Megatron-LM's and DeepSpeed's lists are those of one grid; they create them in other orders.
std::string two_conventions(Adapter& adapter, int ranks) {
  const std::vector<int> sizes = three_sizes(ranks);  // pipeline, data, tensor
  const RankGrid grid(sizes);
  const json args{{"sizes", {{"pipeline", sizes[0]}, {"data", sizes[1]}, {"tensor", sizes[2]}}},
                  {"conventions", {"megatron", "deepspeed"}}};
  return problem_of(adapter, "groups.conventions", args, [&](const json& result) {
    const std::map<std::string, Lists> lists{{"pipeline", grid.groups(0)},
                                             {"data", grid.groups(1)},
                                             {"tensor", grid.groups(2)},
                                             {"model", grid.groups_beside(1)}};
    std::size_t told = 0;
    for (const json& row : result.at("modes")) {
      const std::string mode = row.at("mode");
      const json expected{{"differs", false}, {"agreements", {{{"groups", lists.at(mode)}}}}};
      if (std::string words = first_difference(expected, row, mode); !words.empty()) return words;
      ++told;
    }
    if (told != lists.size()) return fmt::format("{} modes are reported", told);
    json plans = json::array();
    for (const auto& [convention, modes] :
         {std::pair("megatron", std::vector{"data", "model", "tensor", "pipeline"}),
          std::pair("deepspeed", std::vector{"model", "data", "pipeline", "tensor"})}) {
      json& plan = plans.emplace_back(json{{"convention", convention}, {"new_group_calls", json::array()}});
      for (const char* mode : modes)
        for (const auto& list : lists.at(mode)) plan["new_group_calls"].push_back(json::array({mode, list}));
    }
    return first_difference({{"plans", plans}, {"same_order", false}}, result);
  });
}

// ---- logs of creations ----

// Each rank makes its group along each of three axes, the members alone.
json members_log(int ranks) {
  const RankGrid grid(three_sizes(ranks));
  json log = json::array();
  for (int rank = 0; rank < ranks; ++rank)
    for (const std::size_t axis : {kData, kPipeline, kTensor})
      if (grid.size(axis) > 1) log.push_back({{"rank", rank}, {"ranks", grid.group(rank, axis)}});
  return log;
}
// Each rank makes all of eight groups of three ranks.
json whole_log(int ranks) {
  json log = json::array();
  for (int rank = 0; rank < ranks; ++rank)
    for (int group = 0; group < 8; ++group) log.push_back({{"rank", rank}, {"ranks", {group, group + 1, ranks - 1}}});
  return log;
}

std::string linted(Adapter& adapter, int ranks, const char* rule, json creations, const JudgeResult& judge) {
  const json args{{"world_size", ranks}, {"rule", rule}, {"creations", std::move(creations)}};
  return problem_of(adapter, "groups.lint", args, judge);
}

std::string named_in(const json& result, const std::string& kind, int rank, int sequence) {
  if (result.at("valid") != false) return fmt::format("valid, with '{}' on rank {}", kind, rank);
  for (const json& finding : result.at("findings"))
    if (finding.at("kind") == kind && finding.at("rank") == rank && finding.at("sequence") == sequence) return {};
  return fmt::format("no '{}' on rank {}, creation {}, is among {}", kind, rank, sequence,
                     result.at("findings").dump().substr(0, 200));
}

// A rank near the end makes two groups in another order, and one leaves out its last.
std::string names_one_rank(Adapter& adapter, int ranks) {
  json log = whole_log(ranks);
  const int odd = ranks - 2, first = 8 * odd + 3;
  std::swap(log[static_cast<std::size_t>(first)], log[static_cast<std::size_t>(first) + 1]);
  const std::string words =
      linted(adapter, ranks, "all_ranks", log, [&](const json& result) { return named_in(result, "order", odd, 3); });
  if (!words.empty()) return words;
  log = whole_log(ranks);
  log.erase(static_cast<std::size_t>(8 * odd + 7));
  return linted(adapter, ranks, "all_ranks", log,
                [&](const json& result) { return named_in(result, "missing", odd, 7); });
}

// Who accepts everything accepts no log: a small one with a fault is not.
std::string accepts_logs(Adapter& adapter, int ranks) {
  const auto judge = [](const json& result) -> std::string {
    for (const json& finding : result.at("findings"))
      if (finding.at("severity") == "error") return "an error is found: " + finding.dump();
    return first_difference({{"valid", true}}, result);
  };
  std::string words = linted(adapter, ranks, "members_only", members_log(ranks), judge);
  if (words.empty()) words = linted(adapter, ranks, "all_ranks", whole_log(ranks), judge);
  constexpr int few = 12;
  return words.empty() ? names_one_rank(adapter, few) : words;
}

// Two stages; of an even number of replicas, halves hold the same experts, else all hold different ones.
JudgeSize experts_of_half(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) -> std::string {
    const int stages = ranks % 2 == 0 ? 2 : 1, stage = ranks / stages, same = stage % 2 == 0 ? 2 : 1;
    const json args{{"convention", convention}, {"world_size", ranks}, {"pipeline", stages}, {"expert", stage / same}};
    return problem_of(adapter, "groups.expert_groups", args, [&](const json& result) -> std::string {
      using Groups = std::multiset<std::multiset<int>>;  // in any order
      const int length = stage / same;
      Groups blocks, positions;
      for (int first = 0; first < ranks; first += length) {
        std::multiset<int> block;
        for (int rank = first; rank < first + length; ++rank) block.insert(rank);
        blocks.insert(std::move(block));
      }
      for (int first = 0; first < ranks; first += stage)
        for (int rank = first; rank < first + length; ++rank)
          positions.insert(same == 2 ? std::multiset{rank, rank + length} : std::multiset{rank});
      for (const auto& [name, expected] :
           {std::pair("expert_parallel", blocks), std::pair("expert_data_parallel", positions)}) {
        const auto got = result.at(name).get<Groups>();
        const auto [one, other] = std::ranges::mismatch(got, expected);
        if (got.size() != expected.size())
          return fmt::format("{}: {} groups, not {}", name, got.size(), expected.size());
        if (one != got.end())
          return fmt::format("{}: a group begins with {}", name, fmt::join(*one | std::views::take(3), ", "));
      }
      return {};
    });
  };
}

}  // namespace

void add_group_size_checks(suite::Suite& suite) {
  const std::vector<int> told_all{12, 60, 1001, 2744}, logged{12, 60, 1001, 4096};
  for (const auto& [convention, groups, shared] : {std::tuple("plumbline", "GROUP-024@8ee8", "GROUP-029@ecac"),
                                                   std::tuple("colossalai", "GROUP-024@8ee8", "GROUP-028@01ba")}) {
    add_sized_check(suite, "groups", {"groups.parallel_groups", groups, told_all, all_modes(convention), convention});
    add_sized_check(suite, "groups", {"groups.shared_module", shared, told_all, shared_ends(convention), convention});
  }
  for (const char* convention : {"plumbline", "deepspeed"})
    add_sized_check(
        suite, "groups",
        {"groups.expert_groups", "GROUP-044@f394", {12, 60, 1001, 65'536}, experts_of_half(convention), convention});
  add_sized_check(suite, "groups", {"groups.conventions", "GROUP-027@2097", {12, 60, 1001, 65'536}, two_conventions});
  for (const SizedCheck& lint : {SizedCheck{"groups.lint", "GROUP-033@ee14", logged, accepts_logs},
                                 {"groups.lint", "GROUP-030@156b", logged, names_one_rank, "plumbline", "fault"}})
    add_sized_check(suite, "groups", asking({{"form", {"creations"}}}, lint));
}

}  // namespace plumbline::conformance
