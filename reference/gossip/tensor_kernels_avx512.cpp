#define PLUMBLINE_ISA avx512
#include "reference/gossip/detail/tensor_loops.inc"
