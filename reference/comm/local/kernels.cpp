#include "reference/comm/kernels.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "reference/support/cpu_features.hpp"

namespace plumbline::comm::local {

#if defined(PLUMBLINE_HAS_X86_KERNELS)
extern const Kernels avx512;
extern const Kernels avx2;
#endif
extern const Kernels baseline;

std::span<const Kernels* const> all_kernels() {
#if defined(PLUMBLINE_HAS_X86_KERNELS)
  static const auto usable = usable_kernels(avx512, avx2, baseline, true);
#else
  static const std::vector<const Kernels*> usable{&baseline};
#endif
  return usable;
}

const Kernels& kernels() {
  static const Kernels& best = *all_kernels().front();
  return best;
}

void exchange(std::byte* to_a, const std::byte* from_b, std::byte* to_b, const std::byte* from_a, std::size_t bytes) {
  // Both sides are read before either is written: in place, each `to` is what the other side sends.
  std::array<std::byte, 4096> tile_a;
  std::array<std::byte, 4096> tile_b;
  for (std::size_t done = 0; done < bytes; done += tile_a.size()) {
    const std::size_t part = std::min(tile_a.size(), bytes - done);
    std::memcpy(tile_a.data(), from_a + done, part);
    std::memcpy(tile_b.data(), from_b + done, part);
    std::memcpy(to_b + done, tile_a.data(), part);
    std::memcpy(to_a + done, tile_b.data(), part);
  }
}

}  // namespace plumbline::comm::local
