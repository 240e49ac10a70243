// reference/support/cpu_features.hpp: which of the kernels that exist once per instruction set a processor can run.
#pragma once

#if defined(__x86_64__)
#include <vector>

#include <cpuid.h>

namespace plumbline::comm {

/// Whether halves are converted by an instruction; whether the system saves its registers is part of the AVX check.
[[nodiscard]] inline bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

/// The fastest first. The sources of all three are compiled with what CMakeLists.txt gives them: F16C is among that or
/// not.
template <class Kernels>
[[nodiscard]] std::vector<const Kernels*> usable_kernels(const Kernels& avx512, const Kernels& avx2,
                                                         const Kernels& baseline, bool with_f16c) {
  std::vector<const Kernels*> list;
  const bool has_halves = !with_f16c || has_f16c();
  if (has_halves && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    list.push_back(&avx512);
  if (has_halves && __builtin_cpu_supports("avx2")) list.push_back(&avx2);
  list.push_back(&baseline);
  return list;
}

}  // namespace plumbline::comm
#endif
