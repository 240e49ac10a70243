#define PLUMBLINE_ISA baseline
#include "reference/comm/local/kernels_loops.inc"
