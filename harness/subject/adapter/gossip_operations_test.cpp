// The operations about gossip: what is read, what is answered, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/subject/adapter/ask_reference.hpp"

namespace plumbline::subject {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(GossipGraph, AnswersTurnsPlansOrRows) {
  const json turned =
      ask("gossip.graph", R"({"graph": "ring", "world_size": 3, "nprocs_per_node": 2, "rotations": 1})");
  EXPECT_EQ(turned["phone_book"], json::parse("[[2, 4], [4, 0], [0, 2]]"));
  EXPECT_EQ(turned["ranks"][0]["in"], json::parse("[[2], [1]]"));
  EXPECT_EQ(ask("gossip.graph", R"({"graph": "RingGraph", "world_size": 3, "plan": [["set", 2]]})")["ranks"][0],
            json::parse(R"([{"out": [1], "in": [2]}, {"out": [1, 2], "in": [2, 1]}])"));
  EXPECT_EQ(ask("gossip.graph", R"({"graph": "ring", "world_size": 1000000, "book_rows": [999999]})"),
            json::parse(R"({"book_rows": {"999999": [0, 999998]}})"));
}

TEST(GossipGraph, NamesWhatIsWrong) {
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "grid", "world_size": 4})"), HasSubstr("graph 'grid' is none"));
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "ring", "world_size": 0})"), HasSubstr("world_size"));
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "ring", "world_size": 4, "peers_per_itr": 3})"),
              HasSubstr("3 peers in a round"));
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "ring", "world_size": 4, "plan": [["turn"]]})"),
              HasSubstr("'turn'"));
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "ring", "world_size": 4, "book_rows": [4]})"),
              HasSubstr("node 4 of 4"));
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "ring", "world_size": 4, "peer": 1})"), HasSubstr("peer"));
}

TEST(GossipTrace, TakesGraphsOrRowsAndWeights) {
  const json trace = ask("gossip.trace", R"({"algorithm": "PushSum", "phone_book": [[1], [0]], "regular": false,
    "world_size": 2, "peers_per_itr": 1, "dtype": "float64", "rounds": 1, "ranks": [{"x0": [4]}, {"x0": [8]}],
    "weights": [[{"lo": 0.5, "uniform": 1}], [{"lo": 0.25, "0": 3}]]})");
  EXPECT_EQ(trace["ranks"][0]["rounds"][0],
            json::parse(R"({"out": [1], "in": [1], "x": [8.0], "w": 1.25, "debiased": [6.4]})"));
  EXPECT_THAT(error_of("gossip.trace", R"({"algorithm": "PushSum", "graph": "ring", "world_size": 2, "peers_per_itr": 1,
    "rounds": 1, "ranks": [{"x0": [4]}]})"),
              HasSubstr("ranks has 1 entries for 2 nodes"));
}

TEST(GossipTopology, HasOursAndBlueFogs) {
  EXPECT_EQ(ask("gossip.topology",
                R"({"topology": "star", "args": {"size": 3, "mixing": "metropolis-hastings"}})")["row_sums_one"],
            true);
  EXPECT_EQ(
      ask("gossip.topology", R"({"convention": "bluefog", "topology": "RingGraph", "args": {"size": 2}})")["weights"],
      json::parse("[[0.5, 0.5], [0.5, 0.5]]"));
  EXPECT_THAT(error_of("gossip.topology", R"({"convention": "bluefog", "topology": "Ring", "args": {"size": 2}})"),
              HasSubstr("no topology 'Ring'"));
}

TEST(GossipRates, AreOfAPeriod) {
  EXPECT_EQ(ask("gossip.spectrum", R"({"graph": "complete", "world_size": 5})")["contraction"], 0);
  EXPECT_EQ(
      ask("gossip.simulate", R"({"graph": "ring", "world_size": 2, "rounds": 1, "values": [1, 3]})")["numerators"],
      json::parse("[2.0, 2.0]"));
}

}  // namespace
}  // namespace plumbline::subject
