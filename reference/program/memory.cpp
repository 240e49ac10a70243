// Which names stand for the same memory, and which reductions are ordered by more than streams and names.
#include <algorithm>
#include <iterator>

#include "reference/program/detail/steps.hpp"
#include "reference/program/pass.hpp"

namespace plumbline::program {

namespace {

constexpr std::string_view kCoalesce = "coalesce_tensor";

const std::vector<std::string>& names_at(const Slots& slots, std::string_view slot) {
  static const std::vector<std::string> kNone;
  const auto found = slots.find(slot);
  return found == slots.end() ? kNone : found->second;
}

}  // namespace

void Parts::see(const Op& op) {
  if (op.type != kCoalesce) return;
  for (const std::string& name : names_at(op.outputs, "Output"))
    for (auto& [whole, parts] : parts_) std::erase(parts, name);
  for (const std::string& whole : names_at(op.outputs, "FusedOutput")) parts_[whole] = names_at(op.outputs, "Output");
}

const std::vector<std::string>& Parts::of(const std::string& name) const {
  static const std::vector<std::string> kNone;
  const auto found = parts_.find(name);
  return found == parts_.end() ? kNone : found->second;
}

std::vector<std::string> Parts::names(const Slots& slots) const {
  std::vector<std::string> names;
  for (const std::string& name : names_in(slots))
    if (of(name).empty())
      names.push_back(name);
    else
      std::ranges::copy(of(name), std::back_inserter(names));
  return names;
}

std::set<std::string> names_of_shared_memory(const Program& program) {
  std::set<std::string> shared;
  for (const Op& op : program.ops) {
    if (op.type != kCoalesce && op.type != "share_buffer") continue;
    for (const Slots* slots : {&op.inputs, &op.outputs})
      for (std::string& name : names_in(*slots)) shared.insert(std::move(name));
  }
  return shared;
}

std::set<std::string> kept_on_stream(const Program& program, const std::vector<GradientGroup>& groups) {
  std::set<std::string> kept = names_of_shared_memory(program);
  for (const GradientGroup& group : groups) {
    if (!group.is_fused) continue;
    kept.erase(group.fused_variable);
    for (const std::string& gradient : group.gradients) kept.erase(gradient);
  }
  for (const Op& op : program.ops) {
    if (op.on_calculation_stream != false || is_data_parallel_reduction(op)) continue;
    for (const Slots* slots : {&op.inputs, &op.outputs})
      for (std::string& name : names_in(*slots)) kept.insert(std::move(name));
  }
  return kept;
}

bool names_any(const Op& op, const std::set<std::string>& names) {
  const auto is_one = [&](const auto& slot) {
    return std::ranges::any_of(slot.second, [&](const std::string& name) { return names.contains(name); });
  };
  return std::ranges::any_of(op.inputs, is_one) || std::ranges::any_of(op.outputs, is_one);
}

}  // namespace plumbline::program
