// harness/cli/buckets_svg.hpp: the picture of `plumbline buckets`.
#pragma once

#include <span>
#include <string>

#include "reference/bucketing/exposed.hpp"
#include "reference/bucketing/plan_json.hpp"

namespace plumbline::cli {

struct BackwardShown {
  std::span<const double> ready;  // seconds, of each gradient
  double seconds = 0;             // of the backward
};

/// The gradients over the backward that makes them, the reductions of the buckets beside it, and what each bucket
/// holds.
[[nodiscard]] std::string buckets_svg(const bucketing::Plan& plan, const bucketing::NamedGradients& named,
                                      const BackwardShown& backward, const bucketing::Exposure& exposure);

}  // namespace plumbline::cli
