// reference/bucketing/ddp.hpp: which buckets PyTorch's DistributedDataParallel has in which iteration.
//
// Model   DDP plans when it is constructed, in the order of registration, and launches those buckets from the last to the
//         first. Unless it looks for unused parameters it plans once more, in the order in which gradients became ready
//         on rank 0: before the second iteration, and with a static graph before the third. Then buckets are launched as
//         they closed. A graph that is static is not searched, so it is planned once more whatever else is asked for.
//         What it plans first has one bucket a type and device, unless it looks for unused parameters (and the graph is not
//         static) or a list of caps is given.
// Units   MiB where PyTorch has MiB (megabytes by name), truncated to bytes.
// Source  torch.nn.parallel.DistributedDataParallel and its _BucketCapacityConfig, torch 2.13: equal to the recorded runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

inline constexpr std::int64_t kDdpFirstBytes = std::int64_t{1} << 20;  // of the bucket that is filled first, by default
inline constexpr std::int64_t kDdpBytes = std::int64_t{25} << 20;      // of the others

/// The constructor's arguments.
struct DdpOptions {
  std::optional<double> bucket_cap_mb{};
  std::vector<double> bucket_cap_mb_list{};  // where not empty, the other one does not count
  bool find_unused_parameters = false;
  bool static_graph = false;
};

/// In bytes.
struct BucketCapacity {
  std::int64_t bucket_bytes_cap = kDdpBytes;
  std::int64_t first_bucket_bytes_cap = kDdpFirstBytes;
  std::vector<std::int64_t> per_bucket_bytes_caps{};  // empty unless a list was given
};

/// Throws InvalidArgument for a cap below 0 or not a number, OutOfRange for one of more bytes than 64 bits hold.
[[nodiscard]] BucketCapacity bucket_capacity(const DdpOptions& options);

/// The limits that DDP's constructor plans with.
[[nodiscard]] std::vector<std::int64_t> first_limits(const BucketCapacity& capacity, bool find_unused_parameters,
                                                     bool static_graph);
/// Those that it plans with once it knows the order.
[[nodiscard]] std::vector<std::int64_t> rebuilt_limits(const BucketCapacity& capacity);

/// The iteration, from 0, that has the rebuilt buckets first; nothing where none has.
[[nodiscard]] std::optional<int> rebuilt_iteration(const DdpOptions& options);

/// The buckets of an iteration in the order of their launches. `ready` is the order in which the gradients of all
/// parameters became ready on rank 0 in the iteration before the rebuilt one; it does not matter before that. Throws as
/// bucket_capacity() and plan_by_size(), and InvalidArgument for an iteration below 0.
[[nodiscard]] Plan ddp_plan(const DdpOptions& options, std::span<const Gradient> gradients, int iteration,
                            std::span<const int> ready);

}  // namespace plumbline::bucketing
