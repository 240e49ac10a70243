// Adapters whose answers about groups are wrong.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "conformance/groups/groups_mutants.hpp"

namespace plumbline::mutants {

using nlohmann::json;
using Lists = std::vector<std::vector<int>>;

namespace {

/// Results of one operation changed.
RewriteAnswer of(const char* operation, std::function<void(json& result, const json& args)> change) {
  return [operation, change = std::move(change)](const std::string& op, const json& args, json reply) {
    if (op == operation && reply.contains("result")) change(reply["result"], args);
    return reply;
  };
}
RewriteAnswer of_modes(std::function<void(json& result)> change) {
  return of("groups.parallel_groups", [change = std::move(change)](json& result, const json&) { change(result); });
}

// ---- modes ----

// Rows and columns of a square under each other's names.
void rows_are_columns(json& result) {
  json& groups = result["groups"];
  if (groups.contains("PARALLEL_2D_ROW")) std::swap(groups["PARALLEL_2D_ROW"], groups["PARALLEL_2D_COL"]);
}

// Cubes are walked as if their side were two.
void sides_of_two(json& result) {
  json& groups = result["groups"];
  if (groups.contains("PARALLEL_3D_INPUT") && result["tensor_parallel_size"] != 8)
    std::swap(groups["PARALLEL_3D_INPUT"], groups["PARALLEL_3D_WEIGHT"]);
}

RewriteAnswer of_own_modes(const std::function<void(json& result)>& change) {
  return of("groups.parallel_groups", [change](json& result, const json& args) {
    if (args.value("convention", "plumbline") == "plumbline") change(result);
  });
}

void call_is_the_first(json& result) {
  for (json& rank : result["ranks"])
    for (json& part : rank)
      if (part.is_object()) part["new_group_index"] = 0;
}

void last_rank_in_no_data_group(json& result) {
  json& lists = result["groups"]["DATA"];
  if (lists.size() > 1) lists.back().erase(lists.back().size() - 1);
}

void data_is_pipeline(json& result) {
  json& groups = result["groups"];
  if (groups.contains("PIPELINE")) groups["DATA"] = groups["PIPELINE"];
}

// The i-th MODEL group takes each n-th rank from i on.
void model_group_with_stride(json& result) {
  auto lists = result["groups"]["MODEL"].get<Lists>();
  const auto stride = static_cast<int>(lists.size());
  for (int i = 0; i < stride; ++i)
    for (std::size_t place = 0; place < lists[static_cast<std::size_t>(i)].size(); ++place)
      lists[static_cast<std::size_t>(i)][place] = i + static_cast<int>(place) * stride;
  result["groups"]["MODEL"] = lists;
}

void data_size_ignores_tensor(json& result) {
  result["data_parallel_size"] = result["data_parallel_size"].get<int>() * result["tensor_parallel_size"].get<int>();
}

// DATA groups, which are the first to be made, are made tensor rank by tensor rank.
void data_groups_by_tensor(json& result) {
  const int pipeline = result["pipeline_parallel_size"], tensor = result["tensor_parallel_size"];
  const json calls = result["new_group_calls"];
  for (int i = 0; i < pipeline * tensor; ++i)
    result["new_group_calls"][static_cast<std::size_t>(i)] =
        calls[static_cast<std::size_t>(i % pipeline * tensor + i / pipeline)];
}

void last_stage_has_no_next(json& result) {
  for (json& rank : result["ranks"])
    if (rank.contains("PIPELINE") && rank["PIPELINE"]["local_rank"] == rank["PIPELINE"]["world_size"].get<int>() - 1)
      rank["PIPELINE"]["next"] = rank["rank"];
}

void pipeline_of_one_stage(json& result) {
  if (result["pipeline_parallel_size"] != 1) return;
  result["initialized_modes"].push_back("PIPELINE");
}

json refusal_without_numbers(const std::string& op, const json&, json reply) {
  if (op == "groups.parallel_groups" && reply.contains("error")) {
    std::string& message = reply["error"]["message"].get_ref<std::string&>();
    std::erase_if(message, [](char letter) { return letter >= '0' && letter <= '9'; });
  }
  return reply;
}

json shared_modules_of_any_size(const std::string& op, const json&, json reply) {
  if (op != "groups.shared_module" || !reply.contains("error")) return reply;
  return {{"result", {{"new_group_calls", json::array()}, {"ranks", json::array()}}}};
}

// ---- conventions ----

// Every convention is said to do as the first.
void conventions_alike(json& result, const json&) {
  for (json& mode : result["modes"]) {
    json& first = mode["agreements"][0];
    while (mode["agreements"].size() > 1) {
      for (const json& name : mode["agreements"][1]["conventions"]) first["conventions"].push_back(name);
      mode["agreements"].erase(1);
    }
    mode["differs"] = false;
  }
}

void megatron_as_deepspeed(json& result, const json&) {
  for (json& plan : result["plans"]) {
    if (plan["convention"] != "megatron") continue;
    auto calls = plan["new_group_calls"].get<std::vector<json>>();
    std::ranges::stable_partition(calls, [](const json& call) { return call[0] == "model"; });
    plan["new_group_calls"] = calls;
  }
}

void one_order(json& result, const json&) { result["same_order"] = true; }

void modes_untold(json& result, const json&) { result["modes"] = json::array(); }

void calls_without_lists(json& result, const json&) {
  for (json& plan : result["plans"])
    for (json& call : plan["new_group_calls"]) call[1] = {0};
}

json conventions_of_any_world(const std::string& op, const json&, json reply) {
  if (op != "groups.conventions" || !reply.contains("error")) return reply;
  return {{"result", {{"modes", json::array()}, {"plans", json::array()}, {"same_order", true}}}};
}

// ---- shared modules ----

void outsiders_register(json& result, const json&) {
  for (json& rank : result["ranks"])
    if (rank["ranks_in_group"].is_null()) rank["register_module"] = {{"broadcast_src", 0}};
}

json shared_stages_any(const std::string& op, const json& args, json reply) {
  if (args.value("convention", "plumbline") != "plumbline") return reply;
  return shared_modules_of_any_size(op, args, std::move(reply));
}

void shared_stages_sorted(json& result, const json&) {
  auto lists = result["new_group_calls"].get<Lists>();
  for (auto& list : lists) std::ranges::sort(list);
  result["new_group_calls"] = lists;
}

// The stage's number as an index into the group.
void source_by_stage(json& result, const json& args) {
  const std::size_t stage = args["pipeline_ranks"][0];
  for (json& rank : result["ranks"])
    if (rank["register_module"].contains("broadcast_src") && stage < rank["ranks_in_group"].size())
      rank["register_module"]["broadcast_src"] = rank["ranks_in_group"][stage];
}

// ---- the linter ----

RewriteAnswer of_lint(std::function<void(json& result, const json& args)> change) {
  return of("groups.lint", std::move(change));
}

// Takes findings away; without errors, what is left is valid.
void pass_over(json& result, const std::function<bool(const json& finding)>& unseen) {
  json left = json::array();
  for (const json& finding : result["findings"])
    if (!unseen(finding)) left.push_back(finding);
  result["findings"] = left;
  result["valid"] = std::ranges::none_of(left, [](const json& finding) { return finding["severity"] == "error"; });
}
RewriteAnswer lint_without(std::set<std::string> kinds) {
  return of_lint([kinds = std::move(kinds)](json& result, const json&) {
    pass_over(result, [&](const json& finding) { return kinds.contains(finding["kind"].get<std::string>()); });
  });
}

void blames_rank_0(json& result, const json&) {
  for (json& finding : result["findings"]) finding["rank"] = 0;
}

void counts_from_one(json& result, const json&) {
  for (json& finding : result["findings"])
    if (finding["sequence"].is_number()) finding["sequence"] = finding["sequence"].get<int>() + 1;
}

// A group of a mode that is made a second time shares ranks with itself.
void group_made_once(json& result, const json& args) {
  std::set<json> made;
  for (const json& creation : args["creations"]) {
    const json one = {creation["rank"], creation.value("mode", ""), creation["ranks"]};
    if (creation.value("mode", "").empty() || made.insert(one).second) continue;
    result["findings"].push_back({{"severity", "error"},
                                  {"kind", "overlap"},
                                  {"rank", creation["rank"]},
                                  {"sequence", nullptr},
                                  {"message", "is in two groups"}});
    result["valid"] = false;
  }
}

std::vector<json> made_by(const json& args, std::size_t rank) {
  std::vector<json> lists;
  for (const json& creation : args["creations"])
    if (creation["rank"] == rank) lists.push_back(creation["ranks"]);
  return lists;
}

// Ranks alone with each other are looked at in pairs: cycles of three are not seen.
void pairs_alone(json& result, const json& args) {
  if (args["rule"] != "members_only") return;
  std::set<json> waiting;
  for (const json& finding : result["findings"])
    if (finding["kind"] == "cycle" || finding["kind"] == "order" || finding["kind"] == "missing")
      waiting.insert(finding["rank"]);
  if (waiting.size() < 3) return;
  pass_over(result, [](const json&) { return true; });
}

// Orders must be the same on all ranks, also of groups that members alone make.
void members_like_all(json& result, const json& args) {
  if (args["rule"] != "members_only") return;
  for (std::size_t rank = 1; rank < args["world_size"]; ++rank)
    if (made_by(args, rank) != made_by(args, 0)) {
      result["findings"].push_back(
          {{"severity", "error"}, {"kind", "order"}, {"rank", rank}, {"sequence", 0}, {"message", "differs"}});
      result["valid"] = false;
      return;
    }
}

// Sequences are compared as sets.
void compares_sets(json& result, const json& args) {
  const auto sorted = [&](std::size_t rank) {
    auto lists = made_by(args, rank);
    std::ranges::sort(lists);
    return lists;
  };
  if (args["rule"] != "all_ranks") return;
  for (std::size_t rank = 1; rank < args["world_size"]; ++rank)
    if (sorted(rank) != sorted(0)) return;
  pass_over(result, [](const json& finding) { return finding["kind"] == "order"; });
}

std::vector<Mutant> mode_answer_faults() {
  const std::string data_alone = "[sizes=1x4x1]";
  return {
      {"grp.rows_are_columns", "GROUP-018", "rows and columns of a square have each other's names",
       "which edge is walked first", "groups.answers.recorded[mode=2d]", "groups.answers.recorded[mode=3d]",
       "a cube has neither", of_modes(rows_are_columns)},
      {"grp.rank_in_no_data_group", "GROUP-019", "the last data group lacks its last rank",
       "TOP-10: a loop that ends early", "groups.answers.partition[sizes=3x2x1]",
       "groups.answers.partition" + data_alone, "there is one data group", of_modes(last_rank_in_no_data_group)},
      {"grp.data_is_pipeline", "GROUP-020", "data groups have the lists of pipelines",
       "one stride for two axes: TOP-10", "groups.answers.meet_once[sizes=2x3x4]",
       "groups.answers.meet_once" + data_alone, "there is no pipeline", of_modes(data_is_pipeline)},
      {"grp.model_group_with_stride", "GROUP-021", "a MODEL group takes each n-th rank",
       "the loop of data groups, copied", "groups.answers.model_contiguous[sizes=3x2x1]",
       "groups.answers.model_contiguous[sizes=5x1x1]", "there is one MODEL group", of_modes(model_group_with_stride)},
      {"grp.data_size_ignores_tensor", "GROUP-022", "the data size is the world by the pipeline size alone",
       "RED-01: the wrong group's size", "groups.answers.sizes_multiply[sizes=2x3x4]",
       "groups.answers.sizes_multiply[sizes=3x2x1]", "there is one tensor rank", of_modes(data_size_ignores_tensor)},
      {"grp.data_groups_by_tensor", "GROUP-023", "data groups are made tensor rank by tensor rank",
       "GRP-01: two loops in another order", "groups.answers.creation_order[sizes=2x3x4]",
       "groups.answers.creation_order[sizes=3x2x1]", "there is one tensor rank", of_modes(data_groups_by_tensor)},
      {"grp.last_stage_has_no_next", "GROUP-024", "the last stage is its own next one", "REF-03",
       "groups.answers.neighbours[sizes=3x2x1]", "groups.answers.neighbours" + data_alone, "there is one stage",
       of_modes(last_stage_has_no_next)},
      {"grp.pipeline_of_one_stage", "GROUP-024", "there is a PIPELINE mode where there is one stage",
       "an initializer that is always registered", "groups.answers.neighbours[sizes=1x1x3]",
       "groups.answers.neighbours[sizes=2x3x4]", "there are two stages", of_modes(pipeline_of_one_stage)},
      {"grp.call_is_the_first", "GROUP-024", "every group is said to be made by the first call",
       "a counter that is never raised", "groups.own_answers.neighbours[sizes=3x2x1]", "",
       "every rank is in several groups", of_modes(call_is_the_first)},
      {"grp.sides_of_two", "GROUP-037", "a cube's groups are those of another axis unless its side is two",
       "ColossalAI: strides that are equal in small cubes", "groups.answers.layouts[layout=3d_3]",
       "groups.answers.layouts[layout=3d_2]", "the side is two", of_modes(sides_of_two)},
      {"grp.own_rows_are_columns", "GROUP-037", "by our own rule, rows and columns have each other's names",
       "which edge is walked first", "groups.own_answers.layouts[layout=2d_3]", "groups.answers.layouts[layout=2d_3]",
       "another convention", of_own_modes(rows_are_columns)},
      {"grp.refusal_without_numbers", "GROUP-025", "a refusal does not show its arithmetic",
       "GRP-11: no message at all", "groups.answers.refusals[fault=stages]", "", "every refusal has numbers",
       RewriteAnswer(refusal_without_numbers)},
      {"grp.shared_modules_of_any_size", "GROUP-025", "a shared module is not asked whether the tensor mode fits",
       "a validation in one of two constructors", "groups.shared_modules.refusals[fault=no_square]",
       "groups.answers.refusals[fault=no_square]", "another operation", RewriteAnswer(shared_modules_of_any_size)},
      {"grp.conventions_alike", "GROUP-026", "all conventions are said to make the same lists",
       "a table made of one convention", "groups.conventions.compared[sizes=3x2x1]",
       "groups.conventions.compared[sizes=5x1x1]", "the lists are the same but for groups of one rank",
       of("groups.conventions", conventions_alike)},
      {"grp.megatron_as_deepspeed", "GROUP-027", "Megatron's model groups are said to be made first",
       "GRP-01: equal lists taken for equal orders", "groups.conventions.ordered[convention=megatron,sizes=2x3x4]",
       "groups.conventions.ordered[convention=deepspeed,sizes=2x3x4]", "another convention",
       of("groups.conventions", megatron_as_deepspeed)},
      {"grp.one_order", "GROUP-026", "all conventions are said to create in one order",
       "GRP-01: equal lists taken for equal orders", "groups.conventions.compared[sizes=2x3x4]", "",
       "the conventions asked for differ in every case", of("groups.conventions", one_order)},
      {"grp.modes_untold", "GROUP-026", "no mode is told", "a table that is never filled",
       "groups.conventions.compared[sizes=5x1x1]", "", "every case has modes", of("groups.conventions", modes_untold)},
      {"grp.calls_without_lists", "GROUP-027", "every call is said to make the group of rank 0",
       "an order of modes alone", "groups.conventions.ordered[convention=megatron,sizes=2x3x4]", "",
       "every case has other lists", of("groups.conventions", calls_without_lists)},
      {"grp.conventions_of_any_world", "GROUP-025", "sizes are not compared with the world's",
       "a validation in one of two constructors", "groups.conventions.refusals[fault=another_world]",
       "groups.answers.refusals[fault=stages]", "another operation", RewriteAnswer(conventions_of_any_world)},
      {"grp.outsiders_register", "GROUP-029", "ranks of other stages may register a shared module",
       "a lookup that falls back to rank 0: GRP-03", "groups.shared_modules.source[stages=[1,3]]",
       "groups.shared_modules.stages[stages=[0]]", "it is refused as a whole",
       of("groups.shared_module", outsiders_register)},
      {"grp.shared_stages_any", "GROUP-029", "the stages of a shared module are not looked at",
       "ColossalAI 96780e6: an IndexError alone", "groups.shared_modules.stages[stages=[2,1,2]]",
       "groups.shared_modules.source[stages=[0,3]]", "the stages are fine", RewriteAnswer(shared_stages_any)},
      {"grp.shared_stages_sorted", "GROUP-028", "the members of a shared module's group are sorted", "GRP-02",
       "groups.shared_modules.recorded[stages=descending]", "groups.shared_modules.recorded[stages=later]",
       "the stages ascend", of("groups.shared_module", shared_stages_sorted)},
      {"grp.source_by_stage", "GROUP-029", "the first stage's number is taken for a position in the group",
       "ColossalAI 96780e6: register_module", "groups.shared_modules.source[stages=[1,3]]",
       "groups.shared_modules.source[stages=[0,3]]", "stage 0 is at position 0",
       of("groups.shared_module", source_by_stage)},
  };
}

std::vector<Mutant> lint_faults() {
  return {
      {"grp.lint_ignores_order", "GROUP-030", "the linter says nothing of another order", "GRP-01",
       "groups.lint.differences[fault=order_on_rank_1]", "groups.lint.differences[fault=missing_on_rank_2]",
       "the order is the same", lint_without({"order"})},
      {"grp.lint_accepts_missing", "GROUP-030", "the linter says nothing of a creation that a rank lacks",
       "sequences compared up to the end of the shorter", "groups.lint.differences[fault=missing_on_rank_2]",
       "groups.lint.differences[fault=order_on_rank_1]", "nothing lacks", lint_without({"missing"})},
      {"grp.lint_blames_rank_0", "GROUP-030", "the linter names rank 0, whoever differs", "a comparison with rank 0",
       "groups.lint.differences[fault=order_on_rank_2]", "groups.lint.differences[fault=order_on_rank_0]",
       "rank 0 differs", of_lint(blames_rank_0)},
      {"grp.lint_counts_from_one", "GROUP-030", "the linter's sequence numbers are one too large", "numbers of lines",
       "groups.lint.differences[fault=other_group_on_rank_1]", "", "every difference has a number",
       of_lint(counts_from_one)},
      {"grp.lint_pairs_alone", "GROUP-031", "the linter sees no circle of more than two",
       "ranks compared in pairs: COL-03", "groups.lint.waits[fault=three_in_a_circle]",
       "groups.lint.waits[fault=two_in_a_circle]", "there are two", of_lint(pairs_alone)},
      {"grp.lint_accepts_overlap", "GROUP-032", "the linter takes groups of a mode that share ranks",
       "a linter of orders alone", "groups.lint.lists[fault=overlap]", "groups.lint.lists[fault=empty]",
       "a list is empty", lint_without({"overlap"})},
      {"grp.lint_sorts_members", "GROUP-032", "the linter takes lists in another order for equal", "GRP-02",
       "groups.lint.lists[fault=member_order]", "groups.lint.lists[fault=rank_twice]", "all give the list alike",
       lint_without({"member_order"})},
      {"grp.lint_accepts_crossed_names", "GROUP-032", "the linter takes a meeting under two names for a right one",
       "GRP-01: members compared, and not names", "groups.lint.lists[fault=other_name]",
       "groups.lint.lists[fault=left_out]", "all give the same names", lint_without({"mode"})},
      {"grp.lint_accepts_gaps", "GROUP-032", "the linter says nothing of ranks that a mode leaves out",
       "TOP-10: a loop that ends early", "groups.lint.lists[fault=left_out]", "groups.lint.lists[fault=overlap]",
       "the mode has every rank", lint_without({"cover"})},
      {"grp.lint_group_made_once", "GROUP-033", "the linter takes a group that is made again for an overlap",
       "GRP-08: contexts that are made and freed in turn", "groups.lint.right_logs[log=made_again]",
       "groups.lint.right_logs[log=one_list_twice]", "the list has two names", of_lint(group_made_once)},
      {"grp.lint_members_like_all", "GROUP-033", "the linter wants one order also of groups that members alone make",
       "torch's rule taken for everybody's", "groups.lint.right_logs[log=strangers_between]",
       "groups.lint.right_logs[log=all_alike]", "all ranks make every group", of_lint(members_like_all)},
      {"grp.lint_compares_sets", "GROUP-034", "the linter compares what ranks make as sets", "GRP-01",
       "groups.lint.any_sequences[rule=all_ranks]", "groups.lint.any_sequences[rule=members_only]", "another rule",
       of_lint(compares_sets)},
  };
}

}  // namespace

std::vector<Mutant> group_answer_mutants() {
  std::vector<Mutant> all = mode_answer_faults();
  std::ranges::move(lint_faults(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
