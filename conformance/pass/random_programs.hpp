// conformance/pass/random_programs.hpp: programs of any order, and training steps with what makes a pass go wrong.
#pragma once

#include <string>
#include <vector>

#include "conformance/support/property.hpp"
#include "reference/program/program.hpp"

namespace plumbline::conformance {

/// A line an op.
[[nodiscard]] std::string words_of(const program::Program& program);

// ---- order ----

/// "names": ops on streams; "waits": communication that left the calculation stream, and waits; "fused": members of
/// fused variables and dependency ops; "messages": sends, which read; "all".
[[nodiscard]] const std::vector<std::string>& kinds_of_order();
/// Up to 14 ops on a few variables, streams and rings, in any order.
[[nodiscard]] program::Program draw_order(const std::string& kind, Random& random);
/// Without one op.
[[nodiscard]] std::vector<program::Program> smaller_orders(const program::Program& program);

// ---- steps ----

/// A layer: x w, plus a bias, tanh; and what becomes of the weight's gradient.
struct DrawnLayer {
  bool has_bias = false;
  int late = 0;                 // its reduction is after so many more layers' gradients
  bool accumulates = false;     // a second part is added in place, before the reduction
  bool is_read_before = false;  // an op looks at it before the reduction
  bool is_read_after = false;   // after reduction and scaling
  bool is_averaged = false;     // by its reduction, which has no scaling then
  bool is_reduced = true;
  bool is_scaled = true;
  bool tensor_parallel = false;    // it is first summed over the other ring
  bool on_own_stream = false;      // the op that makes it is issued to a stream of its own
  bool is_read_elsewhere = false;  // ops that look at it are issued to another one
  bool over_half = false;          // over ring 13 in the place of 12
  bool out_of_place = false;       // its reduction writes another variable, and an op writes over the gradient then
  bool is_sent_before = false;     // communication on its own ring's stream sums it before the reduction
  bool is_sent_after = false;      // the same, after reduction and scaling
  int rings = 1;                   // that it is reduced over, one after the other
  double factor = 0;               // of the scaling; 0: one over the ring's size
  std::string dtype = "float32";   // of the bias, which has no part in others' gradients
};

struct DrawnStep {
  std::vector<DrawnLayer> layers;
  int ranks = 2;
  std::string optimizer = "sgd";
  int loss_gradients = 1;       // ops that begin a backward
  bool has_forward_op = false;  // an op of the forward stands in the middle of the backward
  bool has_second_derivative = false;
  bool has_foreign_wait = false;    // another ring's reduction has left the calculation stream, and waits
  bool has_foreign_memory = false;  // all weights' gradients are parts of one variable, and an op looks at that one
  std::int64_t limit = 1 << 20;     // elements that are fused at most

  /// Rings: 0, the world; 12, all ranks; 13, the first half and its like, or all where ranks are odd.
  [[nodiscard]] program::Program program() const;
  [[nodiscard]] program::Rings rings() const;
};

/// "plain", "late", "accumulated", "read", "averaged", "unreduced", "unscaled", "other_factor", "two_rings",
/// "tensor_parallel", "streams", "no_loss", "two_losses", "forward_op", "second_derivative", "foreign_wait",
/// "foreign_memory", "out_of_place", "sent", "any".
[[nodiscard]] const std::vector<std::string>& kinds_of_steps();
[[nodiscard]] DrawnStep draw_training_step(const std::string& kind, Random& random);
[[nodiscard]] std::vector<DrawnStep> smaller_training_steps(const DrawnStep& step);

}  // namespace plumbline::conformance
