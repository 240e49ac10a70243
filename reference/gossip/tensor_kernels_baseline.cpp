#define PLUMBLINE_ISA baseline
#include "reference/gossip/tensor_loops.inc"
