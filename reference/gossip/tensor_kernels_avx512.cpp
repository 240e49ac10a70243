#define PLUMBLINE_ISA avx512
#include "reference/gossip/tensor_loops.inc"
