#include "conformance/training/bounds.hpp"

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

double unit_roundoff(comm::DType dtype) {
  switch (dtype) {
    case comm::DType::f16:
      return 0x1p-11;
    case comm::DType::bf16:
      return 0x1p-8;
    case comm::DType::f32:
      return 0x1p-24;
    case comm::DType::f64:
      return 0x1p-53;
    default:
      throw Unsupported(fmt::format("{} does not round", comm::name_of(dtype)));
  }
}

comm::DType compute_dtype(std::string_view name) {
  return name == "float16" ? comm::DType::f16 : name == "bfloat16" ? comm::DType::bf16 : comm::DType::f32;
}

double mean_error(int ranks, comm::DType accumulator, double magnitudes) {
  const double u = unit_roundoff(accumulator);
  const double additions = (ranks - 1) * u;
  const double sum = additions / (1 - additions) * magnitudes;
  // The division rounds once, and the result once more where the accumulator is wider.
  const double last = u + (accumulator == comm::DType::f32 ? 0 : unit_roundoff(comm::DType::f32));
  return (sum + last * (magnitudes + sum)) / ranks + kSmallestFloat;
}

}  // namespace plumbline::conformance
