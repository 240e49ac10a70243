#define PLUMBLINE_ISA avx512
#include "reference/comm/local/kernels_loops.inc"
