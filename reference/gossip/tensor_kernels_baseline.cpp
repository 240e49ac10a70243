#define PLUMBLINE_ISA baseline
#include "reference/gossip/detail/tensor_loops.inc"
