// conformance/training/routing.hpp: whether rounding decides which experts a token goes through.
#pragma once

#include <string>

#include "reference/record/run_spec.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

/// Logits of a router that lie closer than that may change their order by rounding in float32.
inline constexpr double kUnsureLogits = 2e-5;

/// Whether some token of a step has an expert that it goes through and one that it does not whose logits lie closer
/// than that, at these values. A right program may then choose otherwise than a single device: its gradients and losses
/// say nothing.
[[nodiscard]] bool is_routing_unsure(const job::RunSpec& spec, int step, const training::Values& before,
                                     training::Training& training, const std::string& device);

}  // namespace plumbline::conformance
