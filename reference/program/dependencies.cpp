// What a fused reduction waits for, and who waits for it, said by ops that do nothing else.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "reference/program/detail/steps.hpp"
#include "reference/program/pass.hpp"

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
GroupAt groups_after_forward(const Program& program, const std::vector<GradientGroup>& groups) {
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
  std::map<std::string, const GradientGroup*> by_name;
  for (const GradientGroup& group : groups)
    if (group.is_fused) by_name[group.fused_variable] = &group;
  GroupAt found;
  for (int position = 0; const Op& op : program.ops) {
    if (is_data_parallel_reduction(op))
      if (const auto group = by_name.find(first_name(op.outputs)); group != by_name.end())
        found[position] = group->second;
    ++position;
  }
  return found;
}

// What a fused reduction depends on.
struct Ahead {
  /// Of each stream that makes gradients of the group the one that it makes last: who waits for that one waits for all.
  std::vector<std::string> last_made;
  /// Members that are read after the last op that writes them. To wait for writers is not to wait for those: who is
  /// named as an output is.
  std::vector<std::string> read_since;
};

class AheadOfReductions {
 public:
  AheadOfReductions(const Program& program, const GroupAt& groups) {
    for (int position = 0; const Op& op : program.ops) {
      if (const auto group = groups.find(position); group != groups.end()) found_[position] = of(*group->second);
      see(op, position++);
    }
  }
  [[nodiscard]] const Ahead& at(int reduction) const { return found_.at(reduction); }

 private:
  void see(const Op& op, int position) {
    for (std::string& name : names_in(op.inputs)) read_.insert(std::move(name));
    for (const std::string& name : names_in(op.outputs)) {
      read_.erase(name);
      if (op.type != "coalesce_tensor") written_[name][op.stream == "default" ? "" : op.stream] = position;
    }
  }

  [[nodiscard]] Ahead of(const GradientGroup& group) const {
    std::map<std::string, std::pair<int, std::string_view>> last_of;  // by stream: where, and what
    for (const std::string& gradient : group.gradients)
      for (const auto& [stream, position] : written_.at(gradient))
        last_of[stream] = std::max(last_of[stream], {position, gradient});
    Ahead ahead;
    for (const std::string& gradient : group.gradients) {
      if (std::ranges::any_of(last_of, [&](const auto& one) { return one.second.second == gradient; }))
        ahead.last_made.push_back(gradient);
      if (read_.contains(gradient)) ahead.read_since.push_back(gradient);
    }
    return ahead;
  }

  std::set<std::string> read_;
  std::map<std::string, std::map<std::string, int>> written_;  // where each stream last writes a member
  std::map<int, Ahead> found_;
};

bool moves(const Op& op, const std::set<std::string>& kept) {
  return is_data_parallel_reduction(op) && !names_any(op, kept);
}

// Only those that stand with a reduction: others belong to other communication.
bool is_wait_of_reduction(const Program& program, std::size_t position, const std::set<std::string>& kept) {
  if (!is_plain_wait(program.ops[position]) || position + 1 == program.ops.size()) return false;
  const Op& next = program.ops[position + 1];
  return moves(next, kept) && next.ring == program.ops[position].ring;
}

// ---- both ----

// The op at `position` of the old program, with what depends on it.
void append_reduction(std::vector<Op>& ops, const Op& op, const Ahead& ahead, const GradientGroup& group) {
  std::vector<std::string> of{group.fused_variable};
  of.insert(of.end(), ahead.read_since.begin(), ahead.read_since.end());
  ops.push_back(dependency(ahead.last_made, std::move(of), op.role));
  ops.push_back(op);
  ops.push_back(dependency({group.fused_variable}, group.gradients, op.role));
}

void put_on_gradient_stream(Program& program, const std::set<std::string>& kept) {
  for (Op& op : program.ops) {
    if (!moves(op, kept)) continue;
    op.on_calculation_stream = true;
    op.stream = kGradientStream;
  }
}

}  // namespace

Program add_dependencies(const Program& program, const std::vector<GradientGroup>& groups, const PassOptions& options) {
  if (groups.empty()) return program;
  const bool is_source = options.convention == Convention::paddle;
  const GroupAt fused = is_source ? groups_after_forward(program, groups) : fused_groups(program, groups);
  if (is_source && options.sequential_run && !fused.empty())
    throw PassError(Stage::add_dependencies, "AttributeError",
                    "there is no dependency op in a sequential run, and so no dist_attr of one");
  const std::set<std::string> kept = is_source ? std::set<std::string>{} : kept_on_stream(program, groups);
  const AheadOfReductions ahead(program, is_source ? GroupAt{} : fused);
  Program result = program;
  result.ops.clear();
  for (std::size_t position = 0; position < program.ops.size(); ++position) {
    const Op& op = program.ops[position];
    if (is_source ? is_plain_wait(op) : is_wait_of_reduction(program, position, kept)) continue;
    const auto group = fused.find(static_cast<int>(position));
    if (group == fused.end())
      result.ops.push_back(op);
    else if (is_source)
      append_reduction(result.ops, op, {.last_made = {group->second->gradients.back()}, .read_since = {}},
                       *group->second);
    else
      append_reduction(result.ops, op, ahead.at(group->first), *group->second);
  }
  put_on_gradient_stream(result, kept);
  return result;
}

}  // namespace plumbline::program
