// Matrix products, normalisation, softmax, embeddings.
#include <algorithm>
#include <cmath>

#include "conformance/pass/oracles/arithmetic.hpp"

namespace plumbline::program {
namespace {

std::size_t dimension(const Array& array, std::size_t from_end) {
  return static_cast<std::size_t>(array.shape[array.shape.size() - from_end]);
}
bool has_its_elements(const Array* array, std::size_t rank) {
  return array != nullptr && array->shape.size() >= rank && elements_of(array->shape) == array->elements.size() &&
         !array->elements.empty();
}

// ---- matrix products ----

// x [batch, m, k] times y [batch or one, k, n], or [n, k] transposed where it fits in no other way.
struct Product {
  std::size_t batch = 1, m = 1, k = 1, n = 1;
  bool shares_y = false, transposes_y = false;

  [[nodiscard]] std::size_t x(std::size_t b, std::size_t i, std::size_t j) const { return (b * m + i) * k + j; }
  [[nodiscard]] std::size_t y(std::size_t b, std::size_t i, std::size_t j) const {
    const std::size_t at = transposes_y ? j * k + i : i * n + j;
    return (shares_y ? 0 : b * k * n) + at;
  }
  [[nodiscard]] std::size_t out(std::size_t b, std::size_t i, std::size_t j) const { return (b * m + i) * n + j; }
};

bool fits(const Array* x, const Array* y, const Array* out, Product& product) {
  if (!has_its_elements(x, 2) || !has_its_elements(y, 2) || !has_its_elements(out, 2)) return false;
  product.m = dimension(*x, 2), product.k = dimension(*x, 1), product.n = dimension(*out, 1);
  product.batch = x->elements.size() / product.m / product.k;
  if (dimension(*out, 2) != product.m || out->elements.size() != product.batch * product.m * product.n) return false;
  const std::size_t rows = dimension(*y, 2), columns = dimension(*y, 1);
  product.transposes_y = rows != product.k || columns != product.n;
  if (product.transposes_y && (rows != product.n || columns != product.k)) return false;
  product.shares_y = y->elements.size() == product.k * product.n;
  return product.shares_y || y->elements.size() == product.batch * product.k * product.n;
}

bool matmul(Operands& operands) {
  const Array *const x = operands.in("X"), *const y = operands.in("Y");
  Array* const out = operands.out("Out");
  Product of;
  if (!fits(x, y, out, of)) return false;
  for (std::size_t b = 0; b < of.batch; ++b)
    for (std::size_t i = 0; i < of.m; ++i)
      for (std::size_t j = 0; j < of.n; ++j) {
        double sum = 0;
        for (std::size_t l = 0; l < of.k; ++l) sum += x->elements[of.x(b, i, l)] * y->elements[of.y(b, l, j)];
        out->elements[of.out(b, i, j)] = sum;
      }
  return true;
}

bool matmul_grad(Operands& operands) {
  const Array *const x = operands.in("X"), *const y = operands.in("Y"), *const gradient = operands.in("Out@GRAD");
  Array *const to_x = operands.out("X@GRAD"), *const to_y = operands.out("Y@GRAD");
  Product of;
  if (!fits(x, y, gradient, of)) return false;
  if (to_x != nullptr && to_x->elements.size() != x->elements.size()) return false;
  if (to_y != nullptr && to_y->elements.size() != y->elements.size()) return false;
  for (std::size_t b = 0; b < of.batch; ++b)
    for (std::size_t i = 0; i < of.m; ++i)
      for (std::size_t j = 0; j < of.n; ++j) {
        const double g = gradient->elements[of.out(b, i, j)];
        for (std::size_t l = 0; l < of.k; ++l) {
          if (to_x != nullptr) to_x->elements[of.x(b, i, l)] += g * y->elements[of.y(b, l, j)];
          if (to_y != nullptr) to_y->elements[of.y(b, l, j)] += g * x->elements[of.x(b, i, l)];
        }
      }
  return true;
}

// ---- rows ----

// Arrays seen as rows of equal length: the last dimension.
struct Rows {
  std::size_t count = 0, length = 0;
};
Rows rows_of(const Array& array) {
  const std::size_t length = array.shape.empty() ? 1 : dimension(array, 1);
  return {length == 0 ? 0 : array.elements.size() / length, length};
}

void softmax_of(const Array& in, Array& out) {
  const Rows rows = rows_of(in);
  for (std::size_t r = 0; r < rows.count; ++r) {
    const double* const x = &in.elements[r * rows.length];
    const double largest = *std::max_element(x, x + rows.length);
    double sum = 0;
    for (std::size_t i = 0; i < rows.length; ++i) sum += out.elements[r * rows.length + i] = std::exp(x[i] - largest);
    for (std::size_t i = 0; i < rows.length; ++i) out.elements[r * rows.length + i] /= sum;
  }
}

bool softmax(Operands& operands) {
  const Array* const x = operands.in("X");
  Array* const out = operands.out("Out");
  if (!has_its_elements(x, 1) || out == nullptr || out->elements.size() != x->elements.size()) return false;
  softmax_of(*x, *out);
  return true;
}

bool softmax_grad(Operands& operands) {
  const Array *const y = operands.in("Out"), *const gradient = operands.in("Out@GRAD");
  Array* const out = operands.out("X@GRAD");
  if (!has_its_elements(y, 1) || gradient == nullptr || out == nullptr ||
      gradient->elements.size() != y->elements.size() || out->elements.size() != y->elements.size())
    return false;
  const Rows rows = rows_of(*y);
  for (std::size_t r = 0; r < rows.count; ++r) {
    const std::size_t begin = r * rows.length, end = begin + rows.length;
    double dot = 0;
    for (std::size_t i = begin; i < end; ++i) dot += gradient->elements[i] * y->elements[i];
    for (std::size_t i = begin; i < end; ++i) out->elements[i] = (gradient->elements[i] - dot) * y->elements[i];
  }
  return true;
}

// The row of a table that an index means: programs come without data, and theirs is made up.
std::size_t index_in(double index, std::size_t size) {
  return static_cast<std::size_t>(std::abs(std::isfinite(index) ? index : 0)) % size;
}

bool cross_entropy(Operands& operands) {
  const Array *const logits = operands.in("Logits"), *const label = operands.in("Label");
  Array *const loss = operands.out("Loss"), *const softmax = operands.out("Softmax");
  if (!has_its_elements(logits, 1) || label == nullptr || loss == nullptr || softmax == nullptr) return false;
  const Rows rows = rows_of(*logits);
  if (label->elements.size() != rows.count || loss->elements.size() != rows.count ||
      softmax->elements.size() != logits->elements.size())
    return false;
  softmax_of(*logits, *softmax);
  for (std::size_t r = 0; r < rows.count; ++r)
    loss->elements[r] = -std::log(softmax->elements[r * rows.length + index_in(label->elements[r], rows.length)]);
  return true;
}

bool cross_entropy_grad(Operands& operands) {
  const Array *const softmax = operands.in("Softmax"), *const label = operands.in("Label"),
                     *const gradient = operands.in("Loss@GRAD");
  Array* const out = operands.out("Logits@GRAD");
  if (!has_its_elements(softmax, 1) || label == nullptr || gradient == nullptr || out == nullptr) return false;
  const Rows rows = rows_of(*softmax);
  if (label->elements.size() != rows.count || gradient->elements.size() != rows.count ||
      out->elements.size() != softmax->elements.size())
    return false;
  for (std::size_t i = 0; i < out->elements.size(); ++i) {
    const std::size_t row = i / rows.length;
    const double target = i % rows.length == index_in(label->elements[row], rows.length) ? 1 : 0;
    out->elements[i] = gradient->elements[row] * (softmax->elements[i] - target);
  }
  return true;
}

// ---- layer normalisation, over as many of the last dimensions as the scale is long ----

constexpr double kEpsilon = 1e-5;

bool layer_norm(Operands& operands) {
  const Array *const x = operands.in("X"), *const scale = operands.in("Scale"), *const bias = operands.in("Bias");
  Array *const y = operands.out("Y"), *const mean = operands.out("Mean"), *const variance = operands.out("Variance");
  if (x == nullptr || scale == nullptr || bias == nullptr || y == nullptr || mean == nullptr || variance == nullptr)
    return false;
  const std::size_t length = scale->elements.size(), count = mean->elements.size();
  if (length == 0 || bias->elements.size() != length || x->elements.size() != length * count ||
      y->elements.size() != x->elements.size() || variance->elements.size() != count)
    return false;
  for (std::size_t r = 0; r < count; ++r) {
    const double* const row = &x->elements[r * length];
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < length; ++i) sum += row[i];
    const double middle = sum / static_cast<double>(length);
    for (std::size_t i = 0; i < length; ++i) squares += (row[i] - middle) * (row[i] - middle);
    mean->elements[r] = middle;
    variance->elements[r] = squares / static_cast<double>(length);
    const double by = 1 / std::sqrt(variance->elements[r] + kEpsilon);
    for (std::size_t i = 0; i < length; ++i)
      y->elements[r * length + i] = (row[i] - middle) * by * scale->elements[i] + bias->elements[i];
  }
  return true;
}

bool layer_norm_grad(Operands& operands) {
  const Array *const x = operands.in("X"), *const scale = operands.in("Scale"), *const mean = operands.in("Mean"),
                     *const variance = operands.in("Variance"), *const gradient = operands.in("Y@GRAD");
  Array *const to_x = operands.out("X@GRAD"), *const to_scale = operands.out("Scale@GRAD"),
               *const to_bias = operands.out("Bias@GRAD");
  if (x == nullptr || scale == nullptr || mean == nullptr || variance == nullptr || gradient == nullptr) return false;
  const std::size_t length = scale->elements.size(), count = mean->elements.size(), all = length * count;
  const auto is_of = [](const Array* out, std::size_t size) { return out == nullptr || out->elements.size() == size; };
  if (all == 0 || x->elements.size() != all || gradient->elements.size() != all || variance->elements.size() != count ||
      !is_of(to_x, all) || !is_of(to_scale, length) || !is_of(to_bias, length))
    return false;
  for (std::size_t r = 0; r < count; ++r) {
    const double by = 1 / std::sqrt(variance->elements[r] + kEpsilon);
    double sum = 0, dot = 0;
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t at = r * length + i;
      const double normal = (x->elements[at] - mean->elements[r]) * by, g = gradient->elements[at];
      sum += g * scale->elements[i];
      dot += g * scale->elements[i] * normal;
      if (to_scale != nullptr) to_scale->elements[i] += g * normal;
      if (to_bias != nullptr) to_bias->elements[i] += g;
    }
    sum /= static_cast<double>(length), dot /= static_cast<double>(length);
    for (std::size_t i = 0; i < length && to_x != nullptr; ++i) {
      const std::size_t at = r * length + i;
      const double normal = (x->elements[at] - mean->elements[r]) * by;
      to_x->elements[at] = by * (gradient->elements[at] * scale->elements[i] - sum - normal * dot);
    }
  }
  return true;
}

// ---- embeddings ----

bool lookup(Operands& operands) {
  const Array *const table = operands.in("W"), *const ids = operands.in("Ids");
  Array* const out = operands.out("Out");
  if (!has_its_elements(table, 2) || ids == nullptr || out == nullptr) return false;
  const std::size_t width = dimension(*table, 1), rows = table->elements.size() / width;
  if (out->elements.size() != ids->elements.size() * width) return false;
  for (std::size_t i = 0; i < out->elements.size(); ++i)
    out->elements[i] = table->elements[index_in(ids->elements[i / width], rows) * width + i % width];
  return true;
}

bool lookup_grad(Operands& operands) {
  const Array *const gradient = operands.in("Out@GRAD"), *const ids = operands.in("Ids");
  Array* const out = operands.out("W@GRAD");
  if (!has_its_elements(out, 2) || ids == nullptr || gradient == nullptr) return false;
  const std::size_t width = dimension(*out, 1), rows = out->elements.size() / width;
  if (gradient->elements.size() != ids->elements.size() * width) return false;
  for (std::size_t i = 0; i < gradient->elements.size(); ++i)
    out->elements[index_in(ids->elements[i / width], rows) * width + i % width] += gradient->elements[i];
  return true;
}

}  // namespace

const ArithmeticTable& layer_arithmetic() {
  static const ArithmeticTable table{
      {"layer_norm", layer_norm},
      {"layer_norm_grad", layer_norm_grad},
      {"lookup_table_v2", lookup},
      {"lookup_table_v2_grad", lookup_grad},
      {"matmul_v2", matmul},
      {"matmul_v2_grad", matmul_grad},
      {"softmax", softmax},
      {"softmax_grad", softmax_grad},
      {"softmax_with_cross_entropy", cross_entropy},
      {"softmax_with_cross_entropy_grad", cross_entropy_grad},
  };
  return table;
}

}  // namespace plumbline::program
