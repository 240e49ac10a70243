// harness/subject/mpi/job_test.hpp: what the MPI backend's tests share. Every process runs all, in lock-step.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/subject/backend.hpp"
#include "harness/subject/module_calls_test.hpp"

namespace plumbline::subject::mpi {

using namespace module_test;

/// The backend under test, opened by main() with the options of the command line.
Backend& job();
const BackendOptions& job_options();

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

class MpiTest : public testing::Test {
 protected:
  /// A fresh world of all processes for each test.
  std::unique_ptr<comm::Communicator> world_ = job().world(job().size());
  comm::Communicator& world = *world_;
  const int n = world.size();
  const int me = world.rank();
  const std::size_t un = static_cast<std::size_t>(n);
  const std::size_t um = static_cast<std::size_t>(me);
  const module_test::Calls<Elements> common{world, {{comm::kAllDTypes.begin(), comm::kAllDTypes.end()}, {0, 1, 5, 40}}};
};

}  // namespace plumbline::subject::mpi
