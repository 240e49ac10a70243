#include "harness/cli/gossip_file.hpp"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/gossip/simulate.hpp"

namespace plumbline::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string refusal_of_graph(const std::string& text) {
  try {
    (void)parse_gossip_file(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(GossipFile, HasTheSameGraphInEveryForm) {
  const GossipFile of_csv = parse_gossip_file("from,to\n0,1\n1,2\n\n2,0\n");
  EXPECT_EQ(of_csv.graph, parse_gossip_file(R"({"rounds": [[[0, 1], [1, 2], [2, 0]]]})").graph);
  EXPECT_EQ(of_csv.graph, parse_gossip_file(R"({"phone_book": [[1], [2], [0]], "nodes": 3})").graph);
  EXPECT_THAT(of_csv.graph.peers(1, 5).out, ElementsAre(2));
  EXPECT_TRUE(of_csv.graph.is_regular());
  EXPECT_FALSE(of_csv.graph.is_dynamic());
}

TEST(GossipFile, HasNoFieldThatIsNotRead) {
  EXPECT_THAT(refusal_of_graph(R"({"rounds": [[[0, 1], [1, 0]]], "node": 2})"),
              HasSubstr("the graph has no field 'node'; there are nodes"));
}

// By every round in turn, beside what the reader finds without them.
TEST(GossipFile, HasNodesTwiceInAListAndOnceInARound) {
  for (const std::vector<int>& list :
       {std::vector{1, 2, 1, 2}, {1, 2, 2, 1}, {1, 1, 2, 2}, {1, 2, 3, 1, 2, 3}, {1, 2, 3, 1}, {1, 2, 3, 2, 1}, {1, 1}})
    for (std::size_t peers = 1; peers <= list.size(); ++peers) {
      bool is_twice = false;
      for (std::size_t round = 0; round < list.size(); ++round) {
        std::set<int> told;
        for (std::size_t i = 0; i < peers; ++i)
          is_twice |= !told.insert(list[(round * peers + i) % list.size()]).second;
      }
      const std::string ring = R"([0, 2, 3], [0, 1, 3], [0, 1, 2])";
      const std::string text =
          fmt::format(R"({{"phone_book": [[{}], {}], "peers": {}}})", fmt::join(list, ", "), ring, peers);
      if (peers > 3) continue;  // more than the others have
      EXPECT_EQ(refusal_of_graph(text) != "accepted", is_twice) << text;
    }
}

TEST(GossipFile, OfAStarTakesNoSquareOfItsNodes) {
  std::string star = "from,to\n";
  for (int node = 1; node <= 200'000; ++node) star += fmt::format("0,{0}\n{0},0\n", node);
  EXPECT_EQ(parse_gossip_file(star).graph.nodes(), 200'001);
}

TEST(GossipFile, HasRoundsThatRepeat) {
  // Pairs of a square, along one side and then along the other: the mean after two rounds.
  const std::string csv =
      "round,to,from,weight\n0,1,0,.5\n0,0,1,.5\n0,3,2,.5\n0,2,3,.5\n1,2,0,.5\n1,0,2,.5\n1,3,1,.5\n1,1,3,.5\n";
  const GossipFile file = parse_gossip_file(csv);
  EXPECT_EQ(file.graph.period(), 2);
  EXPECT_TRUE(file.graph.is_regular());
  EXPECT_THAT(file.graph.peers(3, 4).out, ElementsAre(2));
  EXPECT_THAT(file.graph.peers(3, 5).out, ElementsAre(1));
  EXPECT_EQ(gossip::spectrum_of(file.graph, file.mixing).contraction, 0);
  const std::vector<double> values{1, 2, 4, 9};
  EXPECT_NEAR(gossip::simulate(file.graph, repeated(file.mixing, 4), values, 4).back().error, 0, 1e-15);
}

TEST(GossipFile, RepeatsTheSharesOfItsRounds) {
  const GossipFile file =
      parse_gossip_file(R"({"rounds": [[[0, 1, 0.25], [1, 0, 0.5]], [[0, 1, 0.75], [1, 0, 0.125]]]})");
  const gossip::Mixing mixing = repeated(file.mixing, 5);
  for (const int round : {0, 2, 4}) EXPECT_EQ(gossip::shares_of(file.graph, mixing, 0, round).sent[0], 0.25) << round;
  for (const int round : {1, 3}) EXPECT_EQ(gossip::shares_of(file.graph, mixing, 1, round).sent[0], 0.125) << round;
}

TEST(GossipFile, HasSumsOfRowsAndColumns) {
  const auto sums = [](const std::string& text, std::int64_t rounds) {
    const GossipFile file = parse_gossip_file(text);
    return sums_of(file.graph, file.mixing, rounds);
  };
  EXPECT_TRUE(sums("from,to\n0,1\n1,2\n2,0\n", 1).is_doubly_stochastic());
  const GossipSums star = sums("from,to\n0,1\n0,2\n1,0\n2,0\n", 1);
  EXPECT_FALSE(star.is_doubly_stochastic());
  EXPECT_DOUBLE_EQ(star.largest_row, 1.0 / 3 + 0.5 + 0.5);
  EXPECT_DOUBLE_EQ(star.least_row, 1.0 / 3 + 0.5);
  EXPECT_DOUBLE_EQ(star.least_column, 1);
  EXPECT_FALSE(
      sums(R"({"rounds": [[[0, 1, 0.5], [1, 0, 0.5]], [[0, 1, 0.5], [1, 0, 0.25]]]})", 2).is_doubly_stochastic());
  EXPECT_TRUE(
      sums(R"({"rounds": [[[0, 1, 0.5], [1, 0, 0.5]], [[0, 1, 0.5], [1, 0, 0.25]]]})", 1).is_doubly_stochastic());
}

TEST(GossipFile, SaysWhoNeverHearsOfWhom) {
  EXPECT_THAT(first_unheard(parse_gossip_file("from,to\n0,1\n1,0\n").graph), IsEmpty());
  EXPECT_EQ(first_unheard(parse_gossip_file("from,to\n0,1\n1,0\n2,3\n3,2\n").graph), "node 0 never hears of node 2");
  EXPECT_EQ(first_unheard(parse_gossip_file("from,to\n0,1\n1,0\n2,3\n3,2\n2,0\n").graph),
            "node 2 never hears of node 0");
}

TEST(GossipFile, RefusesWhatIsNoGraph) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "there is nothing in it"},
           {"from,to\n", "there is no edge in it"},
           {"from,too\n0,1\n", "line 1: there is no column 'too'"},
           {"from,weight\n0,1\n", "line 1: there is no column 'to'"},
           {"from,to,to\n", "line 1: column 'to' appears twice"},
           {"from,to\n0\n", "line 2: 1 fields for 2 columns"},
           {"from,to\n0,x\n", "line 2: to 'x'; it must be a whole number"},
           {"from,to\n-1,0\n", "line 2: from '-1'"},
           {"from,to\n0,99999999\n", "line 2: to '99999999'"},
           {"from,to\n0,1\n1,1\n", "line 3: node 1 sends to itself"},
           {"from,to\n0,1\n1,0\n0,1\n", "node 0 sends to node 1 twice"},
           {"from,to\n0,1\n1,2\n2,1\n", "no node sends to node 0: it never learns another value"},
           {"from,to\n0,1\n1,0\n0,2\n", "node 2 sends to no other node"},
           {"from,to,weight\n0,1,nan\n", "line 2: weight: 'nan'"},
           {"from,to,weight\n0,1,1.5\n", "line 2: weight 1.5 from node 0 to 1"},
           {"from,to,weight\n0,1,.5\n0,2,.5\n1,0,.5\n2,0,.5\n", "node 0 sends 1 of its mass and keeps 0"},
           {"round,from,to\n0,0,1\n0,1,0\n1,0,1\n", "round 1: node 1 sends to 0 nodes, but node 0 to 1 in round 0"},
           {"round,from,to\n0,0,1\n0,1,0\n2,0,1\n2,1,0\n", "round 1: node 0 sends to 0 nodes"},
           {"round,from,to\n65535,0,1048575\n", "65536 rounds of 1048576 nodes; rounds times nodes may be 4194304"},
           {R"({"rounds": [[[0, 1]], [[0, 1]], [[0, 1]], [[0, 1]], [[0, 1]]], "nodes": 1048576})",
            "5 rounds of 1048576 nodes"},
           {R"({"phone_book": [[1, 1], [0, 0]], "peers": 2})", "phone_book[0]: entries 0 and 1 send to node 1 twice"},
           {R"({"phone_book": [[1, 1], [0, 0]]})", "phone_book[0]: entries 0 and 1 send to node 1 twice"},
           {R"({"phone_book": [[1, 2, 1], [0, 2, 1], [0, 1, 2]], "peers": 1})",
            "phone_book[1]: node 1 sends to itself"},
           {R"({"phone_book": [[1, 2, 1], [0, 2, 0], [0, 1, 0]], "peers": 2})", "entries 0 and 2 send to node 1 twice"},
           {R"({"phone_book": [[1, 2, 2, 1], [0, 2, 0, 2], [0, 1, 0, 1]], "peers": 3})", "entries 0 and 3"},
           {"{", "this is not JSON"},
           {"[]", "must be an object"},
           {"{}", "one of the fields rounds"},
           {R"({"rounds": [], "phone_book": []})", "one of the fields rounds"},
           {R"({"phone_book": []})", "there is no node in it"},
           {R"({"phone_book": [[1], [0]], "nodes": 3})", "nodes is 3, but phone_book has 2 lists"},
           {R"({"phone_book": [[1], [2]]})", "phone_book[1]: node 2 of 2 nodes"},
           {R"({"phone_book": [[0], [1]]})", "phone_book[0]: node 0 sends to itself"},
           {R"({"phone_book": [[1], [0]], "peers": 2})", "can only send to 1"},
           {R"({"phone_book": [[1], [0]], "peers": -1})", "peers: must be a whole number from 0"},
           {R"({"phone_book": [1, 0]})", "must be a list of peer lists"},
           {R"({"rounds": [[0, 1]]})", "rounds[0][0]: must be an edge"},
           {R"({"rounds": [[[0, 1, 0.5], [1, 0]]]})", "1 of 2 edges have a weight"},
           {R"({"rounds": [[[0, 1], [1, 0]]], "nodes": 1})", "an edge names node 1 of 1 nodes"}})
    EXPECT_THAT(refusal_of_graph(text), HasSubstr(words)) << text;
}

}  // namespace
}  // namespace plumbline::cli
