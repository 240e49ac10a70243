// reference/slowmo/options.hpp: how a model is trained with SlowMo: the options, and what follows from them.
//
// Model   Ranks are grouped in nodes of consecutive ranks, and a node acts as one: its gradients are averaged in every
//         step, its first rank, the master, speaks for it. Between nodes parameters are averaged now and then
//         (LocalSGD), or a little in every step (stochastic gradient push), or not, with a single node. Every
//         slow_frequency steps slow momentum is applied to how far the average has come (SlowMo).
// Off     Slow momentum 0 with slow learning rate 1 changes nothing: SlowMo is off then. With one node so are both
//         others.
// Here    plumbline: what the papers say, and what can be resumed. fairscale: what FairScale 0.4.13 does; README.md
//         lists where they differ.
// Sources FairScale's SlowMoDistributedDataParallel, whose options and defaults these are; Wang et al., SlowMo (ICLR
//         2020).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/gossip/push_sum.hpp"

namespace plumbline::slowmo {

// ---- Outer optimizers as points of one rule.
//
// Model   Workers go from a common x for some steps and come to a mean x'. With s the fast learning rate, or 1:
//           d = gradient (x - x') / s
//           m = momentum m + d
//           x = x - learning_rate s m,  or with Nesterov  x - learning_rate s (d + momentum m)
//         SlowMo      momentum beta, learning rate alpha, by the fast rate
//         BMUF        momentum eta, gradient zeta: block momentum of the differences themselves
//         Lookahead   learning rate alpha; its paper has one worker
//         LocalSGD    x = x'
//         DiLoCo      Nesterov, momentum 0.9, learning rate 0.7
//         With a fast rate that stays the same SlowMo is BMUF with eta = beta, zeta = alpha; where it changes they
//         differ.
// Sources Wang et al., SlowMo (ICLR 2020); Chen and Huo, BMUF (ICASSP 2016); Zhang et al., Lookahead (NeurIPS 2019);
//         Douillard et al., DiLoCo (2023).

struct OuterRule {
  double momentum = 0;
  double learning_rate = 1;
  double gradient = 1;
  bool nesterov = false;
  bool by_fast_rate = false;
  /// Whether x becomes the mean, whatever came before.
  [[nodiscard]] bool is_mean() const { return momentum == 0 && learning_rate * gradient == 1; }
  friend bool operator==(const OuterRule&, const OuterRule&) = default;
};

[[nodiscard]] inline OuterRule slowmo_rule(double beta, double alpha) {
  return {.momentum = beta, .learning_rate = alpha, .by_fast_rate = true};
}
[[nodiscard]] inline OuterRule bmuf_rule(double block_momentum, double block_learning_rate) {
  return {.momentum = block_momentum, .gradient = block_learning_rate};
}
[[nodiscard]] inline OuterRule lookahead_rule(double alpha) { return {.learning_rate = alpha}; }
[[nodiscard]] inline OuterRule local_sgd_rule() { return {}; }
[[nodiscard]] inline OuterRule diloco_rule(double learning_rate = 0.7, double momentum = 0.9) {
  return {.momentum = momentum, .learning_rate = learning_rate, .nesterov = true};
}

using gossip::Convention;

/// How nodes come to agree between slow steps.
enum class BaseAlgorithm : std::uint8_t { local_sgd, sgp, none };
/// "localsgd", "sgp", "none".
[[nodiscard]] std::string_view name_of(BaseAlgorithm algorithm);
/// Throws InvalidArgument, listing the names.
[[nodiscard]] BaseAlgorithm parse_base_algorithm(std::string_view name);

/// Buffers are broadcast in buckets, each of one type and full when it has this size.
inline constexpr std::int64_t kBroadcastBucketBytes = 10 * 1024 * 1024;

/// Groups that the caller made; those that are absent are made. They must outlive what uses them.
struct Groups {
  comm::Communicator* global = nullptr;          // all ranks
  comm::Communicator* master_weights = nullptr;  // the first rank of each node, in order; on master weights only
  comm::Communicator* node = nullptr;            // the ranks of this node, in order
};

/// What took how long.
enum class Phase : std::uint8_t {
  buffers,
  gradients,
  error_before,
  gossip,
  average,
  node,
  error_after,
  slow,
  copy_back
};
inline constexpr int kPhases = 9;
[[nodiscard]] std::string_view name_of(Phase phase);

struct Options {
  Convention convention = Convention::plumbline;
  int ranks_per_node = 1;
  bool broadcast_buffers = true;  // rank 0's, before each forward
  BaseAlgorithm base = BaseAlgorithm::local_sgd;

  double slow_momentum = 0.5;
  double slow_learning_rate = 1;
  int slow_frequency = 48;  // steps
  /// Another outer optimizer in place of slow momentum and slow learning rate; not of the convention fairscale.
  std::optional<OuterRule> outer{};
  /// Slow momentum is kept in shards, by the first `shards` ranks; else by every rank, whole.
  bool memory_efficient = true;
  int shards = 32;  // at most; no more than the number of ranks

  int local_sgd_frequency = 3;  // steps
  /// Until then every step averages (post-local SGD), and LocalSGD counts from there; not of the convention fairscale.
  int local_sgd_begin = 0;  // steps

  std::optional<gossip::Graph> graph{};  // of the nodes; n-peer exponential when absent
  gossip::Mixing mixing{};
  bool push_sum = true;  // else push-pull
  /// All parameters are averaged at slow steps, in place of that step's gossip.
  bool sgp_average_params = false;
  /// Gossip beside the forward and backward. Off, and rejected without `accepts_stale`, since updates then come from
  /// parameters that lack the peers' latest messages; no convergence is proven for it together with slow momentum.
  bool overlap = false;
  bool accepts_stale = false;
  /// Steps that gossip lags, the same on all nodes, when it overlaps. 0: what was begun before a forward has arrived
  /// after its backward.
  int synch_freq = 0;
  std::chrono::nanoseconds heartbeat = gossip::kHeartbeat;

  /// Where parameters are when they are communicated: where they are (nothing, or its name), or the host (cpu), by way
  /// of which those in a device's memory go over a communicator that does not take it. The values are the same.
  std::optional<comm::Device> communication_device{};
  /// What works on parameters in a device's memory, and in which stream, which is the groups' as well.
  device::DeviceUse device{};
  bool use_streams = true;  // gossip that overlaps has a stream of its own on a device; nothing in host memory
  /// Of this process, where the caller gives groups of its own; else those of the communicator.
  std::optional<int> rank{}, world_size{};
  Groups groups{};

  bool verbose = false;  // hands `log` every phase as well
  bool profile = false;  // adds up what phases take
  std::function<void(std::string_view line)> log{};
};

struct Warning {
  enum class What : std::uint8_t {
    one_node,           // LocalSGD and SGP are off
    no_base,            // slow momentum alone
    frequencies,        // some LocalSGD steps are no slow steps and the other way round
    no_master_weights,  // 16-bit parameters are trained without fp32 master weights
    not_gossiping,      // what was to be collected was never handed over
    not_mixed,          // what was handed over is not collected yet
  } what{};
  std::string message;
  friend bool operator==(const Warning&, const Warning&) = default;
};

/// What comes of the options on one rank.
struct Setting {
  int rank = 0, world = 1, ranks_per_node = 1;
  int node = 0, nodes = 1, local_rank = 0;  // this rank's, and their number
  bool slow = false, local_sgd = false, sgp = false;
  OuterRule outer;
  int slow_frequency = 48, local_sgd_frequency = 3, local_sgd_begin = 0;
  bool memory_efficient = true, sgp_average_params = false, overlap = false;
  int shards = 1;
  bool owns_shard = true;
  Convention convention = Convention::plumbline;
  std::vector<Warning> warnings;
  [[nodiscard]] bool is_master() const { return local_rank == 0; }
};

/// Throws InvalidArgument with the option and its value: fewer than one rank a node, a world that is no multiple of the
/// node, frequencies or shards below 1, NaN rates, a negative lag, overlap without accepts_stale, waits
/// that block, a rank outside the world.
[[nodiscard]] Setting settle(const Options& options, int rank, int world);

/// Throws InvalidArgument unless the value of NCCL_BLOCKING_WAIT is "0" or absent (null): waits that block one process
/// group keep another one from going on.
void refuse_blocking_wait(const char* value);

}  // namespace plumbline::slowmo
