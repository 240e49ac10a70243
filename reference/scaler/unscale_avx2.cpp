#define PLUMBLINE_ISA unscale_avx2
#include "reference/scaler/detail/unscale_loops.inc"
