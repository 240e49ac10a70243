// reference/device/gpu_test.hpp: tests that need a GPU: skipped, with the reason, where there is none.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/device/tensor_samples_test.hpp"

namespace plumbline::device {

inline constexpr comm::Device kGpu{comm::Device::Kind::cuda, 0};

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) GTEST_SKIP() << "no GPU can be used: " << cudaGetErrorString(status);
    if (devices == 0) GTEST_SKIP() << "there is no GPU";
  }
};

/// A tensor of the host's and its copy on GPU 0, at the same distance from a boundary of 16 bytes.
class OnBothSides {
 public:
  OnBothSides(comm::DType dtype, std::int64_t count, std::size_t shift, int seed = 0)
      : host_(dtype, count, shift, seed), shift_(shift * comm::size_of(dtype)) {
    if (cudaMalloc(&memory_, host_.buffer().bytes() + shift_ + 16) != cudaSuccess) throw RuntimeFailure("cudaMalloc");
    upload();
  }
  ~OnBothSides() { (void)cudaFree(memory_); }
  OnBothSides(OnBothSides&& other) noexcept
      : host_(other.host_), memory_(std::exchange(other.memory_, nullptr)), shift_(other.shift_) {}
  OnBothSides& operator=(OnBothSides&&) = delete;

  [[nodiscard]] comm::Buffer on_host() const { return host_.buffer(); }
  [[nodiscard]] comm::Buffer on_gpu() const {
    return {static_cast<std::byte*>(memory_) + shift_, on_host().count, on_host().dtype, kGpu};
  }
  void set(std::int64_t i, double value) { host_.set(i, value); }
  /// The GPU's copy becomes what the host has, before anything on any stream goes on.
  void upload() const {
    (void)cudaMemcpy(on_gpu().data, on_host().data, on_host().bytes(), cudaMemcpyHostToDevice);
    (void)cudaDeviceSynchronize();
  }
  /// Whether the GPU has the host's bits, once it has done all its work.
  [[nodiscard]] bool is_same() const {
    std::vector<std::byte> found(on_host().bytes());
    if (cudaDeviceSynchronize() != cudaSuccess) return false;
    (void)cudaMemcpy(found.data(), on_gpu().data, found.size(), cudaMemcpyDeviceToHost);
    return std::memcmp(found.data(), on_host().data, found.size()) == 0;
  }

 private:
  ShiftedTensor host_;
  void* memory_ = nullptr;
  std::size_t shift_;
};

/// A stream that waits for no other.
class TestStream {
 public:
  TestStream() {
    if (cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) != cudaSuccess)
      throw RuntimeFailure("cudaStreamCreate");
  }
  ~TestStream() { (void)cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: it stands for one

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace plumbline::device
