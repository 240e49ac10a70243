// What a fused reduction waits for, and who waits for it, said by ops that do nothing else.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "reference/program/pass.hpp"
#include "reference/program/steps.hpp"

namespace plumbline::program {

namespace {

bool is_forward(const Op& op) { return op.role == role::forward || op.role == role::loss; }

Op dependency(std::vector<std::string> on, std::vector<std::string> of, int role) {
  return {.type = "nop",
          .inputs = {{"X", std::move(on)}},
          .outputs = {{"Out", std::move(of)}},
          .role = role,
          .name_scope = "/data_parallel_overlap_dep",
          .stream = std::string(kGradientStream)};
}

using GroupAt = std::map<int, const GradientGroup*>;

// ---- as the source does it ----

// From the end to the last op of the forward.
GroupAt groups_behind_forward(const Program& program, const std::vector<GradientGroup>& groups) {
  std::map<std::string, const GradientGroup*> by_name;
  for (const GradientGroup& group : groups) by_name[group.fused_variable] = &group;
  GroupAt found;
  for (int position = static_cast<int>(program.ops.size()); position-- > 0;) {
    const Op& op = program.ops[static_cast<std::size_t>(position)];
    if (is_forward(op)) break;
    if ((op.role & role::optimize) != 0 || !is_data_parallel_reduction(op)) continue;
    const std::string& name = first_name(op.outputs);
    if (name.find(kFusedPrefix) == std::string::npos) continue;
    if (!by_name.contains(name)) throw PassError(Stage::add_dependencies, "KeyError", fmt::format("'{}'", name));
    found[position] = by_name.at(name);
  }
  return found;
}

// ---- the default ----

GroupAt fused_groups(const Program& program, const std::vector<GradientGroup>& groups) {
  GroupAt found;
  for (int position = 0; const Op& op : program.ops) {
    if (is_data_parallel_reduction(op))
      for (const GradientGroup& group : groups)
        if (group.is_fused && first_name(op.outputs) == group.fused_variable) found[position] = &group;
    ++position;
  }
  return found;
}

// Of each stream that makes gradients of the group the one that it makes last: who waits for that one waits for all.
std::vector<std::string> last_made(const Program& program, const GradientGroup& group, int reduction) {
  std::map<std::string, std::string> last_of;  // by stream
  std::vector<std::string> streams;
  for (int position = 0; position < reduction; ++position) {
    const Op& op = program.ops[static_cast<std::size_t>(position)];
    if (op.type == "coalesce_tensor") continue;
    for (const std::string& gradient : group.gradients)
      if (writes(op, gradient)) last_of[op.stream == "default" ? "" : op.stream] = gradient;
  }
  std::vector<std::string> names;
  for (const std::string& gradient : group.gradients)
    if (std::ranges::any_of(last_of, [&](const auto& one) { return one.second == gradient; }))
      names.push_back(gradient);
  return names;
}

// Members that are read behind the last op that writes them. To wait for writers is not to wait for those: who is named as an output
// is.
std::vector<std::string> read_since(const Program& program, const GradientGroup& group, int reduction) {
  std::vector<std::string> names;
  for (const std::string& gradient : group.gradients) {
    bool is_read = false;
    for (int position = 0; position < reduction; ++position) {
      const Op& op = program.ops[static_cast<std::size_t>(position)];
      if (writes(op, gradient)) is_read = false;
      if (reads(op, gradient) && !writes(op, gradient)) is_read = true;
    }
    if (is_read) names.push_back(gradient);
  }
  return names;
}

// Only those that stand with a reduction: others belong to other communication.
bool is_wait_of_reduction(const Program& program, std::size_t position) {
  if (!is_plain_wait(program.ops[position]) || position + 1 == program.ops.size()) return false;
  const Op& next = program.ops[position + 1];
  return is_data_parallel_reduction(next) && next.ring == program.ops[position].ring;
}

// ---- both ----

// The op at `position` of the old program, with what depends on it.
void append_reduction(std::vector<Op>& ops, const Op& op, std::vector<std::string> on,
                      const std::vector<std::string>& read, const GradientGroup& group) {
  std::vector<std::string> of{group.fused_variable};
  of.insert(of.end(), read.begin(), read.end());
  ops.push_back(dependency(std::move(on), std::move(of), op.role));
  ops.push_back(op);
  ops.push_back(dependency({group.fused_variable}, group.gradients, op.role));
}

void put_on_gradient_stream(Program& program) {
  for (Op& op : program.ops) {
    if (!is_data_parallel_reduction(op)) continue;
    op.on_calculation_stream = true;
    op.stream = kGradientStream;
  }
}

}  // namespace

Program add_dependencies(const Program& program, const std::vector<GradientGroup>& groups, const PassOptions& options) {
  if (groups.empty()) return program;
  const bool is_source = options.convention == Convention::paddle;
  const GroupAt fused = is_source ? groups_behind_forward(program, groups) : fused_groups(program, groups);
  if (is_source && options.sequential_run && !fused.empty())
    throw PassError(Stage::add_dependencies, "AttributeError",
                    "there is no dependency op in a sequential run, and so no dist_attr of one");
  Program result = program;
  result.ops.clear();
  for (std::size_t position = 0; position < program.ops.size(); ++position) {
    const Op& op = program.ops[position];
    if (is_source ? is_plain_wait(op) : is_wait_of_reduction(program, position)) continue;
    const auto group = fused.find(static_cast<int>(position));
    if (group == fused.end())
      result.ops.push_back(op);
    else
      append_reduction(
          result.ops, op,
          is_source ? std::vector{group->second->gradients.back()} : last_made(program, *group->second, group->first),
          is_source ? std::vector<std::string>{} : read_since(program, *group->second, group->first), *group->second);
  }
  put_on_gradient_stream(result);
  return result;
}

}  // namespace plumbline::program
