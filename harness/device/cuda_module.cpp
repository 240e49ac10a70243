// The module cuda: what device::kRuntimeFactory names.
#include <utility>

#include "reference/comm/interface.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/scaler/unscale_cuda.hpp"
#include "reference/slowmo/kernels_cuda.hpp"

// All that components bring along: SlowMo's copies are bucketing's, too.
PLUMBLINE_EXPORT plumbline::device::Runtime* plumbline_open_device() {
  auto kernels = plumbline::slowmo::kernels();
  kernels.push_back(plumbline::scaler::unscale_kernel());
  return plumbline::device::make_cuda(std::move(kernels)).release();
}
