// reference/device/launch.cuh: chunks of tables (tensor_table.hpp), a block each, on a GPU.
#pragma once

#include <string>

#include "reference/comm/call.hpp"
#include "reference/device/cuda_current.hpp"

namespace plumbline::device {

inline constexpr int kThreads = 256;

/// Does what `work(chunk, thread, threads)` says. Parameters lie in the kernel's own memory, where all threads read them at once.
template <class Work>
__global__ void __launch_bounds__(kThreads) on_chunks(const __grid_constant__ Work work) {
  work(static_cast<std::int32_t>(blockIdx.x), static_cast<int>(threadIdx.x), kThreads);
}

/// A launch for each of `works`, in stream order: nothing is waited for. The device that was current is current again. Throws
/// InvalidArgument unless `device` is a GPU, RuntimeFailure where CUDA refuses; both name `what`.
template <class Works>
void launch(const std::string& what, const Works& works, comm::Device device, void* stream) {
  if (device.kind != comm::Device::Kind::cuda)
    throw InvalidArgument(what + " in memory of " + comm::name_of(device) + "; this one reads a GPU's");
  const Current current(device.index);
  (void)cudaGetLastError();  // of what others did before and did not look at
  for (const auto& work : works) {
    on_chunks<<<static_cast<unsigned>(work.table.chunks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(work);
    expect(cudaGetLastError(), what);
  }
}

}  // namespace plumbline::device
