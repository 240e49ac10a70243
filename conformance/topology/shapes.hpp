// conformance/topology/shapes.hpp: the shapes that the checks of topologies judge.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "conformance/topology/shape.hpp"
#include "harness/suite/check.hpp"

namespace plumbline::conformance {

/// The shapes of a check: sizes that differ from each other, and as many random ones as `search` is given.
[[nodiscard]] suite::Axis shapes(std::vector<std::string> sizes = {"5", "3x2", "2x3x1", "2x3x4x5", "random"});
/// Judges the shape that the case names, or random ones, and reports.
void judge_shapes(suite::Context& context, const std::function<std::string(const Shape&)>& problem,
                  const ShapeLimits& limits = {}, int trials = 1000);

/// The lists along these axes, the first axis fastest, by their first ranks.
[[nodiscard]] std::vector<Ranks> lists_of(const Shape& shape, const std::set<std::string>& axes);

/// "" when a rank's group on an axis has the ranks expected, in any order, and its local rank is its position in it.
[[nodiscard]] std::string problem_of_group(const nlohmann::json& row, const std::string& axis, int rank,
                                           Ranks expected);

/// The number of an axis of that name; -1 where there is none.
[[nodiscard]] int number_of(const Shape& shape, const std::string& axis);

}  // namespace plumbline::conformance
