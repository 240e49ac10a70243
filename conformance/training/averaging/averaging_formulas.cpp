#include "conformance/training/averaging/averaging_formulas.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>
#include <utility>

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

// Nodes further on, round the ring of all, in the order in which they take turns; those back are below 0.
std::vector<int> distances_of(const std::string& graph, int nodes, int peers) {
  std::vector<int> distances;
  const auto both_ways = [&](int distance) { distances.insert(distances.end(), {distance, -distance}); };
  if (graph == "directed-exponential")
    for (int power = 1; power < nodes; power *= 2) both_ways(power);
  if (graph == "bipartite-exponential")
    for (int power = 1; power < nodes; power *= 2) both_ways(power == 1 ? 1 : 1 + power);
  if (graph == "directed-linear" || graph == "bipartite-linear")
    for (int odd = 1; odd < nodes; odd += 2) both_ways(odd);
  if (graph == "ring") both_ways(1);
  if (graph == "static-exponential")
    for (int power = 1; power < nodes; power *= 2) distances.push_back(power);
  if (graph == "n-peer-exponential")
    for (std::int64_t power = 1; power < nodes; power *= peers + 1)
      for (int times = 1; times <= peers; ++times) distances.push_back(static_cast<int>(times * power % nodes));
  return distances;
}

// Its neighbours: up, down, left and right, with as many rows as the nodes allow that are no more than columns.
bool are_in_mesh(int nodes, int one, int other) {
  int columns = nodes;
  for (int rows = 1; rows * rows <= nodes; ++rows)
    if (nodes % rows == 0) columns = nodes / rows;
  return std::abs(one / columns - other / columns) + std::abs(one % columns - other % columns) == 1;
}

// Whom a node can send to, each once, in the order in which they take turns.
std::vector<int> neighbours_of(const std::string& graph, int nodes, int peers, int node) {
  std::vector<int> list;
  const auto add = [&](int distance) {
    const int other = ((node + distance) % nodes + nodes) % nodes;
    if (other != node && std::ranges::find(list, other) == list.end()) list.push_back(other);
  };
  for (const int distance : distances_of(graph, nodes, peers)) add(distance);
  for (int distance = 1; distance < nodes; ++distance) {
    const int other = (node + distance) % nodes;
    if (graph == "complete" || (graph == "star" && (node == 0 || other == 0)) ||
        (graph == "mesh" && are_in_mesh(nodes, node, other)))
      add(distance);
  }
  return list;
}

// The peers of a round: all neighbours, those of a ring always the same, others in turn.
std::vector<int> peers_in(const AveragingSettings& settings, int nodes, int node, int round) {
  const std::string& graph = settings.graph;
  const bool takes_all = graph == "static-exponential" || graph == "mesh" || graph == "star" || graph == "complete";
  const int peers = std::max(settings.peers, 1);
  const std::vector<int> neighbours = neighbours_of(graph, nodes, peers, node);
  if (neighbours.empty() || (takes_all && settings.peers == 0)) return neighbours;
  std::vector<int> list;
  const int first = graph == "ring" ? 0 : round * peers;
  for (int i = first; i < first + peers; ++i)
    list.push_back(neighbours[static_cast<std::size_t>(i) % neighbours.size()]);
  return list;
}

MixingMatrix matching_of_the_reference(const AveragingSettings& settings, int nodes, int round) {
  const slowmo::Options options = training::options_of(settings, nodes * settings.ranks_per_node);
  const std::vector<double> flat = gossip::mixing_matrix(*options.graph, {}, options.graph->round_after(round));
  MixingMatrix matrix = no_mixing(nodes);
  const auto n = matrix.size();
  for (std::size_t to = 0; to < n; ++to)
    for (std::size_t from = 0; from < n; ++from) matrix[to][from] = flat[to * n + from];
  return matrix;
}

MixingMatrix product(const MixingMatrix& a, const MixingMatrix& b) {
  MixingMatrix result(a.size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < a.size(); ++k)
      for (std::size_t j = 0; j < a.size(); ++j) result[i][j] += a[i][k] * b[k][j];
  return result;
}

// As far as double precision tells.
bool is_diagonal(const MixingMatrix& matrix) {
  double diagonal = 0, other = 0;
  for (std::size_t i = 0; i < matrix.size(); ++i)
    for (std::size_t j = 0; j < matrix.size(); ++j) (i == j ? diagonal : other) += matrix[i][j] * matrix[i][j];
  return other <= 1e-32 * diagonal;
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
  if (settings.graph == "random-matching") return matching_of_the_reference(settings, nodes, round);
  MixingMatrix matrix(static_cast<std::size_t>(nodes), std::vector<double>(static_cast<std::size_t>(nodes)));
  for (int node = 0; node < nodes; ++node) {
    const auto from = static_cast<std::size_t>(node);
    const std::vector<int> peers = peers_in(settings, nodes, node, round);
    const double share = 1.0 / static_cast<double>(peers.size() + 1);
    matrix[from][from] = share;
    for (const int peer : peers) matrix[static_cast<std::size_t>(peer)][from] += share;
  }
  return matrix;
}

bool is_matching(const MixingMatrix& matrix) {
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const auto with = static_cast<std::size_t>(
        std::ranges::count_if(matrix[i], [](double share) { return share != 0 && share != 1; }));
    if (with != 0 && with != 2) return false;
    for (std::size_t j = 0; j < matrix.size(); ++j)
      if (matrix[i][j] != matrix[j][i] || (matrix[i][j] != 0 && matrix[i][j] != (with == 0 ? 1 : 0.5))) return false;
  }
  return is_doubly_stochastic(matrix);
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
  constexpr int most_sweeps = 30;
  for (int sweep = 0; sweep < most_sweeps && !is_diagonal(gram); ++sweep)
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q)
        if (gram[p][q] != 0) rotate(gram, p, q);
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, gram[i][i]);
  return std::sqrt(largest);
}

double DistanceBound::step(double deviation, const MixingMatrix& mixing) {
  constexpr std::size_t most_terms = 32;
  if (is_mixed_) {
    Term term{.deviation = 0, .since = no_mixing(nodes_)};
    for (std::vector<double>& row : term.since)
      for (double& value : row) value -= 1.0 / nodes_;
    terms_.push_back(std::move(term));
  }
  Term& last = terms_.back();
  last.deviation += deviation;
  is_mixed_ = mixing != no_mixing(nodes_);
  double sum = 0;
  for (Term& term : terms_) {
    if (is_mixed_) {
      term.since = product(mixing, term.since);
      term.norm = norm_of(term.since);
      if (&term == &last) term.first_norm = term.norm;
    }
    sum += term.deviation * term.norm;
  }
  std::erase_if(terms_, [](const Term& term) { return term.norm < 1e-12; });
  if (terms_.size() > most_terms) forget_the_oldest();
  return sum;
}

// Its `since` is that of the next one after its first mixing, of which the norms are known.
void DistanceBound::forget_the_oldest() {
  terms_[1].deviation += terms_[0].deviation * terms_[0].first_norm;
  terms_.erase(terms_.begin());
}

}  // namespace plumbline::conformance
