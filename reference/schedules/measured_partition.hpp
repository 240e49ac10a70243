// reference/schedules/measured_partition.hpp: the partition whose slowest stage is as fast as can be, within a memory limit.
//
// Model   In its steady state a pipeline takes, for each micro-batch, as long as its slowest part: a stage's forward and
//         backward, or a boundary's message, which moves beside the computations and each way on a link of its own. Stage
//         s of p keeps its parameters and the activations of as many micro-batches as the schedule has it keep at once,
//         min(p-s, m) in 1F1B; both have to fit. Each stage has a layer at least, and a rank one stage.
// Exact   Of all partitions that fit none has a shorter period; times are sums in the order of the layers, so that whole
//         numbers stay whole. Bytes are counted exactly, below 2^53.
// Cost    O(layers^2 x stages) time at most, mostly O(layers^2 / stages + layers x stages); O(layers x stages) memory.
// Sources Harlap et al., arXiv:1806.03377 (PipeDream: the slowest of stages and messages, by dynamic programming);
//         Narayanan et al., arXiv:2104.04473 (what 1F1B keeps).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/errors.hpp"
#include "reference/schedules/partition.hpp"
#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules {

/// What a layer costs.
struct LayerCost {
  double forward = 0;                 // seconds on one micro-batch
  double backward = 0;                // of input and weights
  double weight_gradient = 0;         // the part of `backward` that may wait: W
  std::int64_t parameters = 0;        // trainable numbers
  std::int64_t parameter_bytes = 0;   // all that is kept throughout: weights, gradients, the optimizer's state
  std::int64_t activation_bytes = 0;  // kept of one micro-batch from its forward to its backward
  std::int64_t output_bytes = 0;      // sent to the next stage, and as a gradient back
};

struct StageLimits {
  std::vector<int> kept{};  // by stage, of how many micro-batches the activations are kept at once
  std::int64_t memory = std::numeric_limits<std::int64_t>::max();  // bytes a rank
  double bandwidth = std::numeric_limits<double>::infinity();      // bytes a second between two stages, each way
};

/// min(stages - s, micro_batches) of stage s: 1F1B's. Throws InvalidArgument for numbers below 1.
[[nodiscard]] std::vector<int> kept_by_1f1b(int stages, int micro_batches);
/// What the ranks of a schedule keep; of a forward-only one, during a forward alone. Throws InvalidArgument unless each rank
/// has one stage, and what simulate() throws.
[[nodiscard]] std::vector<int> kept_by(const Schedule& schedule, bool forward_only = false);

/// No partition is within the limit. At best, with the least memory that the fullest stage can have, it is `stage` that
/// does not fit, by `missing` bytes.
class NoPartitionFits : public InvalidArgument {
 public:
  NoPartitionFits(const std::string& words, int stage, std::int64_t missing)
      : InvalidArgument(words), stage_(stage), missing_(missing) {}
  [[nodiscard]] int stage() const { return stage_; }
  [[nodiscard]] std::int64_t missing() const { return missing_; }

 private:
  int stage_;
  std::int64_t missing_;
};

/// As many parts as `limits.kept` has entries. Of several best partitions, the one whose stages, from the first on, have
/// the most layers. Throws NoPartitionFits; InvalidArgument for more stages than layers, no stage, numbers that are
/// negative or not finite (with the layer), a bandwidth that is not above 0, sums of bytes of 2^53 and more, and for
/// layers^2 x stages above 2^33.
[[nodiscard]] Boundaries partition_measured(std::span<const LayerCost> layers, const StageLimits& limits);

struct StageCost {
  double seconds = 0;      // forward and backward of a micro-batch
  double message = 0;      // seconds that its output is under way to the next stage; 0 of the last
  std::int64_t bytes = 0;  // parameters, and the activations that are kept
  bool operator==(const StageCost&) const = default;
};
/// Throws InvalidArgument for numbers as partition_measured(), and for boundaries of other layers or stages.
[[nodiscard]] std::vector<StageCost> stage_costs(std::span<const LayerCost> layers, const Boundaries& boundaries,
                                                 const StageLimits& limits);
/// Seconds a micro-batch in the steady state: the slowest stage's or message's.
[[nodiscard]] double period_of(std::span<const StageCost> stages);

}  // namespace plumbline::schedules
