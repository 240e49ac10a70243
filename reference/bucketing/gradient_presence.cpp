#include "reference/bucketing/detail/gradient_presence.hpp"

#include <utility>

namespace plumbline::bucketing {

bool GradientPresence::comes_again(int gradient) const {
  return is_static() && (!learned_ || at(gradient).times < at(gradient).times_learned);
}

bool GradientPresence::is_learning() const { return is_static() && !learned_; }

bool GradientPresence::is_known_unused(int gradient) const {
  return is_static() && learned_ && at(gradient).times_learned == 0;
}

std::vector<bool> GradientPresence::held() const {
  std::vector<bool> held;
  for (const State& state : states_) held.push_back(state.held);
  return held;
}

void GradientPresence::begin_pass() {
  for (State& state : states_) {
    state.ready = state.lacking = false;
    state.times = 0;
  }
  ready_ = 0;
}

void GradientPresence::come(int gradient) {
  State& state = at(gradient);
  ++state.times;
  state.held = true;
  if (!std::exchange(state.in_order, true)) order_.push_back(gradient);
}

void GradientPresence::mark_ready(int gradient) {
  at(gradient).ready = true;
  ++ready_;
}

void GradientPresence::end_pass() {
  if (std::exchange(learned_, true)) return;
  for (State& state : states_) state.times_learned = state.times;
}

void GradientPresence::clear() {
  for (State& state : states_) state.held = false;
}

}  // namespace plumbline::bucketing
