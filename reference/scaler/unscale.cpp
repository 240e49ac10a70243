#include "reference/scaler/unscale.hpp"

#include <vector>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/scaler/detail/unscale_kernels.hpp"
#include "reference/support/cpu_features.hpp"

namespace plumbline::scaler {

#if defined(PLUMBLINE_HAS_X86_KERNELS)
extern const UnscaleKernels unscale_avx512;
extern const UnscaleKernels unscale_avx2;
#endif
extern const UnscaleKernels unscale_baseline;

std::span<const UnscaleKernels* const> unscale_kernels() {
#if defined(PLUMBLINE_HAS_X86_KERNELS)
  static const auto usable = comm::usable_kernels(unscale_avx512, unscale_avx2, unscale_baseline, true);
#else
  static const std::vector<const UnscaleKernels*> usable{&unscale_baseline};
#endif
  return usable;
}

namespace {

using comm::DType;

UnscaleLoop loop_for(DType from, DType to) {
  const UnscaleKernels& kernels = *unscale_kernels().front();
  if (from == DType::f16 && to == DType::f32) return kernels.f16_to_f32;
  if (from == DType::bf16 && to == DType::f32) return kernels.bf16_to_f32;
  if (from != to) return nullptr;
  switch (from) {
    case DType::f16:
      return kernels.f16;
    case DType::bf16:
      return kernels.bf16;
    case DType::f32:
      return kernels.f32;
    case DType::f64:
      return kernels.f64;
    default:
      return nullptr;
  }
}

// Results of so many bytes in one call are not in the cache any more when they are read.
constexpr std::size_t kCacheBytes = std::size_t{32} << 20;

UnscaleLoop loop_around_cache_for(DType from, DType to) {
  const AroundCache& loops = unscale_kernels().front()->around_cache;
  if (to != DType::f32) return nullptr;
  return from == DType::f16 ? loops.f16_to_f32 : from == DType::bf16 ? loops.bf16_to_f32 : loops.f32;
}

void check(const Unscaling& one, std::size_t index) {
  if (one.from.count != one.to.count)
    throw InvalidArgument(
        fmt::format("gradient {}: {} elements go to a place for {}", index, one.from.count, one.to.count));
  for (const comm::Device device : {one.from.device, one.to.device})
    if (device.kind != comm::Device::Kind::cpu)
      throw Unsupported(
          fmt::format("gradient {} is in memory of {}; this one reads the host's", index, comm::name_of(device)));
  if (loop_for(one.from.dtype, one.to.dtype) == nullptr)
    throw Unsupported(
        fmt::format("gradient {} of {} cannot be unscaled to {}; there are one floating type, and f16 or bf16 to f32",
                    index, comm::name_of(one.from.dtype), comm::name_of(one.to.dtype)));
}

}  // namespace

bool unscale(std::span<const Unscaling> gradients, float inverse) {
  for (std::size_t i = 0; i < gradients.size(); ++i) check(gradients[i], i);
  std::size_t written_elsewhere = 0;
  for (const Unscaling& one : gradients)
    if (one.from.data != one.to.data) written_elsewhere += one.to.bytes();
  bool found = false;
  for (const Unscaling& one : gradients) {
    UnscaleLoop loop = loop_for(one.from.dtype, one.to.dtype);
    if (written_elsewhere > kCacheBytes && one.from.data != one.to.data)
      if (const UnscaleLoop around = loop_around_cache_for(one.from.dtype, one.to.dtype)) loop = around;
    found |= loop(one.from.data, one.to.data, one.from.count, inverse);
  }
  return found;
}

}  // namespace plumbline::scaler
