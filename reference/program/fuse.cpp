// One reduction a group: the gradients' memory is made one before the op that first writes to it.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "reference/program/detail/steps.hpp"
#include "reference/program/pass.hpp"

namespace plumbline::program {

namespace {

const Variable& variable_of(const Program& program, const std::string& name) { return program.variables.at(name); }

std::string free_name(const Program& program, int number) {
  for (int i = 0;; ++i)
    if (std::string name = fmt::format("{}_{}_{}", kFusedPrefix, number, i); !program.variables.contains(name))
      return name;
}

// On all ranks that have a part of it, and not split; nothing where no part says where it lies.
std::optional<Placement> placement_of(const Program& program, const GradientGroup& group) {
  std::set<int> ranks;
  bool is_placed = false;
  for (const std::string& gradient : group.gradients)
    if (const auto& placement = variable_of(program, gradient).placement) {
      ranks.insert(placement->process_mesh.begin(), placement->process_mesh.end());
      is_placed = true;
    }
  if (!is_placed) return std::nullopt;
  return Placement{.process_mesh = {ranks.begin(), ranks.end()}, .dims_mapping = {}};
}

// Its shape is left open: what lies between the gradients for alignment is the executor's to say.
void add_fused_variable(Program& program, const GradientGroup& group) {
  program.variables[group.fused_variable] =
      Variable{.shape = {}, .dtype = group.dtype, .placement = placement_of(program, group)};
}

std::vector<int> dims_mapping_of(const Program& program, const std::string& name) {
  const auto& placement = variable_of(program, name).placement;
  return placement ? placement->dims_mapping : std::vector<int>{};
}

Op coalesce_op(const Program& program, const GradientGroup& group) {
  std::vector<std::int64_t> shapes, ranks;
  for (const std::string& gradient : group.gradients) {
    const auto& shape = variable_of(program, gradient).shape;
    shapes.insert(shapes.end(), shape.begin(), shape.end());
    ranks.push_back(static_cast<std::int64_t>(shape.size()));
  }
  Op op{.type = "coalesce_tensor",
        .inputs = {{"Input", group.gradients}},
        .outputs = {{"Output", group.gradients}, {"FusedOutput", {group.fused_variable}}},
        .role = role::backward,
        .attributes = {{"copy_data", false},
                       {"use_align", true},
                       {"dtype", std::string(name_of(group.dtype))},
                       {"concated_shapes", shapes},
                       {"concated_ranks", ranks}}};
  if (const auto& fused = variable_of(program, group.fused_variable).placement) {
    op.placement = {.process_mesh = fused->process_mesh};
    for (const std::string& name : names_in(op.inputs))
      op.placement->input_dims_mappings[name] = dims_mapping_of(program, name);
    for (const std::string& name : names_in(op.outputs))
      op.placement->output_dims_mappings[name] = dims_mapping_of(program, name);
  }
  return op;
}

void rename(Slots& slots, const std::string& from, const std::string& to) {
  for (auto& [slot, names] : slots) std::ranges::replace(names, from, to);
}

void rename(std::map<std::string, std::vector<int>, std::less<>>& mappings, const std::string& from,
            const std::string& to) {
  const auto found = mappings.find(from);
  if (found == mappings.end()) return;
  mappings[to] = found->second;
  mappings.erase(from);
}

// The op works on the fused variable in place of its first input and output.
void redirect(Op& op, const std::string& fused) {
  const std::string input = first_name(op.inputs), output = first_name(op.outputs);
  rename(op.inputs, input, fused);
  rename(op.outputs, output, fused);
  if (!op.placement) return;
  rename(op.placement->input_dims_mappings, input, fused);
  rename(op.placement->output_dims_mappings, output, fused);
}

std::string described(const Program& program, int position) {
  return fmt::format("op {} ({})", position, program.ops[static_cast<std::size_t>(position)].type);
}

Op& op_at(Program& program, int position) { return program.ops.at(static_cast<std::size_t>(position)); }

void require_sum(Program& program, const GradientGroup& group) {
  if (!is_sum_over_all(op_at(program, group.reduction_op)))
    throw PassError(Stage::update_program, "AssertionError",
                    fmt::format("should found all_reduce sum op but found {}", described(program, group.reduction_op)));
}

void redirect_scale(Program& program, const GradientGroup& group) {
  if (group.scale_op == -1) return;
  if (op_at(program, group.scale_op).type != "scale")
    throw PassError(Stage::update_program, "AssertionError",
                    fmt::format("the op that is kept as scale is {}", described(program, group.scale_op)));
  redirect(op_at(program, group.scale_op), group.fused_variable);
}

std::vector<int> removed_ops(const GradientGroup& group) {
  std::vector<int> removed = group.removed_waits;
  removed.insert(removed.end(), group.removed_reductions.begin(), group.removed_reductions.end());
  removed.insert(removed.end(), group.removed_scales.begin(), group.removed_scales.end());
  std::ranges::sort(removed, std::greater());
  return removed;
}

// From the last position on, so that those ahead hold.
void remove_ops(Program& program, const GradientGroup& group) {
  for (const int position : removed_ops(group)) {
    const std::string& type = op_at(program, position).type;
    if (type != "scale" && type != "all_reduce" && type != "c_wait_compute")
      throw PassError(Stage::update_program, "AssertionError",
                      fmt::format("try to remove op {}", described(program, position).substr(3)));
    program.ops.erase(program.ops.begin() + position);
  }
}

// The source changes group by group, from the last on, by the positions of a program that no group has changed yet.
void fuse_as_source(Program& program, const GradientGroup& group) {
  add_fused_variable(program, group);
  redirect_scale(program, group);
  require_sum(program, group);
  redirect(op_at(program, group.reduction_op), group.fused_variable);
  remove_ops(program, group);
  program.ops.insert(program.ops.begin() + group.coalesce_op, coalesce_op(program, group));
}

// What becomes of the ops of a program: those that go, and those that come before others.
void fuse_all(Program& program, const std::vector<GradientGroup>& groups) {
  std::set<int> removed;
  std::multimap<int, Op> added;
  for (const GradientGroup& group : groups) {
    if (!group.is_fused) continue;
    add_fused_variable(program, group);
    redirect(op_at(program, group.reduction_op), group.fused_variable);
    for (const int position : removed_ops(group)) removed.insert(position);
    added.emplace(group.coalesce_op, coalesce_op(program, group));
  }
  std::vector<Op> ops;
  for (int position = 0; Op& op : program.ops) {
    const auto [first, last] = added.equal_range(position);
    for (auto one = first; one != last; ++one) ops.push_back(std::move(one->second));
    if (!removed.contains(position)) ops.push_back(std::move(op));
    ++position;
  }
  program.ops = std::move(ops);
}

}  // namespace

Program fuse(const Program& program, std::vector<GradientGroup>& groups, const PassOptions& options) {
  Program result = program;
  for (int number = 0, position = static_cast<int>(groups.size()); position-- > 0; ++number) {
    GradientGroup& group = groups[static_cast<std::size_t>(position)];
    group.is_fused = group.gradients.size() > 1;
    group.fused_variable = group.is_fused ? free_name(program, number) : group.gradients.front();
    if (group.is_fused && options.convention == Convention::paddle) fuse_as_source(result, group);
  }
  if (options.convention == Convention::plumbline) fuse_all(result, groups);
  return result;
}

}  // namespace plumbline::program
