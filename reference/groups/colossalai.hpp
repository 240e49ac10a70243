// reference/groups/colossalai.hpp: the groups of ColossalAI, and those of each of its tensor modes.
//
// Model   A world of data x pipeline x tensor ranks, tensor fastest: rank = (data x pipeline size + stage) x tensor
//         size + tensor rank. The data size is what is left of the world. A tensor mode looks at the ranks of a tensor
//         group as a square (2d), a square with a depth (2.5d) or a cube (3d), row-major, and groups them along its
//         edges.
// Order   DATA, MODEL, PIPELINE where there is more than one stage, TENSOR, then the mode's own groups. There are no
//         groups for the previous and the next stage: neighbours are computed (Membership).
// Sources ColossalAI, commit 96780e6 (context/parallel_context.py and process_group_initializer/; utils' shared
//         modules).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reference/groups/plan.hpp"

namespace plumbline::groups {

/// How the ranks of a tensor group divide the work among them.
enum class TensorMode {
  none,
  one_dimensional,
  two_dimensional,
  two_and_a_half_dimensional,
  three_dimensional,
  sequence
};
/// "none", "1d", "2d", "2.5d", "3d", "sequence".
[[nodiscard]] std::string_view name_of(TensorMode mode);
/// Throws NotFound, naming the known modes.
[[nodiscard]] TensorMode parse_tensor_mode(std::string_view name);

struct ParallelConfiguration {
  int pipeline = 1;
  int tensor = 1;
  TensorMode mode = TensorMode::none;
  std::optional<int> depth{};  // of 2.5d, which needs it; others have none
};

/// World size / (pipeline x tensor). Throws InvalidArgument, with the arithmetic, where they do not multiply to the
/// world.
[[nodiscard]] int data_parallel_size(int world_size, const ParallelConfiguration& configuration);
/// The creations of every rank, in order. Throws InvalidArgument as data_parallel_size() does, and for a tensor size
/// that the mode cannot lay out (no square, no square x depth, no cube).
[[nodiscard]] Plan colossalai_plan(int world_size, const ParallelConfiguration& configuration);

/// The groups of the ranks that share a module across pipeline stages: one for each (data, tensor) coordinate, the data
/// coordinate slowest; members in the order of `stages`. Mode "SHARED_MODULE". Throws as colossalai_plan(), and
/// InvalidArgument for fewer than two stages or a repeated one, OutOfRange for a stage that does not exist.
[[nodiscard]] Plan shared_module_plan(int world_size, const ParallelConfiguration& configuration,
                                      std::span<const int> stages);

/// Whose values a shared module starts from.
enum class BroadcastSource {
  first_member,    // of the group
  stage_as_index,  // ColossalAI: the member at the position that the first stage's number names, if it exists
};
/// The world rank whose parameters the others of its group take. `members` is the group of the shared module, in the
/// order of `stages`. Throws OutOfRange where stage_as_index points after the end of the list: stages [2, 3] have no
/// member 2.
[[nodiscard]] int broadcast_source(std::span<const int> members, std::span<const int> stages, BroadcastSource rule);

}  // namespace plumbline::groups
