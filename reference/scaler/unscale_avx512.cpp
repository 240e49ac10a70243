#define PLUMBLINE_ISA unscale_avx512
#include "reference/scaler/detail/unscale_loops.inc"
