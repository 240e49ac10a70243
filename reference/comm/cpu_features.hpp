// reference/comm/cpu_features.hpp: what compilers do not all know by name of a processor.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>

namespace plumbline::comm {

/// Whether halves are converted by an instruction; whether the system saves its registers is for AVX to say.
[[nodiscard]] inline bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace plumbline::comm
#endif
