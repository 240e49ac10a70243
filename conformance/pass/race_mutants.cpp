// Adapters whose checkers of order are wrong, or whose pass leaves races or changes values; interpreters with one wrong
// step.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "conformance/pass/oracles/interpreter_steps.hpp"
#include "conformance/pass/pass_mutants.hpp"
#include "harness/mutants/rewriting.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/program/pass.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/race_json.hpp"

namespace plumbline::mutants {

using nlohmann::json;
using program::InterpreterSteps;
using program::Op;
using program::RaceSteps;

namespace {

const char* const kRaces = "bucketing.race_check";
const char* const kRacePass = "bucketing.dp_pass";

// ---- checkers of order ----

RewriteAnswer checks_with(std::function<void(RaceSteps&)> change) {
  RaceSteps steps;
  change(steps);
  return results_of(kRaces, [steps](const json& args, json& result) {
    result["races"] = json_of(find_races(program::program_of_json(args.at("program")), steps));
  });
}

bool copies_members(const json& ops) {
  return std::ranges::any_of(ops, [](const json& op) {
    return op.at("type") == "coalesce_tensor" && op.at("attrs").value("copy_data", false);
  });
}

bool has_left(const Op& op) { return program::stream_of(op).starts_with("ring "); }

std::vector<Mutant> checker_mutants() {
  const std::string check = "pass.races.";
  return {
      {"pass.race_ignores_waits", "PASS-080", "waits order nothing", "a checker of data flow alone",
       check + "none_where_ordered[ordered_by=waits,gradients=1]",
       check + "none_where_ordered[ordered_by=names,gradients=1]", "there are no waits",
       checks_with([](RaceSteps& steps) { steps.wait = [](const Op&) { return std::nullopt; }; })},
      {"pass.race_ignores_dependencies", "PASS-080", "dependency ops order nothing", "they compute nothing",
       check + "none_where_ordered[ordered_by=names,gradients=4]",
       check + "none_where_ordered[ordered_by=waits,gradients=4]", "there are no dependency ops",
       checks_with([](RaceSteps& steps) {
         steps.by_names = [](const Op& op) { return op.type != "nop" && program::is_ordered_by_names(op); };
       })},
      {"pass.race_any_ring", "PASS-081", "a wait for one ring is taken for a wait for all", "one communication stream",
       check + "taken_away[taken=wait_for_another_ring]", check + "taken_away[taken=wait_after]", "there is one ring",
       checks_with([](RaceSteps& steps) {
         steps.stream = [](const Op& op) { return has_left(op) ? "ring" : op.stream; };
         steps.wait = [](const Op& op) {
           auto wait = program::wait_of(op);
           if (wait) (op.type == "c_wait_compute" ? wait->waiting : wait->awaited) = "ring";
           return wait;
         };
       })},
      {"pass.race_forgets_write_after_read", "PASS-081", "a write behind a read races with nothing",
       "only values that are read wrong are looked for", check + "taken_away[taken=written_while_it_is_read]",
       check + "taken_away[taken=wait_before]", "both write",
       checks_with([](RaceSteps& steps) { steps.conflicts = [](bool first, bool) { return first; }; })},
      {"pass.race_trusts_names", "PASS-081", "communication on its ring's stream is ordered by names",
       "the executor is taken to see it", check + "taken_away[taken=wait_after]",
       check + "taken_away[taken=dependency_after]", "it is on a stream of the executor's",
       checks_with([](RaceSteps& steps) { steps.by_names = [](const Op&) { return true; }; })},
      {"pass.race_separate_members", "PASS-081", "members of a fused variable have memory of their own",
       "names are taken for memory", check + "taken_away[taken=dependency_before]",
       check + "taken_away[taken=wait_before]", "nothing is fused",
       checks_with([](RaceSteps& steps) { steps.shares_memory = [](const Op&) { return false; }; })},
      {"pass.race_one_stream", "PASS-082", "communication is on the stream that it is issued on",
       "use_calc_stream is not read", check + "by_closure[programs=waits]", check + "by_closure[programs=names]",
       "there is no communication",
       checks_with([](RaceSteps& steps) { steps.stream = [](const Op& op) { return op.stream; }; })},
      {"pass.race_dependency_touches", "PASS-082", "a dependency op touches what it names", "it has inputs and outputs",
       check + "by_closure[programs=fused]", check + "by_closure[programs=waits]", "there are no dependency ops",
       checks_with([](RaceSteps& steps) {
         steps.accesses = [](const Op& op) {
           Op touching = op;
           if (op.type == "nop") touching.type = "assign";
           return program::accesses_of(touching);
         };
       })},
      {"pass.race_reads_conflict", "PASS-082", "two reads at once are a race", "every touch is taken for a write",
       check + "by_closure[programs=messages]", check + "none_where_ordered[ordered_by=waits,gradients=1]",
       "nothing is read twice",
       checks_with([](RaceSteps& steps) { steps.conflicts = [](bool, bool) { return true; }; })},
      {"pass.race_write_after_read_unordered", "PASS-082", "a write is not ordered behind the reads ahead of it",
       "the executor is taken to know only what is read from whom", check + "by_closure[programs=names]",
       check + "none_where_ordered[ordered_by=waits,gradients=4]", "waits order them",
       checks_with([](RaceSteps& steps) { steps.orders = [](bool first, bool) { return first; }; })},
      {"pass.race_takes_unknown_rings", "PASS-083", "a program may run over a ring that there is not",
       "rings are numbers", check + "bad_programs[fault=ring_that_is_not_there]",
       check + "bad_programs[fault=negative_shape]", "its rings are there",
       takes(kRaces, [](const json& args) { return !args.value("rings", json::object()).contains("12"); },
             {{"races", json::array()}})},
      {"pass.race_takes_copies_for_produced", "PASS-092", "members that are copied are taken for produced",
       "copy_data is taken for a gradient's value", check + "reduced_before_produced[copies=yes,late=1]",
       check + "reduced_before_produced[copies=no,late=1]", "nothing is copied",
       takes(kRaces, [](const json& args) { return copies_members(args.at("program").at("ops")); },
             {{"races", json::array()}})},
      {"pass.race_names_no_gradient", "PASS-092", "what is reduced too early is refused without a name",
       "a message without its subject", check + "reduced_before_produced[copies=no,late=0]",
       check + "bad_programs[fault=negative_shape]", "the refusal alone is asked for",
       [](const std::string& op, const json&, json reply) {
         if (op == kRaces && reply.contains("error")) reply["error"]["message"] = "race_check: an op is out of order";
         return reply;
       }},
      {"pass.race_one_issuing_stream", "PASS-090", "all ops are issued to one stream", "execution_stream is not read",
       check + "recorded_by_paddle[programs=order]", check + "recorded_by_paddle[programs=entry]",
       "dependencies order what is fused", checks_with([](RaceSteps& steps) {
         steps.stream = [](const Op& op) { return has_left(op) ? program::stream_of(op) : ""; };
       })},
  };
}

// ---- what the pass leaves ----

// Changes the program that the pass ends with.
RewriteAnswer ends_with(std::function<void(json& ops)> change) {
  return results_of(kRacePass, [change = std::move(change)](const json& args, json& result) {
    json& final = result["final"];
    if (!final.is_object()) return;
    if (final.contains("same_as")) final = args.at("program");
    change(final["ops"]);
  });
}

template <class Concerns>
void erase_ops(json& ops, const Concerns& concerns) {
  json kept = json::array();
  for (const json& op : ops)
    if (!concerns(op)) kept.push_back(op);
  ops = std::move(kept);
}

bool is_type(const json& op, const char* type) { return op.at("type") == type; }

bool names_fused(const json& names) {
  return names.is_array() && !names.empty() && names[0].get<std::string>().starts_with("coalesce_grad");
}
// Of the dependency ops around a fused reduction: the one ahead of it writes the fused variable.
bool is_race_dependency(const json& op, bool ahead) {
  if (!is_type(op, "nop")) return false;
  return names_fused(ahead ? op.at("outputs").at("Out") : op.at("inputs").at("X"));
}

// To where the last member is made: the values of the others are lost.
void coalesce_late(json& ops) {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!is_type(ops[i], "coalesce_tensor")) continue;
    std::size_t to = i + 1;
    while (to < ops.size() && !is_race_dependency(ops[to], true) && !is_type(ops[to], "all_reduce")) ++to;
    for (std::size_t k = i; k + 1 < to; ++k) std::swap(ops[k], ops[k + 1]);
    i = to;
  }
}

bool is_scaling(const json& op) {
  return is_type(op, "scale") &&
         op.at("attrs").value("op_namescope", "").find("auto_parallel/data_parallel") != std::string::npos;
}

void divide_loss(json& ops) {
  for (json& op : ops)
    if (op["attrs"].value("op_role", 0) == 257) op["attrs"]["value"] = op["attrs"]["value"].get<double>() / 2;
}

bool is_of_forward(const json& op) {
  const int role = op.at("attrs").value("op_role", 0);
  return role == program::role::forward || role == program::role::loss;
}

// Ahead of the last op of the forward there are no dependencies.
void end_order_at_forward(json& ops) {
  std::size_t end = ops.size();
  while (end > 0 && !is_of_forward(ops[end - 1])) --end;
  for (std::size_t i = end; i-- > 0;)
    if (is_type(ops[i], "nop")) ops.erase(i);
}

// Nobody waits for communication who only writes over what it reads.
void forget_readers(json& ops) {
  for (std::size_t i = ops.size(); i-- > 1;)
    if (is_type(ops[i], "fill_constant") && is_type(ops[i - 1], "c_wait_comm"))
      ops.erase(static_cast<json::size_type>(i) - 1);
}

void move_all_reductions(json& ops) {
  for (json& op : ops) {
    if (!is_type(op, "all_reduce") ||
        op["attrs"].value("op_namescope", "").find("auto_parallel/data_parallel") == std::string::npos)
      continue;
    op["attrs"]["use_calc_stream"] = true;
    op["attrs"]["execution_stream"] = program::kGradientStream;
  }
}

// Of a gradient's reductions the first is left.
void reduce_once(json& ops) {
  std::set<std::string> reduced;
  erase_ops(ops, [&](const json& op) {
    return is_type(op, "all_reduce") &&
           op.at("attrs").value("op_namescope", "").find("auto_parallel/data_parallel") != std::string::npos &&
           !reduced.insert(op.at("outputs").at("out").at(0).get<std::string>()).second;
  });
}

std::vector<Mutant> transformation_mutants() {
  const std::string races = "pass.races.pass_leaves_none", values = "pass.runs.pass_keeps_values";
  return {
      {"pass.overlap_not_awaited", "PASS-084", "nobody waits for communication that was overlapped",
       "the source's analysis of waits returns in its first line", races + "[steps=second_derivative]",
       races + "[steps=plain]", "dependency ops order what is fused",
       ends_with([](json& ops) { erase_ops(ops, [](const json& op) { return is_type(op, "c_wait_comm"); }); })},
      {"pass.dependency_before_missing", "PASS-084", "a fused reduction does not wait for its members", "OVL-11",
       races + "[steps=plain]", races + "[steps=second_derivative]", "nothing is fused",
       ends_with([](json& ops) { erase_ops(ops, [](const json& op) { return is_race_dependency(op, true); }); })},
      {"pass.dependency_after_missing", "PASS-084", "nobody waits for a fused reduction", "OVL-11",
       races + "[steps=late]", races + "[steps=second_derivative]", "nothing is fused",
       ends_with([](json& ops) { erase_ops(ops, [](const json& op) { return is_race_dependency(op, false); }); })},
      {"pass.foreign_waits_removed", "PASS-084", "waits of other rings go with the pass's own",
       "the source removes every wait without slots", races + "[steps=foreign_wait]", races + "[steps=plain]",
       "there are no other waits", ends_with([](json& ops) {
         erase_ops(ops, [](const json& op) { return is_type(op, "c_wait_compute") && op["attrs"]["ring_id"] == 13; });
       })},
      {"pass.written_over_unawaited", "PASS-084", "who writes over what communication reads does not wait for it",
       "what a reduction writes is looked for, and not what it reads", races + "[steps=out_of_place]",
       races + "[steps=plain]", "dependency ops order what is fused", ends_with(forget_readers)},
      {"pass.shared_memory_moved", "PASS-084",
       "a reduction of memory that has several names goes to the gradient stream", "names are taken for memory",
       races + "[steps=foreign_memory]", races + "[steps=plain]", "fused variables are its own",
       ends_with(move_all_reductions)},
      {"pass.sent_moved", "PASS-084",
       "a reduction goes to the gradient stream although other communication that left the calculation stream touches "
       "the gradient",
       "the executor is taken to see it", races + "[steps=sent]", races + "[steps=streams]",
       "there is no other communication", ends_with(move_all_reductions)},
      {"pass.coalesced_late", "PASS-085", "memory is made one behind what was written to it", "BKT-14",
       values + "[steps=plain]", values + "[steps=second_derivative]", "nothing is fused", ends_with(coalesce_late)},
      {"pass.divided_twice", "PASS-085", "the gradient of the loss is divided once more", "a second application",
       values + "[steps=plain]", values + "[steps=no_loss]", "there is no op that begins with it",
       ends_with(divide_loss)},
      {"pass.scaling_lost", "PASS-085", "scalings are taken out where their factor has no place",
       "the source does where there is no loss", values + "[steps=no_loss]", "",
       "steps are drawn until one keeps a scaling", ends_with([](json& ops) { erase_ops(ops, is_scaling); })},
      {"pass.forward_op_ends_order", "PASS-089", "what stands ahead of an op of the forward gets no dependencies",
       "the source looks from the end to the last one", "pass.races.recorded[programs=order]",
       "pass.races.recorded[programs=entry]", "the forward is ahead of all reductions",
       ends_with(end_order_at_forward)},
      {"pass.reduced_over_first_ring", "PASS-091", "a gradient of two rings is reduced over one",
       "a table has one ring for a gradient", "pass.runs.recorded[programs=models]",
       "pass.runs.recorded[programs=entry]", "no gradient has two rings", ends_with(reduce_once)},
  };
}

// ---- interpreters ----

std::vector<Mutant> interpreter_mutants() {
  const std::string runs = "pass.runs.";
  return {
      {"pass.run_ignores_rescale", "PASS-086", "an optimizer takes its gradient as it is",
       "an attribute that a program without the pass does not need",
       runs + "equal_over_a_backend[step=two_degrees,world=4]", runs + "equal_over_a_backend[step=plain,world=2]",
       "the factor is in the gradient of the loss",
       with([](InterpreterSteps& steps) { steps.rescale = [](const Op&) { return 1.0; }; })},
      {"pass.run_reduces_nothing", "PASS-087", "gradients stay each rank's own", "a run on one rank of many",
       runs + "gradients_are_means[world=2]", runs + "gradients_are_means[world=1]", "there is one rank",
       with([](InterpreterSteps& steps) {
         steps.all_reduce = [](comm::Communicator&, comm::Buffer, comm::ReduceOp) {};
       })},
      {"pass.run_members_overlap", "PASS-088", "a member begins on the end of the one ahead of it", "BKT-14",
       runs + "members_get_their_sums[members=2,op=sum,world=2]", runs + "gradients_are_means[world=2]",
       "nothing is fused", with([](InterpreterSteps& steps) {
         steps.places = [](const std::vector<std::int64_t>& elements, std::int64_t) {
           auto places = program::places_of(elements, 1);
           for (std::size_t i = 1; i + 1 < places.size(); ++i) --places[i];
           return places;
         };
       })},
      {"pass.run_sums_averages", "PASS-088", "an average is a sum", "the reduction's type is not read",
       runs + "members_get_their_sums[members=2,op=avg,world=2]",
       runs + "members_get_their_sums[members=2,op=sum,world=2]", "a sum is asked for",
       with([](InterpreterSteps& steps) {
         steps.all_reduce = [](comm::Communicator& ring, comm::Buffer values, comm::ReduceOp) {
           ring.all_reduce(values, values, comm::ReduceOp::sum);
         };
       })},
  };
}

}  // namespace

std::vector<Mutant> race_mutants() {
  std::vector<Mutant> all;
  for (const auto kind : {checker_mutants, transformation_mutants, interpreter_mutants})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
