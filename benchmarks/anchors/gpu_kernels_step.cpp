// What anchors/gpu_kernels_torch.py calls alternately with PyTorch's kernels: ninja anchor_gpu_kernels
//
// Model   A library with C's calling convention, so that both sides run step by step in one process, on one stream,
//         over the same memory of GPU 0. Lists are of f32 unless a kind says 16 bits.
#include <cstdint>
#include <vector>

#include "reference/comm/errors.hpp"
#include "reference/device/scaled_copies.hpp"
#include "reference/gossip/mixing_kernel.hpp"
#include "reference/scaler/unscale_cuda.hpp"
#include "reference/slowmo/kernels_cuda.hpp"

#define PLUMBLINE_ANCHOR extern "C" __attribute__((visibility("default"))) int

using plumbline::comm::Buffer;
using plumbline::comm::Device;
using plumbline::comm::DType;

namespace {

constexpr int kRefused = -1;
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

Buffer buffer(void* data, std::int64_t count, DType dtype) { return {data, count, dtype, {Device::Kind::cuda, 0}}; }

template <class Step>
int tried(const Step& step) {
  try {
    step();
    return 0;
  } catch (const plumbline::Error&) {
    return kRefused;
  }
}

}  // namespace

/// Divides lists of kind f32, f16 or bf16 (0, 1, 2) into f32. *found is of the GPU. -1 where that is refused: so all
/// here.
PLUMBLINE_ANCHOR plumbline_gpu_unscale(void* const* from, void* const* to, const std::int64_t* counts,
                                       std::int64_t lists, int kind, float inverse, float* found, void* stream) {
  std::vector<plumbline::scaler::Unscaling> work;
  for (std::int64_t i = 0; i < lists; ++i)
    work.push_back({buffer(from[i], counts[i], kTypes[kind]), buffer(to[i], counts[i], DType::f32)});
  return tried([&] { plumbline::scaler::unscale_on_device(work, inverse, found, stream); });
}

/// to = from / divisor.
PLUMBLINE_ANCHOR plumbline_gpu_copy(void* const* from, void* const* to, const std::int64_t* counts, std::int64_t lists,
                                    double divisor, void* stream) {
  std::vector<plumbline::device::ScaledCopy> work;
  for (std::int64_t i = 0; i < lists; ++i)
    work.push_back({buffer(from[i], counts[i], DType::f32), buffer(to[i], counts[i], DType::f32)});
  return tried([&] { plumbline::device::copy_on_device(work, plumbline::device::over(divisor), stream); });
}

/// SlowMo's slow step.
PLUMBLINE_ANCHOR plumbline_gpu_slow_step(void* const* x, void* const* old, void* const* momentum,
                                         const std::int64_t* counts, std::int64_t lists, double beta, double rate,
                                         double fast_rate, void* stream) {
  std::vector<plumbline::slowmo::SlowTensor> work;
  for (std::int64_t i = 0; i < lists; ++i)
    work.push_back({buffer(x[i], counts[i], DType::f32), buffer(old[i], counts[i], DType::f32),
                    buffer(momentum[i], counts[i], DType::f32)});
  return tried([&] {
    plumbline::slowmo::slow_step_on_device({plumbline::slowmo::slowmo_rule(beta, rate), fast_rate}, work, stream);
  });
}

/// x = (x + came) * kept.
PLUMBLINE_ANCHOR plumbline_gpu_mix(void* const* x, void* const* came, const std::int64_t* counts, std::int64_t lists,
                                   double kept, void* stream) {
  std::vector<plumbline::gossip::Arrivals> work;
  for (std::int64_t i = 0; i < lists; ++i)
    work.push_back({buffer(x[i], counts[i], DType::f32), {buffer(came[i], counts[i], DType::f32)}});
  return tried([&] { plumbline::gossip::mix_on_device(work, {.factor = kept, .is_lazy = true}, stream); });
}
