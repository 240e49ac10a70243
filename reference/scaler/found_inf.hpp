// reference/scaler/found_inf.hpp: who skips a step when some rank found an infinity or NaN.
//
// Model   Ranks whose parameters step together must skip together, and their scales must move together. Each rank has
//         one or several flags, above 0 where it found something; the deciding group makes them the group's by a
//         maximum.
// Groups  local                 no exchange: for a group of one
//         tensor                a pipeline's other stages do not hear of it, and hang or diverge
//         tensor_then_pipeline  the tensor group, then the pipeline's: two reductions, the same answer as the model
//                               group's
//         model                 tensor x pipeline in one reduction. Enough where data-parallel gradients were reduced
//                               before: then every replica has the infinity that one had
//         model_and_data        all of them: right also where gradients were not reduced, or only sharded
// Cost    A reduction of 4 bytes a flag. A group of one costs nothing.
// Sources ColossalAI, commit 96780e6 (#94, with #86): TENSOR and then PIPELINE became MODEL, and the flags one message.
#pragma once

#include <span>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::scaler {

enum class Deciding { local, tensor, tensor_then_pipeline, model, model_and_data };

using RankLists = std::vector<std::vector<int>>;

/// The groups of a world by what they are for. A rank that a list does not have is alone in it.
struct ModelGroups {
  RankLists tensor, pipeline, model, data;
};

/// A row-major world, tensor fastest, then stages, then replicas. Throws InvalidArgument unless all sizes are at least
/// 1 and their product is at most `most`.
[[nodiscard]] ModelGroups model_groups(int tensor, int pipeline, int data, int most = 1 << 20);

/// True for each rank that has a true one in its list, of which no two share a rank, or is true itself. Throws
/// OutOfRange for a rank that `found` does not have.
[[nodiscard]] std::vector<bool> spread(const RankLists& lists, std::vector<bool> found);
/// Which ranks skip, given which found something. Throws as spread().
[[nodiscard]] std::vector<bool> skipping(Deciding deciding, const ModelGroups& groups, std::vector<bool> found);
/// What ranks find after their gradients were added up in those lists: an infinity reaches all members.
[[nodiscard]] inline std::vector<bool> after_reduction(const RankLists& data, std::vector<bool> found) {
  return spread(data, std::move(found));
}

/// Makes this rank's flags the maximum over the group, all in one message, in place. Every member calls it with the
/// same number of flags, also one without gradients. Returns when the flags may be read. Throws what the communicator
/// throws.
void agree_on_found_inf(comm::Communicator& group, std::span<float> flags, comm::Timeout timeout = {});
/// The same over several groups, one after the other: the tensor group, then the pipeline's.
void agree_on_found_inf(std::span<comm::Communicator* const> groups, std::span<float> flags,
                        comm::Timeout timeout = {});
/// Agrees on flags of f32 in any memory that the groups serve: in a device's, what comes later in the groups' stream
/// may read them.
void agree_on_found_inf(std::span<comm::Communicator* const> groups, const comm::Buffer& flags,
                        comm::Timeout timeout = {});

}  // namespace plumbline::scaler
