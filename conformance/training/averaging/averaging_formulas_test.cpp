// The judge's own formulas, against values that can be worked out by hand.
#include "conformance/training/averaging/averaging_formulas.hpp"

#include <cmath>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// The exponential graph over 4 nodes has the mean behind two rounds.
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
