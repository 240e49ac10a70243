// reference/device/cuda_current.hpp: what all that calls CUDA's runtime needs: errors as exceptions, a device that is current for a
// while.
#pragma once

#include <string>

#include <cuda_runtime.h>

#include "reference/comm/errors.hpp"

namespace plumbline::device {

/// Throws RuntimeFailure, with CUDA's own words and name for it, unless it is success. The error is told here, and not to whoever
/// asks next.
inline void expect(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw RuntimeFailure("CUDA: " + what + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

/// Makes a device current for as long as it lives.
class Current {
 public:
  explicit Current(int device) {
    expect(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != device) expect(cudaSetDevice(device), "cudaSetDevice(" + std::to_string(device) + ")");
    changed_ = before_ != device;
  }
  ~Current() {
    if (changed_ && cudaSetDevice(before_) != cudaSuccess) (void)cudaGetLastError();
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace plumbline::device
