#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/gossip/simulate.hpp"

namespace plumbline::gossip {
namespace {

constexpr int kMostNodes = 512;
constexpr double kMostSums = 0x1p29, kMostProducts = 0x1p35;  // half a minute of each
constexpr std::int64_t kMatchings = 64;
constexpr int kSquarings = 30;

void require_work(const Graph& graph, double work, double most, const char* what) {
  if (work > most)
    throw Unsupported(fmt::format("the spectrum of a {} of {} nodes takes {:.3g} {}; {:.3g} at most",
                                  name_of(graph.options().kind), graph.nodes(), work, what, most));
}

bool is_alike(const Graph& graph, const Mixing& mixing) {
  return mixing.kind == MixingKind::uniform && (!graph.distances().empty() || graph.nodes() == 1);
}

// The largest modulus of the products of the rounds' eigenvalues, but for the one of equal values.
double circulant_contraction(const Graph& graph, std::int64_t rounds) {
  const int nodes = graph.nodes();
  const auto peers = graph.peers(0, 0).out.size();
  require_work(graph, static_cast<double>(nodes) * static_cast<double>(rounds) * static_cast<double>(peers + 1),
               kMostSums, "sums");
  std::vector<double> moduli(static_cast<std::size_t>(nodes), 1.0);
  std::vector<std::complex<double>> roots;
  for (int i = 0; i < nodes; ++i) roots.push_back(std::polar(1.0, 2 * std::numbers::pi * i / nodes));
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::vector<int> out = graph.peers(0, graph.round_after(round)).out;
    for (int wave = 1; wave < nodes; ++wave) {
      std::complex<double> sum = 1;
      for (const int distance : out) sum += roots[static_cast<std::size_t>(std::int64_t{wave} * distance % nodes)];
      moduli[static_cast<std::size_t>(wave)] *= std::abs(sum) / (static_cast<double>(out.size()) + 1);
    }
  }
  return nodes == 1 ? 0 : *std::max_element(moduli.begin() + 1, moduli.end());
}

class Matrix {
 public:
  explicit Matrix(std::size_t size) : size_(size), values_(size * size) {}
  Matrix(std::size_t size, std::vector<double> values) : size_(size), values_(std::move(values)) {}
  static Matrix identity(std::size_t size) {
    Matrix one(size);
    for (std::size_t i = 0; i < size; ++i) one.at(i, i) = 1;
    return one;
  }
  [[nodiscard]] double& at(std::size_t row, std::size_t column) { return values_[row * size_ + column]; }
  [[nodiscard]] double at(std::size_t row, std::size_t column) const { return values_[row * size_ + column]; }
  [[nodiscard]] std::size_t size() const { return size_; }

  friend Matrix operator*(const Matrix& a, const Matrix& b) {
    Matrix product(a.size_);
    for (std::size_t i = 0; i < a.size_; ++i)
      for (std::size_t k = 0; k < a.size_; ++k) {
        const double factor = a.at(i, k);
        if (factor == 0) continue;
        for (std::size_t j = 0; j < a.size_; ++j) product.at(i, j) += factor * b.at(k, j);
      }
    return product;
  }
  [[nodiscard]] Matrix transposed() const {
    Matrix other(size_);
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = 0; j < size_; ++j) other.at(j, i) = at(i, j);
    return other;
  }
  // Root of the sum of squares: at least every modulus of an eigenvalue.
  [[nodiscard]] double norm() const {
    double squares = 0;
    for (const double value : values_) squares += value * value;
    return std::sqrt(squares);
  }
  void divide(double by) {
    for (double& value : values_) value /= by;
  }

 private:
  std::size_t size_;
  std::vector<double> values_;
};

// |A^k|^(1/k), k = 2^kSquarings, from above.
double spectral_radius(Matrix power) {
  double logarithm = 0, weight = 1;
  for (int i = 0; i <= kSquarings; ++i) {
    const double norm = power.norm();
    if (norm < 1e-150) return 0;
    logarithm += std::log(norm) * weight;
    if (i == kSquarings) break;
    power.divide(norm);
    power = power * power;
    weight /= 2;
  }
  return std::exp(logarithm);
}

// What the values come to when the product is applied for ever: the columns of a high power, which are equal.
std::vector<double> limit_of(Matrix power) {
  for (int i = 0; i < kSquarings; ++i) {
    power = power * power;
    for (std::size_t column = 0; column < power.size(); ++column) {
      double sum = 0;
      for (std::size_t row = 0; row < power.size(); ++row) sum += power.at(row, column);
      for (std::size_t row = 0; row < power.size(); ++row) power.at(row, column) /= sum;
    }
  }
  std::vector<double> limit;
  for (std::size_t row = 0; row < power.size(); ++row) limit.push_back(power.at(row, 0));
  return limit;
}

struct Product {
  Matrix matrix;
  bool is_doubly_stochastic = true;
};

Product product_of(const Graph& graph, const Mixing& mixing, std::int64_t rounds) {
  if (graph.nodes() > kMostNodes)
    throw Unsupported(fmt::format("the spectrum of a {} of {} nodes; {} at most", name_of(graph.options().kind),
                                  graph.nodes(), kMostNodes));
  require_work(graph, std::pow(graph.nodes(), 3) * static_cast<double>(rounds), kMostProducts, "products");
  const auto size = static_cast<std::size_t>(graph.nodes());
  Product product{.matrix = Matrix::identity(size)};
  for (std::int64_t round = 0; round < rounds; ++round) {
    const Matrix next(size, mixing_matrix(graph, mixing, graph.round_after(round)));
    for (std::size_t row = 0; row < size; ++row) {
      double sum = 0;
      for (std::size_t column = 0; column < size; ++column) sum += next.at(row, column);
      if (std::abs(sum - 1) > 1e-12) product.is_doubly_stochastic = false;
    }
    product.matrix = next * product.matrix;
  }
  return product;
}

// The largest singular value of what the product does beside the mean.
double norm_beside_mean(Matrix matrix) {
  const double share = 1.0 / static_cast<double>(matrix.size());
  for (std::size_t i = 0; i < matrix.size(); ++i)
    for (std::size_t j = 0; j < matrix.size(); ++j) matrix.at(i, j) -= share;
  return std::sqrt(spectral_radius(matrix.transposed() * matrix));
}

double second_modulus(Matrix matrix) {
  const std::vector<double> limit = limit_of(matrix);
  for (std::size_t i = 0; i < matrix.size(); ++i)
    for (std::size_t j = 0; j < matrix.size(); ++j) matrix.at(i, j) -= limit[i];
  return spectral_radius(std::move(matrix));
}

}  // namespace

Spectrum spectrum_of(const Graph& graph, const Mixing& mixing) {
  Spectrum spectrum;
  spectrum.rounds = graph.period() != 0 ? graph.period() : kMatchings;
  if (is_alike(graph, mixing)) {
    spectrum.contraction = circulant_contraction(graph, spectrum.rounds);
  } else {
    const Product product = product_of(graph, mixing, spectrum.rounds);
    spectrum.is_doubly_stochastic = product.is_doubly_stochastic;
    spectrum.contraction =
        product.is_doubly_stochastic ? norm_beside_mean(product.matrix) : second_modulus(product.matrix);
  }
  if (spectrum.contraction < kExactConsensus) spectrum.contraction = 0;
  spectrum.per_round = std::pow(spectrum.contraction, 1.0 / static_cast<double>(spectrum.rounds));
  spectrum.spectral_gap = 1 - spectrum.per_round;
  return spectrum;
}

}  // namespace plumbline::gossip
