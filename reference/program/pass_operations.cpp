// bucketing.dp_pass: the data-parallel pass over a program.
#include <limits>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/program/pass_json.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/validate.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

program::PassOptions options_in(const Arguments& arguments) {
  const auto convention =
      arguments.convention() == Convention::paddle ? program::Convention::paddle : program::Convention::plumbline;
  program::PassOptions options = program::pass_options_of_json(arguments.get<json>("options", json::object()));
  options.convention = convention;
  if (arguments.has("max_fuse_numel"))
    options.max_fuse_numel = arguments.integer_in("max_fuse_numel", 0, std::numeric_limits<std::int64_t>::max());
  if (arguments.has("max_overlap_rings"))
    options.max_overlap_rings =
        static_cast<int>(arguments.integer_in("max_overlap_rings", 0, std::numeric_limits<int>::max()));
  return options;
}

json dp_pass(const Arguments& arguments) {
  const program::PassOptions options = options_in(arguments);
  const program::Program before = program::program_of_json(arguments.get<json>("program"));
  const program::Rings rings = program::rings_of_json(arguments.get<json>("rings"));
  arguments.expect_no_others();
  // Ops may be of any type, and the source finds rings on its own; and it takes ops in any order.
  if (options.convention == program::Convention::plumbline)
    require_valid(before, rings, {.known_ops = false, .rings_exist = false});
  try {
    return program::json_of(program::apply_data_parallel_pass(before, rings, options), before);
  } catch (const program::PassError& error) {
    throw Refusal(error, {{"stage", std::string(name_of(error.stage()))}, {"class", error.source_class()}});
  }
}

}  // namespace

std::vector<ArgumentRow> program_rows() {
  return {with_fields({"program", "object", "a training step as ops (reference/program/program_json.hpp)"},
                      {with_fields({"vars", "list of object", "its variables"},
                                   {{"name", "text", "name of the variable"},
                                    {"shape", "list of integer", "its dimensions; -1: unknown"},
                                    {"dtype", "text", "its element type, as float32"},
                                    {"persistable", "boolean", "it outlives the step", "false"},
                                    {"parameter", "boolean", "it is a parameter", "false"},
                                    {"process_mesh", "any", "ranks of the mesh it is distributed over", kOptional},
                                    {"dims_mapping", "list of integer",
                                     "mesh dimension of each of its dimensions; -1: none", kOptional}}),
                       with_fields({"ops", "list of object", "its ops, in order"},
                                   {{"type", "text", "type of the op"},
                                    {"inputs", "map of list of text", "variables by slot"},
                                    {"outputs", "map of list of text", "variables by slot"},
                                    {"attrs", "object", "attributes by name, as op_role, ring_id, reduce_type"},
                                    {"process_mesh", "any", "ranks of the mesh it runs on", kOptional},
                                    {"input_dims_mappings", "object", "dims_mapping by input", kOptional},
                                    {"output_dims_mappings", "object", "dims_mapping by output", kOptional}}),
                       {"other_blocks", "list of list of text", "op types of each further block", kOptional}}),
          with_fields({"rings", "map of list of integer", "communication groups"},
                      {{"*", "list of integer", "ranks of the ring of that number", kOptional}})};
}

void add_program_operations(AdapterService& service) {
  std::vector<ArgumentRow> arguments = program_rows();
  arguments.insert(
      arguments.end(),
      {with_fields({"options", "object", "options of the pass", kOptional},
                   {{"gradient_scale", "boolean", "the loss is scaled by the number of replicas", "true"},
                    {"use_sharding", "boolean", "a sharding pass runs as well", "false"},
                    {"sequential_run", "boolean", "ops run one after the other", "false"},
                    {"global_rank", "any", "rank that the pass runs for", "0"},
                    {"dist_context", "any", "the distributed context; null: there is none", "{}"},
                    {"context_passes", "list of text", "passes that have run", kOptional},
                    {"*", "any", "ignored", kOptional}}),
       {"max_fuse_numel", "integer", "most elements of a fused reduction; null: Paddle's default", kOptional},
       {"max_overlap_rings", "integer", "most rings that reductions are spread over; null: Paddle's default",
        kOptional}});
  const std::vector<ResultRow> program{
      {"vars", "list of object", "as asked", {{"shape", "list of long integer", "as asked"}, {"*", "any", "as asked"}}},
      {"ops",
       "list of object",
       "as asked",
       {{"attrs",
         "object",
         "as asked",
         {{"op_role", "integer", "as asked"},
          {"ring_id", "integer", "the ring of a reduction"},
          {"concated_shapes", "list of long integer", "shapes of fused variables"},
          {"concated_ranks", "list of integer", "their numbers of dimensions"},
          {"*", "any", "as asked"}}},
        {"*", "any", "as asked"}}},
      {"*", "any", "as asked"}};
  service.add(
      {"bucketing.dp_pass",
       "applies Paddle's data-parallel optimization pass to a program",
       {"plumbline", "paddle"},
       std::move(arguments),
       {{"analysis", "object", "what the pass found (reference/program/pass_json.hpp)"},
        {"stages",
         "any",
         "the program after each stage: after_prune, after_overlap, after_fuse",
         {{"*", "any", "a program, or same_as before", program}}},
        {"groups",
         "list of object",
         "fused reductions: gradients, numel, dtype, ring_id, …",
         {{"numel", "long integer", "elements of all members"},
          {"ring_id", "integer", "the ring"},
          {"allreduce_op_idx", "integer or null", "position of the reduction"},
          {"coalesce_op_idx", "integer or null", "position of what fuses the members"},
          {"closed_at", "integer or null", "position of what closed the group"},
          {"*", "any", "the others"}}},
        {"summary", "object", "log lines and counts: info, debug, allreduce_ops, coalesce_allreduce_ops, not_fused"},
        {"final", "any", "the program at the end, or same_as before", program},
        {"skipped", "any", "why the pass did nothing"}},
       R"({"program": {
                   "vars": [{"name": "loss@GRAD", "shape": [], "dtype": "float32"}, {"name": "w", "shape": [4], "dtype": "float32", "persistable": true},
                            {"name": "w@GRAD", "shape": [4], "dtype": "float32"}],
                   "ops": [{"type": "fill_constant", "inputs": {}, "outputs": {"Out": ["loss@GRAD"]}, "attrs": {"op_role": 257, "value": 1.0}},
                           {"type": "reduce_sum_grad", "inputs": {"Out@GRAD": ["loss@GRAD"], "X": ["w"]}, "outputs": {"X@GRAD": ["w@GRAD"]},
                            "attrs": {"op_role": 1}},
                           {"type": "all_reduce", "inputs": {"x": ["w@GRAD"]}, "outputs": {"out": ["w@GRAD"]},
                            "attrs": {"op_role": 1, "op_namescope": "/auto_parallel/data_parallel", "ring_id": 12, "reduce_type": "sum"}},
                           {"type": "scale", "inputs": {"X": ["w@GRAD"]}, "outputs": {"Out": ["w@GRAD"]},
                            "attrs": {"op_role": 1, "op_namescope": "/auto_parallel/data_parallel", "scale": 0.5}},
                           {"type": "sgd", "inputs": {"Grad": ["w@GRAD"], "Param": ["w"]}, "outputs": {"ParamOut": ["w"]}, "attrs": {"op_role": 2}}]},
                   "rings": {"0": [0, 1], "12": [0, 1]}})",
       {{"invalid_argument",
         "the program or an option does not have the form, or the pass asserts; then with its stage and class"},
        {"out_of_range", "a number exceeds its type"}}},
      dp_pass);
}

}  // namespace plumbline::adapter
