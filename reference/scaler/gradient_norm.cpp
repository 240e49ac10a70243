#include "reference/scaler/detail/gradient_norm.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "reference/comm/dtype.hpp"

namespace plumbline::scaler {
namespace {

using comm::BFloat16;
using comm::DType;
using comm::Float16;

// An element as it is computed with, and what a result becomes when it is stored in a type.
inline float widened(float value) { return value; }
inline double widened(double value) { return value; }
inline float widened(Float16 value) { return comm::to_float(value); }
inline float widened(BFloat16 value) { return comm::to_float(value); }

template <class T, class Wide>
T narrowed(Wide value) {
  if constexpr (std::is_same_v<T, Float16>)
    return comm::to_float16(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return comm::to_bfloat16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}
template <class T, class Wide>
Wide rounded(Wide value) {
  return static_cast<Wide>(widened(narrowed<T>(value)));
}

// Calls take(T{}) with the type of a floating dtype.
template <class Take>
auto with_type(DType dtype, const Take& take) {
  switch (dtype) {
    case DType::f16:
      return take(Float16{});
    case DType::bf16:
      return take(BFloat16{});
    case DType::f32:
      return take(float{});
    default:
      return take(double{});
  }
}

template <class Wide>
Wide power(Wide magnitude, Wide p) {
  return p == 0 && magnitude == 0 ? Wide(0) : std::pow(magnitude, p);  // order 0 counts what is not 0
}

// The largest or the smallest magnitude, NaN where there is one.
template <class T>
auto extreme(std::span<const T> values, bool largest) {
  using Wide = decltype(widened(T{}));
  if (values.empty()) throw InvalidArgument("an infinity norm of a gradient without elements; it has none");
  Wide best = std::abs(widened(values.front()));
  for (const T value : values) {
    const Wide magnitude = std::abs(widened(value));
    if (std::isnan(magnitude)) return magnitude;
    best = largest ? std::max(best, magnitude) : std::min(best, magnitude);
  }
  return best;
}

template <class T>
auto norm_of(std::span<const T> values, double order) {
  using Wide = decltype(widened(T{}));
  if (std::isinf(order)) return rounded<T>(extreme(values, order > 0));
  if (values.size() == 1 && order != 0) return std::abs(widened(values.front()));  // its power may be 0 or infinite
  const auto p = static_cast<Wide>(order);
  double sum = 0;
  for (const T value : values) sum += static_cast<double>(power(std::abs(widened(value)), p));
  const auto total = static_cast<Wide>(sum);
  if (order == 0) return rounded<T>(total);
  return rounded<T>(std::pow(total, Wide(1) / p));
}

void check_gradient(comm::ConstBuffer gradient) {
  if (!comm::is_floating(gradient.dtype))
    throw Unsupported(fmt::format("a norm of {} gradients; floating ones have one", comm::name_of(gradient.dtype)));
  if (gradient.device.kind != comm::Device::Kind::cpu)
    throw Unsupported(
        fmt::format("gradients in memory of {}; this one reads the host's", comm::name_of(gradient.device)));
}

double norm_of(comm::ConstBuffer gradient, double p) {
  return with_type(gradient.dtype, [&]<class T>(T) {
    return static_cast<double>(
        norm_of(std::span(static_cast<const T*>(gradient.data), static_cast<std::size_t>(gradient.count)), p));
  });
}

template <class T>
void multiply(comm::Buffer gradient, double coefficient) {
  using Wide = decltype(widened(T{}));
  const auto by = static_cast<Wide>(coefficient);
  for (T& value : std::span(static_cast<T*>(gradient.data), static_cast<std::size_t>(gradient.count)))
    value = narrowed<T>(widened(value) * by);
}

// max_norm / (norm + 1e-6), a division that PyTorch makes by the reciprocal; 1 at most.
template <class T>
double coefficient_of(double norm, double max_norm) {
  using Wide = decltype(widened(T{}));
  const auto above = rounded<T>(static_cast<Wide>(norm) + Wide(1e-6));
  const auto quotient = rounded<T>(rounded<T>(Wide(1) / above) * static_cast<Wide>(max_norm));
  return static_cast<double>(quotient > 1 ? Wide(1) : quotient);
}

}  // namespace

double total_norm(std::span<const comm::ConstBuffer> gradients, double p) {
  for (const comm::ConstBuffer& gradient : gradients) check_gradient(gradient);
  if (gradients.empty()) return 0;
  for (const comm::ConstBuffer& gradient : gradients)
    if (gradient.dtype != gradients.front().dtype)
      throw InvalidArgument(fmt::format("gradients of {} and {}: a norm is of gradients of one type",
                                        name_of(gradients.front().dtype), name_of(gradient.dtype)));
  return with_type(gradients.front().dtype, [&]<class T>(T) {
    std::vector<T> norms;
    for (const comm::ConstBuffer& gradient : gradients) norms.push_back(narrowed<T>(norm_of(gradient, p)));
    return static_cast<double>(norm_of(std::span<const T>(norms), p));
  });
}

double combined_norm(std::span<const double> norms, DType dtype, double p) {
  if (norms.empty()) return 0;
  return with_type(dtype, [&]<class T>(T) {
    using Wide = decltype(widened(T{}));
    if (std::isinf(p)) return static_cast<double>(rounded<T>(static_cast<Wide>(extreme(norms, p > 0))));
    double sum = 0;
    for (const double norm : norms) {
      const auto value = static_cast<Wide>(norm);
      sum += static_cast<double>(rounded<T>(p == 0 ? value : power(value, static_cast<Wide>(p))));
    }
    const auto total = rounded<T>(static_cast<Wide>(sum));
    return static_cast<double>(p == 0 ? total : rounded<T>(std::pow(total, Wide(1) / static_cast<Wide>(p))));
  });
}

double clip_grad_norm(std::span<const comm::Buffer> gradients, const Clipping& clipping) {
  const std::vector<comm::ConstBuffer> views(gradients.begin(), gradients.end());
  const double norm = total_norm(views, clipping.norm_type);
  if (clipping.error_if_nonfinite && !std::isfinite(norm))
    throw NonFiniteNorm(
        fmt::format("the norm of order {} is {}: gradients cannot be clipped by it", clipping.norm_type, norm));
  if (gradients.empty()) return norm;
  const double coefficient =
      with_type(gradients.front().dtype, [&]<class T>(T) { return coefficient_of<T>(norm, clipping.max_norm); });
  for (const comm::Buffer& gradient : gradients)
    with_type(gradient.dtype, [&]<class T>(T) { multiply<T>(gradient, coefficient); });
  return norm;
}

}  // namespace plumbline::scaler
