#define PLUMBLINE_ISA unscale_avx2
#include "reference/scaler/unscale_loops.inc"
