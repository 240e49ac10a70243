// reference/bucketing/detail/gradient_presence.hpp: which gradients this rank has in a step, and which are ready in a
// pass.
//
// Model   A gradient is held from its first pass of a step until clear(). In a pass it is ready when nothing is added
//         to it any more, or when it is known that this rank lacks it. With Unused::static_graph the first pass of all
//         shows how often each gradient comes in a pass.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/bucketing/detail/bucket_store.hpp"

namespace plumbline::bucketing {

class GradientPresence {
 public:
  explicit GradientPresence(const ReducerSetup& setup) : setup_(&setup), states_(setup.gradients.size()) {}

  [[nodiscard]] int size() const { return static_cast<int>(states_.size()); }
  [[nodiscard]] bool is_held(int gradient) const { return at(gradient).held; }
  [[nodiscard]] bool is_ready(int gradient) const { return at(gradient).ready; }
  [[nodiscard]] bool is_lacking(int gradient) const { return at(gradient).lacking; }
  /// Whether it came in this pass.
  [[nodiscard]] bool came(int gradient) const { return at(gradient).times > 0; }
  /// Whether more may be added to a gradient in this pass.
  [[nodiscard]] bool comes_again(int gradient) const;
  /// Whether this pass shows which gradients later ones have.
  [[nodiscard]] bool is_learning() const;
  /// Whether the first pass of all did not have it.
  [[nodiscard]] bool is_known_unused(int gradient) const;
  /// How many are ready in this pass.
  [[nodiscard]] int ready() const { return ready_; }
  /// By gradient.
  [[nodiscard]] std::vector<bool> held() const;
  /// Those that came, in the order in which they first did.
  [[nodiscard]] const std::vector<int>& order() const { return order_; }
  [[nodiscard]] bool is_in_order(int gradient) const { return at(gradient).in_order; }

  void begin_pass();
  /// It comes, for the first time in this pass or once more.
  void come(int gradient);
  void mark_ready(int gradient);
  void mark_lacking(int gradient) { at(gradient).lacking = true; }
  void end_pass();
  /// The step is over.
  void clear();

 private:
  struct State {
    bool held = false;      // this rank has it in this step
    bool ready = false;     // in this pass, or known to be lacking
    bool lacking = false;   // in this pass
    bool in_order = false;  // is in order_
    int times = 0;          // it came in this pass
    int times_learned = 0;  // in the first pass
  };
  [[nodiscard]] State& at(int gradient) { return states_[static_cast<std::size_t>(gradient)]; }
  [[nodiscard]] const State& at(int gradient) const { return states_[static_cast<std::size_t>(gradient)]; }
  [[nodiscard]] bool is_static() const { return setup_->options.unused == Unused::static_graph; }

  const ReducerSetup* setup_;
  std::vector<State> states_;  // by gradient
  std::vector<int> order_;
  int ready_ = 0;
  bool learned_ = false;
};

}  // namespace plumbline::bucketing
