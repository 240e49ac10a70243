// benchmarks/scaler.hpp: what does a step pay for its loss scale: for agreeing on a skip, and for unscaling?
#pragma once

#include "harness/bench/benchmark.hpp"

namespace plumbline::bench {

/// scaler.agreement.<model>.<form>: the flags of a model's gradients, a flag each, made the model group's maximum: in
/// one message, one by one, over tensor and then pipeline groups, or as one flag. scaler.unscale.<types>: many
/// gradients in one pass, beside memory.copy of as many bytes. On a device flags are copied, or folded, in as few
/// launches as they fit in, and what unscaling finds stays there.
void add_scaler(Registry& registry);
/// The first of these, of a model of so many gradients.
void add_agreement(Registry& registry, const std::string& model, std::size_t flags);

}  // namespace plumbline::bench
