#include "reference/program/pass_json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/program/program_json.hpp"

namespace plumbline::program {

using nlohmann::json;

// ---- answers ----

json json_of(const Analysis& analysis) {
  json ring_of = json::array(), grads_of = json::array();
  for (const auto& [gradient, ring] : analysis.ring_of) ring_of.push_back(json::array({gradient, ring}));
  for (const auto& [ring, gradients] : analysis.grads_of) grads_of.push_back(json::array({ring, gradients}));
  return {{"grad_to_ring", std::move(ring_of)},
          {"ring_to_grads", std::move(grads_of)},
          {"support_rescale_grad", analysis.supports_rescale},
          {"data_parallel_applied", analysis.is_applied},
          {"all_dp_groups_same_degree", analysis.same_degree},
          {"could_be_prune", analysis.prunable},
          {"could_be_overlap", analysis.overlappable},
          {"could_be_fuse", analysis.fusible},
          {"refused", analysis.refused}};
}

json json_of(const GradientGroup& group) {
  return {{"gradients", group.gradients},
          {"numel", group.numel},
          {"dtype", name_of(group.dtype)},
          {"ring_id", group.ring},
          {"coalesce_op_idx", group.coalesce_op},
          {"allreduce_op_idx", group.reduction_op},
          {"scale_op_idx", group.scale_op},
          {"remove_wait_op_indices", group.removed_waits},
          {"remove_allreduce_op_indices", group.removed_reductions},
          {"remove_scale_op_indices", group.removed_scales},
          {"closed_by", name_of(group.closed_by)},
          {"closed_at", group.closed_at},
          {"fused", group.is_fused},
          {"coalesce_var", group.fused_variable}};
}

json json_of(const Summary& summary) {
  json value{{"info", summary.info}, {"debug", summary.debug}};
  if (summary.reductions) value["allreduce_ops"] = *summary.reductions;
  if (summary.fused_reductions) value["coalesce_allreduce_ops"] = *summary.fused_reductions;
  if (summary.not_fused) value["not_fused"] = *summary.not_fused;
  return value;
}

namespace {

// The programs that a pass made, each told by the first that is equal.
class Stages {
 public:
  explicit Stages(const Program& before) : before_(before) { told_.emplace_back("before", &before); }

  json tell(const char* name, const Program& program) {
    for (const auto& [earlier, same] : told_)
      if (*same == program) return {{"same_as", earlier}};
    told_.emplace_back(name, &program);
    json ops = json::array(), added = json::array();
    for (const Op& op : program.ops) ops.push_back(json_of(op));
    const json all = json_of(Program{.variables = program.variables})["vars"];
    for (const json& variable : all)
      if (!before_.variables.contains(variable["name"].get<std::string>())) added.push_back(variable);
    return {{"ops", std::move(ops)}, {"vars_added", std::move(added)}};
  }

 private:
  const Program& before_;
  std::vector<std::pair<std::string, const Program*>> told_;
};

}  // namespace

json json_of(const PassResult& result, const Program& before) {
  json value{{"final", result.program == before ? json{{"same_as", "before"}} : json_of(result.program)}};
  if (!result.skipped.empty()) {
    value["skipped"] = result.skipped;
    return value;
  }
  value["analysis"] = json_of(result.analysis);
  value["summary"] = json_of(result.summary);
  value["stages"] = json::object();
  if (!result.analysis.is_applied) return value;
  Stages stages(before);
  value["stages"]["after_prune"] = stages.tell("after_prune", result.after_prune);
  value["stages"]["after_overlap"] = stages.tell("after_overlap", result.after_overlap);
  value["stages"]["after_fuse"] = stages.tell("after_fuse", result.after_fuse);
  value["groups"] = json::array();
  for (const GradientGroup& group : result.groups) value["groups"].push_back(json_of(group));
  return value;
}

// ---- questions ----

namespace {

// Nothing where the field is missing or null.
const json* field(const json& value, const char* name) {
  const auto found = value.find(name);
  return found == value.end() || found->is_null() ? nullptr : &*found;
}

bool flag(const json& value, const char* name, bool otherwise, const std::string& where) {
  const json* found = field(value, name);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) throw InvalidArgument(fmt::format("{}.{} must be true or false", where, name));
  return found->get<bool>();
}

std::vector<std::string> names(const json& value, const std::string& where) {
  std::vector<std::string> list;
  if (!value.is_array()) throw InvalidArgument(where + " must be a list of names");
  for (const json& one : value) {
    if (!one.is_string()) throw InvalidArgument(fmt::format("{}[{}] must be a name", where, list.size()));
    list.push_back(one.get<std::string>());
  }
  return list;
}

// The source takes any value, and does nothing for those that are no integers; truth values are 0 and 1 to it.
std::optional<std::int64_t> rank_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_number_integer()) return std::nullopt;
  return value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}
             ? INT64_MAX
             : value.get<std::int64_t>();
}

}  // namespace

PassOptions pass_options_of_json(const json& value, const std::string& where) {
  if (!value.is_object()) throw InvalidArgument(where + " must be an object");
  PassOptions options;
  options.use_sharding = flag(value, "use_sharding", false, where);
  options.gradient_scale = flag(value, "gradient_scale", true, where);
  options.sequential_run = flag(value, "sequential_run", false, where);
  options.has_context = !value.contains("dist_context") || !value.at("dist_context").is_null();
  if (value.contains("global_rank")) options.global_rank = rank_of(value.at("global_rank"));
  if (const json* passes = field(value, "context_passes"))
    options.context_passes = names(*passes, where + ".context_passes");
  return options;
}

}  // namespace plumbline::program
