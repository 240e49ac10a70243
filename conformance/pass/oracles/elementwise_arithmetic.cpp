// Sums, products, activations, copies and shapes.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "conformance/pass/oracles/arithmetic.hpp"

namespace plumbline::program {
namespace {

using Shape = std::vector<std::int64_t>;

// ---- broadcasting ----

// The element of an array of `small`, aligned to the right, that goes with element `flat` of one of `large`. A single
// element goes with all.
class Broadcast {
 public:
  Broadcast(const Shape& large, const Array& small) : large_(large) {
    const std::size_t count = small.elements.size();
    is_same_ = count == elements_of(large);
    is_one_ = count == 1;
    if (is_same_ || is_one_) return;
    const std::size_t missing = large.size() - std::min(large.size(), small.shape.size());
    fits_ = small.shape.size() <= large.size() && elements_of(small.shape) == count;
    std::size_t stride = count;
    strides_.assign(large.size(), 0);
    for (std::size_t i = 0; fits_ && i < small.shape.size(); ++i) {
      const std::int64_t size = small.shape[i];
      fits_ = size > 0 && (size == 1 || size == large[missing + i]);
      if (!fits_) return;
      stride /= static_cast<std::size_t>(size);
      strides_[missing + i] = size == 1 ? 0 : stride;
    }
  }
  [[nodiscard]] bool fits() const { return fits_; }
  [[nodiscard]] std::size_t of(std::size_t flat) const {
    if (is_same_) return flat;
    if (is_one_) return 0;
    std::size_t at = 0;
    for (std::size_t i = large_.size(); i-- > 0;) {
      const auto size = static_cast<std::size_t>(large_[i]);
      at += flat % size * strides_[i];
      flat /= size;
    }
    return at;
  }

 private:
  const Shape& large_;
  bool is_same_ = false, is_one_ = false, fits_ = true;
  std::vector<std::size_t> strides_;
};

template <class Function>
bool binary(Operands& operands, Function function) {
  const Array *const x = operands.in("X"), *const y = operands.in("Y");
  Array* const out = operands.out("Out");
  if (x == nullptr || y == nullptr || out == nullptr) return false;
  const Broadcast of_x(out->shape, *x), of_y(out->shape, *y);
  if (!of_x.fits() || !of_y.fits()) return false;
  for (std::size_t i = 0; i < out->elements.size(); ++i)
    out->elements[i] = function(x->elements[of_x.of(i)], y->elements[of_y.of(i)]);
  return true;
}

// The gradient of a broadcast input is the sum over all that it went into. `by_x` and `by_y` are the derivatives.
template <class ByX, class ByY>
bool binary_grad(Operands& operands, ByX by_x, ByY by_y) {
  const Array *const x = operands.in("X"), *const y = operands.in("Y"), *const gradient = operands.in("Out@GRAD");
  if (x == nullptr || y == nullptr || gradient == nullptr) return false;
  const Array& large = x->elements.size() >= y->elements.size() ? *x : *y;
  const bool is_spread = gradient->elements.size() == 1;
  if (!is_spread && gradient->elements.size() != large.elements.size()) return false;
  const Shape& shape = is_spread ? large.shape : gradient->shape;
  const Broadcast of_x(shape, *x), of_y(shape, *y), of_gradient(shape, *gradient);
  if (!of_x.fits() || !of_y.fits()) return false;
  Array *const to_x = operands.out("X@GRAD"), *const to_y = operands.out("Y@GRAD");
  if (to_x != nullptr && to_x->elements.size() != x->elements.size()) return false;
  if (to_y != nullptr && to_y->elements.size() != y->elements.size()) return false;
  for (std::size_t i = 0; i < large.elements.size(); ++i) {
    const double g = gradient->elements[of_gradient.of(i)], a = x->elements[of_x.of(i)], b = y->elements[of_y.of(i)];
    if (to_x != nullptr) to_x->elements[of_x.of(i)] += g * by_x(a, b);
    if (to_y != nullptr) to_y->elements[of_y.of(i)] += g * by_y(a, b);
  }
  return true;
}

bool add(Operands& one) {
  return binary(one, [](double x, double y) { return x + y; });
}
bool subtract(Operands& one) {
  return binary(one, [](double x, double y) { return x - y; });
}
bool multiply(Operands& one) {
  return binary(one, [](double x, double y) { return x * y; });
}
bool add_grad(Operands& one) {
  return binary_grad(one, [](double, double) { return 1.0; }, [](double, double) { return 1.0; });
}
bool subtract_grad(Operands& one) {
  return binary_grad(one, [](double, double) { return 1.0; }, [](double, double) { return -1.0; });
}
bool multiply_grad(Operands& one) {
  return binary_grad(one, [](double, double y) { return y; }, [](double x, double) { return x; });
}

// ---- element by element ----

template <class Function>
bool each(Operands& operands, std::string_view from, std::string_view to, Function function) {
  const Array* const in = operands.in(from);
  Array* const out = operands.out(to);
  if (in == nullptr || out == nullptr || in->elements.size() != out->elements.size()) return false;
  std::ranges::transform(in->elements, out->elements.begin(), function);
  return true;
}

// A derivative that is known from the array of slot `at`.
template <class Function>
bool each_grad(Operands& operands, std::string_view at, Function derivative) {
  const Array *const value = operands.in(at), *const gradient = operands.in("Out@GRAD");
  Array* const out = operands.out("X@GRAD");
  if (value == nullptr || gradient == nullptr || out == nullptr || value->elements.size() != out->elements.size() ||
      gradient->elements.size() != out->elements.size())
    return false;
  for (std::size_t i = 0; i < out->elements.size(); ++i)
    out->elements[i] = gradient->elements[i] * derivative(value->elements[i]);
  return true;
}

bool copy(Operands& one) {
  return each(one, "X", "Out", [](double x) { return x; });
}
bool copy_grad(Operands& one) {
  return each(one, "Out@GRAD", "X@GRAD", [](double g) { return g; });
}
bool scale(Operands& one) {
  return each(one, "X", "Out",
              [by = one.number("scale", 1), bias = one.number("bias", 0)](double x) { return x * by + bias; });
}
// A clip's limits are not stated.
bool clip(Operands& one) {
  return each(one, "X", "Out", [low = one.number("min", -1), high = one.number("max", 1)](double x) {
    return x < low ? low : x > high ? high : x;
  });
}
bool relu(Operands& one) {
  return each(one, "X", "Out", [](double x) { return x < 0 ? 0 : x; });
}
bool relu_grad(Operands& one) {
  return each_grad(one, "Out", [](double y) { return y > 0 ? 1.0 : 0.0; });
}
bool tanh(Operands& one) {
  return each(one, "X", "Out", [](double x) { return std::tanh(x); });
}
bool tanh_grad(Operands& one) {
  return each_grad(one, "Out", [](double y) { return 1 - y * y; });
}
bool square(Operands& one) {
  return each(one, "X", "Out", [](double x) { return x * x; });
}
bool square_grad(Operands& one) {
  return each_grad(one, "X", [](double x) { return 2 * x; });
}
double normal_distribution(double x) { return (1 + std::erf(x / std::numbers::sqrt2)) / 2; }
bool gelu(Operands& one) {
  return each(one, "X", "Out", [](double x) { return x * normal_distribution(x); });
}
bool gelu_grad(Operands& one) {
  return each_grad(one, "X", [](double x) {
    return normal_distribution(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  });
}

// ---- constants, sums, means ----

bool fill(Operands& operands) {
  Array* const out = operands.out("Out");
  if (out == nullptr) return false;
  std::ranges::fill(out->elements, operands.number("value", 0));
  return true;
}

bool sum(Operands& operands) {
  const auto found = operands.inputs.find("X");
  Array* const out = operands.out("Out");
  if (found == operands.inputs.end() || out == nullptr) return false;
  for (const Array& one : found->second)
    if (one.elements.size() != out->elements.size()) return false;
  for (const Array& one : found->second)
    for (std::size_t i = 0; i < one.elements.size(); ++i) out->elements[i] += one.elements[i];
  return true;
}

bool mean(Operands& operands) {
  const Array* const x = operands.in("X");
  Array* const out = operands.out("Out");
  if (x == nullptr || out == nullptr || out->elements.size() != 1 || x->elements.empty()) return false;
  out->elements[0] =
      std::accumulate(x->elements.begin(), x->elements.end(), 0.0) / static_cast<double>(x->elements.size());
  return true;
}

bool mean_grad(Operands& operands) {
  const Array* const gradient = operands.in("Out@GRAD");
  Array* const out = operands.out("X@GRAD");
  if (gradient == nullptr || out == nullptr || gradient->elements.size() != 1) return false;
  std::ranges::fill(out->elements, gradient->elements[0] / static_cast<double>(out->elements.size()));
  return true;
}

// ---- shapes ----

// A program does not state the permutation: the two middle of four dimensions, as attention swaps its heads.
bool transpose(const Array* in, Array* out) {
  if (in == nullptr || out == nullptr || in->shape.size() != 4 || out->shape.size() != 4) return false;
  const Shape& from = in->shape;
  if (out->shape != Shape{from[0], from[2], from[1], from[3]} || elements_of(from) != in->elements.size()) return false;
  const auto size = [&from](std::size_t axis) { return static_cast<std::size_t>(from[axis]); };
  for (std::size_t i = 0; i < in->elements.size(); ++i) {
    const std::size_t d = i % size(3), c = i / size(3) % size(2), b = i / size(3) / size(2) % size(1),
                      a = i / size(3) / size(2) / size(1);
    out->elements[((a * size(2) + c) * size(1) + b) * size(3) + d] = in->elements[i];
  }
  return true;
}
bool transpose_forward(Operands& one) { return transpose(one.in("X"), one.out("Out")); }
bool transpose_grad(Operands& one) { return transpose(one.in("Out@GRAD"), one.out("X@GRAD")); }

// Copies parts from or to their place in a whole along one axis: the first along which they differ from it.
template <class Part, class Whole, class Copy>
bool along_axis(std::vector<Part>& parts, Whole& whole, Copy copy_one) {
  if (parts.empty()) return false;
  const Shape& all = whole.shape;
  std::size_t axis = 0, covered = 0;
  for (const Part& part : parts)
    if (part.shape.size() != all.size() || elements_of(part.shape) != part.elements.size()) return false;
  while (axis < all.size() && parts[0].shape[axis] == all[axis]) ++axis;
  if (axis == all.size()) axis = 0;
  for (const Part& part : parts) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != axis && part.shape[i] != all[i]) return false;
    covered += part.shape.empty() ? 1 : static_cast<std::size_t>(part.shape[axis]);
  }
  if (all.empty() || static_cast<std::int64_t>(covered) != all[axis] || elements_of(all) != whole.elements.size())
    return false;
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < all.size(); ++i) inner *= static_cast<std::size_t>(all[i]);
  const std::size_t row = static_cast<std::size_t>(all[axis]) * inner;
  std::size_t begin = 0;
  for (Part& part : parts) {
    const std::size_t length = static_cast<std::size_t>(part.shape[axis]) * inner;
    for (std::size_t i = 0; i < part.elements.size(); ++i)
      copy_one(part.elements[i], whole.elements[i / length * row + begin + i % length]);
    begin += length;
  }
  return true;
}

bool concat(Operands& operands) {
  const auto found = operands.inputs.find("X");
  Array* const out = operands.out("Out");
  if (found == operands.inputs.end() || out == nullptr) return false;
  return along_axis(found->second, *out, [](double part, double& whole) { whole = part; });
}

bool split(Operands& operands) {
  const Array* const x = operands.in("X");
  const auto found = operands.outputs.find("Out");
  if (x == nullptr || found == operands.outputs.end()) return false;
  return along_axis(found->second, *x, [](double& part, double whole) { part = whole; });
}

// Where a slice begins is not stated: at the beginning.
bool slice(Operands& operands) {
  const Array* const in = operands.in("Input");
  Array* const out = operands.out("Out");
  if (in == nullptr || out == nullptr || in->shape.size() != out->shape.size() ||
      elements_of(in->shape) != in->elements.size() || elements_of(out->shape) != out->elements.size())
    return false;
  for (std::size_t i = 0; i < in->shape.size(); ++i)
    if (out->shape[i] > in->shape[i]) return false;
  for (std::size_t i = 0; i < out->elements.size(); ++i) {
    std::size_t rest = i, at = 0, stride = 1;
    for (std::size_t axis = out->shape.size(); axis-- > 0;) {
      const auto size = static_cast<std::size_t>(out->shape[axis]);
      at += rest % size * stride;
      rest /= size;
      stride *= static_cast<std::size_t>(in->shape[axis]);
    }
    out->elements[i] = in->elements[at];
  }
  return true;
}

}  // namespace

const ArithmeticTable& elementwise_arithmetic() {
  static const ArithmeticTable table{
      {"assign", copy},
      {"cast", copy},
      {"clip", clip},
      {"concat", concat},
      {"elementwise_add", add},
      {"elementwise_add_grad", add_grad},
      {"elementwise_mul", multiply},
      {"elementwise_mul_grad", multiply_grad},
      {"elementwise_sub", subtract},
      {"elementwise_sub_grad", subtract_grad},
      {"fill_any_like", fill},
      {"fill_constant", fill},
      {"flatten_contiguous_range", copy},
      {"flatten_contiguous_range_grad", copy_grad},
      {"gelu", gelu},
      {"gelu_grad", gelu_grad},
      {"reduce_mean", mean},
      {"reduce_mean_grad", mean_grad},
      {"relu", relu},
      {"relu_grad", relu_grad},
      {"reshape2", copy},
      {"reshape2_grad", copy_grad},
      {"scale", scale},
      {"slice", slice},
      {"split", split},
      {"square", square},
      {"square_grad", square_grad},
      {"sum", sum},
      {"tanh", tanh},
      {"tanh_grad", tanh_grad},
      {"transpose2", transpose_forward},
      {"transpose2_grad", transpose_grad},
  };
  return table;
}

}  // namespace plumbline::program
