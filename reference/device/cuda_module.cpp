// The module cuda: what device::kRuntimeFactory names.
#include "reference/device/cuda_runtime.hpp"

extern "C" __attribute__((visibility("default"))) plumbline::device::Runtime* plumbline_open_device() {
  return plumbline::device::make_cuda().release();
}
