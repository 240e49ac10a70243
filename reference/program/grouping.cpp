// Which gradients are reduced as one.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "reference/program/detail/steps.hpp"
#include "reference/program/pass.hpp"

namespace plumbline::program {

namespace {

const Op& at(const Program& program, int position) { return program.ops[static_cast<std::size_t>(position)]; }

// Before the first op stands one of no type.
const Op& at_or_none(const Program& program, int position) {
  static const Op kNone;
  return position < 0 ? kNone : at(program, position);
}

const Variable& gradient_variable(const Program& program, const std::string& gradient) {
  const auto found = program.variables.find(gradient);
  if (found == program.variables.end())
    throw PassError(Stage::group_grads, "ValueError", fmt::format("gradient [{}] is no variable", gradient));
  return found->second;
}

// Whether `elements` more elements are within the limit.
bool fits(const GradientGroup& group, std::int64_t elements, std::int64_t limit) {
  return elements <= limit - group.numel;
}

// One walk with one open group. What joins it is the convention's to say.
class GroupWalk {
 public:
  GroupWalk(const Program& program, std::int64_t limit) : program_(program), limit_(limit) {}
  virtual ~GroupWalk() = default;

  std::vector<GradientGroup> groups() {
    for (int position = 0; const Op& op : program_.ops) {
      if (is_data_parallel_reduction(op))
        see_reduction(position);
      else if (names_any(op, members_))
        close(Closed::op, position);
      ++position;
    }
    close(Closed::end, -1);
    return std::move(groups_);
  }

 protected:
  virtual void see_reduction(int position) = 0;
  /// Of a closed group, what goes with its reductions; all of them are in removed_reductions.
  virtual void list_removed(GradientGroup& group) const = 0;

  void join(const std::string& gradient, DataType dtype, std::int64_t elements, int position) {
    open_.gradients.push_back(gradient);
    members_.insert(gradient);
    open_.ring = at(program_, position).ring.value_or(0);
    open_.dtype = dtype;
    open_.numel += elements;
    open_.removed_reductions.push_back(position);
  }

  // The last reduction is kept.
  void close(Closed why, int position) {
    if (open_.gradients.empty()) return;
    open_.closed_by = why;
    open_.closed_at = position;
    list_removed(open_);
    open_.reduction_op = open_.removed_reductions.back();
    open_.removed_reductions.pop_back();
    groups_.push_back(std::move(open_));
    open_ = {};
    members_.clear();
  }

  // What keeps a gradient out of the open group, which has others; nothing where it has room.
  [[nodiscard]] std::optional<Closed> refusal(const Op& reduction, DataType dtype, std::int64_t elements) const {
    if (reduction.ring.value_or(0) != open_.ring) return Closed::ring;
    if (dtype != open_.dtype) return Closed::type;
    if (!fits(open_, elements, limit_)) return Closed::limit;
    return std::nullopt;
  }

  const Program& program_;
  std::int64_t limit_;
  GradientGroup open_;
  std::set<std::string> members_;  // of the open group

 private:
  std::vector<GradientGroup> groups_;
};

// ---- as the source does it ----

class SourceGrouping : public GroupWalk {
 public:
  using GroupWalk::GroupWalk;

 private:
  void see_reduction(int position) override {
    const std::string& gradient = first_name(at(program_, position).outputs);
    const Variable& variable = gradient_variable(program_, gradient);
    const auto elements = element_count(variable.shape);
    if (!elements)
      throw PassError(Stage::group_grads, "AssertionError",
                      fmt::format("the shape of gradient [{}] has a dimension that is not known", gradient));
    const auto why =
        open_.gradients.empty() ? std::nullopt : refusal(at(program_, position), variable.dtype, *elements);
    if (why) {
      close(*why, position);
    } else if (grouped_.contains(gradient)) {
      throw PassError(Stage::group_grads, "AssertionError",
                      fmt::format("op {} ({}) reduces gradient [{}], which is grouped already", position,
                                  at(program_, position).type, gradient));
    }
    grouped_.insert(gradient);
    add(gradient, variable.dtype, *elements, position);
  }

  void add(const std::string& gradient, DataType dtype, std::int64_t elements, int position) {
    join(gradient, dtype, elements, position);
    int producer = position - 1;
    if (at_or_none(program_, position - 1).type == "c_wait_compute") {
      open_.removed_waits.push_back(position - 1);
      --producer;
    }
    // The source searches before itself and takes what comes after.
    const bool is_last = position + 1 == static_cast<int>(program_.ops.size());
    if (is_data_parallel_scale(at_or_none(program_, position - 1)) && !is_last)
      open_.removed_scales.push_back(position + 1);
    if (open_.gradients.size() == 1) open_.coalesce_op = require_producer(gradient, producer);
  }

  // The op directly before, or before a tensor-parallel sum.
  [[nodiscard]] int require_producer(const std::string& gradient, int producer) const {
    if (is_sum_over_all(at_or_none(program_, producer))) --producer;
    if (writes(at_or_none(program_, producer), gradient)) return producer;
    throw PassError(
        Stage::group_grads, "AssertionError",
        fmt::format("grad [{}] should be output of {}", gradient,
                    producer < 0 ? "an op" : fmt::format("op {} ({})", producer, at(program_, producer).type)));
  }

  void list_removed(GradientGroup& group) const override {
    if (group.removed_waits.size() > 1) group.removed_waits.pop_back();
    if (group.removed_scales.size() > 1) {
      group.scale_op = group.removed_scales.back();
      group.removed_scales.pop_back();
    }
  }

  std::set<std::string> grouped_;
};

// ---- the default ----

// Gradients that a group may have beside others, and where each is first written: its memory must be the group's from
// then on.
class Fusible {
 public:
  explicit Fusible(const Program& program) : program_(program), kept_(kept_on_stream(program)) {
    for (int position = 0; const Op& op : program.ops) {
      for (const std::string& name : names_in(op.inputs))
        if (!first_written_.contains(name)) from_outside_.insert(name);
      for (const std::string& name : names_in(op.outputs)) first_written_.try_emplace(name, position);
      if (is_data_parallel_reduction(op) && !reduced_.insert(first_name(op.outputs)).second)
        reduced_again_.insert(first_name(op.outputs));
      ++position;
    }
  }

  [[nodiscard]] int first_written(const std::string& gradient) const { return first_written_.at(gradient); }

  [[nodiscard]] bool is_fusible(int reduction) const {
    const Op& op = at(program_, reduction);
    const std::string& gradient = first_name(op.outputs);
    const Variable& variable = gradient_variable(program_, gradient);
    return names_in(op.inputs) == std::vector{gradient} && names_in(op.outputs) == std::vector{gradient} &&
           element_count(variable.shape) && !variable.persistable && !from_outside_.contains(gradient) &&
           !kept_.contains(gradient) && !reduced_again_.contains(gradient);
  }

 private:
  const Program& program_;
  std::set<std::string> kept_;
  std::map<std::string, int> first_written_;
  std::set<std::string> from_outside_, reduced_, reduced_again_;
};

// Over one ring, one reduction can do the work of both. Whatever stream each is on, the kept one leaves it.
bool reduce_alike(const Op& a, const Op& b) {
  return a.type == b.type && a.attributes == b.attributes &&
         a.reduction.value_or(comm::ReduceOp::sum) == b.reduction.value_or(comm::ReduceOp::sum);
}

class Grouping : public GroupWalk {
 public:
  Grouping(const Program& program, std::int64_t limit) : GroupWalk(program, limit), fusible_(program) {}

 private:
  void see_reduction(int position) override {
    const std::string& gradient = first_name(at(program_, position).outputs);
    const Variable& variable = gradient_variable(program_, gradient);
    const std::int64_t elements = element_count(variable.shape).value_or(0);
    const bool is_fusible = fusible_.is_fusible(position);
    const auto why = open_.gradients.empty() ? std::nullopt : keeps_out(position, is_fusible, variable.dtype, elements);
    if (why) close(*why, position);
    join(gradient, variable.dtype, elements, position);
    if (!is_fusible) close(Closed::alone, position);
  }

  [[nodiscard]] std::optional<Closed> keeps_out(int position, bool is_fusible, DataType dtype,
                                                std::int64_t elements) const {
    const Op& reduction = at(program_, position);
    if (const auto why = refusal(reduction, dtype, elements)) return why;
    if (!is_fusible) return Closed::alone;
    const bool is_alike = reduce_alike(reduction, at(program_, open_.removed_reductions.back()));
    return is_alike ? std::nullopt : std::optional(Closed::reduction);
  }

  // The last reduction keeps its wait. Of a gradient alone nothing goes, and its wait is listed as in the source.
  void list_removed(GradientGroup& group) const override {
    const auto written = [&](const std::string& gradient) { return fusible_.first_written(gradient); };
    group.coalesce_op = written(std::ranges::min(group.gradients, {}, written));
    const std::size_t count = std::max<std::size_t>(group.removed_reductions.size() - 1, 1);
    for (std::size_t i = 0; i < count; ++i)
      if (const Op& before = at_or_none(program_, group.removed_reductions[i] - 1);
          is_plain_wait(before) && before.ring == group.ring)
        group.removed_waits.push_back(group.removed_reductions[i] - 1);
  }

  Fusible fusible_;
};

}  // namespace

std::vector<GradientGroup> group_gradients(const Program& program, const PassOptions& options) {
  return options.convention == Convention::paddle ? SourceGrouping(program, options.max_fuse_numel).groups()
                                                  : Grouping(program, options.max_fuse_numel).groups();
}

}  // namespace plumbline::program
