// The operations about gossip: what is read, what is answered, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(GossipGraph, AnswersTurnsPlansOrRows) {
  const json turned =
      ask("gossip.graph", R"({"graph": "directed-linear", "world_size": 3, "nprocs_per_node": 2, "rotations": 1})");
  EXPECT_EQ(turned["phone_book"], json::parse("[[2, 4], [4, 0], [0, 2]]"));
  EXPECT_EQ(turned["ranks"][0]["in"], json::parse("[[2], [1]]"));
  EXPECT_EQ(ask("gossip.graph", R"({"graph": "RingGraph", "world_size": 3, "plan": [["set", 2]]})")["ranks"][0],
            json::parse(R"([{"out": [1], "in": [2]}, {"out": [1, 2], "in": [2, 1]}])"));
  EXPECT_EQ(ask("gossip.graph", R"({"graph": "ring", "world_size": 1000000, "book_rows": [999999]})"),
            json::parse(R"({"book_rows": {"999999": [0, 999998]}})"));
}

TEST(GossipGraph, NamesWhatIsWrong) {
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "grid", "world_size": 4})"), HasSubstr("graph 'grid' is unknown"));
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "ring", "world_size": 0})"), HasSubstr("world_size"));
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "ring", "world_size": 4, "peers_per_itr": 3})"),
              HasSubstr("3 peers in a round"));
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "ring", "world_size": 4, "plan": [["turn"]]})"),
              HasSubstr("'turn'"));
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "ring", "world_size": 4, "book_rows": [4]})"),
              HasSubstr("node 4 of 4"));
  EXPECT_THAT(error_of("gossip.graph", R"({"graph": "ring", "world_size": 4, "peer": 1})"), HasSubstr("peer"));
}

// Two nodes that send to each other.
std::string rounds_question(const char* changes) {
  json args = json::parse(R"({"world_size": 2, "phone_book": [[1], [0]], "regular": true, "rounds": 2,
                              "values": [[[4]], [[8]]]})");
  args.update(json::parse(changes));
  return args.dump();
}
json live_nodes(const char* changes) { return ask("gossip.rounds", rounds_question(changes).c_str())["nodes"]; }
std::string rounds_refusal(const char* changes) { return error_of("gossip.rounds", rounds_question(changes).c_str()); }

TEST(GossipRounds, SaysWhatANodeHasAndSends) {
  const json plain = live_nodes("{}")[0]["rounds"];
  EXPECT_EQ(plain[0], json::parse(R"({"x": [[6.0]], "w": 1.0, "sent": 9, "predicted": 9, "in_place": false})"));
  const json skewed = live_nodes(R"({"mixing": "skewed", "confirms": false})")[1]["rounds"][0];
  EXPECT_EQ(skewed["sent"], 16) << "the value and the weight";
  EXPECT_EQ(skewed["predicted"], 16);
}

TEST(GossipRounds, GoesOnAfterAnInterruption) {
  const json whole = live_nodes("{}");
  for (const char* cut :
       {R"({"cuts": [{"node": 1, "round": 1}]})", R"({"cuts": [{"node": 1, "round": 1}], "other_group": true})"}) {
    const json nodes = live_nodes(cut);
    EXPECT_EQ(nodes[1]["rounds"][1]["cut"]["w"], -1);
    EXPECT_EQ(nodes[1]["rounds"][1]["cut"]["new_round"], "state");
    for (const std::size_t node : {0U, 1U}) EXPECT_EQ(nodes[node]["rounds"][1]["x"], whole[node]["rounds"][1]["x"]);
  }
}

TEST(GossipRounds, SaysHowMessagesWent) {
  EXPECT_EQ(live_nodes(R"({"in_place": [true, true]})")[0]["rounds"][1]["in_place"], true);
  EXPECT_EQ(live_nodes(R"({"in_place": [true, false]})")[0]["rounds"][1]["in_place"], false);
  EXPECT_EQ(live_nodes(R"({"late": true, "mixing": "skewed"})")[0]["rounds"][1]["late"], 1) << "values or weight";
  const json cut = live_nodes(R"({"thread": true, "heartbeat": 0.1, "cuts": [{"node": 1, "round": 0, "tries": 1000000,
                                                                 "cause": "no cable"}]})")[1]["rounds"][0];
  EXPECT_THAT(cut["error"]["message"].get<std::string>(), HasSubstr("no cable"));
}

TEST(GossipRounds, EndsANodeThatHearsNothing) {
  const json nodes = live_nodes(R"({"stops": {"node": 0, "round": 1}, "heartbeat": 0.1})");
  EXPECT_EQ(nodes[0]["rounds"].size(), 1U);
  EXPECT_THAT(nodes[1]["rounds"][1]["error"]["message"].get<std::string>(), HasSubstr("round 1 of gossip"));
}

TEST(GossipRounds, GossipsBesideTheCaller) {
  const json row = live_nodes(R"({"thread": true, "added": 1, "evaluations": [0], "in_flight": true})")[0]["rounds"][0];
  EXPECT_EQ(row["x"], json::parse("[[7.0]]"));
  EXPECT_EQ(row["handed_over_in_evaluation"], false);
  EXPECT_EQ(row["in_flight"]["weight"], "state");
}

TEST(GossipRounds, NamesWhatIsWrong) {
  EXPECT_THAT(rounds_refusal(R"({"world_size": 17})"), HasSubstr("17"));
  EXPECT_THAT(rounds_refusal(R"({"phone_book": [[1]]})"), HasSubstr("phone_book has 1 rows for 2 nodes"));
  EXPECT_THAT(rounds_refusal(R"({"phone_book": [[1], [1]]})"), HasSubstr("node 1"));
  EXPECT_THAT(rounds_refusal(R"({"values": [[[4]]]})"), HasSubstr("values has 1 entries for 2 nodes"));
  EXPECT_THAT(rounds_refusal(R"({"dtypes": ["float64", "float32"]})"), HasSubstr("values has 1 tensors"));
  EXPECT_THAT(rounds_refusal(R"({"dtypes": ["float65"]})"), HasSubstr("float65"));
  EXPECT_THAT(rounds_refusal(R"({"mixing": "evenly"})"), HasSubstr("mixing"));
  EXPECT_THAT(rounds_refusal(R"({"in_place": [true]})"), HasSubstr("in_place has 1 entries"));
  EXPECT_THAT(rounds_refusal(R"({"heartbeat": "nan"})"), HasSubstr("heartbeat is nan s"));
  EXPECT_THAT(rounds_refusal(R"({"heartbeat": 21})"), HasSubstr("heartbeat is 21"));
  EXPECT_THAT(rounds_refusal(R"({"cuts": [{"node": 2, "round": 0}]})"), HasSubstr("node must be from 0 to 1, got 2"));
  EXPECT_THAT(rounds_refusal(R"({"cuts": [{"node": 1, "round": 0, "tries": 0}]})"), HasSubstr("tries"));
  EXPECT_THAT(rounds_refusal(R"({"stops": {"node": -1, "round": 0}})"), HasSubstr("node must be from 0 to 1, got -1"));
  EXPECT_THAT(rounds_refusal(R"({"rounds": 1001})"), HasSubstr("rounds"));
  json empty{{"rounds", 1000}, {"dtypes", std::vector<std::string>(600, "float64")}};
  empty["values"] = std::vector<std::vector<std::vector<double>>>(2, std::vector<std::vector<double>>(600));
  EXPECT_THAT(rounds_refusal(empty.dump().c_str()), HasSubstr("1200 elements for 1000 rounds"));
  EXPECT_THAT(rounds_refusal(R"({"last_node": {"round": -1}})"), HasSubstr("-1"));
  EXPECT_THAT(rounds_refusal(R"({"peer": 1})"), HasSubstr("peer"));
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

TEST(GossipTrace, SendsToTheFirstRankOfANode) {
  const json trace = ask("gossip.trace", R"({"algorithm": "PushSum", "graph": "ring", "world_size": 3,
    "nprocs_per_node": 4, "peers_per_itr": 1, "rounds": 1, "ranks": [{"x0": [1]}, {"x0": [2]}, {"x0": [3]}]})");
  EXPECT_EQ(trace["ranks"][1]["rounds"][0]["out"], json::parse("[8]"));
  EXPECT_EQ(trace["ranks"][1]["rounds"][0]["in"], json::parse("[0]"));
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

TEST(GossipTurns, AreBlueFogs) {
  EXPECT_EQ(ask("gossip.turns", R"({"convention": "bluefog", "generator": "GetInnerOuterRingDynamicSendRecvRanks",
                                    "world_size": 6, "local_size": 3, "steps": 2})")["ranks"][1],
            json::parse("[[[2], [2]], [[4], [4]]]"));
  EXPECT_THAT(
      error_of("gossip.turns", R"({"convention": "bluefog", "generator": "Get", "world_size": 6, "local_size": 3,
                                           "steps": 1})"),
      HasSubstr("no generator 'Get'"));
  EXPECT_THAT(error_of("gossip.turns", R"({"convention": "bluefog", "generator": "GetDynamicOnePeerSendRecvRanks",
                                           "topology": "RingGraph", "size": 1, "steps": 1})"),
              HasSubstr("no node to send to"));
}

TEST(GossipRates, RefusesWhatWouldTakeTooLong) {
  EXPECT_THAT(error_of("gossip.spectrum", R"({"graph": "directed-linear", "world_size": 1048576})"),
              HasSubstr("takes 1.1e+12 sums; 5.37e+08 at most"));
  EXPECT_THAT(error_of("gossip.spectrum", R"({"graph": "directed-linear", "world_size": 511, "mixing": "skewed"})"),
              HasSubstr("products"));
  EXPECT_THAT(error_of("gossip.simulate", R"({"graph": "complete", "world_size": 1048576, "rounds": 1})"),
              HasSubstr("1 rounds of a complete of 1048576 nodes with 1048575 peers are 1.1e+12 messages"));
}

TEST(GossipRates, AreOfAPeriod) {
  EXPECT_EQ(ask("gossip.spectrum", R"({"graph": "complete", "world_size": 5})")["contraction"], 0);
  EXPECT_EQ(
      ask("gossip.simulate", R"({"graph": "ring", "world_size": 2, "rounds": 1, "values": [1, 3]})")["numerators"],
      json::parse("[2.0, 2.0]"));
}

}  // namespace
}  // namespace plumbline::adapter
