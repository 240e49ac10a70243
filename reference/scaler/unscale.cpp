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

// Results of this size in one call are not in the cache any more when they are read.
constexpr std::size_t kCacheBytes = std::size_t{32} << 20;

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
  if (from == to) switch (from) {
      case DType::f16:
        return UnscaleTypes::f16;
      case DType::bf16:
        return UnscaleTypes::bf16;
      case DType::f32:
        return UnscaleTypes::f32;
      case DType::f64:
        return UnscaleTypes::f64;
      default:
        break;
    }
  throw Unsupported(
      fmt::format("gradient {} of {} cannot be unscaled to {}; there are one floating type, and f16 or bf16 to f32",
                  index, comm::name_of(from), comm::name_of(to)));
}

bool unscale(std::span<const Unscaling> gradients, float inverse) {
  for (std::size_t i = 0; i < gradients.size(); ++i) check(gradients[i], i);
  const UnscaleKernels& kernels = *unscale_kernels().front();
  const auto is_in_place = [](const Unscaling& one) { return one.from.data == one.to.data; };
  std::size_t written_elsewhere = 0;
  for (const Unscaling& one : gradients) written_elsewhere += is_in_place(one) ? 0 : one.to.bytes();
  const UnscaleLoops& loops = written_elsewhere > kCacheBytes ? kernels.around_cache : kernels.loops;
  bool found = false;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Unscaling& one = gradients[i];
    const auto types = static_cast<std::size_t>(types_of(one, i));
    const UnscaleLoop loop = is_in_place(one) ? kernels.loops[types] : loops[types];
    found |= loop(one.from.data, one.to.data, one.from.count, inverse);
  }
  return found;
}

}  // namespace plumbline::scaler
