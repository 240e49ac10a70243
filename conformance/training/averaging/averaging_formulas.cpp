#include "conformance/training/averaging/averaging_formulas.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "reference/gossip/mixing.hpp"

namespace plumbline::conformance {

using training::AveragingSettings;

AveragingCalendar::AveragingCalendar(const AveragingSettings& settings, int nodes) : settings_(settings) {
  const std::string& algorithm = settings.algorithm;
  const std::string base = algorithm == "slowmo"   ? settings.base
                           : algorithm == "diloco" ? "none"
                           : algorithm == "sgp"    ? "sgp"
                                                   : "localsgd";
  averages_ = base == "localsgd" && nodes > 1;
  gossips_ = base == "sgp" && nodes > 1;
  slow_ = algorithm == "diloco" ||
          (algorithm == "slowmo" && (settings.slow_momentum != 0 || settings.slow_learning_rate != 1));
}

DueAveraging AveragingCalendar::at(int step) const {
  DueAveraging due{.slow = slow_ && (step + 1) % settings_.slow_frequency == 0};
  due.slow_averages = due.slow && (!gossips_ || settings_.memory_efficient || settings_.average_at_slow_steps);
  const int begin = settings_.algorithm == "post-localsgd" ? settings_.local_sgd_begin : 0;
  const bool local = step < begin || (step + 1 - begin) % settings_.local_sgd_frequency == 0;
  due.average = averages_ && local && !due.slow_averages;
  due.gossip = gossips_ && !due.slow_averages;
  return due;
}

MixingMatrix no_mixing(int nodes) {
  MixingMatrix matrix(static_cast<std::size_t>(nodes), std::vector<double>(static_cast<std::size_t>(nodes)));
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i][i] = 1;
  return matrix;
}

MixingMatrix complete_mixing(int nodes) {
  return MixingMatrix(static_cast<std::size_t>(nodes),
                      std::vector<double>(static_cast<std::size_t>(nodes), 1.0 / nodes));
}

namespace {

// Node 0 keeps and sends a part of n; each other one keeps half of what it has, and node 0 gets the other.
MixingMatrix star_mixing(int nodes) {
  MixingMatrix matrix = no_mixing(nodes);
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    matrix[i][0] = 1.0 / nodes;
    if (i > 0) matrix[i][i] = matrix[0][i] = 0.5;
  }
  return matrix;
}

// Each node keeps half, and the node 1, 2, 4, … further on, in turn, gets the other.
MixingMatrix exponential_mixing(int nodes, int round) {
  int levels = 0;
  while ((1 << levels) <= nodes - 1) ++levels;
  const auto distance = std::size_t{1} << (round % levels);
  MixingMatrix matrix = no_mixing(nodes);
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    matrix[i][i] = 0.5;
    matrix[(i + distance) % matrix.size()][i] += 0.5;
  }
  return matrix;
}

MixingMatrix product(const MixingMatrix& a, const MixingMatrix& b) {
  MixingMatrix result(a.size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < a.size(); ++k)
      for (std::size_t j = 0; j < a.size(); ++j) result[i][j] += a[i][k] * b[k][j];
  return result;
}

// Makes the places (p, q) and (q, p) of a symmetric matrix 0, and keeps its eigenvalues.
void rotate(MixingMatrix& matrix, std::size_t p, std::size_t q) {
  const double angle = 0.5 * std::atan2(2 * matrix[p][q], matrix[q][q] - matrix[p][p]);
  const double c = std::cos(angle), s = std::sin(angle);
  const auto turn = [c, s](double& x, double& y) { std::tie(x, y) = std::pair(c * x - s * y, s * x + c * y); };
  for (std::vector<double>& row : matrix) turn(row[p], row[q]);
  for (std::size_t k = 0; k < matrix.size(); ++k) turn(matrix[p][k], matrix[q][k]);
}

}  // namespace

MixingMatrix uniform_mixing(const AveragingSettings& settings, int nodes, int round) {
  if (settings.graph == "complete" && settings.peers == 0) return complete_mixing(nodes);
  if (settings.graph == "star" && settings.peers == 0) return star_mixing(nodes);
  if (settings.graph == "n-peer-exponential" && settings.peers <= 1) return exponential_mixing(nodes, round);
  const slowmo::Options options = training::options_of(settings, nodes * settings.ranks_per_node);
  const std::vector<double> flat = gossip::mixing_matrix(*options.graph, {}, options.graph->round_after(round));
  MixingMatrix matrix = no_mixing(nodes);
  const auto n = matrix.size();
  for (std::size_t to = 0; to < n; ++to)
    for (std::size_t from = 0; from < n; ++from) matrix[to][from] = flat[to * n + from];
  return matrix;
}

bool is_doubly_stochastic(const MixingMatrix& matrix) {
  return std::ranges::all_of(matrix, [](const std::vector<double>& row) {
    double sum = 0;
    for (const double share : row) sum += share;
    return std::fabs(sum - 1) < 1e-12;
  });
}

// The root of the largest eigenvalue of its product with its transpose, by Jacobi's rotations.
double norm_of(const MixingMatrix& matrix) {
  const std::size_t n = matrix.size();
  MixingMatrix gram(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t k = 0; k < n; ++k) gram[i][j] += matrix[k][i] * matrix[k][j];
  constexpr int sweeps = 30;
  for (int sweep = 0; sweep < sweeps; ++sweep)
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q)
        if (gram[p][q] != 0) rotate(gram, p, q);
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, gram[i][i]);
  return std::sqrt(largest);
}

double DistanceBound::step(double deviation, const MixingMatrix& mixing) {
  MixingMatrix without_mean = no_mixing(nodes_);
  for (std::vector<double>& row : without_mean)
    for (double& value : row) value -= 1.0 / nodes_;
  terms_.emplace_back(deviation, std::move(without_mean));
  double sum = 0;
  for (auto& [norm, since] : terms_) {
    since = product(mixing, since);
    sum += norm * norm_of(since);
  }
  std::erase_if(terms_, [](const auto& term) { return norm_of(term.second) < 1e-12; });
  return sum;
}

}  // namespace plumbline::conformance
