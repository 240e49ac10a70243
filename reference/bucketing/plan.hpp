// reference/bucketing/plan.hpp: which gradients are reduced together, in what order, and where each lies in its bucket.
//
// Model   A plan is a list of buckets in the order in which their reductions start. A bucket is one buffer of one type
//         on one device that is reduced over one group; its members are gradients, each at its own place. Gradients are
//         known by their index in the list that the plan was made of, the order of registration. What no bucket holds,
//         such as frozen parameters, is not reduced.
// Units   Elements, unless a name says bytes. The element of a complex type is two numbers.
// Cost    Two flat arrays; planning is linear in the gradients.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/comm/dtype.hpp"

namespace plumbline::bucketing {

/// What a plan needs to know of a gradient.
struct Gradient {
  std::int64_t elements = 0;
  comm::DType dtype = comm::DType::f32;
  std::int8_t components_per_element = 1;  // in an element: 2 of complex types
  bool sparse = false;                     // lies in a bucket of its own
  comm::Device device{};
  int group =
      0;  // that it is reduced over, by a number that the caller gives: gradients of different groups do not mix
  friend bool operator==(const Gradient&, const Gradient&) = default;
};

/// A gradient's place in its bucket.
struct Member {
  int gradient = 0;        // its index in the list of gradients
  std::int64_t begin = 0;  // its first element in the bucket
  friend bool operator==(const Member&, const Member&) = default;
};

struct Bucket {
  std::int64_t elements = 0;     // of the buffer, what lies between members and after them included
  std::int64_t limit_bytes = 0;  // that closed it, 0 for none
  int first_member = 0;          // in Plan::members
  int members = 0;
  comm::DType dtype = comm::DType::f32;
  std::int8_t components_per_element = 1;
  bool sparse = false;
  comm::Device device{};
  int group = 0;
  [[nodiscard]] std::int64_t bytes() const {
    return elements * components_per_element * static_cast<std::int64_t>(comm::size_of(dtype));
  }
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

/// Plain data: equal plans compare equal on every rank.
struct Plan {
  std::vector<Bucket> buckets;  // in launch order
  std::vector<Member> members;  // of the first bucket, of the second, …
  [[nodiscard]] std::span<const Member> members_of(const Bucket& bucket) const {
    return std::span(members).subspan(static_cast<std::size_t>(bucket.first_member),
                                      static_cast<std::size_t>(bucket.members));
  }
  friend bool operator==(const Plan&, const Plan&) = default;
};

// ---- Buckets of gradients in the order in which they come.
//
// Model   plan_some_by_size(), where what is left at the end follows as it was begun.
// Units   Limits are bytes: of the first bucket of each type, device and group the first one, and so on; the last one
//         holds for ever.

inline constexpr std::int64_t kNoLimit = INT64_MAX;

/// Of the gradients that `order` has, and no others. Throws as plan_some_by_size().
[[nodiscard]] Plan buckets_in_order(std::span<const Gradient> gradients, std::span<const int> order,
                                    std::span<const std::int64_t> limits);
/// After those, in buckets of their own that the last limit closes, the gradients that `delayed` has: what gets ready
/// early and must not hold up others, or is to be reduced last. Throws also InvalidArgument for a gradient that both
/// have.
[[nodiscard]] Plan buckets_in_order(std::span<const Gradient> gradients, std::span<const int> order,
                                    std::span<const std::int64_t> limits, std::span<const int> delayed);

// ---- PyTorch DDP's rule: gradients are gathered until they reach a limit.
//
// Model   Gradients come one after the other, in the order of registration or in another one. Each (type, device,
//         group) has a bucket of its own that is being filled, and walks the list of limits of its own: a bucket closes
//         after the gradient that reaches its limit, so it may exceed it, and the next one has the next limit, the last
//         limit for ever.
//         A sparse gradient makes a bucket of its own, at once, and leaves the limits of others as they are.
// Order   In the order of registration, buckets are sorted by their smallest index. In another one they come as they
//         close; what is not full at the end follows.
// Units   Limits are bytes. A limit of 0 closes after every gradient.
// Cost    One pass to assign, one to lay out; a lookup among the types of the gradients.
// Source  torch.distributed._compute_bucket_assignment_by_size, torch 2.13: equal to the recorded answers.

/// In which order the buckets follow that are not full at the end.
enum class LastBuckets : std::uint8_t {
  as_completed,  // by their last gradient: the order in which a backward of that order completes them
  as_begun,      // by their first gradient
  torch,         // as PyTorch's table has them (torch_table.hpp): mostly the type that came first goes last
};

/// `order` has the indices of the gradients as they come; empty stands for the order of registration. Throws
/// InvalidArgument for no limit, a limit below 0, or an order that is not a permutation of all gradients; and as
/// require_gradients().
[[nodiscard]] Plan plan_by_size(std::span<const Gradient> gradients, std::span<const std::int64_t> limits,
                                std::span<const int> order = {}, LastBuckets last = LastBuckets::as_completed);

/// Of the gradients that `order` has, each once, and of no others. Throws InvalidArgument for no limit, a limit below
/// 0, or a gradient twice, OutOfRange for one that does not exist; and as require_gradients().
[[nodiscard]] Plan plan_some_by_size(std::span<const Gradient> gradients, std::span<const std::int64_t> limits,
                                     std::span<const int> order, LastBuckets last = LastBuckets::as_completed);

/// The same buckets, launched from the last to the first.
[[nodiscard]] Plan reversed(const Plan& plan);

// ---- Rules without limits: a bucket a gradient, a bucket a type, ColossalAI's handlers.
//
// Model   `order` has the indices of the gradients as they become ready, and empty stands for the order of
//         registration; members lie in that order. All throw InvalidArgument for an order that is not a permutation of
//         all gradients, and as require_gradients().
// Cost    Linear in the gradients; a lookup among the types of the gradients.

/// No fusion: a bucket a gradient, in the order given.
[[nodiscard]] Plan plan_unfused(std::span<const Gradient> gradients, std::span<const int> order = {});

/// One flat buffer of each (group, type, device), in the order in which their last gradients become ready; sparse
/// gradients each alone, at their own place.
[[nodiscard]] Plan plan_flat(std::span<const Gradient> gradients, std::span<const int> order = {});

/// ColossalAI's gradient handlers (#94): one buffer of each (group, type), all of the group that came first, then all
/// of the next one; in a group the types in the order in which they came. It knows no sparse gradients, and one device:
/// throws Unsupported for others. The handler of data parallelism has one group, that of shared modules one a shared
/// module.
[[nodiscard]] Plan plan_as_colossalai(std::span<const Gradient> gradients, std::span<const int> order = {});

// ---- Which buckets PyTorch's DistributedDataParallel has in which iteration.
//
// Model   DDP plans when it is constructed, in the order of registration, and launches those buckets from the last to
//         the first. Unless it looks for unused parameters it plans once more, in the order in which gradients became
//         ready on rank 0: before the second iteration, and with a static graph before the third. Then buckets are
//         launched as they closed. A graph that is static is not searched, so it is planned once more whatever else is
//         requested.
//         What it plans first has one bucket a type and device, unless it looks for unused parameters (and the graph is
//         not static) or a list of caps is given.
// Units   MiB where PyTorch has MiB (megabytes by name), truncated to bytes.
// Source  torch.nn.parallel.DistributedDataParallel and its _BucketCapacityConfig, torch 2.13: equal to the recorded
//         runs.

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

// ---- Megatron-LM's gradient buffer: contiguous, from the last parameter to the first, with padding.
//
// Model   A buffer holds the parameters of one type and group from the last one on, since a backward makes their
//         gradients in that order. A bucket is a stretch of it, and closes after the parameter that reaches the size.
//         For the distributed optimizer, which gives each rank an equal part of every bucket, parameters start at
//         multiples of 64 elements and buckets end at multiples of lcm(ranks, 128), for the highest bandwidth of NCCL
//         of lcm(ranks, 128, 65536); and an embedding that is shared among stages has a bucket of its own. Of several
//         instances of it, ranks are those of one.
// Units   Elements, also of the bucket size.
// Source  megatron-core 0.19, megatron/core/distributed/param_and_grad_buffer.py, optimizer/distrib_optimizer.py: equal
//         to the recorded layouts. It pads in doubles; we in integers, and reject buffers of more than 2^53 elements,
//         where the two could differ.

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

/// The elements that every bucket is a multiple of. Throws InvalidArgument for fewer than one rank, and for instances
/// that the ranks are not divided into.
[[nodiscard]] std::int64_t megatron_bucket_multiple(const DistributedOptimizer& optimizer);

/// max(40,000,000, 1,000,000 x ranks), the size that is taken by default.
[[nodiscard]] std::int64_t megatron_default_elements(int ranks);

/// The buffer of parameters of one type and group. Throws InvalidArgument for sizes below 0, fewer than one rank, or a
/// shared embedding that is no parameter, or instances that the ranks are not divided into; OutOfRange for buffers of
/// more than 2^53 elements.
[[nodiscard]] MegatronLayout megatron_layout(std::span<const std::int64_t> elements, const MegatronOptions& options);

/// A buffer for each (type, device, group), in the order in which a backward comes to them, and its buckets from the
/// first one on.
/// Throws also Unsupported for sparse gradients.
[[nodiscard]] Plan plan_as_megatron(std::span<const Gradient> gradients, const MegatronOptions& options);

}  // namespace plumbline::bucketing
