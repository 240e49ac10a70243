// reference/device/launch.cuh: chunks of tables (elementwise.hpp), a block each, on a GPU.
#pragma once

#include <string>

#include <cuda.h>
#include <cuda_runtime.h>

#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/kernel.hpp"

namespace plumbline::device {

// ---- What all that calls CUDA's runtime needs: errors as exceptions, a device that is current for a
// while.

/// Throws DeviceFailure, with CUDA's own words and name for it, unless it is success. The error is told here, and not
/// to whoever asks next.
inline void expect(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw DeviceFailure("CUDA: " + what + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

/// A function of the driver, which is not linked: the runtime looks it up. `since` is the version of CUDA (7000: 7.0)
/// that has it in the form of `Function`. Null where there is none.
template <class Function>
Function* driver_function(const char* name, [[maybe_unused]] unsigned since) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &result);
#else
  const cudaError_t status = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (status == cudaSuccess && result == cudaDriverEntryPointSuccess) return reinterpret_cast<Function*>(found);
  (void)cudaGetLastError();
  return nullptr;
}

/// Whether this process has a context on the device; yes where the driver does not tell. To make one current that has
/// none opens it, which takes some hundred megabytes there.
inline bool has_context(int device) {
  using GetState = CUresult(CUdevice, unsigned*, int*);
  static GetState* const get_state = driver_function<GetState>("cuDevicePrimaryCtxGetState", 7000);
  unsigned flags = 0;
  int active = 0;
  return get_state == nullptr || get_state(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

/// Makes a device current for as long as it lives. Then that is current again which was before, but for a device that
/// has no context:
/// CUDA says of a thread that has chosen none that it has device 0.
class Current {
 public:
  explicit Current(int device) {
    expect(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != device) expect(cudaSetDevice(device), "cudaSetDevice(" + std::to_string(device) + ")");
    changed_ = before_ != device;
  }
  ~Current() {
    if (changed_ && has_context(before_) && cudaSetDevice(before_) != cudaSuccess) (void)cudaGetLastError();
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

// What is launched, nvcc compiles alone; the runtime, which is no kernel, needs what is above.
#ifdef __CUDACC__

inline constexpr int kThreads = 256;

/// Does what `work(chunk, thread, threads)` says. Parameters lie in the kernel's own memory, where all threads read
/// them at once.
template <class Work>
__global__ void __launch_bounds__(kThreads) on_chunks(const __grid_constant__ Work work) {
  work(static_cast<std::int32_t>(blockIdx.x), static_cast<int>(threadIdx.x), kThreads);
}

/// A launch on the device that is current; throws RuntimeFailure, naming `what`, where CUDA refuses.
template <class Work>
void launch_one(const std::string& what, const Work& work, std::int32_t chunks, void* stream) {
  (void)cudaGetLastError();  // of what others did before and did not look at
  on_chunks<<<static_cast<unsigned>(chunks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(work);
  expect(cudaGetLastError(), what);
}

/// A component's kernel (kernel.hpp), as nvcc builds it.
template <class Work>
[[nodiscard]] CudaKernel cuda_kernel() {
  return {Work::kName, sizeof(Work), [](const void* work, std::int32_t chunks, void* stream) {
            launch_one(std::string(Work::kName), *static_cast<const Work*>(work), chunks, stream);
          }};
}

/// A launch for each of `works`, in stream order: nothing is waited for. The device that was current is current again,
/// if it has a context. Throws InvalidArgument unless `device` is a GPU, DeviceFailure where CUDA refuses; both name
/// `what`.
template <class Works>
void launch(const std::string& what, const Works& works, comm::Device device, void* stream) {
  if (device.kind != comm::Device::Kind::cuda)
    throw InvalidArgument(what + " in memory of " + comm::name_of(device) + "; this one reads a GPU's");
  const Current current(device.index);
  for (const auto& work : works) launch_one(what, work, work.table.chunks, stream);
}

#endif

}  // namespace plumbline::device
