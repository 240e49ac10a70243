#define PLUMBLINE_ISA avx2
#include "reference/gossip/tensor_loops.inc"
