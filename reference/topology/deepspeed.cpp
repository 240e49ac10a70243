#include "reference/topology/deepspeed.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::topology {
namespace {

// Letters beyond ASCII are left to the caller: Python takes most of them.
bool is_letter(unsigned char character) {
  return std::isalpha(character) != 0 || character == '_' || character >= 0x80;
}

// keyword.kwlist of Python 3, each word between blanks.
constexpr std::string_view kKeywords =
    " False None True and as assert async await break class continue def del elif else except finally for from global "
    "if import in is lambda nonlocal not or pass raise return try while with yield ";

bool is_keyword(std::string_view name) { return kKeywords.find(fmt::format(" {} ", name)) != std::string_view::npos; }

bool is_field_name(std::string_view name) {
  if (name.empty() || name.front() == '_' || is_keyword(name)) return false;
  return is_letter(static_cast<unsigned char>(name.front())) && std::ranges::all_of(name, [](unsigned char character) {
           return is_letter(character) || std::isdigit(character) != 0;
         });
}

void check_field_names(std::span<const std::string> names) {
  for (const std::string& name : names)
    if (!is_field_name(name))
      throw InvalidArgument(
          fmt::format("ProcessTopology: axis '{}' of [{}] must be an identifier that is no keyword and does not begin "
                      "with an underscore",
                      name, fmt::join(names, ", ")));
}

bool has_none(std::span<const int> sizes) {
  return std::ranges::any_of(sizes, [](int size) { return size < 1; });
}

int product_of(std::span<const int> sizes) {
  std::int64_t product = 1;
  for (const int size : sizes)
    if ((product *= size) > std::numeric_limits<int>::max())
      throw InvalidArgument(
          fmt::format("ProcessTopology: sizes [{}] multiply to more than an int holds", fmt::join(sizes, ", ")));
  return static_cast<int>(product);
}

}  // namespace

ProcessTopology::ProcessTopology(std::vector<std::string> axes, std::vector<int> sizes)
    : names_(std::move(axes)), sizes_(std::move(sizes)) {
  check_field_names(names_);
  const bool is_empty = has_none(sizes_);
  if (names_.size() > sizes_.size() && !is_empty)
    throw InvalidArgument(fmt::format("ProcessTopology: {} axes [{}] but {} sizes [{}]", names_.size(),
                                      fmt::join(names_, ", "), sizes_.size(), fmt::join(sizes_, ", ")));
  const std::vector<int> ones(names_.size(), 1);
  if (!names_.empty()) (void)Topology::row_major(names_, ones);  // refuses a name twice, in an empty world too
  if (is_empty) return;
  map_ =
      names_.empty() ? Topology::without_axes() : Topology::row_major(names_, std::span(sizes_).first(names_.size()));
  surplus_ = product_of(sizes_) / map_->world_size();
}

bool ProcessTopology::has_axis(std::string_view axis) const { return std::ranges::find(names_, axis) != names_.end(); }

int ProcessTopology::get_dim(std::string_view axis) const {
  const auto found = std::ranges::find(names_, axis);
  if (found == names_.end()) return 0;
  const auto place = static_cast<std::size_t>(found - names_.begin());
  if (place >= sizes_.size())
    throw OutOfRange(fmt::format("ProcessTopology: axis '{}' of [{}] is beyond the sizes [{}]", axis,
                                 fmt::join(names_, ", "), fmt::join(sizes_, ", ")));
  return sizes_[place];
}

int ProcessTopology::inner(int rank) const {
  if (!map_ || rank < 0 || rank % surplus_ != surplus_ - 1 || rank / surplus_ >= map_->world_size())
    throw OutOfRange(fmt::format("ProcessTopology: rank {} is not in [{}] of sizes [{}], a world of {}", rank,
                                 fmt::join(names_, ", "), fmt::join(sizes_, ", "), world_size()));
  return rank / surplus_;
}

std::vector<int> ProcessTopology::outer(std::vector<int> ranks) const {
  for (int& rank : ranks) rank = outer(rank);
  return ranks;
}

int ProcessTopology::get_rank(const NamedCoordinate& coordinate) const {
  if (!map_)
    throw OutOfRange(fmt::format("ProcessTopology: no rank at {} in an empty world of sizes [{}]", coordinate,
                                 fmt::join(sizes_, ", ")));
  return outer(map_->rank(coordinate));
}

bool ProcessTopology::is_off(std::string_view axis, int position) const {
  return has_axis(axis) && (position < 0 || position >= get_dim(axis));
}

Coordinate ProcessTopology::get_coord(int rank) const {
  const int place = inner(rank);
  return map_->coordinate(place);
}

std::vector<int> ProcessTopology::ranks() const { return filter_match({}); }

int ProcessTopology::count_axis_comm_lists(std::string_view axis) const {
  if (!has_axis(axis)) return 0;
  if (map_) return map_->groups(axis).size();
  // An empty world: a group for each coordinate on the others, with the ranks of an axis that may have none.
  std::vector<int> others;
  for (const std::string& name : names_)
    if (name != axis) others.push_back(get_dim(name));
  if (has_none(others)) return 0;
  if (get_dim(axis) > 0)
    throw OutOfRange(fmt::format("ProcessTopology: no rank in an empty world of sizes [{}]", fmt::join(sizes_, ", ")));
  return product_of(others);
}

std::vector<std::vector<int>> ProcessTopology::get_axis_comm_lists(std::string_view axis) const {
  const auto count = static_cast<std::size_t>(count_axis_comm_lists(axis));
  std::vector<std::vector<int>> lists;
  lists.reserve(count);
  if (map_ && has_axis(axis))
    map_->groups(axis).for_each(
        [&](std::span<const int> ranks) { lists.push_back(outer({ranks.begin(), ranks.end()})); });
  lists.resize(count);  // in an empty world, of no ranks
  return lists;
}

std::vector<int> ProcessTopology::get_axis_list(std::string_view axis, int position) const {
  if (!has_axis(axis))
    throw NotFound(fmt::format("ProcessTopology: no axis '{}'; there are [{}]", axis, fmt::join(names_, ", ")));
  return filter_match({{std::string(axis), position}});
}

std::vector<int> ProcessTopology::filter_match(const NamedCoordinate& filter) const {
  if (!map_) return {};
  if (std::ranges::any_of(filter, [&](const auto& at) { return is_off(at.first, at.second); })) return {};
  return outer(map_->matching(filter));
}

std::string ProcessTopology::get_rank_repr(int rank, const RankNameStyle& style) const {
  const auto is_omitted = [&](const std::string& name) {
    return std::ranges::find(style.omit, name) != style.omit.end();
  };
  if (std::ranges::all_of(names_, is_omitted)) return "";
  const int place = inner(rank);
  return rank_name(*map_, place, style);
}

std::string ProcessTopology::to_string() const {
  std::vector<std::string> entries;
  const auto add = [&](int place, std::span<const int> positions) {
    std::vector<std::string> fields;
    for (std::size_t i = 0; i < names_.size(); ++i) fields.push_back(fmt::format("{}={}", names_[i], positions[i]));
    entries.push_back(fmt::format("ProcessCoord({}): {}", fmt::join(fields, ", "), outer(place)));
  };
  if (map_) map_->for_each_coordinate(add);
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

Topology ProcessTopology::topology() const {
  if (!map_ || surplus_ != 1)
    throw InvalidArgument(
        fmt::format("ProcessTopology: the ranks of [{}] of sizes [{}], a world of {}, are not counted from 0 on",
                    fmt::join(names_, ", "), fmt::join(sizes_, ", "), world_size()));
  return *map_;
}

std::vector<int> prime_factors(int n) {
  if (n < 1) throw InvalidArgument(fmt::format("prime_factors: n must be at least 1, got {}", n));
  std::vector<int> factors;
  for (int candidate = 2; candidate <= n / candidate; ++candidate)
    for (; n % candidate == 0; n /= candidate) factors.push_back(candidate);
  if (n > 1) factors.push_back(n);
  return factors;
}

Topology default_grid(int world_size) {
  std::array<int, 2> sizes{1, 1};
  std::size_t turn = 0;
  for (const int factor : prime_factors(world_size)) sizes[turn++ % 2] *= factor;
  return Topology::row_major(std::array<std::string, 2>{"pipe", "data"}, sizes);
}

}  // namespace plumbline::topology
