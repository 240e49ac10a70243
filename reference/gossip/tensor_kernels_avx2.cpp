#define PLUMBLINE_ISA avx2
#include "reference/gossip/detail/tensor_loops.inc"
