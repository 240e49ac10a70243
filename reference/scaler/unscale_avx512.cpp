#define PLUMBLINE_ISA unscale_avx512
#include "reference/scaler/unscale_loops.inc"
