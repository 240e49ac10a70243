// conformance/pass/question.hpp: training steps to ask the pass about, drawn by what is hard in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "conformance/support/property.hpp"

namespace plumbline::conformance {

/// A gradient, in the order of reductions. An op of its own makes it, directly before its reduction.
struct DrawnGradient {
  std::vector<std::int64_t> shape{4};
  std::string dtype = "float32";
  int ring = 0;  // index into PassQuestion::ring_sizes
  int touched_after =
      -1;  // an op after the reduction of that gradient, this one or a later one, touches this one; -1: none
  bool is_written = false;  // by that op, which else reads it
  [[nodiscard]] std::int64_t elements() const;
};

/// The arguments of bucketing.dp_pass. Gradient i is "w<i>@GRAD"; ring i is number 10 + i, over the first ranks.
struct PassQuestion {
  std::vector<DrawnGradient> gradients;
  std::vector<int> ring_sizes{2};
  bool has_scales = true;  // after each reduction one by the size of its ring
  std::string optimizer = "sgd";
  double loss_value = 1;
  bool gradient_scale = true, use_sharding = false;
  std::string second_derivative{};  // type of an op among those of the backward; empty: none
  bool is_in_other_block = false;   // and that in a block of its own
  int forward_after = -1;           // an op of the forward stands after the reduction of that gradient; -1: none
  std::int64_t limit = 1 << 20;
  int ring_limit = 16;
  bool has_ring_limit = true;  // else it is left out: 16 is meant

  [[nodiscard]] static std::string name_of(std::size_t gradient) { return "w" + std::to_string(gradient) + "@GRAD"; }
  [[nodiscard]] int size_of_ring(std::size_t gradient) const {
    return ring_sizes[static_cast<std::size_t>(gradients[gradient].ring)];
  }
  /// Whether all gradients' rings are of one size.
  [[nodiscard]] bool has_one_degree() const;
  [[nodiscard]] int used_rings() const;
  /// Whether the factor of the scale ops has a place, and whether they are gone then.
  [[nodiscard]] bool is_prunable() const;
  [[nodiscard]] bool is_fusible() const { return !use_sharding && second_derivative.empty(); }
  [[nodiscard]] bool is_overlapped() const { return !use_sharding && used_rings() <= ring_limit; }

  [[nodiscard]] nlohmann::json args(const std::string& convention) const;
  /// "sgd, limit 64, rings of 2 and 4: [3,5] float32 ring 0; …".
  [[nodiscard]] std::string words() const;
};

/// "plain", "types", "rings", "around_limit", "touched", "degrees", "large", "many_rings", "higher", "sharding",
/// "unscaled", "forward", "default_rings".
/// Throws NotFound for another.
[[nodiscard]] PassQuestion draw_step(const std::string& kind, Random& random);
[[nodiscard]] std::vector<PassQuestion> smaller_steps(const PassQuestion& question);

}  // namespace plumbline::conformance
