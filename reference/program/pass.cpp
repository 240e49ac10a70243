#include "reference/program/pass.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/program/validate.hpp"

namespace plumbline::program {

// ---- recognition ----

namespace {

bool is_in_data_parallel_scope(const Op& op) { return op.name_scope.find(kDataParallelScope) != std::string::npos; }

bool is_gradient_reduction(const Op& op) {
  if (op.type == "c_allreduce_sum" || op.type == "c_allreduce_avg") return true;
  const comm::ReduceOp by = op.reduction.value_or(comm::ReduceOp::sum);
  return (op.type == "all_reduce" || op.type == "reduce") && (by == comm::ReduceOp::sum || by == comm::ReduceOp::avg);
}

}  // namespace

bool is_data_parallel_reduction(const Op& op) { return is_gradient_reduction(op) && is_in_data_parallel_scope(op); }

bool is_data_parallel_scale(const Op& op) { return op.type == "scale" && is_in_data_parallel_scope(op); }

bool has_higher_order_gradients(const Program& program) {
  const auto is_one = [](const std::string& type) {
    return type.find("_grad_grad") != std::string::npos || type.find("triple_grad") != std::string::npos;
  };
  return std::ranges::any_of(program.ops, is_one, &Op::type) ||
         std::ranges::any_of(program.other_blocks,
                             [&](const auto& block) { return std::ranges::any_of(block, is_one); });
}

std::string_view name_of(Closed why) {
  constexpr std::array<std::string_view, 7> kNames{"end", "ring", "type", "limit", "reduction", "alone", "op"};
  return kNames[static_cast<std::size_t>(why)];
}

// ---- errors ----

std::string_view name_of(Stage stage) {
  constexpr std::array<std::string_view, 6> kNames{"analyze",     "prune",          "overlap",
                                                   "group_grads", "update_program", "add_dependencies"};
  return kNames[static_cast<std::size_t>(stage)];
}

PassError::PassError(Stage stage, std::string source_class, const std::string& message)
    : InvalidArgument(fmt::format("data-parallel pass, {}: {}", name_of(stage), message)),
      stage_(stage),
      source_class_(std::move(source_class)) {}

// ---- summary ----

Summary summarize(const Analysis& analysis, const std::vector<GradientGroup>& groups) {
  Summary summary;
  if (groups.empty()) return summary;
  summary.reductions = static_cast<int>(analysis.ring_of.size());
  summary.fused_reductions = static_cast<int>(groups.size());
  summary.not_fused = 0;  // each is in a group, if alone
  summary.info = {"Data Parallel Optimization: ",
                  fmt::format(" {} Allreduce ops are fused into {} coalesce allreduce ops.", *summary.reductions,
                              *summary.fused_reductions)};
  for (std::size_t i = 0; i < groups.size(); ++i)
    summary.debug.push_back(fmt::format("group {} ({} elements of {}, ring {}): {}", i, groups[i].numel,
                                        name_of(groups[i].dtype), groups[i].ring,
                                        fmt::join(groups[i].gradients, ", ")));
  summary.debug.emplace_back("in no group: none");
  return summary;
}

// ---- all of them ----

namespace {

constexpr std::string_view kPassName = "auto_parallel_data_parallel_optimization";

// Passes that fuse ops, and that this one therefore does not follow.
constexpr std::array<std::string_view, 11> kFusionPasses{
    "fuse_adamw",           "fuse_bn_act",        "fuse_bn_add_act",  "fuse_dot_product_attention",
    "fuse_elewise_add_act", "fuse_gemm_epilogue", "fuse_optimizer",   "fuse_relu_depthwise_conv",
    "fuse_resunit",         "fused_attention",    "fused_feedforward"};

}  // namespace

std::string reason_to_skip(const PassOptions& options) {
  if (!options.has_context) return "_check_self: dist_context is None";
  if (!options.global_rank) return "_check_self: global_rank is not an int";
  if (*options.global_rank < 0) return "_check_self: global_rank < 0";
  for (const std::string& pass : options.context_passes) {
    if (std::ranges::find(kFusionPasses, pass) != kFusionPasses.end())
      return "a FUSION_OPT pass is already in the PassContext";
    if (pass == kPassName) return "a pass of the same class is already in the PassContext";
  }
  return {};
}

PassResult apply_data_parallel_pass(const Program& program, const Rings& rings, const PassOptions& options) {
  PassResult result{.skipped = reason_to_skip(options),
                    .after_prune = program,
                    .after_overlap = program,
                    .after_fuse = program,
                    .program = program};
  if (!result.skipped.empty()) return result;
  require_valid(program, rings, {.known_ops = false, .rings_exist = false, .order = false});
  result.analysis = analyze(program, rings, options);
  if (!result.analysis.is_applied) return result;
  result.after_prune = prune_scaling(program, result.analysis, rings, options);
  result.after_overlap = overlap(result.after_prune, result.analysis, options);
  if (result.analysis.fusible) result.groups = group_gradients(result.after_overlap, options);
  result.after_fuse = fuse(result.after_overlap, result.groups, options);
  result.program = add_dependencies(result.after_fuse, result.groups, options);
  result.summary = summarize(result.analysis, result.groups);
  return result;
}

}  // namespace plumbline::program
