// reference/bucketing/rounds.hpp: timing ranks together, in rounds that a time limit ends.
#pragma once

#include <chrono>
#include <cstdint>

#include "reference/comm/communicator.hpp"

namespace plumbline::bucketing {

/// That many are made whatever they take.
inline constexpr int kLeastRounds = 3;

/// Seconds that the slowest rank takes, from a barrier on; `group` is collective.
template <class Body>
[[nodiscard]] double seconds_of_slowest(comm::Communicator& group, const Body& body) {
  group.barrier();
  const auto begin = std::chrono::steady_clock::now();
  body();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  group.all_reduce({&seconds, 1, comm::DType::f64}, {&seconds, 1, comm::DType::f64}, comm::ReduceOp::max);
  return seconds;
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
