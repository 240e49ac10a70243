#define PLUMBLINE_ISA unscale_baseline
#include "reference/scaler/detail/unscale_loops.inc"
