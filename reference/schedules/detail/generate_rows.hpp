// reference/schedules/detail/generate_rows.hpp: what the families of generate.hpp share. Not for others.
#pragma once

#include <vector>

#include "reference/schedules/generate.hpp"

namespace plumbline::schedules::detail {

/// Appends to the actions of one rank.
class Row {
 public:
  explicit Row(std::vector<Action>& actions) : actions_(&actions) {}
  void add(ActionKind kind, int stage, int micro_batch) {
    actions_->push_back({.kind = kind, .stage = stage, .micro_batch = micro_batch});
  }
  void idle(int cells) {
    if (cells > 0) actions_->resize(actions_->size() + static_cast<std::size_t>(cells));
  }
  /// The last action runs at the same time as the next one.
  void join() { actions_->back().joined = true; }

 private:
  std::vector<Action>* actions_;
};

/// A schedule of this shape with empty rows.
[[nodiscard]] Schedule empty_schedule(const Shape& shape, Placement placement);

/// Chunk and micro-batch of a rank's k-th forward. Its k-th backward has the chunks in reverse.
struct Virtual {
  int chunk = 0;
  int micro_batch = 0;
};
/// Groups of `group` micro-batches, the last perhaps smaller, each through all chunks.
[[nodiscard]] std::vector<Virtual> depth_first_order(const Shape& shape, int group);

/// The number of forwards of rank r before its first backward, less the one of the same step:
/// per_hop * (p-1-r) + (v-1) * group, at most all of them.
[[nodiscard]] int depth_first_warmup(const Shape& shape, int group, int per_hop, int rank);

/// Makes the schedule of a shape that require_shape() and the stages per rank of its row allow. Throws InvalidArgument
/// for one that the schedule does not have.
using Generator = Schedule (*)(const Shape& shape);
[[nodiscard]] Generator generator_of(ScheduleKind schedule_kind);

// Those of the table in names.cpp.
[[nodiscard]] Schedule gpipe(const Shape& shape);
[[nodiscard]] Schedule interleaved_in_rounds(const Shape& shape);
[[nodiscard]] Schedule looped_breadth_first(const Shape& shape);
[[nodiscard]] Schedule forward_only(const Shape& shape);
[[nodiscard]] Schedule one_f_one_b(const Shape& shape);
[[nodiscard]] Schedule zb_h1(const Shape& shape);
[[nodiscard]] Schedule zb_h2(const Shape& shape);
[[nodiscard]] Schedule interleaved_zero_bubble(const Shape& shape);
[[nodiscard]] Schedule zbv(const Shape& shape);
[[nodiscard]] Schedule dualpipev(const Shape& shape);
[[nodiscard]] Schedule v_half(const Shape& shape);
[[nodiscard]] Schedule v_min(const Shape& shape);

[[nodiscard]] Schedule interleaved(const Shape& shape, int group);
/// The micro-batches of a round. Throws InvalidArgument unless the max(1, m/p) rounds are equally large.
[[nodiscard]] int micro_batches_of_round(ScheduleKind schedule_kind, const Shape& shape);

/// Throws InvalidArgument for numbers below 1 and for more computations than generate() allows.
void require_shape(const Shape& shape);
/// The rules of interleaved_in_groups().
void require_groups(const Shape& shape, int group);
/// The rule of interleaved_as_colossalai().
void require_multiple_of_ranks(const Shape& shape);

}  // namespace plumbline::schedules::detail
