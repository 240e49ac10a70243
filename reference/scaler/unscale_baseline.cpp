#define PLUMBLINE_ISA unscale_baseline
#include "reference/scaler/unscale_loops.inc"
