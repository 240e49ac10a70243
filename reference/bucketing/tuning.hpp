// reference/bucketing/tuning.hpp: which buckets are the fastest here, measured.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::bucketing {

// ---- Timing ranks together, in rounds that a time limit ends.

/// Seconds that the slowest rank of a group takes for what every rank does, from a barrier on. Collective.
using Timing = std::function<double(comm::Communicator& group, const std::function<void()>& body)>;

/// That many are made whatever they take.
inline constexpr int kLeastRounds = 3;

/// The largest of all ranks' numbers. Collective.
[[nodiscard]] inline double largest(comm::Communicator& group, double number) {
  group.all_reduce({&number, 1, comm::DType::f64}, {&number, 1, comm::DType::f64}, comm::ReduceOp::max);
  return number;
}

/// Timing by the host's clock.
[[nodiscard]] inline double seconds_of_slowest(comm::Communicator& group, const std::function<void()>& body) {
  group.barrier();
  const auto begin = std::chrono::steady_clock::now();
  body();
  return largest(group, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

/// Whether `seconds` have passed on any rank. Collective.
[[nodiscard]] inline bool is_over(comm::Communicator& group, std::chrono::steady_clock::time_point begin,
                                  double seconds) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  std::int32_t over = elapsed.count() > seconds ? 1 : 0;
  group.all_reduce({&over, 1, comm::DType::i32}, {&over, 1, comm::DType::i32}, comm::ReduceOp::max);
  return over != 0;
}

// ---- Which size of buckets is the fastest over a communicator, by trying.
//
// Model   A reducer's gradients live in their buckets, which each candidate lays out again. Rounds go through all
//         candidates, each in another order, so that what disturbs the machine disturbs all equally; of a round the
//         slowest rank counts.
//         A candidate's time is the median of its rounds.
// Cost    Two steps per round of a candidate, and once the gradients' memory.
// Choice  chosen_limit() of the times. One bucket a gradient is a candidate always.

class Reducer;

struct BucketTime {
  std::int64_t limit_bytes = 0;   // 0: each gradient has a bucket
  double seconds = 0;             // of a step, the median of the rounds
  double low = 0, high = 0;       // the quartiles
  std::vector<double> samples{};  // of the rounds
  std::int64_t launches = 0;      // of a step
};

struct Tuning {
  std::int64_t limit_bytes = 0;   // the choice
  std::vector<BucketTime> times;  // of all candidates, as they were given
  BucketTime per_tensor;  // blocking all-reduces without a reducer, in the same rounds, where they were requested
};

/// Of the candidates that are not slower than the upper quartile of the fastest one, which the rounds do not tell
/// apart, nor a tenth slower than it, the one with the smallest buckets, whose reductions begin earliest. So it is
/// never slower than one bucket a gradient was, where that is among them. Throws InvalidArgument for an empty list,
/// and for NaN times.
[[nodiscard]] std::int64_t chosen_limit(std::span<const BucketTime> times);

/// 0, 1, 4, 10, 25 and 100 MiB, and all in one.
[[nodiscard]] std::vector<std::int64_t> usual_limits();

struct TuningOptions {
  std::vector<std::int64_t> limits = usual_limits();
  int rounds = 7;
  double seconds = 20;  // no round is begun after that, once there are three
  bool per_tensor = false;
  std::vector<std::string> names{};       // of the gradients, for messages; else they are numbered
  std::shared_ptr<BucketMemory> place{};  // where gradients lie; none: the host's memory
  /// None: by the host's clock, with a wait for what was begun in `place`.
  Timing timing{};
  /// Called once for each candidate, before its first step: with the reducer, whose gradients are all zeros, the
  /// candidate in words, and what does a step of it. It leaves zeros.
  std::function<void(const Reducer& reducer, const std::string& candidate, const std::function<void()>& step)> before{};
};

/// Collective: all ranks get the same choice and give the same options. Throws InvalidArgument for fewer than one
/// round, limits below 0, seconds below 0 or NaN, and names of another number.
[[nodiscard]] Tuning fastest_limit(comm::Communicator& group, std::span<const Gradient> gradients,
                                   TuningOptions options = {});

/// The median, and the quartiles, of at least one sample.
[[nodiscard]] BucketTime time_of(std::int64_t limit_bytes, std::vector<double> samples);

}  // namespace plumbline::bucketing
