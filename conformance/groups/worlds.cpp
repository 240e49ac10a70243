#include "conformance/groups/worlds.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/collectives/trials.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

std::string AxisSizes::name() const { return fmt::format("{}x{}x{}", pipeline, data, tensor); }

AxisSizes AxisSizes::parse(const std::string& name) {
  AxisSizes sizes;
  if (std::sscanf(name.c_str(), "%dx%dx%d", &sizes.pipeline, &sizes.data, &sizes.tensor) != 3)
    throw InvalidArgument(fmt::format("sizes '{}' are not of the form 3x2x1", name));
  return sizes;
}

Place place_of(const AxisSizes& sizes, Slowest slowest, int rank) {
  const int above = rank / sizes.tensor;
  if (slowest == Slowest::data)
    return {.pipeline = above % sizes.pipeline, .data = above / sizes.pipeline, .tensor = rank % sizes.tensor};
  return {.pipeline = above / sizes.data, .data = above % sizes.data, .tensor = rank % sizes.tensor};
}

int rank_at(const AxisSizes& sizes, Slowest slowest, const Place& place) {
  const int above = slowest == Slowest::data ? place.data * sizes.pipeline + place.pipeline
                                             : place.pipeline * sizes.data + place.data;
  return above * sizes.tensor + place.tensor;
}

std::vector<int> members_of(const AxisSizes& sizes, Slowest slowest, std::string_view mode, int rank) {
  const Place own = place_of(sizes, slowest, rank);
  const auto together = [&](const Place& other) {
    const bool pipeline = own.pipeline == other.pipeline, data = own.data == other.data,
               tensor = own.tensor == other.tensor;
    if (mode == "data") return pipeline && tensor;
    if (mode == "pipeline") return data && tensor;
    if (mode == "tensor") return pipeline && data;
    return data;
  };
  std::vector<int> members;
  for (int other = 0; other < sizes.world(); ++other)
    if (together(place_of(sizes, slowest, other))) members.push_back(other);
  return members;
}

int TensorLayout::size() const {
  if (mode == "2d") return side * side;
  if (mode == "2.5d") return depth * side * side;
  return mode == "3d" ? side * side * side : side;
}

TensorLayout TensorLayout::parse(const std::string& name) {
  TensorLayout layout{.mode = name.substr(0, name.find('_'))};
  const std::string rest = name.substr(layout.mode.size());
  if (std::sscanf(rest.c_str(), "_%d_depth_%d", &layout.side, &layout.depth) < 1)
    throw InvalidArgument(fmt::format("layout '{}' is not of the form 2d_3", name));
  return layout;
}

namespace {

// For each name, the digits of a rank's number to the base of the side that its group has in common: the last 'c', the
// last but one 'b', what is above them in its copy of the layout 'a'.
const std::map<std::string, std::map<std::string, std::string>>& common_digits() {
  static const std::map<std::string, std::map<std::string, std::string>> table{
      {"none", {}},
      {"1d", {{"PARALLEL_1D", ""}}},
      {"sequence", {{"SEQUENCE", ""}}},
      {"2d", {{"PARALLEL_2D_ROW", "b"}, {"PARALLEL_2D_COL", "c"}}},
      {"2.5d",
       {{"PARALLEL_2P5D_ROW", "ab"},
        {"PARALLEL_2P5D_COL", "ac"},
        {"PARALLEL_2P5D_DEP", "bc"},
        {"PARALLEL_2P5D_XZ", "c"}}},
      {"3d", {{"PARALLEL_3D_INPUT", "ac"}, {"PARALLEL_3D_WEIGHT", "ab"}, {"PARALLEL_3D_OUTPUT", "bc"}}},
  };
  return table;
}

}  // namespace

std::vector<std::string> modes_of(const TensorLayout& layout) {
  std::vector<std::string> modes;
  for (const auto& [mode, digits] : common_digits().at(layout.mode)) modes.push_back(mode);
  return modes;
}

std::vector<int> members_of(const TensorLayout& layout, int world, const std::string& mode, int rank) {
  const std::string& digits = common_digits().at(layout.mode).at(mode);
  const auto digit = [&](char which, int of) {
    const int inside = of % layout.size();
    return which == 'c'   ? inside % layout.side
           : which == 'b' ? inside / layout.side % layout.side
                          : inside / layout.side / layout.side;
  };
  std::vector<int> members;
  for (int other = 0; other < world; ++other)
    if (other / layout.size() == rank / layout.size() &&
        std::ranges::all_of(digits, [&](char which) { return digit(which, other) == digit(which, rank); }))
      members.push_back(other);
  return members;
}

std::vector<int> list_named(const std::string& name, int n) {
  if (name == "some_of_them") return n > 3 ? std::vector{n - 1, 1, 2} : std::vector{n - 1, 0};
  if (name == "unequal_strides")
    return n > 5 ? std::vector{1, 2, 5, 4} : n > 2 ? std::vector{0, n - 1, 1} : std::vector{1, 0};
  std::vector<int> list;
  for (int i = 0; i < n; ++i) {
    if (name == "whole") list.push_back(i);
    if (name == "descending") list.push_back(n - 1 - i);
    if (name == "interleaved") list.push_back(i % 2 == 0 ? n - 1 - i / 2 : i / 2);
    if (name == "without_first" && i > 0) list.push_back(i);
    if (name == "odd" && i % 2 == 1) list.push_back(i);
  }
  return list;
}

bool contains(const std::vector<int>& list, int rank) { return std::ranges::find(list, rank) != list.end(); }

groups::ParallelContext context_over(suite::Context& context, groups::Plan plan,
                                     const groups::ContextOptions& options) {
  return {context.world(), std::move(plan), options};
}

groups::Plan plan_of(suite::Context& context, std::vector<groups::Creation> creations) {
  return {.convention = "plumbline", .world_size = context.size(), .creations = std::move(creations)};
}

void expect_members(comm::Communicator& group, int rank, const std::vector<int>& members, const std::string& what) {
  const auto bit = [](int of) { return std::int64_t{1} << of; };
  std::vector<std::int64_t> sum(3);
  for (const int member : members) {
    sum[0] += bit(member);
    sum[1] += member;
    sum[2] += 1;
  }
  const GuardedInput own(std::vector<std::int64_t>{bit(rank), rank, 1});
  GuardedOutput all(sum);
  group.all_reduce(own.view(), all.view(), comm::ReduceOp::sum);
  if (const std::string words = all.wrong_result(); !words.empty())
    report(fmt::format("{} of rank {}, which has [{}]: bits, numbers and count of its members: {}", what, rank,
                       fmt::join(members, " "), words));
}

namespace {

// What a rank hands on.
std::int64_t content_of(int rank) { return 1000 + 17 * rank; }

}  // namespace

void expect_broadcast(const std::function<void(comm::Buffer)>& broadcast, int rank, int root) {
  const std::vector<std::int64_t> content(5, content_of(root));
  GuardedOutput buffer(content);
  if (rank == root) std::ranges::copy(content, static_cast<std::int64_t*>(buffer.view().data));
  broadcast(buffer.view());
  if (const std::string words = buffer.wrong_result(); !words.empty())
    report(fmt::format("broadcast from rank {} to rank {}: {}", root, rank, words));
}

void expect_named(const std::string& words, const std::vector<std::string>& names, std::source_location where) {
  if (words.empty()) return;
  for (const std::string& name : names)
    if (words.find(name) == std::string::npos) report(fmt::format("'{}' is not named in: {}", name, words), where);
}

}  // namespace plumbline::conformance
