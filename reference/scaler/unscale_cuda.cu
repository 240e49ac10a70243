#include <string>

#include <cuda_runtime.h>

#include "reference/comm/errors.hpp"
#include "reference/scaler/unscale_chunk.hpp"
#include "reference/scaler/unscale_cuda.hpp"

namespace plumbline::scaler {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    unscale_kernel(const __grid_constant__ UnscaleTable table, float* found_inf) {
  const bool found =
      unscale_chunk(table, static_cast<std::int32_t>(blockIdx.x), static_cast<int>(threadIdx.x), kThreads);
  // Blocks write the same number or nothing.
  if (__syncthreads_or(found ? 1 : 0) != 0 && threadIdx.x == 0) *found_inf = 1;
}

void expect(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw RuntimeFailure(std::string("unscale on a GPU: ") + what + ": " + cudaGetErrorString(status));
}

// Makes a device current for as long as it lives.
class Current {
 public:
  explicit Current(int device) {
    expect(cudaGetDevice(&before_), "cudaGetDevice");
    expect(cudaSetDevice(device), "cudaSetDevice");
  }
  ~Current() { (void)cudaSetDevice(before_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = 0;
};

}  // namespace

void unscale_on_device(std::span<const Unscaling> gradients, float inverse, float* found_inf, void* stream) {
  if (gradients.empty()) return;
  const comm::Device device = gradients.front().from.device;
  if (device.kind != comm::Device::Kind::cuda)
    throw InvalidArgument("gradient 0 is in memory of " + comm::name_of(device) + "; this one reads a GPU's");
  const std::vector<UnscaleTable> tables = unscale_tables(gradients, inverse, device);
  const Current current(device.index);
  for (const UnscaleTable& table : tables) {
    unscale_kernel<<<static_cast<unsigned>(table.chunks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(table,
                                                                                                            found_inf);
    expect(cudaGetLastError(), "launch");
  }
}

}  // namespace plumbline::scaler
