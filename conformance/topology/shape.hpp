// conformance/topology/shape.hpp: named axes to ask about, and what is expected of them, by counting.
//
// Model   A shape is what a question gives: names, sizes, and the rank at which it begins. Expectations come from an
//         odometer that is turned once a rank, and from sorting ranks by their positions: no strides, no divisions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conformance/support/property.hpp"

namespace plumbline::conformance {

using Ranks = std::vector<int>;
using Position = std::vector<int>;  // on each axis

struct Shape {
  std::vector<std::string> axes;
  std::vector<int> dims;
  int offset = 0;
};
[[nodiscard]] int ranks_in(const Shape& shape);
/// "pipe=3 data=2", " from 8" where it does not begin at 0.
[[nodiscard]] std::string text_of(const Shape& shape);
/// Axes pipe, data, model, expert of the sizes in "3x2". Throws InvalidArgument.
[[nodiscard]] Shape shape_of(const std::string& sizes);

struct ShapeLimits {
  int axes = 5;
  int ranks = 60;
  int offset = 0;
  std::vector<std::string> always = {};  // axes that every shape has
  std::vector<std::string> names = {"pipe", "data", "model", "expert", "x", "y", "row"};
};
/// Any order of any names; sizes of 1 are frequent.
[[nodiscard]] Shape draw_shape(Random& random, const ShapeLimits& limits);
/// Without an offset, with an axis less, with a size halved or one less.
[[nodiscard]] std::vector<Shape> smaller(const Shape& shape, const ShapeLimits& limits = {});

enum class Fastest { last, first };
/// The position of each rank, as an odometer counts.
[[nodiscard]] std::vector<Position> positions_in(const Shape& shape, Fastest fastest);
/// The ranks that share the positions on all axes but those numbered. Lists come in the order of these positions, the
/// first axis' slowest; ranks ascend.
[[nodiscard]] std::vector<Ranks> lists_along(const Shape& shape, const std::vector<Position>& positions,
                                             const std::vector<int>& along);
/// The first of the lists that holds a rank, which one must.
[[nodiscard]] Ranks list_with(const std::vector<Ranks>& lists, int rank);
/// The ranks whose position fits, ascending.
[[nodiscard]] Ranks ranks_where(const Shape& shape, const std::vector<Position>& positions,
                                const std::function<bool(const Position&)>& fits);

}  // namespace plumbline::conformance
