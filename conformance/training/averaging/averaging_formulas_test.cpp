// The judge's own formulas, against values that can be worked out by hand.
#include "conformance/training/averaging/averaging_formulas.hpp"

#include <cmath>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/gossip/mixing.hpp"

namespace plumbline::conformance {
namespace {

using testing::ElementsAre;
using training::AveragingSettings;

std::vector<int> steps_with(const AveragingSettings& settings, int nodes, bool DueAveraging::* what, int steps = 12) {
  const AveragingCalendar calendar(settings, nodes);
  std::vector<int> list;
  for (int step = 0; step < steps; ++step)
    if (calendar.at(step).*what) list.push_back(step);
  return list;
}

TEST(AveragingCalendar, CountsAsThePapersDo) {
  EXPECT_THAT(steps_with({.algorithm = "localsgd", .local_sgd_frequency = 4}, 2, &DueAveraging::average),
              ElementsAre(3, 7, 11));
  EXPECT_THAT(steps_with({.algorithm = "post-localsgd", .local_sgd_frequency = 4, .local_sgd_begin = 3}, 2,
                         &DueAveraging::average),
              ElementsAre(0, 1, 2, 6, 10));
  const AveragingSettings slowmo{.local_sgd_frequency = 2, .slow_frequency = 3};
  EXPECT_THAT(steps_with(slowmo, 2, &DueAveraging::slow), ElementsAre(2, 5, 8, 11));
  EXPECT_THAT(steps_with(slowmo, 2, &DueAveraging::average), ElementsAre(1, 3, 7, 9));
  EXPECT_THAT(steps_with({.base = "sgp", .slow_frequency = 4}, 2, &DueAveraging::gossip, 5), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(steps_with({.base = "sgp", .slow_frequency = 4, .memory_efficient = false}, 2, &DueAveraging::gossip, 5),
              ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(steps_with({.algorithm = "localsgd"}, 1, &DueAveraging::average), ElementsAre());
}

TEST(MixingMatrices, KeepTheMass) {
  for (const char* graph : {"complete", "star", "n-peer-exponential", "ring", "mesh"})
    for (int round = 0; round < 3; ++round) {
      const MixingMatrix matrix = uniform_mixing({.algorithm = "sgp", .graph = graph}, 6, round);
      for (std::size_t from = 0; from < 6; ++from) {
        double sum = 0;
        for (std::size_t to = 0; to < 6; ++to) sum += matrix[to][from];
        EXPECT_NEAR(sum, 1, 1e-15) << graph;
      }
      EXPECT_EQ(is_doubly_stochastic(matrix), std::string(graph) != "star" && std::string(graph) != "mesh") << graph;
    }
}

// The definitions here, and the reference's.
TEST(MixingMatrices, OfOneNodeKeepAll) {
  for (const char* graph : {"complete", "star", "n-peer-exponential", "ring", "mesh"})
    EXPECT_EQ(uniform_mixing({.algorithm = "sgp", .graph = graph}, 1, 2), MixingMatrix{{1.0}}) << graph;
}

TEST(MixingMatrices, AreThoseOfTheReferencesGraphs) {
  int compared = 0;
  for (const gossip::GraphKind kind : gossip::kNamedGraphs)
    for (int nodes = 2; nodes <= 17; ++nodes)
      for (int peers = 0; peers <= 3; ++peers) {
        const AveragingSettings settings{.algorithm = "sgp", .graph = std::string(name_of(kind)), .peers = peers};
        try {
          training::require_possible(settings, nodes);
        } catch (const InvalidArgument&) {
          continue;  // more peers than there are, an odd number of nodes on two sides
        }
        const slowmo::Options options = training::options_of(settings, nodes);
        for (int round = 0; round < 9; ++round, ++compared) {
          const std::vector<double> flat = gossip::mixing_matrix(*options.graph, {}, options.graph->round_after(round));
          const MixingMatrix matrix = uniform_mixing(settings, nodes, round);
          for (std::size_t i = 0; i < flat.size(); ++i)
            ASSERT_NEAR(matrix[i / matrix.size()][i % matrix.size()], flat[i], 1e-15)
                << settings.graph << " of " << nodes << " nodes, " << peers << " peers, round " << round;
          if (kind == gossip::GraphKind::random_matching && peers <= 1) {
            EXPECT_TRUE(is_matching(matrix)) << nodes << " nodes, round " << round;
          }
        }
      }
  EXPECT_GT(compared, 4000);
}

TEST(MixingMatrices, AreMatchingsWherePairsShareAlike) {
  EXPECT_TRUE(is_matching({{0.5, 0, 0.5}, {0, 1, 0}, {0.5, 0, 0.5}}));
  EXPECT_FALSE(is_matching({{0.5, 0.5, 0}, {0, 0.5, 0.5}, {0.5, 0, 0.5}})) << "a ring";
  EXPECT_FALSE(is_matching({{0.25, 0.75}, {0.75, 0.25}})) << "other shares";
  EXPECT_FALSE(is_matching(complete_mixing(3)));
}

// Of the ring of n nodes with both neighbours, on what has mean 0: (1 + 2 cos(2 pi / n)) / 3.
TEST(Norms, AreThoseOfKnownMatrices) {
  constexpr int nodes = 7;
  MixingMatrix ring = no_mixing(nodes);
  for (std::size_t i = 0; i < nodes; ++i) {
    ring[i][i] = ring[i][(i + 1) % nodes] = ring[i][(i + nodes - 1) % nodes] = 1.0 / 3;
    for (std::size_t j = 0; j < nodes; ++j) ring[i][j] -= 1.0 / nodes;
  }
  EXPECT_NEAR(norm_of(ring), (1 + 2 * std::cos(2 * std::numbers::pi / nodes)) / 3, 1e-12);
  EXPECT_NEAR(norm_of({{0, 3}, {0, 0}}), 3, 1e-12);
  EXPECT_NEAR(norm_of(no_mixing(4)), 1, 1e-12);
}

TEST(DistanceBound, AddsUpWithoutMixingAndEndsWithAnAverage) {
  DistanceBound bound(4);
  EXPECT_NEAR(bound.step(2, no_mixing(4)), 2, 1e-12);
  EXPECT_NEAR(bound.step(3, no_mixing(4)), 5, 1e-12);
  EXPECT_NEAR(bound.step(3, complete_mixing(4)), 0, 1e-12);
  EXPECT_NEAR(bound.step(1, no_mixing(4)), 1, 1e-12);
}

// A ring forgets slowly: what is old costs no more than what it is taken for, and the bound stays one.
TEST(DistanceBound, IsNoLessThanWhatHappensForHundredsOfSteps) {
  constexpr int nodes = 12;
  const AveragingSettings ring{.algorithm = "sgp", .graph = "ring"};
  DistanceBound bound(nodes);
  std::vector<double> values(nodes);
  double now = 0;
  for (int round = 0; round < 200; ++round) {
    // Always the same way: the worst of what one vector can do.
    for (std::size_t i = 0; i < nodes; ++i)
      values[i] += std::cos(2 * std::numbers::pi * static_cast<double>(i) / nodes);
    const MixingMatrix mixing = uniform_mixing(ring, nodes, round);
    std::vector<double> mixed(nodes);
    for (std::size_t to = 0; to < nodes; ++to)
      for (std::size_t from = 0; from < nodes; ++from) mixed[to] += mixing[to][from] * values[from];
    values = mixed;
    now = bound.step(std::sqrt(nodes / 2.0), mixing);
    double squares = 0;
    for (const double value : values) squares += value * value;
    ASSERT_LE(std::sqrt(squares), now * (1 + 1e-9)) << "round " << round;
  }
  // And the sum of a geometric series at most: one mixing has the norm |1 + e^(2 pi i / n)| / 2.
  const double shrinks = std::cos(std::numbers::pi / nodes);
  EXPECT_LE(now, std::sqrt(nodes / 2.0) * shrinks / (1 - shrinks));
}

// The exponential graph over 4 nodes has the mean after two rounds.
TEST(DistanceBound, OfAnExponentialGraphForgetsBehindTwoRounds) {
  const AveragingSettings sgp{.algorithm = "sgp"};
  DistanceBound bound(4);
  for (int round = 0; round < 9; ++round) {
    const double now = bound.step(1, uniform_mixing(sgp, 4, round));
    EXPECT_LE(now, 2 + 1e-9);
    EXPECT_GE(now, std::sqrt(0.5) - 1e-9);
  }
}

}  // namespace
}  // namespace plumbline::conformance
