// bucketing.dp_pass: the data-parallel pass over a program.
#include <limits>

#include "harness/subject/adapter/operations.hpp"
#include "harness/subject/adapter/refusal.hpp"
#include "reference/program/pass_json.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/validate.hpp"

namespace plumbline::subject {

using nlohmann::json;

namespace {

program::PassOptions options_in(const Arguments& arguments) {
  using program::Convention;
  const auto convention =
      arguments.convention<Convention>({{"plumbline", Convention::plumbline}, {"paddle", Convention::paddle}});
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

void add_program_operations(AdapterService& service) {
  service.add({"bucketing.dp_pass",
               "the data-parallel pass over a program",
               {"plumbline", "paddle"},
               {{"program", "any", "ops and variables (reference/program/program_json.hpp)"},
                {"rings", "object or list of any", "ranks by ring"},
                {"options", "object",
                 "gradient_scale, use_sharding, sequential_run, global_rank, dist_context, context_passes", kOptional},
                {"max_fuse_numel", "integer", "elements of a fused reduction", kOptional},
                {"max_overlap_rings", "integer", "rings for overlap", kOptional}},
               {{"analysis", "object", "what the pass found (reference/program/pass_json.hpp)"},
                {"stages", "any", "the program after each stage"},
                {"groups", "list of object", "fused reductions"},
                {"summary", "object", "of the pass"},
                {"final", "any", "the program at the end"},
                {"skipped", "any", "why the pass did nothing"}}},
              dp_pass);
}

}  // namespace plumbline::subject
