#define PLUMBLINE_ISA avx2
#include "reference/comm/local/kernels_loops.inc"
