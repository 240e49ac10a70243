#include "reference/device/detail/cuda_kernels.hpp"
#include "reference/device/detail/fold_chunk.hpp"
#include "reference/device/detail/move_chunk.hpp"

// No namespace without a name: nvcc gives it one of the folder's, and no two builds would be the same.
namespace plumbline::device {

// With four vectors at once they make a chunk.
constexpr int kThreads = 256;
static_assert(kThreads * 4 * kVectorBytes == kFoldChunkBytes);

template <class Fold>
__global__ void __launch_bounds__(kThreads) fold_kernel(const __grid_constant__ FoldTable table) {
  Fold::chunk(table, blockIdx.x, static_cast<int>(threadIdx.x), kThreads);
}

__global__ void __launch_bounds__(kThreads) move_kernel(const __grid_constant__ MoveTable table) {
  move_chunk(table, static_cast<std::int32_t>(blockIdx.x), static_cast<int>(threadIdx.x), kThreads);
}

__global__ void pause_kernel(std::int64_t nanoseconds) {
  const auto now = [] {
    std::int64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
  };
  const std::int64_t begin = now();
  while (now() - begin < nanoseconds) __nanosleep(1000);
}

// Blocks are numbered by 31 bits.
constexpr std::int64_t kMostBlocks = 0x7fffffff;

cudaError_t launch_fold(const FoldTable& table, cudaStream_t stream) {
  const std::int64_t chunks = table.chunks();
  if (chunks == 0) return cudaSuccess;
  if (chunks > kMostBlocks) return cudaErrorInvalidConfiguration;
  (void)cudaGetLastError();  // of what others did before and did not look at
  const bool is_defined = with_folding(table.dtype, table.op, [&](auto folding) {
    fold_kernel<decltype(folding)><<<static_cast<unsigned>(chunks), kThreads, 0, stream>>>(table);
  });
  return is_defined ? cudaGetLastError() : cudaErrorInvalidValue;
}

cudaError_t launch_move(const MoveTable& table, cudaStream_t stream) {
  if (table.chunks == 0) return cudaSuccess;
  (void)cudaGetLastError();
  move_kernel<<<static_cast<unsigned>(table.chunks), kThreads, 0, stream>>>(table);
  return cudaGetLastError();
}

cudaError_t launch_pause(std::int64_t nanoseconds, cudaStream_t stream) {
  (void)cudaGetLastError();
  pause_kernel<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

}  // namespace plumbline::device
