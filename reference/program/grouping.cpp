// Which gradients are reduced as one.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "reference/program/pass.hpp"
#include "reference/program/steps.hpp"

namespace plumbline::program {

namespace {

const Op& at(const Program& program, int position) { return program.ops[static_cast<std::size_t>(position)]; }

const Variable& variable_of(const Program& program, const std::string& gradient) {
  const auto found = program.variables.find(gradient);
  if (found == program.variables.end())
    throw PassError(Stage::group_grads, "ValueError", fmt::format("gradient [{}] is no variable", gradient));
  return found->second;
}

bool touches(const Op& op, const GradientGroup& group) {
  return std::ranges::any_of(group.gradients,
                             [&](const std::string& name) { return reads(op, name) || writes(op, name); });
}

// Whether so many elements more are within the limit.
bool fits(const GradientGroup& group, std::int64_t elements, std::int64_t limit) {
  return group.numel <= limit && elements <= limit - group.numel;
}

// ---- as the source does it ----

class SourceGrouping {
 public:
  SourceGrouping(const Program& program, std::int64_t limit) : program_(program), limit_(limit) {}

  std::vector<GradientGroup> groups() {
    for (int position = 0; position < static_cast<int>(program_.ops.size()); ++position)
      if (is_data_parallel_reduction(at(program_, position)))
        see_reduction(position);
      else if (touches(at(program_, position), open_))
        close();
    close();
    return std::move(groups_);
  }

 private:
  void see_reduction(int position) {
    const std::string& gradient = first_name(at(program_, position).outputs);
    const Variable& variable = variable_of(program_, gradient);
    const auto elements = element_count(variable.shape);
    if (!elements)
      throw PassError(Stage::group_grads, "AssertionError",
                      fmt::format("the shape of gradient [{}] has a dimension that is not known", gradient));
    if (!accepts(at(program_, position), variable.dtype, *elements)) {
      close();
    } else if (grouped_.contains(gradient)) {
      throw PassError(Stage::group_grads, "AssertionError",
                      fmt::format("op {} ({}) reduces gradient [{}], which is grouped already", position,
                                  at(program_, position).type, gradient));
    }
    grouped_.insert(gradient);
    add(gradient, variable.dtype, *elements, position);
  }

  [[nodiscard]] bool accepts(const Op& reduction, DataType dtype, std::int64_t elements) const {
    return open_.gradients.empty() ||
           (reduction.ring.value_or(0) == open_.ring && fits(open_, elements, limit_) && dtype == open_.dtype);
  }

  void add(const std::string& gradient, DataType dtype, std::int64_t elements, int position) {
    open_.gradients.push_back(gradient);
    open_.ring = at(program_, position).ring.value_or(0);
    open_.dtype = dtype;
    open_.numel += elements;
    open_.removed_reductions.push_back(position);
    int producer = position - 1;
    if (position > 0 && at(program_, position - 1).type == "c_wait_compute") {
      open_.removed_waits.push_back(position - 1);
      --producer;
    }
    // The source looks behind itself and takes what is ahead.
    if (position > 0 && position + 1 < static_cast<int>(program_.ops.size()) &&
        is_data_parallel_scale(at(program_, position - 1)))
      open_.removed_scales.push_back(position + 1);
    if (open_.gradients.size() == 1) open_.coalesce_op = require_producer(gradient, producer);
  }

  // The op directly ahead, or ahead of a tensor-parallel sum.
  [[nodiscard]] int require_producer(const std::string& gradient, int producer) const {
    if (producer >= 0 && is_sum_over_all(at(program_, producer))) --producer;
    if (producer >= 0 && writes(at(program_, producer), gradient)) return producer;
    throw PassError(
        Stage::group_grads, "AssertionError",
        fmt::format("grad [{}] should be output of {}", gradient,
                    producer < 0 ? "an op" : fmt::format("op {} ({})", producer, at(program_, producer).type)));
  }

  void close() {
    if (open_.gradients.empty()) return;
    open_.reduction_op = open_.removed_reductions.back();
    open_.removed_reductions.pop_back();
    if (open_.removed_waits.size() > 1) open_.removed_waits.pop_back();
    if (open_.removed_scales.size() > 1) {
      open_.scale_op = open_.removed_scales.back();
      open_.removed_scales.pop_back();
    }
    groups_.push_back(std::move(open_));
    open_ = {};
  }

  const Program& program_;
  std::int64_t limit_;
  GradientGroup open_;
  std::vector<GradientGroup> groups_;
  std::set<std::string> grouped_;
};

// ---- the default ----

// Gradients that a group may have beside others, and where each is first written: its memory must be the group's from then on.
class Fusible {
 public:
  explicit Fusible(const Program& program) : program_(program) {
    for (int position = 0; const Op& op : program.ops) {
      for (const std::string& name : names_in(op.inputs))
        if (!first_written_.contains(name)) from_outside_.insert(name);
      for (const std::string& name : names_in(op.outputs)) first_written_.try_emplace(name, position);
      if (op.type == "coalesce_tensor")
        for (const std::string& name : names_in(op.outputs)) shares_memory_.insert(name);
      if (is_data_parallel_reduction(op)) ++reductions_[first_name(op.outputs)];
      ++position;
    }
  }

  [[nodiscard]] int first_written(const std::string& gradient) const { return first_written_.at(gradient); }

  [[nodiscard]] bool is_fusible(int reduction) const {
    const Op& op = at(program_, reduction);
    const std::string& gradient = first_name(op.outputs);
    const Variable& variable = variable_of(program_, gradient);
    return names_in(op.inputs) == std::vector{gradient} && names_in(op.outputs) == std::vector{gradient} &&
           element_count(variable.shape) && !variable.persistable && !from_outside_.contains(gradient) &&
           first_written(gradient) < reduction && !shares_memory_.contains(gradient) && reductions_.at(gradient) == 1;
  }

 private:
  const Program& program_;
  std::map<std::string, int> first_written_, reductions_;
  std::set<std::string> from_outside_, shares_memory_;
};

// Equal but for the gradient: one reduction can do the work of both.
bool reduce_alike(const Op& a, const Op& b) {
  return a.type == b.type && a.ring == b.ring &&
         a.reduction.value_or(comm::ReduceOp::sum) == b.reduction.value_or(comm::ReduceOp::sum) &&
         a.on_calculation_stream == b.on_calculation_stream && a.stream == b.stream && a.attributes == b.attributes;
}

class Grouping {
 public:
  Grouping(const Program& program, std::int64_t limit) : program_(program), limit_(limit), fusible_(program) {}

  std::vector<GradientGroup> groups() {
    for (int position = 0; position < static_cast<int>(program_.ops.size()); ++position)
      if (is_data_parallel_reduction(at(program_, position)))
        see_reduction(position);
      else if (touches(at(program_, position), open_))
        close();
    close();
    return std::move(groups_);
  }

 private:
  void see_reduction(int position) {
    const std::string& gradient = first_name(at(program_, position).outputs);
    const Variable& variable = variable_of(program_, gradient);
    const std::int64_t elements = element_count(variable.shape).value_or(0);
    const bool is_fusible = fusible_.is_fusible(position);
    if (!is_fusible || !accepts(position, variable.dtype, elements)) close();
    open_.gradients.push_back(gradient);
    open_.ring = at(program_, position).ring.value_or(0);
    open_.dtype = variable.dtype;
    open_.numel += elements;
    const int written = is_fusible ? fusible_.first_written(gradient) : position;
    open_.coalesce_op = open_.gradients.size() == 1 ? written : std::min(open_.coalesce_op, written);
    open_.removed_reductions.push_back(position);
    if (!is_fusible) close();
  }

  [[nodiscard]] bool accepts(int position, DataType dtype, std::int64_t elements) const {
    if (open_.gradients.empty()) return true;
    const Op& reduction = at(program_, position);
    return reduce_alike(reduction, at(program_, open_.removed_reductions.back())) && dtype == open_.dtype &&
           fits(open_, elements, limit_) && !touches(reduction, open_);
  }

  // The last reduction is kept, with its wait. Of a gradient alone nothing goes, and its wait is listed as in the source.
  void close() {
    if (open_.gradients.empty()) return;
    std::vector<int> reductions = open_.removed_reductions;
    open_.reduction_op = reductions.back();
    open_.removed_reductions.pop_back();
    if (reductions.size() > 1) reductions.pop_back();
    for (const int position : reductions)
      if (position > 0 && is_plain_wait(at(program_, position - 1)) && at(program_, position - 1).ring == open_.ring)
        open_.removed_waits.push_back(position - 1);
    groups_.push_back(std::move(open_));
    open_ = {};
  }

  const Program& program_;
  std::int64_t limit_;
  Fusible fusible_;
  GradientGroup open_;
  std::vector<GradientGroup> groups_;
};

}  // namespace

std::vector<GradientGroup> group_gradients(const Program& program, const PassOptions& options) {
  return options.convention == Convention::paddle ? SourceGrouping(program, options.max_fuse_numel).groups()
                                                  : Grouping(program, options.max_fuse_numel).groups();
}

}  // namespace plumbline::program
