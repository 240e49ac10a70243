#include "reference/gossip/graph.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/gossip/detail/bluefog.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/gossip/simulate.hpp"

namespace plumbline::gossip {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Graph graph_of(GraphKind kind, int nodes, int peers = 0, Convention convention = Convention::plumbline) {
  return Graph({.kind = kind, .nodes = nodes, .peers = peers, .convention = convention});
}
std::vector<Peers> peers_of_all(const Graph& graph, std::int64_t round) {
  std::vector<Peers> all;
  for (int node = 0; node < graph.nodes(); ++node) all.push_back(graph.peers(node, round));
  return all;
}

TEST(Graph, PhoneBooksGoForwardAndBack) {
  EXPECT_THAT(graph_of(GraphKind::directed_exponential, 8).phone_book(0), ElementsAre(1, 7, 2, 6, 4));
  EXPECT_THAT(graph_of(GraphKind::n_peer_exponential, 9, 2).phone_book(1), ElementsAre(2, 3, 4, 7));
  EXPECT_THAT(graph_of(GraphKind::bipartite_exponential, 8).phone_book(0), ElementsAre(1, 7, 3, 5));
  EXPECT_THAT(graph_of(GraphKind::directed_linear, 5).phone_book(0), ElementsAre(1, 4, 3, 2));
  EXPECT_THAT(graph_of(GraphKind::ring, 2).phone_book(0), ElementsAre(1));
  EXPECT_THAT(graph_of(GraphKind::mesh, 6).phone_book(1), ElementsAre(2, 4, 0));
  EXPECT_THAT(graph_of(GraphKind::star, 4).phone_book(2), ElementsAre(0));
}

TEST(Graph, FairScalesBooksKeepDoubledEntriesAndOwnNames) {
  const auto book = [](GraphKind kind, int nodes, int peers) {
    return graph_of(kind, nodes, peers, Convention::fairscale).phone_book(0);
  };
  EXPECT_THAT(book(GraphKind::directed_exponential, 4, 1), ElementsAre(1, 3, 2, 2));
  EXPECT_THAT(book(GraphKind::n_peer_exponential, 6, 2), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(book(GraphKind::bipartite_linear, 3, 1), IsEmpty());
  EXPECT_THROW((void)graph_of(GraphKind::bipartite_linear, 3, 1, Convention::fairscale).peers(0, 0), OutOfRange);
  EXPECT_THROW(graph_of(GraphKind::directed_exponential, 1, 1, Convention::fairscale), InvalidArgument);
}

TEST(Graph, AQuotientOfLogarithmsMissesALevel) {
  EXPECT_EQ(graph_of(GraphKind::n_peer_exponential, 244, 2).distances().size(), 12U);
  EXPECT_EQ(graph_of(GraphKind::n_peer_exponential, 244, 2, Convention::fairscale).distances().size(), 10U);
}

TEST(Graph, ReceivesFromWhoeverSends) {
  for (const GraphKind kind : kNamedGraphs)
    for (int nodes = 2; nodes <= 12; nodes += 2)
      for (int peers = 0; peers <= 3; ++peers) {
        try {
          const Graph graph = graph_of(kind, nodes, peers);
          for (int round = 0; round < 7; ++round)
            EXPECT_EQ(first_mismatch(peers_of_all(graph, round)), "") << name_of(kind) << nodes << " " << peers;
        } catch (const InvalidArgument& error) {
          EXPECT_THAT(error.what(), HasSubstr("peers"));
        }
      }
}

TEST(Graph, SaysWhoIsNotHeard) {
  EXPECT_EQ(first_mismatch({{{1}, {1}}, {{0}, {}}}), "node 0 sends to [1], but node 1 receives from []");
}

TEST(Graph, RefusesWhatItCannotBe) {
  EXPECT_THROW(graph_of(GraphKind::bipartite_linear, 5), InvalidArgument);
  EXPECT_THROW(graph_of(GraphKind::ring, 8, 3), InvalidArgument);
  EXPECT_THROW(graph_of(GraphKind::ring, 0), InvalidArgument);
  EXPECT_THROW(graph_of(GraphKind::mesh, 8, 0, Convention::fairscale), InvalidArgument);
  EXPECT_THROW((void)graph_of(GraphKind::ring, 4).peers(4, 0), OutOfRange);
  EXPECT_EQ(parse_graph_kind("grid"), std::nullopt);
  EXPECT_EQ(parse_graph_kind("RingGraph"), GraphKind::ring);
}

// Row i has i entries, the first one as many as the last: the least common multiple of 1 to 47 is no number of 64 bits.
TEST(Graph, SaysThatAPeriodIsBeyondAllRounds) {
  const auto rows_of_lengths = [](int longest) {
    std::vector<std::vector<int>> rows;
    for (int node = 0; node <= longest; ++node) {
      rows.emplace_back();
      for (int i = 1; i <= (node == 0 ? longest : node); ++i) rows.back().push_back((node + i) % (longest + 1));
    }
    return Graph(std::move(rows), 1, Convention::plumbline, false);
  };
  EXPECT_EQ(rows_of_lengths(10).period(), 2520);
  EXPECT_THAT([&] { (void)rows_of_lengths(47).period(); }, testing::ThrowsMessage<Unsupported>(HasSubstr("2^53")));
  EXPECT_THROW((void)spectrum_of(rows_of_lengths(47), {}), Unsupported);
}

TEST(Graph, OneNodeGossipsWithNobody) {
  for (const GraphKind kind : kNamedGraphs) {
    const Graph graph = graph_of(kind, 1);
    EXPECT_THAT(graph.peers(0, 3).out, IsEmpty()) << name_of(kind);
    EXPECT_EQ(shares_of(graph, {}, 0, 0).kept, 1);
    EXPECT_EQ(spectrum_of(graph, {}).contraction, 0);
  }
}

TEST(Mixing, SharesAddUpToOne) {
  const Graph star = graph_of(GraphKind::star, 5);
  for (const MixingKind kind : {MixingKind::uniform, MixingKind::metropolis_hastings, MixingKind::skewed}) {
    const std::vector<double> matrix = mixing_matrix(star, {.kind = kind}, 0);
    for (std::size_t from = 0; from < 5; ++from) {
      double sum = 0;
      for (std::size_t to = 0; to < 5; ++to) sum += matrix[5 * to + from];
      EXPECT_NEAR(sum, 1, 1e-15);
    }
  }
  EXPECT_FALSE(carries_weight(star, {.kind = MixingKind::metropolis_hastings}));
  EXPECT_TRUE(carries_weight(star, {}));
  EXPECT_FALSE(carries_weight(graph_of(GraphKind::ring, 5), {}));
}

TEST(Spectrum, EqualsClosedForms) {
  const double pi = std::acos(-1.0);
  EXPECT_NEAR(spectrum_of(graph_of(GraphKind::ring, 8, 2), {}).contraction, (1 + 2 * std::cos(2 * pi / 8)) / 3, 1e-12);
  EXPECT_NEAR(spectrum_of(graph_of(GraphKind::ring, 7, 1), {}).contraction, std::cos(pi / 7), 1e-12);
  EXPECT_NEAR(spectrum_of(graph_of(GraphKind::static_exponential, 16), {}).contraction, 1 - 2.0 / 5, 1e-12);
  EXPECT_EQ(spectrum_of(graph_of(GraphKind::complete, 6), {}).contraction, 0);
  EXPECT_EQ(spectrum_of(graph_of(GraphKind::n_peer_exponential, 9, 2), {}).contraction, 0);
  EXPECT_NEAR(spectrum_of(graph_of(GraphKind::n_peer_exponential, 6, 1), {}).per_round, 0.6005, 1e-4);
}

TEST(Spectrum, OfAnyMatrixEqualsThatOfDistances) {
  // The same ring, once by distances, once by rows.
  std::vector<std::vector<int>> rows;
  for (int i = 0; i < 7; ++i) rows.push_back({(i + 1) % 7, (i + 6) % 7});
  const Graph by_rows(rows, 0, Convention::plumbline, true);
  EXPECT_NEAR(spectrum_of(by_rows, {}).contraction, spectrum_of(graph_of(GraphKind::ring, 7, 2), {}).contraction, 1e-7);
  // Two eigenvalues: 1 and 1/6, (1/2 + 2/3 - 1).
  const Mixing two{.kind = MixingKind::given, .shares = {{{0.5, {0.5}}}, {{2.0 / 3, {1.0 / 3}}}}};
  const Spectrum skewed = spectrum_of(graph_of(GraphKind::ring, 2), two);
  EXPECT_FALSE(skewed.is_doubly_stochastic);
  EXPECT_NEAR(skewed.contraction, 1.0 / 6, 1e-9);
}

TEST(Simulation, ConservesMassAndKeepsToTheBound) {
  for (const GraphKind kind :
       {GraphKind::star, GraphKind::mesh, GraphKind::random_matching, GraphKind::directed_linear}) {
    const Graph graph = graph_of(kind, 12);
    Simulation simulation(graph, {.kind = MixingKind::skewed}, random_values(12, 7));
    for (int round = 0; round < 200; ++round) {
      const SimulatedRound one = simulation.step();
      EXPECT_NEAR(one.sum, 12 * simulation.mean(), 1e-12);
      EXPECT_NEAR(one.weight_sum, 12, 1e-12);
      EXPECT_GT(one.least_weight, 0);
    }
    EXPECT_LT(simulate(graph, {.kind = MixingKind::skewed}, random_values(12, 7), 400).back().error, 1e-6)
        << name_of(kind);
  }
}

// Only the middle of a star has many neighbours; all nodes of a complete graph have.
TEST(Simulation, IsRefusedByTheMessagesThatNodesSend) {
  EXPECT_NO_THROW(require_simulable(graph_of(GraphKind::star, 1 << 20), 1000));
  EXPECT_NO_THROW(require_simulable(graph_of(GraphKind::mesh, 1 << 20), 800));
  EXPECT_THROW(require_simulable(graph_of(GraphKind::star, 1 << 20), 2000), Unsupported);
  EXPECT_THROW(require_simulable(graph_of(GraphKind::mesh, 1 << 20), 900), Unsupported);
  EXPECT_THROW(require_simulable(graph_of(GraphKind::complete, 1 << 20), 1), Unsupported);
}

TEST(Simulation, AgreesExactlyAfterTheFormulasRounds) {
  EXPECT_LT(simulate(graph_of(GraphKind::n_peer_exponential, 1 << 20), {}, random_values(1 << 20, 1), 20).back().error,
            1e-12);
}

TEST(Bluefog, TopologiesAreThoseOfItsNames) {
  const BluefogTopology mesh = bluefog_topology("MeshGrid2DGraph", {.size = 6});
  EXPECT_DOUBLE_EQ(mesh.weights[0][3], 1.0 / 3);
  EXPECT_FALSE(mesh.is_regular);
  EXPECT_THROW((void)bluefog_topology("MeshGrid2DGraph", {.size = 6, .shape = {2, 2}}), InvalidArgument);
  EXPECT_THROW((void)bluefog_topology("Mesh", {.size = 6}), NotFound);
  EXPECT_THROW((void)bluefog_topology("StarGraph", {.size = 0}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::gossip
