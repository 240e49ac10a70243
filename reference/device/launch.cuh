// reference/device/launch.cuh: chunks of tables (tensor_table.hpp), a block each, on a GPU.
#pragma once

#include <string>

#include "reference/comm/call.hpp"
#include "reference/device/cuda_current.cuh"
#include "reference/device/cuda_kernel.hpp"

namespace plumbline::device {

inline constexpr int kThreads = 256;

/// Does what `work(chunk, thread, threads)` says. Parameters lie in the kernel's own memory, where all threads read them at once.
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

/// A launch for each of `works`, in stream order: nothing is waited for. The device that was current is current again, if it has a context. Throws
/// InvalidArgument unless `device` is a GPU, DeviceFailure where CUDA refuses; both name `what`.
template <class Works>
void launch(const std::string& what, const Works& works, comm::Device device, void* stream) {
  if (device.kind != comm::Device::Kind::cuda)
    throw InvalidArgument(what + " in memory of " + comm::name_of(device) + "; this one reads a GPU's");
  const Current current(device.index);
  for (const auto& work : works) launch_one(what, work, work.table.chunks, stream);
}

}  // namespace plumbline::device
