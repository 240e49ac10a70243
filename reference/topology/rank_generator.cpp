#include "reference/topology/rank_generator.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::topology {
namespace {

constexpr std::string_view kWeightAxis = "gtp_remat";
constexpr auto kNames = std::to_array<std::string_view>({"tp", "pp", "dp", "ep", "cp", kWeightAxis});

std::string lower(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return small;
}

int size_of(const std::map<std::string, int>& sizes, std::string_view name) {
  const auto found = sizes.find(std::string(name));
  return found == sizes.end() ? 1 : found->second;
}

// In the sizes, or in an order.
void check_name(const std::string& name, const std::string* order = nullptr) {
  if (std::ranges::find(kNames, name) == kNames.end())
    throw NotFound(fmt::format("RankGenerator: no parallelism '{}', in {}; there are {}", name,
                               order == nullptr ? "the sizes" : fmt::format("the order '{}'", *order),
                               fmt::join(kNames, ", ")));
}

void check_sizes(const std::map<std::string, int>& sizes) {
  for (const auto& [name, size] : sizes) check_name(name);
  if (const int ep = size_of(sizes, "ep"), cp = size_of(sizes, "cp"); ep > 1 && cp > 1)
    throw InvalidArgument(
        fmt::format("RankGenerator: ep {} and cp {} larger than 1; cp belongs to the dense generator, ep to the "
                    "experts' one",
                    ep, cp));
}

// The names of a topology, the first fastest.
std::vector<std::string> completed(const std::map<std::string, int>& sizes, const std::string& order,
                                   bool is_megatron) {
  std::vector<std::string> names;
  if (!order.empty() || is_megatron) names = split_names(order);
  for (const std::string& name : names) check_name(name, &order);
  const std::vector<std::string> given = names;
  for (const std::string_view name : kNames) {
    const int size = size_of(sizes, name);
    const bool has_place = std::ranges::find(given, name) != given.end();
    if (size > 1 && !has_place)
      throw InvalidArgument(
          fmt::format("RankGenerator: {} is {}, but the order '{}' does not name it", name, size, order));
    const bool is_in_text = is_megatron && order.find(name) != std::string::npos;
    if (!has_place && !is_in_text) names.emplace_back(name);
  }
  return names;
}

Topology topology_of(const std::map<std::string, int>& sizes, const std::string& order, int rank_offset,
                     bool is_megatron) {
  check_sizes(sizes);
  const std::vector<std::string> names = completed(sizes, order, is_megatron);
  std::vector<int> ordered;
  for (const std::string& name : names) ordered.push_back(size_of(sizes, name));
  return Topology::first_fastest(names, ordered, is_megatron ? std::max(rank_offset, 0) : rank_offset);
}

bool same_groups(const GroupList& a, const GroupList& b) {
  return a.group_size() == b.group_size() && a.flat() == b.flat();
}

}  // namespace

std::string with_weight_axis(std::string_view order, std::string_view neighbour) {
  std::vector<std::string> names = split_names(order);
  if (std::ranges::find(names, kWeightAxis) != names.end()) return std::string(order);
  auto before = std::ranges::find(names, neighbour);
  if (before == names.end()) before = std::ranges::find(names, "tp");
  names.emplace(before == names.end() ? names.begin() : before + 1, kWeightAxis);
  return fmt::format("{}", fmt::join(names, "-"));
}

RankGenerator::RankGenerator(const std::map<std::string, int>& sizes, std::string_view order, int rank_offset,
                             OrderRule rule)
    : given_order_(order),
      rule_(rule),
      topology_(topology_of(sizes, lower(order), rank_offset, rule == OrderRule::megatron)) {}

std::string RankGenerator::order() const { return fmt::format("{}", fmt::join(topology_.axis_names(), "-")); }

std::vector<int> RankGenerator::ordered_size() const {
  std::vector<int> sizes;
  for (const Axis& axis : topology_.axes()) sizes.push_back(axis.size);
  return sizes;
}

int RankGenerator::size(std::string_view name) const {
  return topology_.has_axis(name) ? topology_.dimension(name) : 1;
}

GroupList RankGenerator::groups(std::string_view token) const {
  std::vector<std::string> names;
  for (const std::string& name : split_names(token))
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return topology_.merged_groups(names);
}

RankGenerator expert_generator(const RankGenerator& dense, int tp, int ep, int gtp_remat,
                               std::optional<std::string_view> own_order) {
  const std::string_view order = own_order.value_or(dense.given_order_);
  const int pp = dense.size("pp");
  std::map<std::string, int> sizes{{"tp", tp}, {"ep", ep}, {"pp", pp}, {"gtp_remat", gtp_remat}};
  const RankGenerator replica(sizes, order, 0, dense.rule_);
  const int world_size = dense.world_size(), dp = world_size / replica.world_size();
  if (world_size % replica.world_size() != 0)
    throw InvalidArgument(
        fmt::format("expert_generator: tp {} x ep {} x pp {} x gtp_remat {} does not divide the world of {} ranks", tp,
                    ep, pp, gtp_remat, world_size));
  if (!order.ends_with("pp") && pp > 1 && dp != dense.size("dp"))
    throw InvalidArgument(fmt::format(
        "expert_generator: the experts' dp is {} and the dense one {}; they may differ only where pp is last "
        "in the order, which is {}",
        dp, dense.size("dp"), order));
  sizes["dp"] = dp;
  RankGenerator experts(sizes, order, dense.topology_.offset(), dense.rule_);
  if (!same_groups(dense.groups("pp"), experts.groups("pp")))
    throw InvalidArgument(fmt::format("expert_generator: pipelines of the experts ({}) differ from the dense ones ({})",
                                      experts.topology_.to_string(), dense.topology_.to_string()));
  return experts;
}

HyperCommGrid::HyperCommGrid(std::span<const std::string> names, std::span<const int> shape, int world_size,
                             int rank_offset) {
  Topology base = Topology::first_fastest(names, shape, rank_offset);
  if (base.world_size() > std::int64_t{world_size} - rank_offset)
    throw InvalidArgument(fmt::format("HyperCommGrid: {} has {} ranks from rank {} on, the world has {} ranks",
                                      base.to_string(), base.world_size(), rank_offset, world_size));
  views_.emplace(kBase, View{std::move(base), {}});
}

const HyperCommGrid::View& HyperCommGrid::view(std::string_view name) const {
  const auto found = views_.find(name);
  if (found == views_.end())
    throw NotFound(
        fmt::format("HyperCommGrid: no view '{}'; there are [{}]", name, fmt::join(views_ | std::views::keys, ", ")));
  return found->second;
}

const Topology& HyperCommGrid::topology(std::string_view name) const { return view(name).topology; }

void HyperCommGrid::register_view(const std::string& name, std::span<const std::string> names,
                                  std::span<const int> shape, const std::vector<std::string>& shared) {
  if (views_.contains(name)) throw InvalidArgument(fmt::format("HyperCommGrid: view '{}' exists already", name));
  const Topology& base = topology();
  const Topology other = Topology::first_fastest(names, shape, base.offset());
  if (other.world_size() != base.world_size())
    throw InvalidArgument(fmt::format("HyperCommGrid: view '{}' ({}) has {} ranks, the base ({}) has {}", name,
                                      other.to_string(), other.world_size(), base.to_string(), base.world_size()));
  const auto check_shared = [&](std::span<const std::string> dimensions) {
    if (!same_groups(base.merged_groups(dimensions), other.merged_groups(dimensions)))
      throw InvalidArgument(
          fmt::format("HyperCommGrid: shared [{}] are other groups in view '{}' ({}) than in the base ({})",
                      fmt::join(dimensions, ", "), name, other.to_string(), base.to_string()));
  };
  for (const std::string& dimension : shared) check_shared(std::span(&dimension, 1));
  check_shared(shared);
  views_.emplace(name, View{other, shared});
}

GroupList HyperCommGrid::groups(std::span<const std::string> names, std::string_view name) const {
  return view(name).topology.merged_groups(names);
}

std::string HyperCommGrid::owner(std::span<const std::string> names, std::string_view name) const {
  const std::vector<std::string>& shared = view(name).shared;
  const bool all_shared = std::ranges::all_of(
      names, [&](const std::string& dimension) { return std::ranges::count(shared, dimension) != 0; });
  return std::string(all_shared ? kBase : name);
}

}  // namespace plumbline::topology
