// The module cuda: what device::kRuntimeFactory names.
#include "reference/device/cuda_runtime.hpp"
#include "reference/slowmo/kernels_cuda.hpp"

// SlowMo's kernels are all that components bring along: the copies are bucketing's, too.
extern "C" __attribute__((visibility("default"))) plumbline::device::Runtime* plumbline_open_device() {
  return plumbline::device::make_cuda(plumbline::slowmo::kernels()).release();
}
