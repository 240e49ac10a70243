// Data-parallel passes that are wrong, each in one step, and adapters that read their questions or tell their answers
// wrong.
#include "conformance/pass/pass_mutants.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include "harness/mutants/rewriting.hpp"
#include "reference/program/pass_json.hpp"
#include "reference/program/program_json.hpp"

namespace plumbline::mutants {

using nlohmann::json;
using program::Analysis;
using program::Convention;
using program::GradientGroup;
using program::Op;
using program::PassOptions;
using program::PassSteps;
using program::Program;
using program::Rings;
using Groups = std::vector<GradientGroup>;

namespace {

const char* const kPass = "bucketing.dp_pass";
const std::string kRule = "pass.rule.";

// ---- a pass with another step ----

PassOptions options_of(const json& args) {
  PassOptions options = program::pass_options_of_json(args.value("options", json::object()));
  options.convention = args.value("convention", "plumbline") == "paddle" ? Convention::paddle : Convention::plumbline;
  options.max_fuse_numel = args.value("max_fuse_numel", options.max_fuse_numel);
  options.max_overlap_rings = args.value("max_overlap_rings", options.max_overlap_rings);
  return options;
}

json reply_of(const json& args, const PassSteps& steps) {
  try {
    const Program before = program::program_of_json(args.at("program"));
    const Rings rings = program::rings_of_json(args.at("rings"));
    return {{"result",
             program::json_of(program::apply_data_parallel_pass(before, rings, options_of(args), steps), before)}};
  } catch (const program::PassError& error) {
    return {{"error",
             {{"kind", error.kind()},
              {"message", error.what()},
              {"stage", name_of(error.stage())},
              {"class", error.source_class()}}}};
  } catch (const Error& error) {
    return {{"error", {{"kind", error.kind()}, {"message", error.what()}}}};
  }
}

RewriteAnswer with_steps(PassSteps steps) {
  return [steps = std::move(steps)](const std::string& op, const json& args, json reply) {
    // What is no question has been refused already.
    const bool is_read = reply.contains("result") || reply.at("error").contains("stage");
    return op == kPass && is_read ? reply_of(args, steps) : reply;
  };
}

RewriteAnswer with_options(std::function<void(PassOptions&)> change) {
  PassSteps steps;
  steps.analyze = [change](const Program& program, const Rings& rings, PassOptions options) {
    change(options);
    return program::analyze(program, rings, options);
  };
  steps.group_gradients = [change](const Program& program, PassOptions options) {
    change(options);
    return program::group_gradients(program, options);
  };
  return with_steps(std::move(steps));
}

using ChangeProgram = std::function<void(Program&)>;

// The groups of another program: what the pass is blind to.
RewriteAnswer groups_of(ChangeProgram change) {
  PassSteps steps;
  steps.group_gradients = [change = std::move(change)](Program program, const PassOptions& options) {
    change(program);
    return program::group_gradients(program, options);
  };
  return with_steps(std::move(steps));
}

RewriteAnswer with_groups(std::function<void(Groups&, const PassOptions&)> change) {
  PassSteps steps;
  steps.group_gradients = [change = std::move(change)](const Program& program, const PassOptions& options) {
    Groups groups = program::group_gradients(program, options);
    change(groups, options);
    return groups;
  };
  return with_steps(std::move(steps));
}

RewriteAnswer with_analysis(std::function<void(Analysis&, const Program&, const PassOptions&)> change) {
  PassSteps steps;
  steps.analyze = [change = std::move(change)](const Program& program, const Rings& rings, const PassOptions& options) {
    Analysis analysis = program::analyze(program, rings, options);
    change(analysis, program, options);
    return analysis;
  };
  return with_steps(std::move(steps));
}

using Prune = std::function<Program(const Program&, const Analysis&, const Rings&, const PassOptions&)>;
RewriteAnswer with_pruning(Prune prune) {
  PassSteps steps;
  steps.prune_scaling = std::move(prune);
  return with_steps(std::move(steps));
}

// What a step leaves behind, changed.
RewriteAnswer behind_overlap(ChangeProgram change) {
  PassSteps steps;
  steps.overlap = [change = std::move(change)](const Program& program, const Analysis& analysis,
                                               const PassOptions& options) {
    Program result = program::overlap(program, analysis, options);
    change(result);
    return result;
  };
  return with_steps(std::move(steps));
}

RewriteAnswer behind_fusion(ChangeProgram change) {
  PassSteps steps;
  steps.fuse = [change = std::move(change)](const Program& program, Groups& groups, const PassOptions& options) {
    Program result = program::fuse(program, groups, options);
    change(result);
    return result;
  };
  return with_steps(std::move(steps));
}

RewriteAnswer behind_dependencies(ChangeProgram change) {
  PassSteps steps;
  steps.add_dependencies = [change = std::move(change)](const Program& program, const Groups& groups,
                                                        const PassOptions& options) {
    Program result = program::add_dependencies(program, groups, options);
    change(result);
    return result;
  };
  return with_steps(std::move(steps));
}

// ---- pieces ----

double* number_in(Op& op, const char* attribute) {
  const auto found = op.attributes.find(attribute);
  return found == op.attributes.end() ? nullptr : std::get_if<double>(&found->second);
}

// Divides what pruning has divided once more, by `by` over what it was.
Prune divided_otherwise(std::function<double(const Analysis&, const Rings&)> by, const char* attribute) {
  return [by = std::move(by), attribute](const Program& program, const Analysis& analysis, const Rings& rings,
                                         const PassOptions& options) {
    Program result = program::prune_scaling(program, analysis, rings, options);
    std::size_t at = 0;
    for (const Op& old : program.ops) {
      if (program::is_data_parallel_scale(old) && (at == result.ops.size() || result.ops[at] != old)) continue;
      Op& op = result.ops[at++];
      if (double* number = number_in(op, attribute); number != nullptr && op != old)
        *number = static_cast<float>(*program::number_of(old, attribute) / by(analysis, rings));
    }
    return result;
  };
}

double size_of_first_ring(const Analysis& analysis, const Rings& rings) {
  return static_cast<double>(rings.at(analysis.grads_of.front().first).size());
}

Program pruned_as_source(const Program& program, Analysis analysis, const Rings& rings, PassOptions options) {
  options.convention = Convention::paddle;
  analysis.prunable = options.gradient_scale && (analysis.supports_rescale || analysis.same_degree);
  return program::prune_scaling(program, analysis, rings, options);
}

bool has_scales(const Program& program) { return std::ranges::any_of(program.ops, program::is_data_parallel_scale); }

// The factor goes and the ops stay.
Program folded_and_kept(const Program& program, const Analysis& analysis, const Rings& rings,
                        const PassOptions& options) {
  const Program pruned = program::prune_scaling(program, analysis, rings, options);
  Program result = program;
  std::size_t at = 0;
  for (Op& op : result.ops)
    if (!program::is_data_parallel_scale(op) || (at < pruned.ops.size() && pruned.ops[at] == op)) op = pruned.ops[at++];
  return result;
}

// Of several gradients of a loss the last alone.
Program last_loss_divided(const Program& program, const Analysis& analysis, const Rings& rings,
                          const PassOptions& options) {
  Program result = program::prune_scaling(program, analysis, rings, options);
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < result.ops.size(); ++i)
    if ((result.ops[i].role & program::role::loss) != 0 && (result.ops[i].role & program::role::backward) != 0)
      starts.push_back(i);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) result.ops[starts[i]] = program.ops[starts[i]];
  return result;
}

// A scale op behind the optimizer goes into its factor like one ahead of it.
Program folded_from_behind(const Program& program, const Analysis& analysis, const Rings& rings,
                           const PassOptions& options) {
  Program result = program::prune_scaling(program, analysis, rings, options);
  for (std::size_t i = 0; i < result.ops.size(); ++i) {
    double* const factor = number_in(result.ops[i], "rescale_grad");
    for (std::size_t k = i + 1; factor != nullptr && k < result.ops.size(); ++k) {
      if (!program::is_data_parallel_scale(result.ops[k]) ||
          !program::reads(result.ops[i], program::first_name(result.ops[k].outputs)))
        continue;
      *factor *= *program::number_of(result.ops[k], "scale");
      result.ops.erase(result.ops.begin() + static_cast<std::ptrdiff_t>(k--));
    }
  }
  return result;
}

// Derivatives are taken to be linear whatever they multiply gradients with.
Program products_are_linear(Program program, const Analysis& analysis, const Rings& rings, const PassOptions& options) {
  const auto rename = [](Program& in, const char* from, const char* to) {
    for (Op& op : in.ops)
      if (const auto slot = op.inputs.find("X"); slot != op.inputs.end() && op.type.ends_with("_grad"))
        std::ranges::replace(slot->second, std::string(from), std::string(to));
  };
  rename(program, "factor", "not followed");
  Analysis all = analysis;
  all.prunable = options.gradient_scale;
  Program result = program::prune_scaling(program, all, rings, options);
  rename(result, "not followed", "factor");
  return result;
}

GradientGroup merged(const Program& program, GradientGroup first, const GradientGroup& second) {
  first.removed_reductions.push_back(first.reduction_op);
  first.reduction_op = second.reduction_op;
  first.numel += second.numel;
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(first.gradients, second.gradients);
  append(first.removed_reductions, second.removed_reductions);
  const auto is_first = [&](const Op& op) {
    return std::ranges::any_of(first.gradients, [&](const std::string& name) { return program::writes(op, name); });
  };
  first.coalesce_op = static_cast<int>(std::ranges::find_if(program.ops, is_first) - program.ops.begin());
  return first;
}

// A gradient that is reduced twice is fused with those on both of its sides.
Groups in_two_groups(const Program& program, const PassOptions& options) {
  const Groups groups = program::group_gradients(program, options);
  Groups result;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i == 0 || i + 2 >= groups.size() || groups[i].gradients.size() != 1 ||
        groups[i].gradients != groups[i + 1].gradients) {
      result.push_back(groups[i]);
      continue;
    }
    result.back() = merged(program, result.back(), groups[i]);
    result.push_back(merged(program, groups[i + 1], groups[i + 2]));
    i += 2;
  }
  return result;
}

bool is_dependency(const Op& op, bool is_ahead) {
  const auto names = program::names_in(is_ahead ? op.outputs : op.inputs);
  return op.type == "nop" && names.size() == 1 && names.front().starts_with(program::kFusedPrefix);
}

void reduce_first(Groups& groups, const PassOptions&) {
  for (GradientGroup& group : groups)
    if (!group.removed_reductions.empty()) {
      std::swap(group.reduction_op, group.removed_reductions.front());
      std::ranges::sort(group.removed_reductions);
    }
}

// ---- analysis and entry ----

std::vector<Mutant> entry_mutants() {
  return {
      {"pass.every_optimizer_rescales", "PASS-001", "every optimizer is taken for one with a factor", "REF-06",
       kRule + "analysed[step=plain]", "pass.entry.nothing_parallel[scope=/optimizer]", "nothing is analysed",
       with_analysis([](Analysis& analysis, const Program&, const PassOptions&) { analysis.supports_rescale = true; })},
      {"pass.follows_fusion", "PASS-002", "it is applied behind passes that fuse ops", "a context that nobody looks at",
       "pass.entry.does_nothing[reason=fusion_pass]", "pass.entry.does_nothing[reason=no_context]",
       "there is no context to look at",
       [](const std::string& op, json args, json reply) {
         if (op != kPass || !args.contains("options")) return reply;
         args["options"].erase("context_passes");
         return reply.contains("result") ? reply_of(args, {}) : reply;
       }},
      {"pass.reads_megabytes", "PASS-003", "a limit in megabytes among the options is used", "BKT-12",
       "pass.entry.options_ignored", "", "every other question has no such option",
       [](const std::string& op, json args, json reply) {
         if (op != kPass || !args.contains("options") || !args["options"].contains("fuse_grad_size_in_MB"))
           return reply;
         args["max_fuse_numel"] = 0;
         return reply.contains("result") ? reply_of(args, {}) : reply;
       }},
      {"pass.any_scope", "PASS-004", "a reduction is data parallel when its scope ends so",
       "names are compared in part", "pass.entry.nothing_parallel[scope=/data_parallel]",
       "pass.entry.nothing_parallel[scope=/optimizer]", "the scope ends otherwise",
       [](const std::string& op, json args, json reply) {
         if (op != kPass || !reply.contains("result")) return reply;
         for (json& one : args["program"]["ops"])
           if (one["attrs"].value("op_namescope", "").ends_with("/data_parallel"))
             one["attrs"]["op_namescope"] = "/auto_parallel/data_parallel";
         return reply_of(args, {});
       }},
      {"pass.takes_cycles", "PASS-005", "a program may have ops that need each other's results",
       "ops are taken to be in order", "pass.refusals[fault=cycle]", "pass.refusals[fault=negative_rank]",
       "its ops are in order",
       takes(kPass,
             [](const json& args) {
               const json& first = args.at("program").at("ops").at(0);
               return first.contains("inputs") && first["inputs"].value("X", json()) == json({"x2"});
             })},
      {"pass.takes_negative_ranks", "PASS-005", "a ring may have a rank below 0", "numbers are only counted",
       "pass.refusals[fault=negative_rank]", "pass.refusals[fault=rank_twice]", "no rank is below 0",
       takes(kPass, [](const json& args) { return args["rings"].value("10", json::array()) == json({0, -1}); })},
  };
}

// ---- pruning ----

std::vector<Mutant> pruning_mutants() {
  return {
      {"pass.divisor_of_first_ring", "PASS-010", "each optimizer's factor is divided by the size of the first ring",
       "RED-01", kRule + "pruned[step=degrees]", kRule + "pruned[step=plain]", "there is one ring",
       with_pruning(divided_otherwise(size_of_first_ring, "rescale_grad"))},
      {"pass.divisor_of_world", "PASS-010", "the loss is divided by the size of the world", "RED-01",
       kRule + "pruned[step=plain]", kRule + "pruned[step=unscaled]", "nothing is pruned",
       with_pruning(divided_otherwise(
           [](const Analysis&, const Rings& rings) { return static_cast<double>(rings.at(0).size()); }, "value"))},
      {"pass.scale_kept_and_folded", "PASS-010", "the factor is folded, and the scale ops stay", "RED-10",
       kRule + "pruned[step=rings]", kRule + "pruned[step=unscaled]", "nothing is pruned",
       with_pruning(folded_and_kept)},
      {"pass.scale_gone", "PASS-011", "the scale ops go, and the factor with them", "RED-09",
       "pass.value.of_steps[step=plain]", "pass.value.of_steps[step=unscaled]", "nothing is pruned",
       with_pruning(divided_otherwise([](const Analysis&, const Rings&) { return 1.0; }, "value"))},
      {"pass.last_loss_divided", "PASS-012", "of two gradients of losses the last is divided", "REF-06",
       "pass.value.of_odd_steps[oddity=second_loss]", "pass.value.of_odd_steps[oddity=none]", "there is one loss",
       with_pruning(last_loss_divided)},
      {"pass.folds_past_unreduced", "PASS-012", "the loss is divided although a gradient is never reduced", "REF-06",
       "pass.value.of_odd_steps[oddity=unreduced]", "pass.value.of_odd_steps[oddity=none]", "all gradients are reduced",
       with_pruning([](const Program& program, const Analysis& analysis, const Rings& rings,
                       const PassOptions& options) {
         return has_scales(program) && analysis.same_degree ? pruned_as_source(program, analysis, rings, options)
                                                            : program::prune_scaling(program, analysis, rings, options);
       })},
      {"pass.folds_from_behind", "PASS-012", "a scale op behind the optimizer is folded into its factor", "REF-06",
       "pass.value.of_odd_steps[oddity=scaled_late]", "pass.value.of_odd_steps[oddity=none]",
       "all scale ops are ahead of optimizers", with_pruning(folded_from_behind)},
      {"pass.products_are_linear", "PASS-012", "a product of two values that are divided is taken to be divided once",
       "RED-11", "pass.value.of_odd_steps[oddity=multiplied]", "pass.value.of_odd_steps[oddity=none]",
       "nothing is multiplied by itself", with_pruning(products_are_linear)},
      {"pass.prunes_as_source", "PASS-014", "whatever is scaled is folded into the loss or the optimizers", "REF-06",
       "pass.recorded.values[programs=models]", "pass.recorded.values[programs=limits]", "all gradients are alike",
       with_pruning(
           [](const Program& program, const Analysis& analysis, const Rings& rings, const PassOptions& options) {
             return has_scales(program) ? pruned_as_source(program, analysis, rings, options) : program;
           })},
      {"pass.divides_again", "PASS-013", "the loss is divided also where there are no scale ops any more", "RED-10",
       "pass.value.second_time[oddity=none]", "pass.value.second_time[oddity=no_loss]", "there is no loss to divide",
       with_pruning(
           [](const Program& program, const Analysis& analysis, const Rings& rings, const PassOptions& options) {
             return has_scales(program) ? program::prune_scaling(program, analysis, rings, options)
                                        : pruned_as_source(program, analysis, rings, options);
           })},
  };
}

// ---- overlap ----

std::vector<Mutant> overlap_mutants() {
  return {
      {"pass.wait_dropped", "PASS-020", "the last reduction does not wait for the calculation", "OVL-01",
       kRule + "overlapped[step=plain]", kRule + "overlapped[step=sharding]", "nothing is overlapped",
       behind_overlap([](Program& program) {
         const auto last = std::ranges::find(program.ops.rbegin(), program.ops.rend(), "c_wait_compute", &Op::type);
         if (last != program.ops.rend()) program.ops.erase(std::next(last).base());
       })},
      {"pass.rings_beyond_limit", "PASS-020", "one ring more than the limit is overlapped", "REF-07",
       kRule + "overlapped[step=many_rings]", kRule + "overlapped[step=plain]", "there is one ring",
       with_options([](PassOptions& options) { ++options.max_overlap_rings; })},
      {"pass.nobody_waits", "PASS-052", "readers do not wait for reductions that nothing else orders", "OVL-03",
       kRule + "readers_wait[step=higher]", kRule + "readers_wait[step=plain]", "names order readers and reductions",
       behind_overlap([](Program& program) {
         std::erase_if(program.ops, [](const Op& op) { return op.type == "c_wait_comm"; });
       })},
  };
}

// ---- groups ----

std::vector<Mutant> grouping_mutants() {
  const auto blind_to = [](const char* type) {
    return groups_of([type](Program& program) {
      for (Op& op : program.ops)
        if (op.type == type) op.inputs.clear(), op.outputs.clear();
    });
  };
  return {
      {"pass.higher_order_fused", "PASS-030", "gradients of gradients are fused", "REF-07",
       kRule + "each_gradient_once[step=higher]", kRule + "each_gradient_once[step=plain]", "there are none",
       with_analysis([](Analysis& analysis, const Program&, const PassOptions& options) {
         analysis.fusible = !options.use_sharding;
       })},
      {"pass.sharding_fused", "PASS-030", "gradients of sharded parameters are fused", "REF-07",
       kRule + "each_gradient_once[step=sharding]", kRule + "each_gradient_once[step=plain]", "nothing is sharded",
       with_analysis([](Analysis& analysis, const Program& program, const PassOptions&) {
         analysis.fusible = !program::has_higher_order_gradients(program);
       })},
      {"pass.types_mixed", "PASS-031", "gradients of any type are fused", "BKT-13", kRule + "alike[step=types]",
       kRule + "alike[step=plain]", "there is one type", groups_of([](Program& program) {
         for (auto& [name, variable] : program.variables) variable.dtype = program::DataType::f32;
       })},
      {"pass.rings_mixed", "PASS-031", "gradients of any ring are fused", "BKT-13", kRule + "alike[step=rings]",
       kRule + "alike[step=plain]", "there is one ring", groups_of([](Program& program) {
         for (Op& op : program.ops)
           if (op.ring) op.ring = 10;
       })},
      {"pass.limit_one_more", "PASS-032", "a group may have one element more than the limit", "REF-08",
       kRule + "within_limit[step=around_limit]", kRule + "within_limit[step=plain]", "the limit is far away",
       with_options([](PassOptions& options) { ++options.max_fuse_numel; })},
      {"pass.closes_on_read_alone", "PASS-033", "an op that writes a gradient does not close its group", "OVL-11",
       kRule + "untouched[step=touched]", kRule + "untouched[step=plain]", "nothing touches gradients",
       blind_to("sum")},
      {"pass.closes_on_write_alone", "PASS-033", "an op that reads a gradient does not close its group", "REF-07",
       kRule + "untouched[step=touched]", kRule + "untouched[step=plain]", "nothing touches gradients",
       blind_to("assign")},
      {"pass.limit_excluded", "PASS-034", "a group of exactly the limit is closed ahead of its last gradient", "REF-08",
       kRule + "closed_for_a_reason[step=around_limit]", kRule + "closed_for_a_reason[step=sharding]",
       "nothing is fused", with_options([](PassOptions& options) { --options.max_fuse_numel; })},
      {"pass.all_alone", "PASS-034", "each gradient has a group of its own", "BKT-09",
       kRule + "closed_for_a_reason[step=plain]", kRule + "closed_for_a_reason[step=sharding]", "nothing is fused",
       with_options([](PassOptions& options) { options.max_fuse_numel = -1; })},
  };
}

// ---- fusion ----

void drop_readers(Program& program) {
  std::erase_if(program.ops, [](const Op& op) { return op.type == "assign"; });
}

// All at once, since numbers from the front are numbers from the end of other groups.
void number_from_front(Program& program, Groups& groups) {
  std::map<std::string, std::string> renamed;
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (groups[i].is_fused) renamed[groups[i].fused_variable] = "coalesce_grad_" + std::to_string(i) + "_0";
  const auto new_name = [&](const std::string& name) { return renamed.contains(name) ? renamed.at(name) : name; };
  decltype(program.variables) variables;
  for (auto& [name, variable] : program.variables) variables[new_name(name)] = variable;
  program.variables = std::move(variables);
  for (GradientGroup& group : groups) group.fused_variable = new_name(group.fused_variable);
  for (Op& op : program.ops)
    for (program::Slots* slots : {&op.inputs, &op.outputs})
      for (auto& [slot, list] : *slots)
        for (std::string& name : list) name = new_name(name);
}

std::vector<Mutant> fusion_mutants() {
  return {
      {"pass.drops_readers", "PASS-040", "ops that read a gradient go with its reduction", "REF-07",
       kRule + "others_are_left[step=touched]", kRule + "others_are_left[step=plain]", "nothing reads gradients",
       behind_fusion(drop_readers)},
      {"pass.reduces_at_first", "PASS-041", "the fused reduction stands where the first gradient's stood", "OVL-02",
       kRule + "reduced_once[step=plain]", kRule + "reduced_once[step=sharding]", "nothing is fused",
       with_groups(reduce_first)},
      {"pass.memory_at_reduction", "PASS-042", "the memory is made one at the kept reduction, behind what filled it",
       "BKT-14", kRule + "memory_made_one[step=plain]", kRule + "memory_made_one[step=sharding]", "nothing is fused",
       with_groups([](Groups& groups, const PassOptions& options) {
         for (GradientGroup& group : groups)
           if (options.convention == Convention::plumbline) group.coalesce_op = group.reduction_op;
       })},
      {"pass.names_from_front", "PASS-043", "fused variables are numbered from the front",
       "names are made in program order", kRule + "variables_added[step=around_limit]",
       kRule + "variables_added[step=sharding]", "nothing is fused",
       [](const std::string& op, const json& args, json reply) {
         PassSteps steps;
         steps.fuse = [](const Program& program, Groups& groups, const PassOptions& options) {
           Program result = program::fuse(program, groups, options);
           number_from_front(result, groups);
           return result;
         };
         return op == kPass && reply.contains("result") ? reply_of(args, steps) : reply;
       }},
      {"pass.mesh_of_first", "PASS-044", "a fused variable lies where its first member lies",
       "Paddle's ref_process_mesh", "pass.placement.union", "", "no other question has places",
       behind_fusion([](Program& program) {
         for (auto& [name, variable] : program.variables)
           if (name.starts_with(program::kFusedPrefix) && variable.placement) variable.placement->process_mesh = {0, 1};
       })},
      {"pass.memory_at_first_reduced", "PASS-012",
       "the memory is made one ahead of what makes the first gradient, behind another that was made before", "REF-07",
       "pass.value.of_odd_steps[oddity=made_early]", "pass.value.of_odd_steps[oddity=none]",
       "gradients are made as they are reduced",
       [](const std::string& op, const json& args, json reply) {
         PassSteps steps;
         steps.group_gradients = [](const Program& program, const PassOptions& options) {
           Groups groups = program::group_gradients(program, options);
           for (GradientGroup& group : groups)
             for (int i = 0; i < group.reduction_op && group.gradients.size() > 1; ++i)
               if (program::writes(program.ops[static_cast<std::size_t>(i)], group.gradients.front())) {
                 group.coalesce_op = i;
                 break;
               }
           return groups;
         };
         return op == kPass && reply.contains("result") ? reply_of(args, steps) : reply;
       }},
      {"pass.reduced_twice_fused_twice", "PASS-012",
       "a gradient that is reduced twice is a part of two fused variables", "BKT-14",
       "pass.value.of_odd_steps[oddity=reduced_twice_unscaled]", "pass.value.of_odd_steps[oddity=none]",
       "gradients are reduced once",
       [](const std::string& op, const json& args, json reply) {
         PassSteps steps;
         steps.group_gradients = in_two_groups;
         return op == kPass && reply.contains("result") ? reply_of(args, steps) : reply;
       }},
      {"pass.averages_are_sums", "PASS-012", "averages are fused with sums", "RED-02",
       "pass.value.of_odd_steps[oddity=averages]", "pass.value.of_odd_steps[oddity=none]", "all reductions are sums",
       groups_of([](Program& program) {
         for (Op& op : program.ops)
           if (program::is_data_parallel_reduction(op)) op.reduction = comm::ReduceOp::sum;
       })},
  };
}

// ---- dependencies and summary ----

std::vector<Mutant> dependency_mutants() {
  const auto without = [](bool is_ahead) {
    return behind_dependencies([is_ahead](Program& program) {
      std::erase_if(program.ops, [&](const Op& op) { return is_dependency(op, is_ahead); });
    });
  };
  return {
      {"pass.no_dependency_ahead", "PASS-050", "a fused reduction waits for no gradient", "OVL-01",
       kRule + "dependent[step=plain]", kRule + "dependent[step=sharding]", "nothing is fused", without(true)},
      {"pass.no_dependency_behind", "PASS-050", "nobody waits for a fused reduction", "OVL-03",
       kRule + "dependent[step=plain]", kRule + "dependent[step=sharding]", "nothing is fused", without(false)},
      {"pass.waits_for_first", "PASS-050", "a fused reduction waits for its first gradient", "OVL-02",
       kRule + "dependent[step=plain]", kRule + "dependent[step=sharding]", "nothing is fused",
       [](const std::string& op, const json& args, json reply) {
         PassSteps steps;
         steps.add_dependencies = [](const Program& program, const Groups& groups, const PassOptions& options) {
           Program result = program::add_dependencies(program, groups, options);
           for (Op& one : result.ops)
             if (is_dependency(one, true))
               for (const GradientGroup& group : groups)
                 if (program::writes(one, group.fused_variable)) one.inputs["X"] = {group.gradients.front()};
           return result;
         };
         return op == kPass && reply.contains("result") ? reply_of(args, steps) : reply;
       }},
      {"pass.stops_at_forward", "PASS-050", "reductions ahead of an op of the forward get no dependencies", "REF-07",
       kRule + "dependent[step=forward]", kRule + "dependent[step=plain]", "the forward is all ahead of the backward",
       [](const std::string& op, const json& args, json reply) {
         PassSteps steps;
         steps.add_dependencies = [](const Program& program, const Groups& groups, PassOptions options) {
           options.convention = Convention::paddle;
           return program::add_dependencies(program, groups, options);
         };
         return op == kPass && reply.contains("result") ? reply_of(args, steps) : reply;
       }},
      {"pass.single_off_stream", "PASS-051", "reductions of one gradient stay on the stream that they were on",
       "OVL-06", kRule + "on_their_stream[step=around_limit]", kRule + "on_their_stream[step=sharding]",
       "nothing is fused", behind_dependencies([](Program& program) {
         for (Op& op : program.ops)
           if (program::is_data_parallel_reduction(op) &&
               !program::first_name(op.outputs).starts_with(program::kFusedPrefix))
             op.stream.clear();
       })},
      {"pass.counts_fused_alone", "PASS-060", "the summary leaves groups of one out", "REF-08",
       kRule + "summed_up[step=around_limit]", kRule + "summed_up[step=sharding]", "there are no groups",
       results_of(kPass,
                  [](const json&, json& result) {
                    if (!result.contains("groups") || result["groups"].empty()) return;
                    result["summary"]["coalesce_allreduce_ops"] = std::ranges::count_if(
                        result["groups"], [](const json& group) { return group["fused"] == true; });
                  })},
      {"pass.refusals_untold", "PASS-062", "nobody is told what is not done", "REF-07",
       kRule + "refusals_told[step=sharding]", kRule + "refusals_told[step=plain]", "everything is done",
       with_analysis([](Analysis& analysis, const Program&, const PassOptions&) { analysis.refused.clear(); })},
      {"pass.closing_untold", "PASS-062", "every group is said to be closed by the limit", "REF-07",
       kRule + "refusals_told[step=rings]", kRule + "refusals_told[step=sharding]", "there are no groups",
       with_groups([](Groups& groups, const PassOptions&) {
         for (GradientGroup& group : groups) group.closed_by = program::Closed::limit;
       })},
      {"pass.log_without_members", "PASS-061", "the log says how many gradients a group has, not which",
       "a message too short", kRule + "named_in_log[step=plain]", kRule + "named_in_log[step=sharding]",
       "there are no groups",
       results_of(kPass,
                  [](const json&, json& result) {
                    if (result.contains("summary")) result["summary"]["debug"] = {"groups: some"};
                  })},
  };
}

// ---- the convention of the source ----

bool is_paddle(const PassOptions& options) { return options.convention == Convention::paddle; }

std::vector<Mutant> pass_convention_mutants() {
  return {
      {"pass.paddle_limit_one_more", "PASS-070",
       "in the convention paddle a group may have one element more than the limit", "REF-08",
       kRule + "paddle[step=around_limit]", kRule + "paddle[step=plain]", "the limit is far away",
       with_options([](PassOptions& options) { options.max_fuse_numel += is_paddle(options) ? 1 : 0; })},
      {"pass.lookbehind_repaired", "PASS-071",
       "a scale op ahead of a reduction marks nothing, in the convention paddle, too", "REF-06",
       "pass.recorded.answers[programs=order]", "pass.recorded.answers[programs=limits]",
       "no scale op stands ahead of a reduction", with_groups([](Groups& groups, const PassOptions&) {
         for (GradientGroup& group : groups) group.removed_scales.clear(), group.scale_op = -1;
       })},
      {"pass.one_class_of_errors", "PASS-072", "every error is said to be an assertion",
       "exceptions of another language", "pass.recorded.refusals[stage=prune]", "pass.recorded.refusals[stage=analyze]",
       "those are assertions",
       [](const std::string& op, const json&, json reply) {
         if (op == kPass && reply.contains("error") && reply["error"].contains("class"))
           reply["error"]["class"] = "AssertionError";
         return reply;
       }},
      {"pass.errors_without_names", "PASS-073", "an error does not say which gradient or op it is about",
       "a message too short", "pass.recorded.words", "", "every other check looks at stage and class",
       [](const std::string& op, const json&, json reply) {
         if (op == kPass && reply.contains("error")) reply["error"]["message"] = "the program is wrong";
         return reply;
       }},
      {"pass.paddle_knows_its_own", "PASS-074", "in the convention paddle what is fused already is left alone",
       "REF-08", "pass.recorded.twice", "", "no other question is about a program that is fused already",
       with_groups([](Groups& groups, const PassOptions& options) {
         if (is_paddle(options))
           std::erase_if(groups, [](const GradientGroup& group) {
             return group.gradients.front().starts_with(program::kFusedPrefix);
           });
       })},
  };
}

}  // namespace

std::vector<Mutant> pass_mutants() {
  std::vector<Mutant> all;
  for (const auto kind : {entry_mutants, pruning_mutants, overlap_mutants, grouping_mutants, fusion_mutants,
                          dependency_mutants, pass_convention_mutants})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
