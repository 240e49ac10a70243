#include "reference/scaler/unscale.hpp"

#include <array>
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

UnscaleLoop loop_for(UnscaleTypes types) {
  const UnscaleKernels& kernels = *unscale_kernels().front();
  const std::array loops{kernels.f16_to_f32, kernels.bf16_to_f32, kernels.f16, kernels.bf16, kernels.f32, kernels.f64};
  return loops[static_cast<std::size_t>(types)];
}

// Results of so many bytes in one call are not in the cache any more when they are read.
constexpr std::size_t kCacheBytes = std::size_t{32} << 20;

UnscaleLoop loop_around_cache_for(UnscaleTypes types) {
  const AroundCache& loops = unscale_kernels().front()->around_cache;
  if (types == UnscaleTypes::f16_to_f32) return loops.f16_to_f32;
  if (types == UnscaleTypes::bf16_to_f32) return loops.bf16_to_f32;
  return types == UnscaleTypes::f32 ? loops.f32 : nullptr;
}

void check(const Unscaling& one, std::size_t index) {
  if (one.from.count != one.to.count)
    throw InvalidArgument(
        fmt::format("gradient {}: {} elements go to a place for {}", index, one.from.count, one.to.count));
  for (const comm::Device device : {one.from.device, one.to.device})
    if (device.kind != comm::Device::Kind::cpu)
      throw Unsupported(
          fmt::format("gradient {} is in memory of {}; this one reads the host's", index, comm::name_of(device)));
  (void)types_of(one, index);
}

}  // namespace

UnscaleTypes types_of(const Unscaling& one, std::size_t index) {
  const DType from = one.from.dtype, to = one.to.dtype;
  if (from == DType::f16 && to == DType::f32) return UnscaleTypes::f16_to_f32;
  if (from == DType::bf16 && to == DType::f32) return UnscaleTypes::bf16_to_f32;
  if (from == to && from == DType::f16) return UnscaleTypes::f16;
  if (from == to && from == DType::bf16) return UnscaleTypes::bf16;
  if (from == to && from == DType::f32) return UnscaleTypes::f32;
  if (from == to && from == DType::f64) return UnscaleTypes::f64;
  throw Unsupported(
      fmt::format("gradient {} of {} cannot be unscaled to {}; there are one floating type, and f16 or bf16 to f32",
                  index, comm::name_of(from), comm::name_of(to)));
}

bool unscale(std::span<const Unscaling> gradients, float inverse) {
  for (std::size_t i = 0; i < gradients.size(); ++i) check(gradients[i], i);
  std::size_t written_elsewhere = 0;
  for (const Unscaling& one : gradients)
    if (one.from.data != one.to.data) written_elsewhere += one.to.bytes();
  bool found = false;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Unscaling& one = gradients[i];
    const UnscaleTypes types = types_of(one, i);
    UnscaleLoop loop = loop_for(types);
    if (written_elsewhere > kCacheBytes && one.from.data != one.to.data)
      if (const UnscaleLoop around = loop_around_cache_for(types)) loop = around;
    found |= loop(one.from.data, one.to.data, one.from.count, inverse);
  }
  return found;
}

}  // namespace plumbline::scaler
