// reference/bucketing/megatron.hpp: Megatron-LM's gradient buffer: contiguous, from the last parameter to the first, with padding.
//
// Model   A buffer holds the parameters of one type and group from the last one on, since a backward makes their gradients in
//         that order. A bucket is a stretch of it, and closes after the parameter that reaches the size. For the distributed
//         optimizer, which gives each rank an equal part of every bucket, parameters start at multiples of 64 elements and buckets
//         end at multiples of lcm(ranks, 128), for the highest bandwidth of NCCL of lcm(ranks, 128, 65536); and an embedding
//         that is shared among stages has a bucket of its own. Of several instances of it, ranks are those of one.
// Units   Elements, also of the bucket size.
// Source  megatron-core 0.19, megatron/core/distributed/param_and_grad_buffer.py, optimizer/distrib_optimizer.py: equal to the
//         recorded layouts. It pads in doubles; we in integers, and refuse buffers of more than 2^53 elements, where the two
//         could differ.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

inline constexpr std::int64_t kMegatronParameterStart = 64;  // elements
inline constexpr std::int64_t kMegatronBucketEnd = 128;      // elements
inline constexpr std::int64_t kMegatronBandwidth = 1 << 16;  // elements

/// What the distributed optimizer needs of a buffer.
struct DistributedOptimizer {
  int ranks = 1;                        // of the group that gradients are reduced over
  int instances = 1;                    // that they are divided into, each of which holds all parts
  bool pads_for_bandwidth = false;      // pad_buckets_for_high_nccl_busbw
  std::vector<int> shared_embedding{};  // indices of parameters
};

struct MegatronOptions {
  std::optional<std::int64_t> bucket_elements{};  // nothing: one bucket
  std::optional<DistributedOptimizer> distributed_optimizer{};
};

/// Half open, in elements.
struct Interval {
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

struct MegatronLayout {
  std::vector<Interval> parameters;    // of each parameter, in the order of registration
  std::vector<int> bucket;             // of each parameter
  std::vector<Interval> buckets;       // with padding; they lie one after the other
  std::vector<std::int64_t> unpadded;  // elements of each bucket without the padding at its end
  friend bool operator==(const MegatronLayout&, const MegatronLayout&) = default;
};

/// The elements that every bucket is a multiple of. Throws InvalidArgument for fewer than one rank, and for instances that the
/// ranks are not divided into.
[[nodiscard]] std::int64_t megatron_bucket_multiple(const DistributedOptimizer& optimizer);

/// max(40,000,000, 1,000,000 x ranks), the size that is taken by default.
[[nodiscard]] std::int64_t megatron_default_elements(int ranks);

/// The buffer of parameters of one type and group. Throws InvalidArgument for sizes below 0, fewer than one rank, or a shared
/// embedding that is no parameter, or instances that the ranks are not divided into; OutOfRange for buffers of more than 2^53 elements.
[[nodiscard]] MegatronLayout megatron_layout(std::span<const std::int64_t> elements, const MegatronOptions& options);

/// A buffer for each (type, device, group), in the order in which a backward comes to them, and its buckets from the first one on.
/// Throws also Unsupported for sparse gradients.
[[nodiscard]] Plan plan_as_megatron(std::span<const Gradient> gradients, const MegatronOptions& options);

}  // namespace plumbline::bucketing
