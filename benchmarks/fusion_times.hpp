// benchmarks/fusion_times.hpp: what copying gradients to one buffer, to reduce them together, takes and saves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/bucketing/tuning.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/device/memory_space.hpp"

namespace plumbline::bench {

/// Gradients of one size.
struct FusionTime {
  std::int64_t bytes = 0;               // of each
  std::vector<double> separate, fused;  // seconds a gradient, of the rounds
};

/// Seconds of rounds, each of which measured all four: a backward alone, its reductions alone, and steps of both.
struct OverlapTimes {
  std::vector<double> backward, reductions;
  std::vector<double> serial;      // the reductions when the backward is over
  std::vector<double> overlapped;  // as soon as they may start
};

/// 256 bytes to 4 MiB, each four times the one before it.
[[nodiscard]] std::vector<std::int64_t> usual_sizes();

struct FusionOptions {
  std::vector<std::int64_t> sizes = usual_sizes();
  int together = 8;  // gradients that are fused
  int rounds = 21;
  double seconds = 20;  // no round is begun after that, once there are three
  /// Where gradients lie. On a device in the group's stream, all of them copied in a launch.
  device::MemorySpace place{};
  bucketing::Timing timing = bucketing::seconds_of_slowest;  // which says nothing of a device
};

/// Collective. Gradients are of f32. Throws InvalidArgument for sizes below 4 bytes, fewer than two together, fewer
/// than one round, and seconds that are NaN; RuntimeFailure, naming rank, gradient and element, where the sums of the
/// first round are wrong.
[[nodiscard]] std::vector<FusionTime> fusion_times(comm::Communicator& group, const FusionOptions& options = {});

/// For TuningOptions::before: holds each candidate's first step against sums that are known. Gradients are of f32, in
/// memory of `place`, whose stream is the group's; `names` are for messages. Throws InvalidArgument for other
/// gradients; what it returns throws RuntimeFailure, naming candidate, rank, gradient and element, for a wrong sum.
[[nodiscard]] decltype(bucketing::TuningOptions::before) against_known_sums(
    comm::Communicator& group, std::span<const bucketing::Gradient> gradients, device::MemorySpace place = {},
    std::vector<std::string> names = {});

}  // namespace plumbline::bench
