// What an adapter answers about parallel modes: recorded cases, and properties of any sizes.
#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/worlds.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/support/property.hpp"
#include "conformance/support/recorded.hpp"
#include "conformance/support/words.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using Lists = std::vector<std::vector<int>>;

namespace {

constexpr const char* kParallelGroups = "groups.parallel_groups";

// ---- recorded ----

// The tensor mode that a recorded case is about; "refused" of a case that was.
std::string mode_of(const json& one) {
  if (one.contains("error")) return "refused";
  const json parallel = one.at("parallel").is_object() ? one["parallel"] : json::object();
  const json mode = parallel.value("tensor", json::object()).value("mode", json());
  return mode.is_string() ? mode.get<std::string>() : "none";
}

std::string problem_of_recorded(suite::Adapter& adapter, const json& one) {
  const json args{{"convention", "colossalai"}, {"world_size", one.at("world_size")}, {"parallel", one.at("parallel")}};
  if (one.contains("error")) {
    const Answer answer = answer_to(adapter, kParallelGroups, args);
    if (!answer.is_refused()) return "is refused in the record, here answered";
    return refuses_bad_value(answer, args) ? "" : fmt::format("is refused as '{}': {}", answer.kind, answer.message);
  }
  json expected = one;
  for (const char* input : {"kind", "world_size", "parallel"}) expected.erase(input);
  return problem_of(adapter, kParallelGroups, args,
                    [&](const json& result) { return first_difference(expected, result); });
}

void recorded_modes(Context& context) {
  const json record = recorded("groups", "colossalai94");
  for (const json& one : record.at("cases")) {
    if (one.at("kind") != "parallel_groups" || mode_of(one) != context.parameters().text("mode")) continue;
    if (const std::string words = problem_of_recorded(context.adapter(), one); !words.empty())
      report_words(fmt::format("world {}, {}: {}", one.at("world_size").dump(), one.at("parallel").dump(), words));
  }
}

// ---- properties of any sizes ----

using JudgeSizes = std::function<std::string(const AxisSizes&, const json& result)>;

json question_of(const std::string& convention, const AxisSizes& sizes, const char* mode = "1d") {
  return {{"convention", convention},
          {"world_size", sizes.world()},
          {"parallel", {{"pipeline", sizes.pipeline}, {"tensor", {{"size", sizes.tensor}, {"mode", mode}}}}}};
}

std::vector<AxisSizes> smaller_sizes(const AxisSizes& sizes) {
  std::vector<AxisSizes> list;
  for (int AxisSizes::* axis : {&AxisSizes::pipeline, &AxisSizes::data, &AxisSizes::tensor})
    for (const int size : {1, sizes.*axis - 1})
      if (size >= 1 && size < sizes.*axis) {
        list.push_back(sizes);
        list.back().*axis = size;
      }
  return list;
}

// Judges the sizes that the case names, or random ones, and reports.
void judge_sizes(Context& context, const std::function<std::string(const AxisSizes&)>& problem) {
  const std::string& name = context.parameters().text("sizes");
  if (name != "random") {
    if (const std::string words = problem(AxisSizes::parse(name)); !words.empty()) report_words(name + ": " + words);
    return;
  }
  const Property<AxisSizes> property{.draw =
                                         [](Random& random) {
                                           return AxisSizes{.pipeline = random.between(1, 5),
                                                            .data = random.between(1, 5),
                                                            .tensor = random.between(1, 5)};
                                         },
                                     .problem = problem,
                                     .smaller = smaller_sizes,
                                     .words = [](const AxisSizes& sizes) { return sizes.name(); }};
  report_words(search(property, context.seed(), 100));
}

void judge_answers(Context& context, const std::string& convention, const JudgeSizes& judge, const char* mode) {
  judge_sizes(context, [&](const AxisSizes& sizes) {
    return problem_of(context.adapter(), kParallelGroups, question_of(convention, sizes, mode),
                      [&](const json& result) { return judge(sizes, result); });
  });
}

std::map<std::string, Lists> groups_in(const json& result) {
  return result.at("groups").get<std::map<std::string, Lists>>();
}

std::string not_a_partition(const Lists& lists, int world) {
  std::vector<int> seen(static_cast<std::size_t>(world));
  for (const auto& list : lists)
    for (const int rank : list) {
      if (rank < 0 || rank >= world) return fmt::format("has rank {} in a world of {}", rank, world);
      ++seen[static_cast<std::size_t>(rank)];
    }
  for (int rank = 0; rank < world; ++rank)
    if (const int times = seen[static_cast<std::size_t>(rank)]; times != 1)
      return fmt::format("has rank {} {} times", rank, times);
  return {};
}

std::string partition(const AxisSizes& sizes, const json& result) {
  const auto groups = groups_in(result);
  for (const char* mode : {"DATA", "MODEL", "TENSOR"})
    if (!groups.contains(mode)) return fmt::format("there are no groups of mode {}", mode);
  for (const auto& [mode, lists] : groups)
    if (const auto words = not_a_partition(lists, sizes.world()); !words.empty()) return mode + " " + words;
  return {};
}

std::size_t common(const std::vector<int>& one, const std::vector<int>& other) {
  return static_cast<std::size_t>(std::ranges::count_if(one, [&](int rank) { return contains(other, rank); }));
}

// Groups of two modes that have no axis in common.
std::string meet_once(const AxisSizes& sizes, const json& result) {
  if (auto words = partition(sizes, result); !words.empty()) return words;
  const auto groups = groups_in(result);
  for (const auto& [first, second] : {std::pair("DATA", "PIPELINE"), std::pair("DATA", "TENSOR"),
                                      std::pair("PIPELINE", "TENSOR"), std::pair("DATA", "MODEL")}) {
    if (!groups.contains(first) || !groups.contains(second)) continue;
    for (const auto& one : groups.at(first))
      for (const auto& other : groups.at(second))
        if (common(one, other) > 1)
          return fmt::format("{} [{}] and {} [{}] share {} ranks", first, fmt::join(one, " "), second,
                             fmt::join(other, " "), common(one, other));
  }
  return {};
}

std::string model_contiguous(const AxisSizes& sizes, const json& result) {
  Lists expected(static_cast<std::size_t>(sizes.data));
  const int stretch = sizes.pipeline * sizes.tensor;
  for (int rank = 0; rank < sizes.world(); ++rank) expected[static_cast<std::size_t>(rank / stretch)].push_back(rank);
  return first_difference(expected, result.at("groups").at("MODEL"), "MODEL");
}

std::string sizes_multiply(const AxisSizes& sizes, const json& result) {
  const json expected{{"data_parallel_size", sizes.data},
                      {"pipeline_parallel_size", sizes.pipeline},
                      {"tensor_parallel_size", sizes.tensor}};
  if (auto words = first_difference(expected, result); !words.empty()) return words;
  if (auto words = partition(sizes, result); !words.empty()) return words;
  for (const auto& [mode, size] :
       {std::pair("DATA", sizes.data), std::pair("PIPELINE", sizes.pipeline), std::pair("TENSOR", sizes.tensor),
        std::pair("MODEL", sizes.pipeline * sizes.tensor)})
    if (result.at("groups").contains(mode))
      for (const auto& list : result["groups"][mode].get<Lists>())
        if (static_cast<int>(list.size()) != size)
          return fmt::format("{} [{}]: expected {} ranks", mode, fmt::join(list, " "), size);
  return {};
}

struct Call {
  std::string mode;
  std::vector<int> members;
};
// The modes one after the other, and of each the groups by their first ranks.
std::vector<Call> calls_of(const AxisSizes& sizes) {
  std::vector<Call> calls;
  for (const auto& [mode, axis] :
       {std::pair("DATA", "data"), std::pair("MODEL", "model"), std::pair("PIPELINE", "pipeline"),
        std::pair("TENSOR", "tensor"), std::pair("PARALLEL_1D", "tensor")}) {
    if (std::string_view(mode) == "PIPELINE" && sizes.pipeline == 1) continue;
    for (int rank = 0; rank < sizes.world(); ++rank)
      if (auto members = members_of(sizes, Slowest::data, axis, rank); members.front() == rank)
        calls.push_back({.mode = mode, .members = std::move(members)});
  }
  return calls;
}

std::string creation_order(const AxisSizes& sizes, const json& result) {
  Lists expected;
  for (Call& call : calls_of(sizes)) expected.push_back(std::move(call.members));
  return first_difference(expected, result.at("new_group_calls"), "new_group_calls");
}

// What a rank is told of its part in a group.
json part_of(const std::vector<int>& members, int rank) {
  const auto size = members.size();
  const auto place = static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
  return {{"local_rank", place},
          {"world_size", size},
          {"ranks", members},
          {"next", members[(place + 1) % size]},
          {"prev", members[(place + size - 1) % size]}};
}

// No groups stand for neighbours: they are members of the mode's own group, counted around its end.
std::string neighbours_told(const AxisSizes& sizes, const json& result) {
  std::set<std::string> modes{"DATA", "MODEL", "TENSOR", "PARALLEL_1D"};
  if (sizes.pipeline > 1) modes.insert("PIPELINE");
  if (const auto made = result.at("initialized_modes").get<std::set<std::string>>(); made != modes)
    return fmt::format("modes [{}], expected [{}]", fmt::join(made, " "), fmt::join(modes, " "));
  const std::vector<Call> calls = calls_of(sizes);
  for (std::size_t index = 0; index < calls.size(); ++index)
    for (const int rank : calls[index].members) {
      const auto& [mode, members] = calls[index];
      json expected = part_of(members, rank);
      expected["new_group_index"] = index;
      if (auto words = first_difference(expected, result.at("ranks").at(static_cast<std::size_t>(rank)).at(mode),
                                        fmt::format("rank {} in {}", rank, mode));
          !words.empty())
        return words;
    }
  return {};
}

// ---- layouts of tensor modes ----

suite::Axis layouts_axis() {
  suite::Axis axis{.name = "layout", .values = {}};
  for (const char* name : {"1d_3", "sequence_3", "2d_2", "2d_3", "2.5d_2_depth_3", "2.5d_3_depth_2", "3d_2", "3d_3"})
    axis.values.emplace_back(name);
  return axis;
}

std::map<std::string, Lists> groups_of(const TensorLayout& layout, const AxisSizes& sizes) {
  std::map<std::string, Lists> groups;
  for (const Call& call : calls_of(sizes))
    if (call.mode != "PARALLEL_1D") groups[call.mode].push_back(call.members);
  for (const std::string& mode : modes_of(layout))
    for (int rank = 0; rank < sizes.world(); ++rank)
      if (auto members = members_of(layout, sizes.world(), mode, rank); members.front() == rank)
        groups[mode].push_back(std::move(members));
  return groups;
}

// Every group is made by a call of its own, and its members are told which.
std::string problem_of_parts(const std::map<std::string, Lists>& groups, const json& result) {
  const json& calls = result.at("new_group_calls");
  std::set<int> used;
  for (const auto& [mode, lists] : groups)
    for (const auto& list : lists) {
      const int index = result.at("ranks").at(static_cast<std::size_t>(list.front())).at(mode).at("new_group_index");
      if (index < 0 || !used.insert(index).second)
        return fmt::format("{} [{}] is made by call {}, which makes another group", mode, fmt::join(list, " "), index);
      if (auto words = first_difference(list, calls.at(static_cast<std::size_t>(index)),
                                        fmt::format("call {}, of {}", index, mode));
          !words.empty())
        return words;
      for (const int rank : list) {
        json expected = part_of(list, rank);
        expected["new_group_index"] = index;
        if (auto words = first_difference(expected, result.at("ranks").at(static_cast<std::size_t>(rank)).at(mode),
                                          fmt::format("rank {} in {}", rank, mode));
            !words.empty())
          return words;
      }
    }
  return used.size() == calls.size() ? "" : fmt::format("{} calls for {} groups", calls.size(), used.size());
}

// With three stages and two copies of the data.
void layouts(Context& context, const std::string& convention) {
  const TensorLayout layout = TensorLayout::parse(context.parameters().text("layout"));
  const AxisSizes sizes{.pipeline = 3, .data = 2, .tensor = layout.size()};
  json args = question_of(convention, sizes);
  args["parallel"]["tensor"]["mode"] = layout.mode;
  if (layout.mode == "2.5d") args["parallel"]["tensor"]["depth"] = layout.depth;
  report_words(problem_of(context.adapter(), kParallelGroups, args, [&](const json& result) -> std::string {
    const auto expected = groups_of(layout, sizes);
    if (groups_in(result).size() != expected.size())
      return fmt::format("{} modes, expected {}", groups_in(result).size(), expected.size());
    if (auto words = first_difference(expected, result.at("groups"), "groups"); !words.empty()) return words;
    if (auto made = result.at("initialized_modes").get<std::set<std::string>>();
        !std::ranges::equal(made, std::views::keys(expected)))
      return fmt::format("modes [{}], expected [{}]", fmt::join(made, " "), fmt::join(std::views::keys(expected), " "));
    return problem_of_parts(expected, result);
  }));
}

// ---- refusals ----

struct Bad {
  const char* fault;
  json args;
  std::vector<std::string> words;  // of the arithmetic
};
const std::vector<Bad>& bad_sizes() {
  const auto tensor = [](int world, int pipeline, int size, const char* mode) -> json {
    return {{"world_size", world},
            {"parallel", {{"pipeline", pipeline}, {"tensor", {{"size", size}, {"mode", mode}}}}}};
  };
  static const std::vector<Bad> list{
      {"stages", {{"world_size", 8}, {"parallel", {{"pipeline", 3}}}}, {"8", "3"}},
      {"stages_and_tensor", tensor(12, 5, 2, "1d"), {"12", "5", "2"}},
      {"larger_than_the_world", tensor(7, 1, 11, "1d"), {"7", "11"}},
      {"no_stage", {{"world_size", 5}, {"parallel", {{"pipeline", 0}}}}, {"0"}},
      {"no_square", tensor(8, 1, 8, "2d"), {"8"}},
      {"no_cube", tensor(9, 1, 9, "3d"), {"9"}},
      {"no_square_times_depth",
       {{"world_size", 12}, {"parallel", {{"tensor", {{"size", 12}, {"mode", "2.5d"}, {"depth", 2}}}}}},
       {"12", "2"}},
      {"one_short_of_a_square", tensor(3, 1, 3, "2d"), {"3"}},
      {"one_short_of_a_cube", tensor(26, 1, 26, "3d"), {"26"}},
      {"one_above_a_square_times_depth",
       {{"world_size", 9}, {"parallel", {{"tensor", {{"size", 9}, {"mode", "2.5d"}, {"depth", 2}}}}}},
       {"9", "2"}},
      {"no_depth", tensor(8, 1, 8, "2.5d"), {"depth"}},
      {"depth_of_zero",
       {{"world_size", 4}, {"parallel", {{"tensor", {{"size", 4}, {"mode", "2.5d"}, {"depth", 0}}}}}},
       {"0"}},
      {"negative_depth",
       {{"world_size", 4}, {"parallel", {{"tensor", {{"size", 4}, {"mode", "2.5d"}, {"depth", -4}}}}}},
       {"-4"}},
      {"no_tensor_rank", tensor(4, 1, 0, "1d"), {"0"}},
      {"two_negative_sizes", tensor(4, -2, -2, "1d"), {"-2"}},
      {"depth_of_another_mode",
       {{"world_size", 4}, {"parallel", {{"tensor", {{"size", 4}, {"mode", "2d"}, {"depth", 1}}}}}},
       {"1"}},
      {"depth_of_no_mode", {{"world_size", 12}, {"parallel", {{"tensor", {{"size", 12}, {"depth", 3}}}}}}, {"3"}},
      {"no_such_mode", tensor(6, 1, 3, "4d"), {"4d"}},
  };
  return list;
}
suite::Axis faults_axis() {
  suite::Axis axis{.name = "fault", .values = {}};
  for (const Bad& bad : bad_sizes()) axis.values.emplace_back(bad.fault);
  return axis;
}

void expect_words(const Answer& answer, const std::vector<std::string>& words) {
  if (const std::string missing = missing_words(answer.message, words); !missing.empty())
    report_words(fmt::format("{} is not in the message '{}'", missing, answer.message));
}

void refusals(Context& context) {
  const Bad& bad = *std::ranges::find_if(
      bad_sizes(), [&](const Bad& one) { return context.parameters().text("fault") == one.fault; });
  report_words(problem_of_control(context.adapter(), kParallelGroups, bad.args));
  const Answer answer = answer_to(context.adapter(), kParallelGroups, bad.args);
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump().substr(0, 160));
  if (!refuses_bad_value(answer, bad.args))
    report_words(fmt::format("refused as '{}': {}", answer.kind, answer.message));
  expect_words(answer, bad.words);
}

// ---- conventions side by side ----

const std::map<std::string, std::vector<std::string>>& orders() {
  static const std::map<std::string, std::vector<std::string>> table{
      {"deepspeed", {"model", "data", "pipeline", "tensor"}},  {"megatron", {"data", "model", "tensor", "pipeline"}},
      {"colossalai", {"data", "model", "pipeline", "tensor"}}, {"torch", {"pipeline", "data", "tensor", "model"}},
      {"plumbline", {"data", "pipeline", "tensor", "model"}},
  };
  return table;
}

bool is_made(const std::string& convention, const AxisSizes& sizes, const std::string& mode) {
  return convention != "colossalai" || mode != "pipeline" || sizes.pipeline > 1;
}

Lists lists_of(const std::string& convention, const AxisSizes& sizes, const std::string& mode) {
  Lists lists;
  if (!is_made(convention, sizes, mode)) return lists;
  const Slowest slowest = convention == "colossalai" ? Slowest::data : Slowest::pipeline;
  for (int rank = 0; rank < sizes.world(); ++rank)
    if (auto members = members_of(sizes, slowest, mode, rank); members.front() == rank)
      lists.push_back(std::move(members));
  return lists;
}

using Names = std::vector<std::string>;

// What each convention is said to make of a mode, and whether those that differ are said to.
std::string problem_of_mode(const AxisSizes& sizes, const Names& asked, const json& row) {
  const std::string mode = row.at("mode");
  std::set<Lists> different;
  std::set<std::string> told;
  for (const json& agreement : row.at("agreements"))
    for (const std::string convention : agreement.at("conventions")) {
      const Lists expected = lists_of(convention, sizes, mode);
      if (auto words = first_difference(expected, agreement.at("groups"), mode + " of " + convention); !words.empty())
        return words;
      different.insert(expected);
      told.insert(convention);
    }
  if (told != std::set(asked.begin(), asked.end()))
    return fmt::format("{}: told of [{}], asked for [{}]", mode, fmt::join(told, " "), fmt::join(asked, " "));
  return first_difference(different.size() > 1, row.at("differs"), mode + " differs");
}

// The lists that a convention makes, in its order.
Lists calls_of(const std::string& convention, const AxisSizes& sizes) {
  Lists calls;
  for (const std::string& mode : orders().at(convention))
    for (auto& list : lists_of(convention, sizes, mode)) calls.push_back(std::move(list));
  return calls;
}

std::string problem_of_comparison(Context& context, const AxisSizes& sizes, const Names& asked) {
  const json args{{"sizes", {{"pipeline", sizes.pipeline}, {"data", sizes.data}, {"tensor", sizes.tensor}}},
                  {"conventions", asked}};
  return problem_of(context.adapter(), "groups.conventions", args, [&](const json& result) -> std::string {
    std::set<std::string> told;
    for (const json& row : result.at("modes")) {
      if (auto words = problem_of_mode(sizes, asked, row); !words.empty()) return words;
      told.insert(row.at("mode").get<std::string>());
    }
    for (const char* mode : {"data", "model", "pipeline", "tensor"})
      if (!told.contains(mode)) return fmt::format("mode {} is not told, of [{}]", mode, fmt::join(told, " "));
    const bool same = std::ranges::all_of(asked, [&](const std::string& convention) {
      return calls_of(convention, sizes) == calls_of(asked.front(), sizes);
    });
    return first_difference(same, result.at("same_order"), fmt::format("same_order of [{}]", fmt::join(asked, " ")));
  });
}

// All that there are, two whose lists agree, and one, which agrees with itself.
void conventions_compared(Context& context) {
  judge_sizes(context, [&](const AxisSizes& sizes) {
    std::string words;
    for (const Names& asked : {Names{"colossalai", "deepspeed", "megatron", "plumbline", "torch"},
                               Names{"megatron", "deepspeed"}, Names{"torch"}})
      if (words.empty()) words = problem_of_comparison(context, sizes, asked);
    return words;
  });
}

// The order in which a convention creates, mode by mode.
void conventions_ordered(Context& context) {
  judge_sizes(context, [&](const AxisSizes& sizes) {
    const json args{{"sizes", {{"pipeline", sizes.pipeline}, {"data", sizes.data}, {"tensor", sizes.tensor}}},
                    {"conventions", {context.parameters().text("convention")}}};
    return problem_of(context.adapter(), "groups.conventions", args, [&](const json& result) {
      const std::string& convention = context.parameters().text("convention");
      json expected = json::array();
      for (const std::string& mode : orders().at(convention))
        for (const auto& list : lists_of(convention, sizes, mode)) expected.push_back(json::array({mode, list}));
      const json& plan = result.at("plans").at(0);
      if (auto words = first_difference(convention, plan.at("convention"), "convention"); !words.empty()) return words;
      return first_difference(expected, plan.at("new_group_calls"), "new_group_calls");
    });
  });
}

// What no convention can lay out.
void conventions_refused(Context& context) {
  json args{{"sizes", {{"pipeline", 2}, {"data", 3}, {"tensor", 2}}}, {"conventions", {"megatron", "deepspeed"}}};
  const std::string& fault = context.parameters().text("fault");
  std::vector<std::string> words;
  if (fault == "unknown_before_all" || fault == "unknown_after_all") {
    const std::string name = fault == "unknown_before_all" ? "aimd" : "zeus";
    args["conventions"].push_back(name);
    words = {name};
  } else if (fault == "another_world") {
    args["sizes"]["world"] = 13;
    words = {"13", "2", "3"};
  } else if (fault == "one_rank_less") {
    args["sizes"]["world"] = 11;
    words = {"11", "2", "3"};
  } else if (fault == "no_stage") {
    args["sizes"]["pipeline"] = 0;
    words = {"0"};
  } else if (fault == "two_sizes_below_one") {
    args["sizes"] = {{"pipeline", -2}, {"data", 3}, {"tensor", -2}};
    words = {"-2"};
  } else {
    args["conventions"].push_back("megatrom");
    words = {"megatrom"};
  }
  report_words(problem_of_control(context.adapter(), "groups.conventions", args));
  const Answer answer = answer_to(context.adapter(), "groups.conventions", args);
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump().substr(0, 160));
  const bool is_unsupported = fault.starts_with("unknown_") && answer.kind == "unsupported";
  if (!refuses_bad_value(answer, args) && !is_unsupported)
    report_words(fmt::format("refused as '{}': {}", answer.kind, answer.message));
  expect_words(answer, words);
}

suite::Axis sizes_axis() { return {"sizes", {"1x1x1", "5x1x1", "1x1x3", "1x4x1", "3x2x1", "2x3x4", "random"}}; }

suite::Check answer_check(std::string id, std::string verifies, std::vector<suite::Axis> axes,
                          std::function<void(Context&)> body, std::string operation = kParallelGroups,
                          std::string convention = "colossalai") {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = std::move(axes),
          .operations = {std::move(operation)},
          .convention = std::move(convention),
          .body = std::move(body)};
}

// The lists are the same by our own rules and by ColossalAI's: each property is asked in both conventions.
const std::vector<std::pair<std::string, std::string>> kConventions{{"groups.answers.", "colossalai"},
                                                                    {"groups.own_answers.", "plumbline"}};

void add_property(suite::Suite& suite, const std::string& name, const std::string& verifies, const JudgeSizes& judge,
                  const char* mode = "1d") {
  for (const auto& [part, convention] : kConventions)
    suite.add(answer_check(
        part + name, verifies, {sizes_axis()},
        [judge, convention, mode](Context& context) { judge_answers(context, convention, judge, mode); },
        kParallelGroups, convention));
}

}  // namespace

void add_mode_answer_checks(suite::Suite& suite) {
  suite.add(answer_check("groups.answers.recorded", "GROUP-018@9554",
                         {{"mode", {"none", "1d", "2d", "2.5d", "3d", "sequence", "refused"}}}, recorded_modes));
  add_property(suite, "partition", "GROUP-019@b3c2", partition);
  add_property(suite, "meet_once", "GROUP-020@0eb1", meet_once);
  add_property(suite, "model_contiguous", "GROUP-021@78ea", model_contiguous);
  add_property(suite, "sizes_multiply", "GROUP-022@08b4", sizes_multiply);
  add_property(suite, "creation_order", "GROUP-023@bfa0", creation_order);
  add_property(suite, "creation_order_of_sequence", "GROUP-023@bfa0", creation_order, "sequence");
  add_property(suite, "neighbours", "GROUP-024@8ee8", neighbours_told);
  for (const auto& [part, convention] : kConventions)
    suite.add(answer_check(
        part + "layouts", "GROUP-037@eb2f", {layouts_axis()},
        [convention](Context& context) { layouts(context, convention); }, kParallelGroups, convention));
  suite.add(answer_check("groups.answers.refusals", "GROUP-025@01a4", {faults_axis()}, refusals, kParallelGroups,
                         "plumbline"));
  suite.add(answer_check("groups.conventions.refusals", "GROUP-025@01a4",
                         {{"fault",
                           {"another_world", "one_rank_less", "no_stage", "two_sizes_below_one", "unknown_convention",
                            "unknown_before_all", "unknown_after_all"}}},
                         conventions_refused, "groups.conventions", "plumbline"));
  suite.add(answer_check("groups.conventions.compared", "GROUP-026@1bc2", {sizes_axis()}, conventions_compared,
                         "groups.conventions", "plumbline"));
  suite.add(answer_check("groups.conventions.ordered", "GROUP-027@2097",
                         {{"convention", {"deepspeed", "megatron", "colossalai", "torch"}}, sizes_axis()},
                         conventions_ordered, "groups.conventions", "plumbline"));
}

}  // namespace plumbline::conformance
