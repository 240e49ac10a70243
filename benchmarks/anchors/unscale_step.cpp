// What anchors/unscale_torch.py calls alternately with PyTorch's kernel: ninja anchor_unscale
//
// Model   A library with C's calling convention, so that both sides and the copy run step by step in one process, over
//         the same memory.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/comm/errors.hpp"
#include "reference/comm/kernels.hpp"
#include "reference/scaler/unscale.hpp"

using plumbline::comm::DType;

namespace {
constexpr int kRefused = -1;
}

/// Divides `gradients` lists of f32, f16 or bf16 (kind 0, 1, 2) into f32: 1 where something was not finite, else 0; -1
/// where that is refused.
extern "C" __attribute__((visibility("default"))) int plumbline_unscale(const void* const* from, float* const* to,
                                                                        const std::int64_t* counts,
                                                                        std::int64_t gradients, int kind,
                                                                        float inverse) {
  constexpr DType types[] = {DType::f32, DType::f16, DType::bf16};
  std::vector<plumbline::scaler::Unscaling> work;
  for (std::int64_t i = 0; i < gradients; ++i)
    work.push_back({{from[i], counts[i], types[kind]}, {to[i], counts[i], DType::f32}});
  try {
    return plumbline::scaler::unscale(work, inverse) ? 1 : 0;
  } catch (const plumbline::Error&) {
    return kRefused;
  }
}

/// Copies bytes between lists that do not overlap, by memcpy or around the cache.
extern "C" __attribute__((visibility("default"))) void plumbline_copy(void* to, const void* from, std::int64_t bytes,
                                                                      bool around_cache) {
  plumbline::comm::local::kernels().copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from),
                                         static_cast<std::size_t>(bytes), around_cache);
}
