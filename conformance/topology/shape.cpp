#include "conformance/topology/shape.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

int ranks_in(const Shape& shape) {
  int ranks = 1;
  for (const int size : shape.dims) ranks *= size;
  return ranks;
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (std::size_t i = 0; i < shape.axes.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : " ", shape.axes[i], shape.dims[i]);
  return shape.offset == 0 ? text : fmt::format("{} from {}", text, shape.offset);
}

Shape shape_of(const std::string& sizes) {
  static const std::array<const char*, 4> kNames{"pipe", "data", "model", "expert"};
  Shape shape;
  std::istringstream stream(sizes);
  for (std::string size; std::getline(stream, size, 'x');) {
    if (shape.axes.size() == kNames.size())
      throw InvalidArgument(fmt::format("shape '{}' has more than {} axes", sizes, kNames.size()));
    shape.axes.emplace_back(kNames[shape.axes.size()]);
    shape.dims.push_back(std::stoi(size));
  }
  return shape;
}

Shape draw_shape(Random& random, const ShapeLimits& limits) {
  std::vector<std::string> others;
  for (const std::string& name : limits.names)
    if (std::ranges::count(limits.always, name) == 0) others.push_back(name);
  others = random.shuffled(others);
  const int fewest = std::max<int>(1, static_cast<int>(limits.always.size()));
  const int most = std::min(limits.axes, static_cast<int>(limits.always.size() + others.size()));
  others.resize(static_cast<std::size_t>(random.between(fewest, most)) - limits.always.size());
  others.insert(others.end(), limits.always.begin(), limits.always.end());
  Shape shape{.axes = random.shuffled(others), .dims = {}, .offset = random.between(0, limits.offset)};
  int room = limits.ranks;
  while (shape.dims.size() < shape.axes.size()) {
    shape.dims.push_back(random.between(1, std::min(room, random.between(1, 7))));
    room /= shape.dims.back();
  }
  return shape;
}

std::vector<Shape> smaller(const Shape& shape, const ShapeLimits& limits) {
  std::vector<Shape> list;
  const auto add = [&](const auto& change) {
    list.push_back(shape);
    change(list.back());
  };
  if (shape.offset > 0) add([](Shape& one) { one.offset = 0; });
  for (std::size_t axis = 0; axis < shape.axes.size() && shape.axes.size() > 1; ++axis)
    if (std::ranges::count(limits.always, shape.axes[axis]) == 0)
      add([axis](Shape& one) {
        one.axes.erase(one.axes.begin() + static_cast<std::ptrdiff_t>(axis));
        one.dims.erase(one.dims.begin() + static_cast<std::ptrdiff_t>(axis));
      });
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) {
    if (shape.dims[axis] > 2) add([axis](Shape& one) { one.dims[axis] /= 2; });
    if (shape.dims[axis] > 1) add([axis](Shape& one) { one.dims[axis] -= 1; });
  }
  if (shape.offset > 1) add([](Shape& one) { one.offset /= 2; });
  return list;
}

std::vector<Position> positions_in(const Shape& shape, Fastest fastest) {
  std::vector<Position> positions;
  Position wheels(shape.dims.size(), 0);
  for (int left = ranks_in(shape); left > 0; --left) {
    positions.push_back(wheels);
    for (std::size_t turned = 0; turned < wheels.size(); ++turned) {
      const std::size_t axis = fastest == Fastest::last ? wheels.size() - 1 - turned : turned;
      if (++wheels[axis] < shape.dims[axis]) break;
      wheels[axis] = 0;
    }
  }
  return positions;
}

std::vector<Ranks> lists_along(const Shape& shape, const std::vector<Position>& positions,
                               const std::vector<int>& along) {
  std::map<Position, Ranks> lists;
  for (std::size_t rank = 0; rank < positions.size(); ++rank) {
    Position others = positions[rank];
    for (const int axis : along) others[static_cast<std::size_t>(axis)] = 0;
    lists[others].push_back(shape.offset + static_cast<int>(rank));
  }
  std::vector<Ranks> in_order;
  for (const auto& [others, ranks] : lists) in_order.push_back(ranks);
  return in_order;
}

Ranks list_with(const std::vector<Ranks>& lists, int rank) {
  return *std::ranges::find_if(lists, [&](const Ranks& list) { return std::ranges::count(list, rank) > 0; });
}

Ranks ranks_where(const Shape& shape, const std::vector<Position>& positions,
                  const std::function<bool(const Position&)>& fits) {
  Ranks ranks;
  for (std::size_t rank = 0; rank < positions.size(); ++rank)
    if (fits(positions[rank])) ranks.push_back(shape.offset + static_cast<int>(rank));
  return ranks;
}

}  // namespace plumbline::conformance
