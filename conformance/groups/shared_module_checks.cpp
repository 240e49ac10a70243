// What an adapter answers about the groups of modules that several stages share.
#include <algorithm>

#include <fmt/format.h>

#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/worlds.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/support/recorded.hpp"
#include "conformance/support/words.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

constexpr const char* kSharedModule = "groups.shared_module";

json module_question(const json& one, const char* convention) {
  return {{"convention", convention},
          {"world_size", one.at("world_size")},
          {"parallel", one.at("parallel")},
          {"pipeline_ranks", one.at("pipeline_ranks")}};
}

// Where the record has an error in place of a source, there must be one here.
std::string problem_of_ranks(const json& expected, const json& got) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    json right = expected[i];
    const json& row = got.at(i);
    if (right.at("register_module").contains("error")) {
      if (!row.at("register_module").contains("error"))
        return fmt::format("rank {} may register, {}, which the record refuses", i, row["register_module"].dump());
      right.erase("register_module");
    }
    if (auto words = first_difference(right, row, fmt::format("ranks[{}]", i)); !words.empty()) return words;
  }
  return got.size() == expected.size() ? "" : fmt::format("{} ranks, expected {}", got.size(), expected.size());
}

std::string kind_of(const json& one) {
  if (one.contains("error")) return "refused";
  const auto stages = one.at("pipeline_ranks").get<std::vector<int>>();
  if (!std::ranges::is_sorted(stages)) return "descending";
  return stages.front() == 0 ? "from_the_first" : "later";
}

void expect_refusal(const Answer& answer, const json& args) {
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump().substr(0, 160));
  if (!refuses_bad_value(answer, args)) report_words(fmt::format("refused as '{}': {}", answer.kind, answer.message));
}

void recorded_shared(Context& context) {
  const json record = recorded("groups", "colossalai94");
  for (const json& one : record.at("cases")) {
    if (one.at("kind") != "pipeline_shared_module" || kind_of(one) != context.parameters().text("stages")) continue;
    const json args = module_question(one, "colossalai");
    const std::string about =
        fmt::format("world {}, stages {}: ", args["world_size"].dump(), args["pipeline_ranks"].dump());
    if (one.contains("error")) {
      expect_refusal(answer_to(context.adapter(), kSharedModule, args), args);
      continue;
    }
    const std::string words = problem_of(context.adapter(), kSharedModule, args, [&](const json& result) {
      auto calls = first_difference(one.at("new_group_calls"), result.at("new_group_calls"), "new_group_calls");
      return calls.empty() ? problem_of_ranks(one.at("ranks"), result.at("ranks")) : calls;
    });
    if (!words.empty()) report_words(about + words);
  }
}

// By our own rule the source is the first member, on whatever stages the module is; ranks of other stages have no part.
std::string problem_of_answer(const AxisSizes& sizes, const std::vector<int>& stages, const json& result) {
  std::vector<std::vector<int>> groups;  // for each data and tensor coordinate, the members
  for (int data = 0; data < sizes.data; ++data)
    for (int tensor = 0; tensor < sizes.tensor; ++tensor) {
      groups.emplace_back();
      for (const int stage : stages)
        groups.back().push_back(rank_at(sizes, Slowest::data, {.pipeline = stage, .data = data, .tensor = tensor}));
    }
  if (auto words = first_difference(groups, result.at("new_group_calls"), "new_group_calls"); !words.empty())
    return words;
  for (int rank = 0; rank < sizes.world(); ++rank) {
    const json& row = result.at("ranks").at(static_cast<std::size_t>(rank));
    const Place own = place_of(sizes, Slowest::data, rank);
    const auto index = static_cast<std::size_t>(own.data * sizes.tensor + own.tensor);
    const bool has_part = contains(stages, own.pipeline);
    json expected{{"rank", rank}, {"ranks_in_group", nullptr}, {"new_group_index", nullptr}};
    if (has_part)
      expected = {{"rank", rank},
                  {"ranks_in_group", groups[index]},
                  {"new_group_index", index},
                  {"register_module", {{"broadcast_src", groups[index].front()}}}};
    if (auto words = first_difference(expected, row, fmt::format("ranks[{}]", rank)); !words.empty()) return words;
    if (!has_part && !row.at("register_module").contains("error"))
      return fmt::format("rank {} may register, {}, on another stage", rank, row["register_module"].dump());
  }
  return {};
}

void source_is_first(Context& context) {
  const auto stages = json::parse(context.parameters().text("stages")).get<std::vector<int>>();
  const AxisSizes sizes{.pipeline = 4, .data = 3, .tensor = 2};
  const json args{{"world_size", sizes.world()},
                  {"parallel", {{"pipeline", sizes.pipeline}, {"tensor", {{"size", sizes.tensor}, {"mode", "1d"}}}}},
                  {"pipeline_ranks", stages}};
  report_words(problem_of(context.adapter(), kSharedModule, args,
                          [&](const json& result) { return problem_of_answer(sizes, stages, result); }));
}

// Stages that are none, too few or twice.
void stages_refused(Context& context) {
  const auto stages = json::parse(context.parameters().text("stages")).get<std::vector<int>>();
  const json args{{"world_size", 8}, {"parallel", {{"pipeline", 4}}}, {"pipeline_ranks", stages}};
  report_words(problem_of_control(context.adapter(), kSharedModule, args));
  expect_refusal(answer_to(context.adapter(), kSharedModule, args), args);
}

// A module is shared in a world that starts: what the tensor mode cannot lay out is refused here too.
void sizes_refused(Context& context) {
  const bool square = context.parameters().text("fault") == "no_square";
  const json tensor = square ? json{{"size", 8}, {"mode", "2d"}} : json{{"size", 9}, {"mode", "3d"}};
  const json args{{"world_size", 2 * tensor.at("size").get<int>()},
                  {"parallel", {{"pipeline", 2}, {"tensor", tensor}}},
                  {"pipeline_ranks", {0, 1}}};
  report_words(problem_of_control(context.adapter(), kSharedModule, args));
  const Answer answer = answer_to(context.adapter(), kSharedModule, args);
  expect_refusal(answer, args);
  if (const std::string missing = missing_words(answer.message, {square ? "8" : "9"}); !missing.empty())
    report_words(fmt::format("{} is not in the message '{}'", missing, answer.message));
}

}  // namespace

void add_shared_module_checks(suite::Suite& suite) {
  suite.add({.id = "groups.shared_modules.recorded",
             .verifies = {"GROUP-028@01ba"},
             .door = suite::Door::adapter,
             .axes = {{"stages", {"from_the_first", "later", "descending", "refused"}}},
             .operations = {kSharedModule},
             .convention = "colossalai",
             .body = recorded_shared});
  suite.add({.id = "groups.shared_modules.refusals",
             .verifies = {"GROUP-025@01a4"},
             .door = suite::Door::adapter,
             .axes = {{"fault", {"no_square", "no_cube"}}},
             .operations = {kSharedModule},
             .body = sizes_refused});
  suite.add({.id = "groups.shared_modules.stages",
             .verifies = {"GROUP-029@ecac"},
             .door = suite::Door::adapter,
             .axes = {{"stages", {"[0]", "[0,4]", "[-1,2]", "[2,1,2]"}}},
             .operations = {kSharedModule},
             .body = stages_refused});
  suite.add({.id = "groups.shared_modules.source",
             .verifies = {"GROUP-029@ecac"},
             .door = suite::Door::adapter,
             .axes = {{"stages", {"[0,3]", "[1,3]", "[2,3]", "[3,0]", "[1,2,3]"}}},
             .operations = {kSharedModule},
             .body = source_is_first});
}

}  // namespace plumbline::conformance
