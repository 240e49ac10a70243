#include "conformance/training/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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

double compressed_mean_error(int ranks, comm::DType wire, double magnitudes) {
  // The distance of the smallest numbers; bfloat16's subnormal ones may be taken for zero.
  const double least = wire == comm::DType::f16 ? 0x1p-24 : 0x1p-126;
  return (ranks + 3) * (unit_roundoff(wire) * magnitudes / ranks + least);
}

double quantised_mean_error(const std::vector<double>& largest_of_ranks) {
  double scales = 0;
  for (const double largest : largest_of_ranks) scales += std::max(2 * largest / 255, 0x1p-23);
  constexpr double roundings = 255 * 0x1p-20;  // of numbers up to 255 scales
  return scales * (0.5 + roundings) / static_cast<double>(largest_of_ranks.size());
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(a[i] - b[i]);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

double bound_beside(double d, double largest, double unit_roundoff) {
  return std::max(8 * d, 64 * unit_roundoff * largest);
}

}  // namespace plumbline::conformance
