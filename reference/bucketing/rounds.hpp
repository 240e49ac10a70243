// reference/bucketing/rounds.hpp: timing ranks together, in rounds that a time limit ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "reference/comm/communicator.hpp"

namespace plumbline::bucketing {

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

/// Whether so many seconds are over on any rank. Collective.
[[nodiscard]] inline bool is_over(comm::Communicator& group, std::chrono::steady_clock::time_point begin,
                                  double seconds) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  std::int32_t over = elapsed.count() > seconds ? 1 : 0;
  group.all_reduce({&over, 1, comm::DType::i32}, {&over, 1, comm::DType::i32}, comm::ReduceOp::max);
  return over != 0;
}

}  // namespace plumbline::bucketing
