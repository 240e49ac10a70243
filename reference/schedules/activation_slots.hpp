// reference/schedules/activation_slots.hpp: in which buffer each activation is kept.
//
// Model   What a stage keeps of a micro-batch is in a slot of its rank from its forward to the end of its backward or
//         weight gradient. A forward takes the lowest slot that is free; of computations at once, forwards come first. A
//         rank needs as many slots as it keeps activations at its peak, and no more: intervals on a line.
// Cost    O(actions x log slots).
#pragma once

#include <vector>

#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules {

inline constexpr int kNoSlot = -1;

struct ActivationSlots {
  std::vector<int> counts;  // by rank: how many slots it needs
  std::vector<std::vector<int>>
      slots;  // of each action of each rank: where its computation's activation is; kNoSlot of
              // what is no computation
  bool operator==(const ActivationSlots&) const = default;
};

/// Without a backward (`forward_only`) an activation is kept while its forward runs. Throws InvalidArgument, with rank
/// and position, for a forward whose activation is still there, and for anything else whose activation is not.
[[nodiscard]] ActivationSlots activation_slots(const Schedule& schedule, bool forward_only = false);

}  // namespace plumbline::schedules
