#include "reference/topology/topology.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::topology {
namespace {

// "pipe=2 data=4".
std::string described(std::span<const Axis> axes) {
  std::vector<std::string> words;
  for (const Axis& axis : axes) words.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format("{}", fmt::join(words, " "));
}

void check_names(std::span<const std::string> names) {
  if (names.empty()) throw InvalidArgument("topology: no axes in []; there must be one at least");
  if (const auto empty = std::ranges::find(names, ""); empty != names.end())
    throw InvalidArgument(
        fmt::format("topology: axis {} of [{}] has an empty name", empty - names.begin(), fmt::join(names, ", ")));
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw InvalidArgument(fmt::format("topology: axis '{}' is twice in [{}]", *twice, fmt::join(names, ", ")));
}

// Axes with sizes, strides still to be set.
std::vector<Axis> checked_axes(std::span<const std::string> names, std::span<const int> sizes, int offset) {
  if (names.size() != sizes.size())
    throw InvalidArgument(fmt::format("topology: {} axes [{}] but {} sizes [{}]", names.size(), fmt::join(names, ", "),
                                      sizes.size(), fmt::join(sizes, ", ")));
  check_names(names);
  if (offset < 0) throw InvalidArgument(fmt::format("topology: the offset must be 0 or more, got {}", offset));
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < names.size(); ++i) axes.push_back({.name = names[i], .size = sizes[i]});
  std::int64_t ranks = 1;
  for (const Axis& axis : axes) {
    if (axis.size < 1)
      throw InvalidArgument(
          fmt::format("topology: axis '{}' must have a size of 1 or more, got {}", axis.name, axis.size));
    ranks *= axis.size;
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    if (ranks > kMost || offset + ranks - 1 > kMost)
      throw InvalidArgument(
          fmt::format("topology: {} from rank {} has ranks that no int holds", described(axes), offset));
  }
  return axes;
}

int position_on(const Axis& axis, int rank_in_world) { return rank_in_world / axis.stride % axis.size; }

void check_position(const Axis& axis, int position) {
  if (position < 0 || position >= axis.size)
    throw OutOfRange(fmt::format("topology: position {} on axis '{}' of size {}", position, axis.name, axis.size));
}

void check_rank(const Topology& topology, int rank) {
  if (rank < topology.offset() || rank - topology.offset() >= topology.world_size())
    throw OutOfRange(fmt::format("topology: rank {} is not in {} (ranks {} to {})", rank, topology.to_string(),
                                 topology.offset(), topology.offset() + (topology.world_size() - 1)));
}

}  // namespace

GroupList::GroupList(std::span<const Steps> across, std::span<const Steps> inside, int offset)
    : across_(joined(across)), inside_(joined(inside)), offset_(offset) {
  for (const Steps& steps : across_) count_ *= steps.count;
  for (const Steps& steps : inside_) group_size_ *= steps.count;
}

// As few steps as say the same, so that inner loops are long.
std::vector<GroupList::Steps> GroupList::joined(std::span<const Steps> steps) {
  std::vector<Steps> joined;
  for (const Steps& next : steps) {
    if (next.count == 1) continue;
    if (!joined.empty() && joined.back().stride == next.stride * next.count)
      joined.back() = {joined.back().count * next.count, next.stride};
    else
      joined.push_back(next);
  }
  return joined;
}

void GroupList::fill(int first, std::span<int> ranks) const {
  if (inside_.empty()) {
    ranks[0] = first;
    return;
  }
  const auto [count, stride] = inside_.back();
  const std::span<const Steps> outer(inside_.data(), inside_.size() - 1);
  const auto write_row = [count = count, stride = stride](int from, int* row) {
    for (int i = 0; i < count; ++i) row[i] = from + i * stride;
  };
  if (outer.empty()) return write_row(first, ranks.data());
  Odometer start(outer, first);
  for (std::size_t at = 0; at < ranks.size(); at += static_cast<std::size_t>(count), start.advance())
    write_row(start.rank(), &ranks[at]);
}

std::vector<int> GroupList::operator[](int index) const {
  if (index < 0 || index >= count_) throw OutOfRange(fmt::format("topology: group {} of {}", index, count_));
  int first = offset_;
  for (const Steps& steps : across_ | std::views::reverse) {
    first += index % steps.count * steps.stride;
    index /= steps.count;
  }
  std::vector<int> ranks(static_cast<std::size_t>(group_size_));
  fill(first, ranks);
  return ranks;
}

void GroupList::write_all(std::span<int> ranks) const {
  const auto size = static_cast<std::size_t>(group_size_);
  if (ranks.size() != size * static_cast<std::size_t>(count_))
    throw InvalidArgument(
        fmt::format("topology: room for {} ranks, {} groups have {} each", ranks.size(), count_, group_size_));
  Odometer first(across_, offset_);
  for (std::size_t i = 0; i < ranks.size(); i += size, first.advance()) fill(first.rank(), ranks.subspan(i, size));
}

std::vector<int> GroupList::flat() const {
  std::vector<int> ranks(static_cast<std::size_t>(count_) * static_cast<std::size_t>(group_size_));
  write_all(ranks);
  return ranks;
}

std::vector<std::vector<int>> GroupList::lists() const {
  std::vector<std::vector<int>> lists;
  lists.reserve(static_cast<std::size_t>(count_));
  for_each([&](std::span<const int> ranks) { lists.emplace_back(ranks.begin(), ranks.end()); });
  return lists;
}

Topology::Topology(std::vector<Axis> axes, int offset) : axes_(std::move(axes)), offset_(offset) {
  for (const Axis& axis : axes_) world_size_ *= axis.size;
}

Topology Topology::row_major(std::span<const std::string> names, std::span<const int> sizes, int offset) {
  std::vector<Axis> axes = checked_axes(names, sizes, offset);
  int stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    axis->stride = stride;
    stride *= axis->size;
  }
  return {std::move(axes), offset};
}

Topology Topology::first_fastest(std::span<const std::string> names, std::span<const int> sizes, int offset) {
  std::vector<Axis> axes = checked_axes(names, sizes, offset);
  int stride = 1;
  for (Axis& axis : axes) {
    axis.stride = stride;
    stride *= axis.size;
  }
  return {std::move(axes), offset};
}

std::vector<std::string> Topology::axis_names() const {
  std::vector<std::string> names;
  for (const Axis& axis : axes_) names.push_back(axis.name);
  return names;
}

bool Topology::has_axis(std::string_view name) const {
  return std::ranges::find(axes_, name, &Axis::name) != axes_.end();
}

std::size_t Topology::index_of(std::string_view name) const {
  const auto found = std::ranges::find(axes_, name, &Axis::name);
  if (found == axes_.end())
    throw NotFound(fmt::format("topology: no axis '{}'; there are [{}]", name, fmt::join(axis_names(), ", ")));
  return static_cast<std::size_t>(found - axes_.begin());
}

const Axis& Topology::axis(std::string_view name) const { return axes_[index_of(name)]; }

int Topology::dimension(std::string_view name) const { return axis(name).size; }

int Topology::rank(const NamedCoordinate& coordinate) const {
  for (const auto& [name, position] : coordinate) (void)index_of(name);
  int rank = offset_;
  for (const auto& [name, position] : coordinate) {
    const Axis& named = axis(name);
    check_position(named, position);
    rank += position * named.stride;
  }
  if (coordinate.size() == axes_.size()) return rank;
  std::vector<std::string> missing = axis_names();
  std::erase_if(missing, [&](const std::string& name) { return coordinate.contains(name); });
  throw InvalidArgument(fmt::format("topology: a rank needs a position on every axis of {}; missing: {}", to_string(),
                                    fmt::join(missing, ", ")));
}

Coordinate Topology::coordinate(int rank) const {
  Coordinate positions(axes_.size());
  coordinate(rank, positions);
  return positions;
}

void Topology::coordinate(int rank, std::span<int> positions) const {
  check_rank(*this, rank);
  if (positions.size() != axes_.size())
    throw InvalidArgument(
        fmt::format("topology: room for {} positions, {} has {} axes", positions.size(), to_string(), axes_.size()));
  std::ranges::transform(axes_, positions.begin(), [&](const Axis& axis) { return position_on(axis, rank - offset_); });
}

int Topology::position(int rank, std::string_view name) const {
  check_rank(*this, rank);
  return position_on(axis(name), rank - offset_);
}

int Topology::moved(int rank, std::string_view name, int place) const {
  const Axis& along = axis(name);
  check_position(along, place);
  return rank + (place - position(rank, name)) * along.stride;
}

std::vector<bool> Topology::marked(std::span<const std::string> names) const {
  std::vector<bool> marks(axes_.size());
  for (const std::string& name : names) {
    const std::size_t at = index_of(name);
    if (marks[at])
      throw InvalidArgument(fmt::format("topology: axis '{}' is twice in [{}]", name, fmt::join(names, ", ")));
    marks[at] = true;
  }
  return marks;
}

std::vector<GroupList::Steps> Topology::steps_by_stride(const std::vector<bool>& marks, bool wanted) const {
  std::vector<GroupList::Steps> steps;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (marks[i] == wanted) steps.push_back({axes_[i].size, axes_[i].stride});
  if (!is_last_fastest()) std::ranges::reverse(steps);
  return steps;
}

GroupList Topology::groups(std::string_view name) const {
  const Axis& inside = axis(name);
  std::vector<GroupList::Steps> across;
  for (const Axis& other : axes_)
    if (&other != &inside) across.push_back({other.size, other.stride});
  return {across, std::array{GroupList::Steps{inside.size, inside.stride}}, offset_};
}

GroupList Topology::merged_groups(std::span<const std::string> names) const {
  const std::vector<bool> marks = marked(names);
  return {steps_by_stride(marks, false), steps_by_stride(marks, true), offset_};
}

int Topology::group_index(int rank, std::string_view name) const {
  check_rank(*this, rank);
  const Axis& inside = axis(name);
  int index = 0;
  for (const Axis& across : axes_)
    if (&across != &inside) index = index * across.size + position_on(across, rank - offset_);
  return index;
}

std::vector<int> Topology::group_of(int rank, std::string_view name) const {
  return groups(name)[group_index(rank, name)];
}

std::vector<int> Topology::merged_group_of(int rank, std::span<const std::string> names) const {
  check_rank(*this, rank);
  const std::vector<bool> marks = marked(names);
  int first = rank;
  for (const std::string& name : names) first -= position(rank, name) * axis(name).stride;
  return GroupList({}, steps_by_stride(marks, true), first).flat();
}

std::vector<int> Topology::matching(const NamedCoordinate& filter) const {
  std::vector<bool> fixed(axes_.size());
  int first = offset_;
  for (const auto& [name, position] : filter) {
    const std::size_t at = index_of(name);
    check_position(axes_[at], position);
    first += position * axes_[at].stride;
    fixed[at] = true;
  }
  return GroupList({}, steps_by_stride(fixed, false), first).flat();
}

std::string Topology::to_string() const { return described(axes_); }

std::vector<std::string> split_names(std::string_view words) {
  std::vector<std::string> names(1);
  for (const char character : words) {
    if (character == '-')
      names.emplace_back();
    else
      names.back() += character;
  }
  return names;
}

std::string rank_name(const Topology& topology, int rank, const RankNameStyle& style) {
  const Coordinate positions = topology.coordinate(rank);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::string& name = topology.axes()[i].name;
    if (std::ranges::find(style.omit, name) == style.omit.end())
      parts.push_back(fmt::format("{}{}{:02d}", name, style.inner, positions[i]));
  }
  return fmt::format("{}", fmt::join(parts, style.outer));
}

}  // namespace plumbline::topology
