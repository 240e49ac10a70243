// Groups that ranks create from their plans, asked of an adapter: who is in which, in what order, and what happens
// where plans differ or cannot be.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/groups/groups_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/words.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

constexpr const char* kCreate = "groups.create";
constexpr int kCreatingRanks = 6;

struct PlannedGroup {
  std::string mode;
  std::vector<int> ranks;
};
using GroupPlan = std::vector<PlannedGroup>;

json json_of_plan(const GroupPlan& plan) {
  json list = json::array();
  for (const PlannedGroup& one : plan) list.push_back({{"mode", one.mode}, {"ranks", one.ranks}});
  return list;
}

// Plans of six ranks: strided, overlapping and descending groups, some without rank 0, some of one rank.
const std::map<std::string, GroupPlan>& group_plans() {
  static const std::map<std::string, GroupPlan> plans{
      {"strided",
       {{"data", {0, 2, 4}}, {"data", {1, 3, 5}}, {"tensor", {0, 1}}, {"tensor", {2, 3}}, {"tensor", {4, 5}}}},
      {"overlapping", {{"data", {0, 1, 2, 3}}, {"model", {2, 3, 4, 5}}, {"other", {3, 5}}}},
      {"descending", {{"data", {5, 3, 1}}, {"data", {4, 2, 0}}, {"tensor", {3, 2}}}},
      {"without_rank_0", {{"embedding", {5, 1}}, {"data", {4, 3, 2}}}},
      {"alone", {{"data", {0}}, {"data", {3}}, {"all", {2, 0, 1, 5, 4, 3}}}}};
  return plans;
}

suite::Axis plans_axis() {
  suite::Axis axis{"plan", {}};
  for (const auto& [name, plan] : group_plans()) axis.values.push_back(name);
  return axis;
}

const PlannedGroup* group_of(const GroupPlan& plan, const std::string& mode, int rank) {
  for (const PlannedGroup& one : plan)
    if (one.mode == mode && std::ranges::count(one.ranks, rank) > 0) return &one;
  return nullptr;
}

json question_of_plan(const GroupPlan& plan) {
  return {{"world_size", kCreatingRanks}, {"plans", {json_of_plan(plan)}}};
}

// What a rank must have of a group.
json right_group(const PlannedGroup& group, int rank) {
  const auto size = group.ranks.size();
  const auto place = static_cast<std::size_t>(std::ranges::find(group.ranks, rank) - group.ranks.begin());
  json positions = json::array(), members = group.ranks;
  for (int other = 0; other < kCreatingRanks; ++other) {
    const auto found = std::ranges::find(group.ranks, other);
    positions.push_back(found == group.ranks.end() ? json() : json(found - group.ranks.begin()));
  }
  members.push_back(nullptr);
  return {{"ranks", group.ranks},
          {"local_rank", place},
          {"next", group.ranks[(place + 1) % size]},
          {"prev", group.ranks[(place + size - 1) % size]},
          {"gathered", group.ranks},
          {"positions", positions},
          {"members", members},
          {"from_last", group.ranks.back()},
          {"initial", group.ranks.front()}};
}

// The modes that a rank has, and of each group these fields.
std::string problem_of_groups(const GroupPlan& plan, const json& result, const std::vector<std::string>& fields) {
  if (result.at("ranks").size() != kCreatingRanks) return "another number of ranks";
  for (int rank = 0; rank < kCreatingRanks; ++rank) {
    const json& row = result["ranks"].at(static_cast<std::size_t>(rank));
    if (!row.at("error").is_null()) return fmt::format("rank {}: {}", rank, row["error"].dump());
    std::map<std::string, json> right;
    for (const PlannedGroup& one : plan)
      if (const PlannedGroup* mine = group_of(plan, one.mode, rank)) right[one.mode] = right_group(*mine, rank);
    if (row.at("groups").size() != right.size())
      return fmt::format("rank {} has groups of {} modes, it must have {}", rank, row["groups"].size(), right.size());
    for (const auto& [mode, group] : right)
      for (const std::string& field : fields)
        if (std::string words = first_difference(group.at(field), row["groups"].at(mode).at(field),
                                                 fmt::format("rank {}, mode {}: {}", rank, mode, field));
            !words.empty())
          return words;
  }
  return {};
}

void judge_created(Context& context, const std::vector<std::string>& fields) {
  const GroupPlan& plan = group_plans().at(context.parameters().text("plan"));
  report_words(problem_of(context.adapter(), kCreate, question_of_plan(plan),
                          [&](const json& result) { return problem_of_groups(plan, result, fields); }));
}

void created_members(Context& context) { judge_created(context, {"ranks"}); }
void created_order(Context& context) { judge_created(context, {"local_rank", "gathered"}); }
void created_neighbours(Context& context) { judge_created(context, {"next", "prev"}); }
void created_translation(Context& context) { judge_created(context, {"positions", "members"}); }
void created_root(Context& context) { judge_created(context, {"from_last"}); }
void created_initial(Context& context) { judge_created(context, {"initial"}); }

// Modes that the plan does not have, and modes that only other ranks have.
void created_lookups(Context& context) {
  const GroupPlan& plan = group_plans().at(context.parameters().text("plan"));
  json args = question_of_plan(plan);
  args["lookups"] = {"absent", plan.front().mode};
  report_words(problem_of(context.adapter(), kCreate, args, [&](const json& result) -> std::string {
    if (result.at("ranks").size() != kCreatingRanks) return "another number of ranks";
    for (int rank = 0; rank < kCreatingRanks; ++rank) {
      const json& lookups = result["ranks"].at(static_cast<std::size_t>(rank)).at("lookups");
      const json& absent = lookups.at("absent").at("error");
      if (absent.at("kind") != "not_found")
        return fmt::format("rank {}: a mode that is absent: {}", rank, absent.dump());
      if (const std::string missing = missing_words(absent.at("message").get<std::string>(), {plan.front().mode});
          !missing.empty())
        return fmt::format("rank {}: {} is not in {}", rank, missing, absent["message"].dump());
      const json& own = lookups.at(plan.front().mode);
      const PlannedGroup* const group = group_of(plan, plan.front().mode, rank);
      if (group == nullptr && (!own.contains("error") || own["error"].at("kind") != "state"))
        return fmt::format("rank {} has no group of mode {}: {}", rank, plan.front().mode, own.dump());
      if (group != nullptr && own.at("ranks") != group->ranks) return fmt::format("rank {}: {}", rank, own.dump());
    }
    return {};
  }));
}

void created_log(Context& context) {
  const GroupPlan& plan = group_plans().at(context.parameters().text("plan"));
  report_words(problem_of(context.adapter(), kCreate, question_of_plan(plan), [&](const json& result) -> std::string {
    if (result.at("ranks").size() != kCreatingRanks) return "another number of ranks";
    for (int rank = 0; rank < kCreatingRanks; ++rank)
      if (std::string words =
              first_difference(json_of_plan(plan), result["ranks"][static_cast<std::size_t>(rank)].at("log"),
                               fmt::format("log of rank {}", rank));
          !words.empty())
        return words;
    return {};
  }));
}

// ---- errors ----

// Every rank has an error with these words, of that kind; without a kind they are plans that differ: the error is the
// same on all ranks, and the world can be used.
std::string problem_of_errors(const json& result, const std::string& kind, const std::vector<std::string>& words) {
  if (result.at("ranks").size() != kCreatingRanks) return "another number of ranks";
  for (int rank = 0; rank < kCreatingRanks; ++rank) {
    const json& row = result["ranks"].at(static_cast<std::size_t>(rank));
    if (row.at("error").is_null()) return fmt::format("rank {} is not rejected", rank);
    const std::string message = row["error"].at("message");
    if (!kind.empty() && row["error"].at("kind") != kind) return fmt::format("rank {}: {}", rank, row["error"].dump());
    if (const std::string missing = missing_words(message, words); !missing.empty())
      return fmt::format("rank {}: {} is not in '{}'", rank, missing, message);
    if (!kind.empty()) continue;
    if (row["error"] != result["ranks"][0].at("error"))
      return fmt::format("rank {} has another error than rank 0", rank);
    if (row.at("world_sum") != kCreatingRanks * (kCreatingRanks + 1) / 2)
      return fmt::format("rank {}: the world's sum is {} afterwards", rank, row["world_sum"].dump());
  }
  return {};
}

// As all ranks have it, or not on `rank`, which has `wrong`.
void judge_errors(Context& context, const GroupPlan& right, int rank, const GroupPlan& wrong, const std::string& kind,
                  const std::vector<std::string>& words) {
  json args{{"world_size", kCreatingRanks}, {"plans", json::array()}};
  for (int other = 0; other < kCreatingRanks; ++other)
    args["plans"].push_back(json_of_plan(other == rank ? wrong : right));
  report_words(problem_of(context.adapter(), kCreate, args, [&](const json& result) {
    return words.empty() ? problem_of_groups(right, result, {"ranks"}) : problem_of_errors(result, kind, words);
  }));
}

void created_of_different_plans(Context& context) {
  const std::string& what = context.parameters().text("what");
  const int rank = static_cast<int>(context.parameters().number("rank"));
  const GroupPlan& right = group_plans().at("strided");
  GroupPlan wrong = right;
  if (what == "order") std::swap(wrong[2], wrong[3]);
  if (what == "members") wrong[2].ranks = {1, 0};
  if (what == "name") wrong[2].mode = "pipeline";
  if (what == "number") wrong.resize(2);
  judge_errors(
      context, right, rank, wrong, "",
      what == "nothing" ? std::vector<std::string>{} : std::vector<std::string>{"2", "tensor", std::to_string(rank)});
}

void created_of_bad_plans(Context& context) {
  const std::string& what = context.parameters().text("what");
  const GroupPlan& right = group_plans().at("strided");
  GroupPlan wrong = right;
  if (what == "empty") wrong[3].ranks.clear();
  if (what == "repeated") wrong[3].ranks = {2, 2};
  if (what == "beyond") wrong[3].ranks = {2, kCreatingRanks};
  if (what == "below") wrong[3].ranks = {-1, 2};
  const bool on_all = context.parameters().text("on") == "all";
  judge_errors(context, on_all ? wrong : right, 4, wrong, "invalid_argument",
               what == "nothing" ? std::vector<std::string>{} : std::vector<std::string>{"3", "tensor"});
}

void created_for_another_world(Context& context) {
  const std::string& on = context.parameters().text("on");
  const GroupPlan& plan = group_plans().at("strided");
  json args = question_of_plan(plan);
  for (int rank = 0; rank < kCreatingRanks; ++rank)
    args["planned_worlds"].push_back(on == "all" || (on == "one" && rank == 3) ? 7 : kCreatingRanks);
  report_words(problem_of(context.adapter(), kCreate, args, [&](const json& result) {
    return on == "none" ? problem_of_groups(plan, result, {"ranks"})
                        : problem_of_errors(result, "invalid_argument", {"7", "6"});
  }));
}

// ---- ranks that do not come, and sums at once ----

constexpr double kCreationLimit = 0.5, kBusyMachine = 10;  // seconds

void judge_disturbed(Context& context, const char* what, const json& more,
                     const std::function<std::string(const json& error, bool is_own)>& judge) {
  const int rank = static_cast<int>(context.parameters().number("rank"));
  const GroupPlan& plan = group_plans().at("strided");
  json args = question_of_plan(plan);
  report_words(problem_of(context.adapter(), kCreate, args,
                          [&](const json& result) { return problem_of_groups(plan, result, {"ranks"}); }));
  args.update(more);
  args.update({{what, rank}, {"limit", context.parameters().has("limit") ? 15 : kCreationLimit}});
  report_words(problem_of(context.adapter(), kCreate, args, [&](const json& result) -> std::string {
    if (result.at("ranks").size() != kCreatingRanks) return "another number of ranks";
    for (int other = 0; other < kCreatingRanks; ++other) {
      const json& error = result["ranks"][static_cast<std::size_t>(other)].at("error");
      if (other == rank && std::string(what) == "absent") continue;
      if (error.is_null()) return fmt::format("rank {} has its groups", other);
      json timed = error;
      timed["seconds"] = result["ranks"][static_cast<std::size_t>(other)].at("seconds");
      if (std::string words = judge(timed, other == rank); !words.empty())
        return fmt::format("rank {}: {}", other, words);
    }
    return {};
  }));
}

// One rank at least gives up by itself, and names the one that is missing.
void created_without_a_rank(Context& context) {
  const std::string missing = std::to_string(context.parameters().number("rank"));
  int naming = 0;
  judge_disturbed(context, "absent", json::object(), [&](const json& error, bool) -> std::string {
    naming += has_word(error.at("message").get<std::string>(), missing) ? 1 : 0;
    const auto seconds = error.at("seconds").get<double>();
    return seconds <= kCreationLimit + kBusyMachine ? "" : fmt::format("it gives up after {} s", seconds);
  });
  if (naming == 0) report_words("no error names rank " + missing);
}

// The rank that fails has the error of its callback.
void created_with_a_failing_log(Context& context) {
  const std::string thrown = "disk 17 is full";
  judge_disturbed(context, "failing_log", {{"log_error", thrown}}, [&](const json& error, bool is_own) -> std::string {
    const std::string message = error.at("message");
    if (is_own && message.find(thrown) == message.npos) return "the callback's error is not in '" + message + "'";
    const auto seconds = error.at("seconds").get<double>();
    return seconds < 12 ? "" : fmt::format("it waits {} s, with a limit of 15 s", seconds);
  });
}

// Each rank starts the sums over its groups in another order.
void created_groups_at_once(Context& context) {
  const GroupPlan& plan = group_plans().at(context.parameters().text("plan"));
  json args = question_of_plan(plan);
  for (int rank = 0; rank < kCreatingRanks; ++rank) {
    std::vector<std::string> modes;
    for (const PlannedGroup& one : plan)
      if (group_of(plan, one.mode, rank) == &one) modes.push_back(one.mode);
    if (context.parameters().text("order") == "own" && rank % 2 == 1) std::ranges::reverse(modes);
    args["sums"].push_back(modes);
  }
  report_words(problem_of(context.adapter(), kCreate, args, [&](const json& result) -> std::string {
    if (std::string words = problem_of_groups(plan, result, {"ranks"}); !words.empty()) return words;
    for (int rank = 0; rank < kCreatingRanks; ++rank)
      for (const json& mode : args["sums"][static_cast<std::size_t>(rank)]) {
        int right = 0;
        for (const int member : group_of(plan, mode, rank)->ranks) right += member + 1;
        const json& got = result["ranks"][static_cast<std::size_t>(rank)].at("sums").at(mode.get<std::string>());
        if (got != right) return fmt::format("rank {}, mode {}: {}, not {}", rank, mode.dump(), got.dump(), right);
      }
    return {};
  }));
}

}  // namespace

void add_group_create_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<std::string> fields = {}) {
    suite.add({.id = std::string("groups.created.") + name,
               .verifies = {requirement},
               .door = suite::Door::adapter,
               .axes = std::move(axes),
               .operations = {kCreate},
               .options = options_of({{kCreate, "fields", std::move(fields)}}),
               .body = body});
  };
  add("members", "GROUP-002@0da2", {plans_axis()}, created_members);
  add("order", "GROUP-003@bbe9", {plans_axis()}, created_order);
  add("neighbours", "GROUP-006@10bc", {plans_axis()}, created_neighbours);
  add("lookups", "GROUP-007@474f", {plans_axis()}, created_lookups);
  add("translation", "GROUP-008@7247", {plans_axis()}, created_translation);
  add("root", "GROUP-009@a352", {plans_axis()}, created_root);
  add("initial_values", "GROUP-010@d7e5", {plans_axis()}, created_initial);
  add("different_plans", "GROUP-011@d338",
      {{"what", {"nothing", "order", "members", "name", "number"}}, {"rank", {"0", "3", "5"}}},
      created_of_different_plans);
  add("world_sizes", "GROUP-012@a169", {{"on", {"none", "one", "all"}}}, created_for_another_world);
  add("bad_plans", "GROUP-013@8afb",
      {{"what", {"nothing", "empty", "repeated", "beyond", "below"}}, {"on", {"one", "all"}}}, created_of_bad_plans);
  const suite::Axis rank{"rank", {"0", "3", "5"}};
  add("absent_rank", "GROUP-014@dd3d", {rank}, created_without_a_rank, {"absent", "limit"});
  add("failing_log", "GROUP-036@a4c1", {rank, {"limit", {"long"}}}, created_with_a_failing_log,
      {"failing_log", "log_error", "limit"});
  add("at_once", "GROUP-004@4937", {plans_axis(), {"order", {"same", "own"}}}, created_groups_at_once, {"sums"});
  add("log", "GROUP-015@dd21", {plans_axis()}, created_log);
}

}  // namespace plumbline::conformance
