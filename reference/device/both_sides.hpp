// reference/device/both_sides.hpp: marks functions that kernels call and that the host can run as well, where tests do.
#pragma once

#if defined(__CUDACC__)
#define PLUMBLINE_ON_BOTH_SIDES __host__ __device__
#else
#define PLUMBLINE_ON_BOTH_SIDES
#endif
