#include "reference/gossip/tensor_kernels.hpp"

#include <string>
#include <vector>

#include "reference/comm/errors.hpp"
#include "reference/support/cpu_features.hpp"

namespace plumbline::gossip {

using comm::Buffer;
using comm::ConstBuffer;

#if defined(PLUMBLINE_HAS_X86_KERNELS)
extern const TensorKernels avx512;
extern const TensorKernels avx2;
#endif
extern const TensorKernels baseline;

std::span<const TensorKernels* const> all_tensor_kernels() {
#if defined(PLUMBLINE_HAS_X86_KERNELS)
  static const auto usable = comm::usable_kernels(avx512, avx2, baseline, false);
#else
  static const std::vector<const TensorKernels*> usable{&baseline};
#endif
  return usable;
}

const TensorLoops& TensorKernels::of(comm::DType dtype) const {
  const auto place = static_cast<std::size_t>(dtype);
  if (place < of_type.size()) return of_type[place];
  throw Unsupported("elements of " + std::string(comm::name_of(dtype)) + "; there are f16, bf16, f32 and f64");
}

namespace {

const TensorLoops& loops(comm::DType dtype) {
  static const TensorKernels& best = *all_tensor_kernels().front();
  return best.of(dtype);
}

}  // namespace

void scale(Buffer x, double factor) { scaled_copy(x, x, factor); }
void scaled_copy(ConstBuffer x, Buffer out, double factor) {
  loops(x.dtype).scaled_copy(out.data, x.data, x.count, factor);
}
void add(Buffer x, ConstBuffer other) { loops(x.dtype).add(x.data, other.data, x.count); }
void add_and_scale(Buffer x, ConstBuffer other, double factor) {
  loops(x.dtype).add_and_scale(x.data, other.data, x.count, factor);
}
void meet(comm::DType dtype, void* a, const comm::PairFactors& of_a, void* b, const comm::PairFactors& of_b,
          std::int64_t count) {
  loops(dtype).meet(a, of_a, b, of_b, count);
}
void divide(Buffer x, double divisor) { loops(x.dtype).divide(x.data, x.count, divisor); }

}  // namespace plumbline::gossip
