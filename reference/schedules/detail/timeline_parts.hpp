// reference/schedules/detail/timeline_parts.hpp: what a timeline is made of, whether it is simulated or measured.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules::detail {

/// Where each rank's actions begin among all, and the end.
[[nodiscard]] std::vector<std::size_t> offsets_of(const Schedule& schedule);
[[nodiscard]] bool has_messages(const Schedule& schedule);
/// Makespan and bubbles, when the rest of each rank is known.
void measure_bubbles(Timeline& timeline);

/// What concerns one rank, from its computations in turn.
class Tally {
 public:
  void add(const Action& action, const Period& period, double activation_bytes, bool forward_only) {
    if (!std::exchange(begun_, true)) times_.first_start = period.start;
    times_.last_end = period.end;
    bool ends = action.kind != ActionKind::input_gradient;
    if (action.kind == ActionKind::forward) {
      if (++live_ > times_.peak_activations) times_.peak_activations = live_;
      bytes_ += activation_bytes;
      if (bytes_ > times_.peak_activation_bytes) times_.peak_activation_bytes = bytes_;
      ends = forward_only;
    }
    if (action.joined || inside_) return add_joined(action.joined, period, ends ? 1 : 0, ends ? activation_bytes : 0);
    times_.work += period.end - period.start;
    if (ends) --live_, bytes_ -= activation_bytes;
  }
  [[nodiscard]] const RankTimes& times() const { return times_; }

 private:
  // One of a group, whose activations end with it.
  void add_joined(bool more, const Period& period, int ended, double ended_bytes) {
    if (!inside_) group_start_ = period.start;
    inside_ = more;
    ended_ += ended;
    ended_bytes_ += ended_bytes;
    if (more) return;
    times_.work += period.end - group_start_;
    live_ -= std::exchange(ended_, 0);
    bytes_ -= std::exchange(ended_bytes_, 0);
  }

  RankTimes times_;
  double group_start_ = 0, bytes_ = 0, ended_bytes_ = 0;
  int live_ = 0, ended_ = 0;
  bool inside_ = false, begun_ = false;  // a group of computations; the row
};

}  // namespace plumbline::schedules::detail
