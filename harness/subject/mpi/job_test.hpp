// harness/subject/mpi/job_test.hpp: what the MPI backend's tests share. Every process runs all, in lock-step.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/subject/backend.hpp"
#include "reference/comm/half.hpp"

namespace plumbline::subject::mpi {

/// The backend under test, opened by main() with the options of the command line.
Backend& job();
const BackendOptions& job_options();

/// The three ways of making a call; MPI is asked differently in each.
enum class Mode { blocking, started, limited };
inline constexpr std::array kModes{Mode::blocking, Mode::started, Mode::limited};

inline void make(comm::Communicator& world, const comm::Call& call, Mode mode) {
  if (mode == Mode::blocking) return world.run(call);
  if (mode == Mode::started) return world.start(call).wait();
  world.run(call, std::chrono::seconds(60));
}

/// Small numbers as elements of any type: exact in all of them.
inline void put(std::byte* to, comm::DType dtype, double value) {
  const auto copy = [to](auto element) { std::memcpy(to, &element, sizeof element); };
  switch (dtype) {
    case comm::DType::f16:
      return copy(comm::to_float16(static_cast<float>(value)));
    case comm::DType::bf16:
      return copy(comm::to_bfloat16(static_cast<float>(value)));
    case comm::DType::f32:
      return copy(static_cast<float>(value));
    case comm::DType::f64:
      return copy(value);
    case comm::DType::i32:
      return copy(static_cast<std::int32_t>(value));
    case comm::DType::i64:
      return copy(static_cast<std::int64_t>(value));
    case comm::DType::u8:
      return copy(static_cast<std::uint8_t>(value));
  }
}

/// Elements between canaries, from an odd address on: what lies outside must stay as it is.
class Elements {
 public:
  Elements(comm::DType dtype, const std::vector<double>& values)
      : dtype_(dtype), count_(values.size()), bytes_(2 * kCanary + count_ * size_of(dtype), std::byte{0xa5}) {
    for (std::size_t i = 0; i < count_; ++i) put(data() + i * size_of(dtype), dtype, values[i]);
  }
  /// Poisoned.
  Elements(comm::DType dtype, std::size_t count) : Elements(dtype, std::vector<double>(count, 77)) {}

  [[nodiscard]] std::byte* data() { return bytes_.data() + kCanary; }
  [[nodiscard]] comm::Buffer view() { return part(0, count_); }
  [[nodiscard]] comm::Buffer part(std::size_t first, std::size_t count) {
    return {data() + first * size_of(dtype_), static_cast<std::int64_t>(count), dtype_};
  }
  friend bool operator==(const Elements& a, const Elements& b) { return a.dtype_ == b.dtype_ && a.bytes_ == b.bytes_; }

 private:
  static constexpr std::size_t kCanary = 33;
  comm::DType dtype_;
  std::size_t count_;
  std::vector<std::byte> bytes_;
};

/// Rank's element i, 1 to 3: sums and products over five ranks are exact in every type.
inline double given(int rank, std::size_t i) {
  return 1.0 + static_cast<double>((static_cast<std::size_t>(rank) * 2 + i) % 3);
}

/// Elements [first, first + count) of what `rank` gives, times `factor`.
inline std::vector<double> gift(int rank, std::size_t count, std::size_t first = 0, double factor = 1) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = factor * given(rank, first + i);
  return values;
}

class MpiTest : public testing::Test {
 protected:
  /// A fresh world of all processes for each test.
  std::unique_ptr<comm::Communicator> world_ = job().world(job().size());
  comm::Communicator& world = *world_;
  const int n = world.size();
  const int me = world.rank();
  const std::size_t un = static_cast<std::size_t>(n);
  const std::size_t um = static_cast<std::size_t>(me);
};

}  // namespace plumbline::subject::mpi
