// conformance/groups/worlds.hpp: sizes of parallel axes, lists of ranks, and contexts over the case's world.
//
// Model   What a group must hold is said here by arithmetic on rank numbers alone: a rank's coordinates by division,
//         its group by the coordinates that it has in common with others.
#pragma once

#include <functional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "harness/suite/check.hpp"
#include "reference/groups/parallel_context.hpp"

namespace plumbline::conformance {

/// How many ranks a world has along each axis.
struct AxisSizes {
  int pipeline = 1, data = 1, tensor = 1;
  [[nodiscard]] int world() const { return pipeline * data * tensor; }
  [[nodiscard]] std::string name() const;  // "3x2x1": pipeline, data, tensor
  [[nodiscard]] static AxisSizes parse(const std::string& name);
};

/// Which axis has its neighbours farthest apart: ColossalAI's data, the others' pipeline. Tensor is always the fastest.
enum class Slowest { data, pipeline };

struct Place {
  int pipeline = 0, data = 0, tensor = 0;
};
[[nodiscard]] Place place_of(const AxisSizes& sizes, Slowest slowest, int rank);
/// The rank at a place.
[[nodiscard]] int rank_at(const AxisSizes& sizes, Slowest slowest, const Place& place);
/// The ranks, ascending, that share a rank's group: "data", "pipeline" and "tensor" differ in that coordinate alone,
/// "model" has one data coordinate.
[[nodiscard]] std::vector<int> members_of(const AxisSizes& sizes, Slowest slowest, std::string_view mode, int rank);

/// How a tensor mode lays out its ranks: in a row, a square, `depth` squares or a cube, of side `side`.
struct TensorLayout {
  std::string mode;
  int side = 1, depth = 1;
  [[nodiscard]] int size() const;
  [[nodiscard]] static TensorLayout parse(const std::string& name);  // "2d_3", "2.5d_2_depth_3"
};
/// The names of its own groups.
[[nodiscard]] std::vector<std::string> modes_of(const TensorLayout& layout);
/// The ranks, ascending, that share a rank's group of such a name in a world of that many ranks.
[[nodiscard]] std::vector<int> members_of(const TensorLayout& layout, int world, const std::string& mode, int rank);

/// Lists of all of n ranks or of some, by name: "whole", "descending", "interleaved" (last, first, last but one, …),
/// "without_first", "odd" (1, 3, 5, …), "some_of_them" (last, 1, 2), "unequal_strides" (1, 2, 5, 4).
[[nodiscard]] std::vector<int> list_named(const std::string& name, int n);
[[nodiscard]] bool contains(const std::vector<int>& list, int rank);

/// A context over the case's world. Collective.
[[nodiscard]] groups::ParallelContext context_over(suite::Context& context, groups::Plan plan,
                                                   const groups::ContextOptions& options = {});
/// A plan of these creations for the case's world.
[[nodiscard]] groups::Plan plan_of(suite::Context& context, std::vector<groups::Creation> creations);

/// Reports unless a sum over the group, of a bit, a number and a one for each rank, is that of `members`: a rank that
/// is missing, strange or counted twice changes it. Collective.
void expect_members(comm::Communicator& group, int rank, const std::vector<int>& members, const std::string& what);

/// Reports unless a broadcast hands on what the root, a world rank, has. Every other rank begins with what is no part
/// of it. Collective.
void expect_broadcast(const std::function<void(comm::Buffer)>& broadcast, int rank, int root);

/// Reports unless an error's words hold each of `names`. Says nothing of no words: that is reported where they lack.
void expect_named(const std::string& words, const std::vector<std::string>& names,
                  std::source_location where = std::source_location::current());

}  // namespace plumbline::conformance
