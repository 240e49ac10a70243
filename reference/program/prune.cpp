// Scale ops go, and their factor into the gradient of the loss or into the optimizer.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/program/detail/steps.hpp"
#include "reference/program/pass.hpp"

namespace plumbline::program {

bool takes_rescale(std::string_view type, Convention convention) {
  constexpr std::array<std::string_view, 4> kBoth{"lars_momentum", "sparse_momentum", "dgc_momentum", "momentum"};
  if (std::ranges::find(kBoth, type) != kBoth.end()) return true;
  return type == (convention == Convention::paddle ? "merge_momentum" : "merged_momentum");
}

namespace {

bool starts_backward(const Op& op) { return (op.role & role::backward) != 0 && (op.role & role::loss) != 0; }

bool is_optimizer(const Op& op) { return (op.role & role::optimize) != 0; }

void remove_scales(Program& program, const std::function<bool(const Op&)>& is_folded) {
  std::erase_if(program.ops, [&](const Op& op) { return is_data_parallel_scale(op) && is_folded(op); });
}

// ---- as the source does it ----

// Of several ops that start a backward the last one alone.
void divide_last_loss_gradient(Program& program, double degree) {
  const auto start = std::ranges::find_if(program.ops.rbegin(), program.ops.rend(), starts_backward);
  if (start == program.ops.rend()) return;
  if (start->type != "fill_constant")
    throw PassError(Stage::prune, "AssertionError",
                    fmt::format("loss_grad_op must be fill_constant op, but this op is {}", start->type));
  const auto value = number_of(*start, "value");
  if (!value) throw PassError(Stage::prune, "AssertionError", "the fill_constant of the loss has no value");
  start->attributes["value"] = as_float32(*value / degree);
}

const std::string& only_gradient_of(const Op& op, std::size_t position) {
  const auto slot = op.inputs.find("Grad");
  if (slot == op.inputs.end() || slot->second.size() != 1)
    throw PassError(Stage::prune, "AssertionError",
                    fmt::format("op {} ({}) must have only one input grad var", position, op.type));
  return slot->second.front();
}

std::set<std::string> rescale_optimizers(Program& program, const Analysis& analysis, const Rings& rings) {
  std::set<std::string> rescaled;
  for (std::size_t position = program.ops.size(); position-- > 0;) {
    Op& op = program.ops[position];
    if (!is_optimizer(op) || !takes_rescale(op.type, Convention::paddle)) continue;
    const auto factor = number_of(op, "rescale_grad");
    if (!factor)
      throw PassError(Stage::prune, "AssertionError",
                      fmt::format("op {} ({}) has no [rescale_grad] attribute", position, op.type));
    const std::string& gradient = only_gradient_of(op, position);
    const auto ring = analysis.find(gradient);
    if (!ring) throw PassError(Stage::prune, "KeyError", fmt::format("'{}'", gradient));
    op.attributes["rescale_grad"] = as_float32(*factor / static_cast<double>(rings.at(*ring).size()));
    rescaled.insert(gradient);
  }
  return rescaled;
}

void require_all_rescaled(const Analysis& analysis, const std::set<std::string>& rescaled) {
  std::set<std::string> left;
  for (const auto& [gradient, ring] : analysis.ring_of)
    if (!rescaled.contains(gradient)) left.insert(gradient);
  if (!left.empty())
    throw PassError(Stage::prune, "AssertionError",
                    fmt::format("gradients [{{'{}'}}] are unscaled", fmt::join(left, "', '")));
}

Program prune_as_source(Program program, const Analysis& analysis, const Rings& rings) {
  if (analysis.same_degree)
    divide_last_loss_gradient(program, static_cast<double>(rings.at(analysis.grads_of.front().first).size()));
  else
    require_all_rescaled(analysis, rescale_optimizers(program, analysis, rings));
  remove_scales(program, [](const Op&) { return true; });
  return program;
}

// ---- without a difference ----

/// The whole number that a scale op divides by, or nothing where it does something else.
std::optional<double> divisor_of(const Op& scale) {
  const auto factor = number_of(scale, "scale");
  if (names_in(scale.inputs).size() != 1) return std::nullopt;  // a factor that another variable holds
  if (!factor || !(*factor > 0 && *factor <= 1) || number_of(scale, "bias").value_or(0) != 0) return std::nullopt;
  const double divisor = std::round(1 / *factor);
  return as_float32(1 / divisor) == *factor ? std::optional(divisor) : std::nullopt;
}

// Follows what is made of the gradient of the loss. If that were divided, everything made of it by linear ops would be;
// a scale op's output is right again once the op is gone. So each value is known by what the scale ops on its way
// divide by together, and the division may move to the loss when that is the same number at all ops that use gradients.
class DivisionByLoss {
  // Linear in all their inputs together.
  static constexpr std::array<std::string_view, 14> kOfAllInputs{
      "assign",          "c_identity", "cast",       "concat",    "elementwise_add",
      "elementwise_sub", "reshape2",   "reduce_sum", "send_v2",   "slice",
      "reduce_mean",     "split",      "sum",        "transpose2"};

 public:
  explicit DivisionByLoss(const Program& program) : program_(program) {
    for (const Op& op : program.ops) see(op);
    for (const Op& op : program.ops)  // nobody need read a gradient
      if (const auto left = divided_.find(first_name(op.outputs));
          is_data_parallel_reduction(op) && left != divided_.end())
        used_at_.insert(left->second);
  }

  /// What the loss is to be divided by. Nothing where gradients would change.
  [[nodiscard]] std::optional<double> divisor() const {
    return is_possible_ && used_at_.size() == 1 ? std::optional(*used_at_.begin()) : std::nullopt;
  }

 private:
  void see(const Op& op) {
    parts_.see(op);
    is_possible_ &= op.type != "share_buffer";
    std::set<double> read;
    for (const std::string& name : parts_.names(op.inputs))
      if (const auto found = divided_.find(name); found != divided_.end()) read.insert(found->second);
    std::optional<double> made;
    if (starts_backward(op)) {
      made = 1;
      is_possible_ &= op.type == "fill_constant" && number_of(op, "value").has_value();
    } else if (is_data_parallel_scale(op)) {
      const auto divisor = divisor_of(op);
      is_possible_ &= divisor && read.size() == 1;
      if (is_possible_) made = *read.begin() * *divisor;
    } else if (op.type.starts_with("recv") && (op.role & role::backward) != 0) {
      made = 1;  // of a stage that divides, too
    } else if (!read.empty()) {
      made = made_of(op, read);
    }
    const bool is_zero = read.empty() && makes_zeros(op);
    for (const std::string& name : parts_.names(op.outputs)) {
      divided_.erase(name);
      zeros_.erase(name);
      if (is_zero) zeros_.insert(name);
      if (made) divided_[name] = *made;
      if (made && persists(name)) used_at_.insert(*made);
    }
  }

  // An op that reads what would be divided.
  std::optional<double> made_of(const Op& op, const std::set<double>& read) {
    if ((op.role & role::backward) == 0 || is_optimizer(op)) {
      used_at_.insert(read.begin(), read.end());
      return std::nullopt;
    }
    is_possible_ &= read.size() == 1 && is_linear(op);
    if (op.type.starts_with("send")) is_possible_ &= *read.begin() == 1;
    return *read.begin();
  }

  // Zeros are what they are whatever they are divided by.
  [[nodiscard]] bool is_divided(const std::string& name) const {
    return divided_.contains(name) || zeros_.contains(name);
  }

  [[nodiscard]] bool makes_zeros(const Op& op) const {
    const std::vector<std::string> names = parts_.names(op.inputs);
    if (op.type == "fill_any_like" || op.type == "fill_constant") return number_of(op, "value") == 0.0;
    return std::ranges::find(kOfAllInputs, op.type) != kOfAllInputs.end() && !names.empty() &&
           std::ranges::all_of(names, [&](const std::string& name) { return zeros_.contains(name); });
  }

  // In what is divided.
  [[nodiscard]] bool is_linear(const Op& op) const {
    constexpr std::array<std::string_view, 4> kOfOneInput{"elementwise_mul", "matmul_v2", "mul", "all_gather"};
    const std::vector<std::string> names = parts_.names(op.inputs);
    const auto divided = std::ranges::count_if(names, [&](const std::string& name) { return is_divided(name); });
    if (op.type == "scale") return number_of(op, "bias").value_or(0) == 0 && names.size() == 1;
    if (is_data_parallel_reduction(op) || is_sum_over_all(op) || op.type == "c_allreduce_sum" ||
        std::ranges::find(kOfAllInputs, op.type) != kOfAllInputs.end())
      return divided == static_cast<std::ptrdiff_t>(names.size());
    if (std::ranges::find(kOfOneInput, op.type) != kOfOneInput.end()) return divided == 1;
    return op.type.ends_with("_grad") && only_gradients_are_divided(op);
  }

  // A derivative is linear in the gradients of what its op wrote, all of them together; second ones call them DDX, DDY.
  // It multiplies them with what stands in its other slots.
  [[nodiscard]] bool only_gradients_are_divided(const Op& op) const {
    return std::ranges::all_of(op.inputs, [&](const auto& slot) {
      const bool is_gradient = slot.first.ends_with("@GRAD") || slot.first.starts_with("DD");
      return std::ranges::all_of(slot.second, [&](const std::string& name) {
        return is_gradient ? is_divided(name) : !divided_.contains(name);
      });
    });
  }

  [[nodiscard]] bool persists(const std::string& name) const {
    const auto found = program_.variables.find(name);
    return found != program_.variables.end() && found->second.persistable;
  }

  const Program& program_;
  Parts parts_;
  std::map<std::string, double> divided_;
  std::set<std::string> zeros_;
  std::set<double> used_at_;
  bool is_possible_ = true;
};

// The gradients whose scale op is the last to touch them before optimizers, and what it divides by.
class DivisionByOptimizers {
 public:
  explicit DivisionByOptimizers(const Program& program) : program_(program), shared_(names_of_shared_memory(program)) {
    for (const Op& op : program.ops) see(op);
    while (drop_shared()) continue;
  }

  [[nodiscard]] static bool rescales(const Op& op) {
    return is_optimizer(op) && takes_rescale(op.type, Convention::plumbline) && number_of(op, "rescale_grad") &&
           op.inputs.contains("Grad");
  }
  [[nodiscard]] const std::map<std::string, double>& gradients() const { return divisors_; }
  /// What the gradients of an optimizer that rescales are all divided by; nothing where one of them is not, or differs.
  [[nodiscard]] std::optional<double> divisor_at(const Op& optimizer) const {
    std::set<double> divisors;
    for (const std::string& name : optimizer.inputs.at("Grad")) {
      const auto found = divisors_.find(name);
      if (found == divisors_.end()) return std::nullopt;
      divisors.insert(found->second);
    }
    return divisors.size() == 1 ? std::optional(*divisors.begin()) : std::nullopt;
  }

 private:
  void see(const Op& op) {
    if (is_data_parallel_scale(op)) return see_scale(op);
    for (const std::string& name : names_in(op.outputs)) spoil(name);
    for (const auto& [slot, names] : op.inputs)
      for (const std::string& name : names)
        if (!rescales(op) || slot != "Grad") spoil(name);
    if (!rescales(op)) return;
    optimizers_.push_back(&op);
    // What it takes as it is must stay so: a scale op after it does not belong to it.
    for (const std::string& gradient : op.inputs.at("Grad"))
      if (!divisors_.contains(gradient)) scaled_.insert(gradient);
  }

  // In place, and once.
  void see_scale(const Op& op) {
    const auto divisor = divisor_of(op);
    const std::string& gradient = first_name(op.outputs);
    const bool is_in_place = names_in(op.inputs) == names_in(op.outputs);
    const auto variable = program_.variables.find(gradient);
    const bool persists = variable != program_.variables.end() && variable->second.persistable;
    const bool is_first = scaled_.insert(gradient).second;
    if (!is_in_place)
      for (const std::string& name : names_in(op.inputs)) spoil(name);
    if (divisor && is_in_place && is_first && !persists && !shared_.contains(gradient))
      divisors_[gradient] = *divisor;
    else
      spoil(gradient);
  }

  // What touches a gradient after its scale op sees the difference; what does so before it does not.
  void spoil(const std::string& name) { divisors_.erase(name); }

  // An optimizer with several gradients has one factor: if one of them cannot be folded, none can. Nor can one that no
  // optimizer reads.
  bool drop_shared() {
    std::set<std::string> kept;
    for (const Op* optimizer : optimizers_)
      if (divisor_at(*optimizer)) kept.insert(optimizer->inputs.at("Grad").begin(), optimizer->inputs.at("Grad").end());
    for (const Op* optimizer : optimizers_)
      if (!divisor_at(*optimizer))
        for (const std::string& name : optimizer->inputs.at("Grad")) kept.erase(name);
    return std::erase_if(divisors_, [&](const auto& one) { return !kept.contains(one.first); }) > 0;
  }

  const Program& program_;
  std::set<std::string> shared_;
  std::map<std::string, double> divisors_;
  std::set<std::string> scaled_;
  std::vector<const Op*> optimizers_;
};

Program prune_without_difference(Program program) {
  if (const auto divisor = DivisionByLoss(program).divisor()) {
    for (Op& op : program.ops)
      if (starts_backward(op) && *divisor != 1) op.attributes["value"] = as_float32(*number_of(op, "value") / *divisor);
    remove_scales(program, [](const Op&) { return true; });
    return program;
  }
  const Program before = program;
  const DivisionByOptimizers division(before);
  for (Op& op : program.ops)
    if (DivisionByOptimizers::rescales(op))
      if (const auto divisor = division.divisor_at(op))
        op.attributes["rescale_grad"] = as_float32(*number_of(op, "rescale_grad") / *divisor);
  remove_scales(program, [&](const Op& op) { return division.gradients().contains(first_name(op.outputs)); });
  return program;
}

}  // namespace

bool can_fold_scaling(const Program& program) {
  return std::ranges::any_of(program.ops, is_data_parallel_scale) &&
         (DivisionByLoss(program).divisor() || !DivisionByOptimizers(program).gradients().empty());
}

Program prune_scaling(const Program& program, const Analysis& analysis, const Rings& rings,
                      const PassOptions& options) {
  if (!analysis.prunable) return program;
  return options.convention == Convention::paddle ? prune_as_source(program, analysis, rings)
                                                  : prune_without_difference(program);
}

}  // namespace plumbline::program
