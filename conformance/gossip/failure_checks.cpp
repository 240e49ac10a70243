// What goes wrong on the way, and rounds on a thread of their own.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/gossip/live_gossip.hpp"
#include "conformance/gossip/wires.hpp"
#include "reference/comm/errors.hpp"
#include "reference/gossip/gossip_thread.hpp"

namespace plumbline::conformance {

using comm::Buffer;
using gossip::GossipThread;
using gossip::Graph;
using gossip::PushSum;
using suite::Context;
using testing::AllOf;
using testing::HasSubstr;

namespace {

constexpr auto kShort = std::chrono::seconds(3);
// Where nothing goes wrong, however late a rank is.
constexpr auto kLong = std::chrono::seconds(60);

std::vector<double> own_start(Context& context, std::size_t count) {
  World start = start_of(context, count);
  return start.numerators[static_cast<std::size_t>(context.rank())];
}

Buffer first_of(std::vector<double>& values) { return buffer_of(values); }

// Books that differ in one entry of some nodes that no peer of the first round is, or in where a row ends alone.
std::vector<std::vector<int>> book_that_differs(const std::string& differs, bool is_other, int nodes) {
  std::vector<std::vector<int>> book;
  for (int node = 0; node < nodes; ++node) {
    const int next = (node + 1) % nodes, last = (node + 2) % nodes;
    const bool is_one = differs == "book" || node == (differs == "row_of_first" ? 0 : nodes - 1);
    book.push_back(is_other && is_one ? std::vector{next, next, last} : std::vector{next, last, last});
  }
  if (differs == "ends") {
    book[0] = is_other ? std::vector{1} : std::vector{1, 2};
    book[1] = is_other ? std::vector{2, 2} : std::vector{2};
  }
  return book;
}

// Of the seeds from 0 on two that draw the same first matching.
std::uint64_t seed_that_differs(bool is_other, int nodes) {
  const auto first_round = [nodes](std::uint64_t seed) {
    return Graph({.kind = gossip::GraphKind::random_matching, .nodes = nodes, .seed = seed}).sends(0);
  };
  std::uint64_t seed = 0;
  if (is_other) do
      ++seed;
    while (first_round(seed) != first_round(0));
  return seed;
}

// In round 3 of FairScale's books node 0 sends to node 1 by its first entry, of three, and others look at their second.
Graph graph_of_other_lists(int nodes) {
  std::vector<std::vector<int>> book{{1, 2, 1}};
  for (int node = 1; node < nodes; ++node) book.push_back({(node + 1) % nodes, node - 1});
  return Graph(book, 1, gossip::Convention::fairscale, false);
}

// All but "peers", "graph" and "lists" have the same peers in the first round.
Graph graph_that_differs(const std::string& differs, bool is_other, int nodes) {
  using gossip::GraphKind;
  if (differs == "book" || differs.starts_with("row") || differs == "ends")
    return Graph(book_that_differs(differs, is_other, nodes), 1, gossip::Convention::plumbline, false);
  if (differs == "lists") return graph_of_other_lists(nodes);
  if (differs == "round") return Graph({.nodes = nodes});
  if (differs == "seed")
    return Graph({.kind = GraphKind::random_matching, .nodes = nodes, .seed = seed_that_differs(is_other, nodes)});
  const bool as_fairscale = differs == "convention" && is_other;
  return Graph({.kind = differs == "graph" && is_other ? GraphKind::complete : GraphKind::ring,
                .nodes = nodes,
                .peers = (differs == "peers" && is_other) || differs == "second_sent" ? 2 : 1,
                .convention = as_fairscale ? gossip::Convention::fairscale : gossip::Convention::plumbline});
}

// Shares of two rounds; another one of the first node, the last node or all, in the first round or the second.
gossip::Mixing mixing_that_differs(const std::string& differs, bool is_other, int nodes) {
  const bool is_given = differs == "kept" || differs.ends_with("sent") || differs.starts_with("share");
  if (!is_given) return live_mixing(differs == "mixing" && is_other ? "skewed" : "uniform");
  const gossip::Shares plain =
      differs == "second_sent" ? gossip::Shares{0.5, {0.25, 0.25}} : gossip::Shares{0.5, {0.5}};
  std::vector<std::vector<gossip::Shares>> shares(static_cast<std::size_t>(nodes), {plain, plain});
  if (is_other)
    for (auto& rounds : shares) {
      if (differs == "share_of_first" && &rounds != &shares.front()) continue;
      if (differs == "share_of_last" && &rounds != &shares.back()) continue;
      gossip::Shares& other = differs == "share_of_later" ? rounds.back() : rounds.front();
      (differs.ends_with("sent") ? other.sent.back() : other.kept) = 0.125;
    }
  return {.kind = gossip::MixingKind::given, .shares = shares};
}

// The lists that a message has, "[1, 2]", in their order.
std::vector<std::string> lists_in(const std::string& message) {
  std::vector<std::string> lists;
  for (std::size_t open = message.find('['); open != std::string::npos; open = message.find('[', open + 1))
    lists.push_back(message.substr(open, message.find(']', open) + 1 - open));
  return lists;
}

// Whether a message has each of these lists of peers, each for itself.
bool has_lists(const std::string& message, const std::vector<std::vector<int>>& expected) {
  std::vector<std::string> lists = lists_in(message);
  return std::ranges::all_of(expected, [&](const std::vector<int>& peers) {
    const auto found = std::ranges::find(lists, fmt::format("{}", peers));
    if (found == lists.end()) return false;
    lists.erase(found);
    return true;
  });
}

// Whether a message has the peers of the node that differs, the last one, and of another node.
bool has_both_sides(const std::string& message, const std::string& differs, int nodes) {
  if (differs == "lists") {
    const Graph graph = graph_of_other_lists(nodes);
    return has_lists(message, {graph.peers(0, 3).out, graph.peers(1, 3).in});
  }
  const std::int64_t round = differs == "round" ? 2 : 0;
  const gossip::Peers last = graph_that_differs(differs, true, nodes).peers(nodes - 1, round);
  const Graph graph = graph_that_differs(differs, false, nodes);
  for (int node = 0; node + 1 < nodes; ++node) {
    const gossip::Peers other = graph.peers(node, 0);
    if (has_lists(message, {last.out, last.in, other.out, other.in})) return true;
  }
  return false;
}

// A node with another graph, mixing or round than the others, or with the same.
void unmatched(Context& context) {
  const std::string differs = context.parameters().text("differs");
  const bool is_other = context.rank() == context.size() - 1;
  PushSum push_sum(context.world(), graph_that_differs(differs, is_other, context.size()),
                   mixing_that_differs(differs, is_other, context.size()), {.heartbeat = kShort});
  // Of two or of three distances that are taken in turn, the same as in round 0.
  if (differs == "round" && is_other) push_sum.set_round(2);
  if (differs == "lists") push_sum.set_round(3);
  const std::vector<double> start = own_start(context, 2);
  std::vector<double> x = start;
  std::string said = "nothing was said";
  try {
    push_sum.mix(buffer_of(x));
  } catch (const comm::MismatchError& error) {
    said = error.what();
  } catch (const Error& error) {
    said = fmt::format("another error: {}", error.what());
  }
  if (differs == "nothing") {
    EXPECT_EQ(said, "nothing was said") << "GOSSIP-040";
    return;
  }
  EXPECT_TRUE(has_both_sides(said, differs, context.size())) << "GOSSIP-040: the peers of both sides in: " << said;
  EXPECT_EQ(x, start) << "GOSSIP-040: values are mixed";
  EXPECT_EQ(push_sum.weight(), 1) << "GOSSIP-040: the weight is mixed";
}

// Values of two types, each in messages of its own.
struct TwoTypes {
  TwoTypes(Context& context, std::size_t count) : wide(own_start(context, count)), narrow(wide.begin(), wide.end()) {}
  [[nodiscard]] std::array<Buffer, 2> views() {
    return {buffer_of(wide), Buffer{narrow.data(), static_cast<std::int64_t>(narrow.size()), comm::DType::f32}};
  }
  friend bool operator==(const TwoTypes&, const TwoTypes&) = default;
  std::vector<double> wide;
  std::vector<float> narrow;
};

// One node's exchange is cut before anything is sent; the others wait.
void interrupted(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const auto mixing = live_mixing(context.parameters().text("mixing"));
  const int failing = static_cast<int>(context.parameters().number("exchange"));
  const auto quiet = context.world().duplicate();
  std::unique_ptr<comm::Communicator> wire = context.world().duplicate();
  if (context.rank() == context.size() - 1) wire = std::make_unique<FailingWire>(std::move(wire), failing);
  PushSum undisturbed(*quiet, graph, mixing), disturbed(*wire, graph, mixing, {.heartbeat = kShort});
  TwoTypes smooth(context, 3), rough(context, 3);
  int interruptions = 0;
  for (int round = 0; round < 6; ++round) {
    undisturbed.mix(smooth.views());
    try {
      disturbed.mix(rough.views());
    } catch (const RuntimeFailure&) {
      ++interruptions;
      EXPECT_TRUE(disturbed.is_interrupted()) << "GOSSIP-041";
      EXPECT_EQ(disturbed.reported_weight(), -1) << "GOSSIP-041: the weight of an interrupted round";
      EXPECT_THROW(disturbed.mix(rough.views()), StateError) << "GOSSIP-041: a new round after an interrupted one";
      disturbed.retry(rough.views());
    }
    EXPECT_FALSE(disturbed.is_interrupted()) << "GOSSIP-041";
    EXPECT_TRUE(rough == smooth) << "GOSSIP-041: values after round " << round;
    EXPECT_EQ(disturbed.reported_weight(), undisturbed.weight()) << "GOSSIP-041: the weight after round " << round;
    EXPECT_THROW(disturbed.retry(rough.views()), StateError) << "GOSSIP-041: a retry of a round that was not cut";
  }
  EXPECT_EQ(interruptions, context.rank() == context.size() - 1 && context.size() > 1 ? 1 : 0) << "GOSSIP-041";
}

// The group fails under a round, some nodes being done with it and others not; all go over to another group.
void other_group(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const auto mixing = live_mixing("skewed");
  const int failing = static_cast<int>(context.parameters().number("call"));
  constexpr int made = 4;
  TwoTypes smooth(context, 2), rough(context, 2);
  auto first = context.world().duplicate();
  const auto second = context.world().duplicate(), quiet = context.world().duplicate();
  comm::Communicator& group = *first;
  std::unique_ptr<comm::Communicator> wire = std::move(first);
  if (context.rank() == 0) wire = std::make_unique<FailingWire>(std::move(wire), failing);
  // A group that fails ends all waits, however long a node would wait: longer than a clock can say.
  PushSum undisturbed(*quiet, graph, mixing),
      push_sum(*wire, graph, mixing, {.heartbeat = std::chrono::nanoseconds::max()});
  // All of them first: who goes over waits for all, and nobody may wait for it elsewhere.
  for (int round = 0; round < made; ++round) undisturbed.mix(smooth.views());
  bool is_over = false;
  for (int round = 0; round < made; ++round) {
    try {
      push_sum.mix(rough.views());
    } catch (const Error&) {
      if (is_over) throw;
      group.abort("a check cuts the wires");
      is_over = true;
      push_sum.retry(*second, rough.views());
    }
  }
  if (!is_over) push_sum.retry(*second, rough.views());
  EXPECT_TRUE(rough == smooth) << "GOSSIP-042: values";
  EXPECT_EQ(push_sum.weight(), undisturbed.weight()) << "GOSSIP-042: the weight";
  EXPECT_EQ(push_sum.round(), undisturbed.round()) << "GOSSIP-042";
  // Where nobody says what has come, nothing may be sent twice.
  PushSum unconfirmed(*second, graph, mixing, {.confirms = false});
  EXPECT_THROW(unconfirmed.retry(context.world(), rough.views()), StateError) << "GOSSIP-042: without confirmations";
}

// The comparison of all nodes is cut on one of them: before one of its calls; after one, where others may be done, and
// all go over to another group; or because the node is not there yet when the group fails. It is made again, and so is
// the round.
void comparison_cut(Context& context) {
  const std::string cut = context.parameters().text("cut");
  const bool is_cut = context.rank() == context.size() - 1 && cut != "no", when_made = cut.ends_with("_made");
  const Graph graph = live_graph("hub", context.size());
  const auto quiet = context.world().duplicate(), second = context.world().duplicate();
  auto first = context.world().duplicate();
  comm::Communicator& group = *first;
  std::unique_ptr<comm::Communicator> wire = std::move(first);
  if (is_cut && cut != "late") wire = std::make_unique<FailingCall>(std::move(wire), std::stoi(cut), when_made);
  constexpr auto patience = std::chrono::seconds(10);
  PushSum undisturbed(*quiet, graph), disturbed(*wire, graph, {}, {.heartbeat = patience});
  std::vector<double> smooth = own_start(context, 3), rough = smooth;
  if (cut == "late") {
    if (is_cut)
      group.abort("a check cuts the wires");
    else
      EXPECT_THROW(disturbed.mix(buffer_of(rough)), Error) << "GOSSIP-184";
    undisturbed.mix(buffer_of(smooth));
    disturbed.retry(*second, first_of(rough));
    if (is_cut) disturbed.mix(buffer_of(rough));
    EXPECT_EQ(rough, smooth) << "GOSSIP-184: values after the first round";
  }
  // As above: all of them first.
  std::vector<std::vector<double>> expected;
  for (int round = 0; round < 3; ++round) {
    undisturbed.mix(buffer_of(smooth));
    expected.push_back(smooth);
  }
  bool is_over = false;
  for (std::size_t round = 0; round < expected.size(); ++round) {
    try {
      disturbed.mix(buffer_of(rough));
    } catch (const Error&) {
      EXPECT_TRUE(is_cut || when_made) << "GOSSIP-184";
      if (is_over) throw;
      is_over = true;
      if (when_made) {
        group.abort("a check cuts the wires");
        disturbed.retry(*second, first_of(rough));
      } else {
        disturbed.retry(first_of(rough));
      }
    }
    EXPECT_EQ(rough, expected[round]) << "GOSSIP-184: values after round " << round;
  }
  if (when_made && !is_over) disturbed.retry(*second, first_of(rough));
}

// A heartbeat time, and the longest that a node may need on a machine that does other things as well.
constexpr auto kHalf = std::chrono::milliseconds(500);
constexpr auto kHalfAndDelays = std::chrono::seconds(5);

// Node 0 stops before round 3, or fails the group; the others go on until they notice it, in that round or in a later
// one.
void stopped_peer(Context& context, bool fails) {
  EXPECT_EQ(gossip::PushSumOptions().heartbeat, std::chrono::seconds(300)) << "GOSSIP-043: the default";
  const auto own = context.world().duplicate();
  if (context.rank() == 0) {
    if (fails) own->abort("a check stops a node");
    context.world().barrier();
    return;
  }
  const Graph graph = live_graph("n-peer-exponential", context.size());
  PushSum push_sum(*own, graph, {}, {.heartbeat = fails ? kLong : kHalf, .verifies = false});
  constexpr std::int64_t first = 3;
  push_sum.set_round(first);
  std::vector<double> x = own_start(context, 2);
  std::string said = "nothing was said";
  auto begin = std::chrono::steady_clock::now();
  try {
    for (int round = 0; round < context.size(); ++round) {
      begin = std::chrono::steady_clock::now();
      push_sum.mix(buffer_of(x));
    }
  } catch (const comm::TimeoutError& error) {
    said = error.what();
  } catch (const comm::PeerFailed& error) {
    said = error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, fails ? kLong : kHalfAndDelays) << "GOSSIP-043";
  const gossip::Peers peers = graph.peers(context.rank(), push_sum.round());
  EXPECT_THAT(said, HasSubstr(fmt::format("round {}", push_sum.round()))) << "GOSSIP-043: the round";
  EXPECT_TRUE(has_lists(said, {peers.out, peers.in})) << "GOSSIP-043: the peers in: " << said;
  context.world().barrier();
}

void heartbeat(Context& context) { stopped_peer(context, false); }
void failed_peer(Context& context) { stopped_peer(context, true); }

// Large values are mixed piece by piece while they come, where nothing is confirmed. Cut among them, some are mixed.
void pieces(Context& context) {
  const bool large = context.parameters().text("values") == "large";
  PushSum push_sum(context.world(), live_graph("ring", context.size()), {}, {.heartbeat = kShort, .confirms = false});
  // Four pieces are received ahead and as many sent before the first one is mixed; after twelve starts it is, and the
  // last one of ten is not.
  FailingWire wire(context.world().duplicate(), large ? 12 : 0);
  PushSum cut(wire, live_graph("ring", context.size()), {},
              {.heartbeat = kShort, .confirms = false, .verifies = false});
  const std::vector<double> start = own_start(context, large ? 80'000 : 4);
  std::vector<double> x = start, smooth = x;
  push_sum.mix(first_of(smooth));
  // Whoever is cut first fails the group, and so perhaps others before they have mixed anything.
  bool is_own_wire = false;
  try {
    cut.mix(first_of(x));
    ADD_FAILURE() << "GOSSIP-049: a wire that is cut was not noticed";
  } catch (const Error& error) {
    is_own_wire = std::string_view(error.what()).find("a wire that a check cut") != std::string_view::npos;
  }
  if (large && is_own_wire) {
    EXPECT_EQ(x.front(), smooth.front()) << "GOSSIP-049: the first piece is mixed";
    EXPECT_NE(x.front(), start.front()) << "GOSSIP-049";
    EXPECT_EQ(x.back(), start.back()) << "GOSSIP-049: the last piece is not";
  }
  EXPECT_EQ(cut.reported_weight(), -1) << "GOSSIP-049";
  std::string said = "it was repeated";
  try {
    cut.retry(first_of(x));
  } catch (const StateError& error) {
    said = error.what();
  } catch (const Error& error) {
    said = fmt::format("another error: {}", error.what());
  }
  EXPECT_THAT(said, HasSubstr(large ? "cannot be repeated" : "it was repeated")) << "GOSSIP-049";
  if (!large) {
    EXPECT_EQ(x, smooth) << "GOSSIP-049";
  }
}

// Large values that are confirmed piece by piece: a round that is cut goes on with the pieces that are missing, over
// the same group or another.
void confirmed_pieces(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const auto mixing = live_mixing("skewed");
  const int failing = static_cast<int>(context.parameters().number("call"));
  const bool elsewhere = context.parameters().text("again") == "elsewhere";
  constexpr int made = 2;
  World expected = start_of(context, 40'000);
  std::vector<double> x = expected.numerators[static_cast<std::size_t>(context.rank())];
  auto first = context.world().duplicate();
  const auto second = context.world().duplicate();
  comm::Communicator& group = *first;
  std::unique_ptr<comm::Communicator> wire = std::move(first);
  if (context.rank() == 0) wire = std::make_unique<FailingWire>(std::move(wire), failing);
  PushSum push_sum(*wire, graph, mixing, {.heartbeat = kShort});
  bool is_over = false;
  for (int round = 0; round < made; ++round) {
    try {
      push_sum.mix(buffer_of(x));
    } catch (const Error&) {
      if (is_over) throw;
      if (elsewhere) {
        group.abort("a check cuts the wires");
        push_sum.retry(*second, first_of(x));
      } else {
        push_sum.retry(first_of(x));
      }
      is_over = true;
    }
    deal_out(expected, graph, "skewed", round);
  }
  if (elsewhere && !is_over) push_sum.retry(*second, first_of(x));
  const std::vector<double>& right = expected.numerators[static_cast<std::size_t>(context.rank())];
  std::size_t wrong = 0;
  while (wrong < x.size() && std::abs(x[wrong] - right[wrong]) <= 1e-13) ++wrong;
  EXPECT_EQ(wrong, x.size()) << "GOSSIP-203: the first element that is wrong";
  EXPECT_NEAR(push_sum.weight(), expected.weights[static_cast<std::size_t>(context.rank())], 1e-13) << "GOSSIP-203";
}

// A node that never says that it has what came: nobody who sends to it changes anything.
void unconfirmed(Context& context) {
  const bool one_is_mute = context.parameters().text("node") == "mute";
  const bool is_mute = one_is_mute && context.rank() == 0;
  std::unique_ptr<comm::Communicator> wire = context.world().duplicate();
  if (is_mute) wire = std::make_unique<MuteWire>(std::move(wire));
  const Graph graph = live_graph("ring", context.size());
  PushSum push_sum(*wire, graph, {}, {.heartbeat = one_is_mute ? kHalf : kLong, .verifies = false});
  const std::vector<double> start = own_start(context, 40'000);
  std::vector<double> x = start;
  const bool sends_to_mute = one_is_mute && graph.peers(context.rank(), 0).out[0] == 0;
  try {
    push_sum.mix(buffer_of(x));
    EXPECT_FALSE(sends_to_mute) << "GOSSIP-203: a round that was not confirmed is done";
  } catch (const Error&) {
    EXPECT_TRUE(one_is_mute) << "GOSSIP-203";
  }
  if (sends_to_mute) {
    EXPECT_EQ(x, start) << "GOSSIP-203: values that were not confirmed";
  }
}

// Rows whose first entry is the node itself.
Graph graph_of_own_entries(int nodes) {
  std::vector<std::vector<int>> rows;
  for (int node = 0; node < nodes; ++node) rows.push_back({(node + 1) % nodes, node});
  return Graph(rows, 1, gossip::Convention::fairscale, false);
}

// Mixing weights that some node lacks, for the peers that it has.
void unfit_weights(const Graph& graph) {
  const auto nodes = static_cast<std::size_t>(graph.nodes());
  const auto expect_rejected = [&](const std::vector<std::vector<gossip::Shares>>& shares, std::size_t node) {
    EXPECT_THROW((void)gossip::shares_of(graph, {gossip::MixingKind::given, shares}, static_cast<int>(node), 0),
                 InvalidArgument)
        << "GOSSIP-115: weights of node " << node;
  };
  const std::vector<gossip::Shares> right{{0.5, {0.5}}};
  for (std::size_t given = 0; given < nodes; ++given)
    for (std::size_t node = given; node < nodes; ++node) expect_rejected({given, right}, node);
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<gossip::Shares>& wrong : std::vector<std::vector<gossip::Shares>>{
           {}, {{0.5, {}}}, {{0.5, {0.25, 0.25}}}, {{0.0, {1.0}}}, {{-0.5, {1.5}}}, {{none, {0.5}}}}) {
    std::vector<std::vector<gossip::Shares>> shares(nodes, right);
    shares.back() = wrong;
    expect_rejected(shares, nodes - 1);
    EXPECT_EQ(gossip::shares_of(graph, {gossip::MixingKind::given, shares}, 0, 9), right.front()) << "GOSSIP-115";
  }
}

// What does not fit a push-sum is rejected, and its next round is as if nothing had been.
void unfit(Context& context) {
  const int nodes = context.size();
  const Graph graph = live_graph("n-peer-exponential", nodes);
  EXPECT_THROW(PushSum(context.world(), live_graph("ring", nodes + 1)), InvalidArgument) << "GOSSIP-115: the size";
  EXPECT_THROW(PushSum(context.world(), live_graph("ring", nodes - 1)), InvalidArgument) << "GOSSIP-115: the size";
  EXPECT_THROW(PushSum(context.world(), graph_of_own_entries(nodes)), InvalidArgument) << "GOSSIP-115: an own entry";
  unfit_weights(graph);
  const auto quiet = context.world().duplicate();
  PushSum push_sum(context.world(), graph), undisturbed(*quiet, graph);
  TwoTypes x(context, 3), smooth(context, 3);
  push_sum.mix(x.views());
  undisturbed.mix(smooth.views());
  const auto [wide, narrow] = x.views();
  for (const std::vector<Buffer>& list :
       std::vector<std::vector<Buffer>>{{}, {wide}, {narrow}, {narrow, wide}, {wide, wide}, {wide, narrow, narrow}})
    EXPECT_THROW(push_sum.mix(list), InvalidArgument) << "GOSSIP-115: a list of " << list.size();
  EXPECT_THROW(push_sum.set_round(-1), OutOfRange) << "GOSSIP-115";
  std::vector<int> turned;
  for (int rank = 0; rank < nodes; ++rank) turned.push_back((rank + 1) % nodes);
  const int own = context.rank();
  for (const auto& group : {context.world().create_group({&own, 1}), context.world().create_group(turned)})
    EXPECT_THROW(push_sum.reconnect(*group), InvalidArgument) << "GOSSIP-115: a group of " << group->size();
  push_sum.mix(x.views());
  undisturbed.mix(smooth.views());
  EXPECT_TRUE(x == smooth) << "GOSSIP-115: values";
  EXPECT_EQ(push_sum.round(), undisturbed.round()) << "GOSSIP-115";
}

// ---- the thread ----

void beside_the_caller(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const auto mixing = live_mixing(context.parameters().text("mixing"));
  // However long a node would wait: longer than a clock can say.
  GossipThread thread(context.world().duplicate(), graph, mixing, {.heartbeat = std::chrono::nanoseconds::max()});
  World expected = start_of(context, 3);
  const auto rank = static_cast<std::size_t>(context.rank());
  std::vector<double> values = expected.numerators[rank];
  const std::array<Buffer, 1> x{buffer_of(values)};
  const auto compare_with = [&](const GossipThread& one, int round) {
    deal_out(expected, graph, context.parameters().text("mixing"), round);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], expected.numerators[rank][i], 1e-13)
          << "GOSSIP-044: element " << i << " after round " << round;
    EXPECT_NEAR(one.weight(), expected.weights[rank], 1e-13) << "GOSSIP-044: the weight after round " << round;
  };
  const auto compare = [&](int round) { compare_with(thread, round); };
  for (int round = 0; round < 4; ++round) {
    EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::nothing) << "GOSSIP-044: nothing is under way";
    EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-044";
    EXPECT_TRUE(thread.is_gossiping()) << "GOSSIP-044";
    EXPECT_FALSE(thread.hand_over(x)) << "GOSSIP-044: handed over twice";
    EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::mixed) << "GOSSIP-044";
    compare(round);
  }
  // Evaluation adds what is under way, and gossips no more; training goes on.
  EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-044";
  thread.turn_off(x);
  compare(4);
  EXPECT_FALSE(thread.hand_over(x)) << "GOSSIP-044: gossip in evaluation";
  EXPECT_EQ(thread.rounds_mixed(), 5) << "GOSSIP-044";
  thread.turn_on();
  EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-044: training goes on";
  EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::mixed) << "GOSSIP-044";
  compare(5);
  EXPECT_FALSE(thread.is_gossiping()) << "GOSSIP-044";
  // Another thread goes on where the first one was.
  GossipThread second(context.world().duplicate(), graph, mixing);
  second.set_round(thread.round());
  second.set_weight(thread.weight());
  for (int round = 6; round < 8; ++round) {
    EXPECT_EQ(second.round(), graph.round_after(round)) << "GOSSIP-044";
    EXPECT_TRUE(second.hand_over(x)) << "GOSSIP-044";
    EXPECT_EQ(second.collect(x, true), GossipThread::Collected::mixed) << "GOSSIP-044";
    compare_with(second, round);
  }
}

// The caller goes on writing while its values are on the way: what a peer gets is what was handed over.
void one_version(Context& context) {
  constexpr std::size_t count = 5000;
  Gate gate;
  const Graph graph = live_graph("n-peer-exponential", context.size());
  GossipThread thread(std::make_unique<GatedWire>(context.world().duplicate(), gate), graph, {}, {.verifies = false});
  std::vector<double> values(count, 1.0 + context.rank());
  const std::array<Buffer, 1> x{buffer_of(values)};
  EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-045";
  EXPECT_EQ(thread.collect(x, false), GossipThread::Collected::not_yet) << "GOSSIP-045: nothing has come";
  std::fill(values.begin(), values.begin() + count / 2, 100.0);
  gate.open();
  EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::mixed) << "GOSSIP-045";
  const int peer = graph.peers(context.rank(), 0).in.front();
  EXPECT_EQ(values.front(), (100.0 + 1.0 + peer) / 2) << "GOSSIP-045: the first element, of version " << 1 + peer;
  EXPECT_EQ(values.back(), (1.0 + context.rank() + 1.0 + peer) / 2)
      << "GOSSIP-045: the last element, of version " << 1 + peer;
}

// Weight and round are another between hand-over and collection.
void under_way(Context& context) {
  Gate gate;
  GossipThread thread(std::make_unique<GatedWire>(context.world().duplicate(), gate), live_graph("hub", context.size()),
                      {}, {.verifies = false});
  std::vector<double> values = own_start(context, 2);
  const std::array<Buffer, 1> x{buffer_of(values)};
  thread.set_round(0);
  thread.set_weight(1);
  EXPECT_EQ(thread.weight(), 1) << "GOSSIP-116";
  EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-116";
  EXPECT_THROW((void)thread.weight(), StateError) << "GOSSIP-116";
  EXPECT_THROW(thread.set_weight(7), StateError) << "GOSSIP-116";
  EXPECT_THROW((void)thread.round(), StateError) << "GOSSIP-116";
  EXPECT_THROW(thread.set_round(7), StateError) << "GOSSIP-116";
  gate.open();
  EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::mixed) << "GOSSIP-116";
  World expected = start_of(context, 2);
  deal_out(expected, live_graph("hub", context.size()), "uniform", 0);
  EXPECT_NEAR(thread.weight(), expected.weights[static_cast<std::size_t>(context.rank())], 1e-13) << "GOSSIP-116";
  EXPECT_EQ(thread.round(), 1) << "GOSSIP-116";
}

void thread_interrupted(Context& context) {
  const Graph graph = live_graph("hub", context.size());
  std::unique_ptr<comm::Communicator> wire = context.world().duplicate();
  if (context.rank() == 0) wire = std::make_unique<FailingWire>(std::move(wire), 0);
  GossipThread thread(std::move(wire), graph, {}, {.heartbeat = kShort});
  World expected = start_of(context, 2);
  const auto rank = static_cast<std::size_t>(context.rank());
  std::vector<double> values = expected.numerators[rank];
  const std::array<Buffer, 1> x{buffer_of(values)};
  EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-046";
  if (context.rank() == 0) {
    EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::interrupted) << "GOSSIP-046";
  }
  EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::mixed) << "GOSSIP-046";
  deal_out(expected, graph, "uniform", 0);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected.numerators[rank][i], 1e-13) << "GOSSIP-046: element " << i;
  EXPECT_NEAR(thread.weight(), expected.weights[rank], 1e-13) << "GOSSIP-046";
}

// A wire that stays cut: the round is abandoned when the heartbeat time has passed, not before, and not tried again.
void thread_gives_up(Context& context) {
  using Clock = std::chrono::steady_clock;
  constexpr auto limit = kHalf;
  const bool is_cut = context.parameters().text("wire") == "cut";
  std::unique_ptr<comm::Communicator> wire = context.world().duplicate();
  StartTimes starts;
  if (is_cut) wire = std::make_unique<BrokenWire>(std::move(wire), starts);
  GossipThread thread(std::move(wire), live_graph("ring", context.size()), {},
                      {.heartbeat = is_cut ? limit : kLong, .verifies = false});
  std::vector<double> values = own_start(context, 2);
  const std::array<Buffer, 1> x{buffer_of(values)};
  const auto begin = Clock::now();
  EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-048";
  const auto end = Clock::now() + limit + kHalfAndDelays;
  bool is_given_up = false;
  auto collected = GossipThread::Collected::interrupted;
  while (!is_given_up && collected == GossipThread::Collected::interrupted && Clock::now() < end) try {
      collected = thread.collect(x, true);
    } catch (const comm::TimeoutError&) {
      is_given_up = true;
    }
  EXPECT_EQ(is_given_up, is_cut) << "GOSSIP-048: given up after the heartbeat time";
  EXPECT_EQ(collected, is_cut ? GossipThread::Collected::interrupted : GossipThread::Collected::mixed) << "GOSSIP-048";
  if (!is_cut) return;
  EXPECT_GE(Clock::now() - begin, limit) << "GOSSIP-048: given up before the heartbeat time has passed";
  std::this_thread::sleep_for(limit / 2);  // an attempt may begin as the time ends
  const std::size_t tried = starts.times().size();
  std::this_thread::sleep_for(limit / 2);
  EXPECT_EQ(starts.times().size(), tried) << "GOSSIP-048: tried again after it was abandoned";
}

constexpr auto kPauses = std::chrono::seconds(2);  // in which there are a dozen attempts

// The pauses between attempts, but for the last, which the heartbeat time may have cut. Other work on the machine makes
// some of them longer and none shorter, so that the middle one of the first half and the least of the second are
// compared.
bool pauses_grow(const std::vector<std::chrono::steady_clock::time_point>& starts) {
  std::vector<std::chrono::nanoseconds> pauses;
  for (std::size_t i = 1; i + 1 < starts.size(); ++i) pauses.emplace_back(starts[i] - starts[i - 1]);
  if (pauses.size() < 4) return false;
  const auto middle = pauses.begin() + static_cast<std::ptrdiff_t>(pauses.size() / 2);
  std::sort(pauses.begin(), middle);
  return 2 * *std::min_element(middle, pauses.end()) > 3 * pauses[pauses.size() / 4];
}

// How often a round is repeated over a wire that stays cut, and what is said in the end; nothing is over one that is
// whole.
void thread_pauses(Context& context) {
  const bool is_cut = context.parameters().text("wire") == "cut";
  std::unique_ptr<comm::Communicator> wire = context.world().duplicate();
  StartTimes starts;
  if (is_cut) wire = std::make_unique<BrokenWire>(std::move(wire), starts);
  std::string said = "nothing was said";
  const Graph graph = live_graph("ring", context.size());
  {
    GossipThread thread(std::move(wire), graph, {}, {.heartbeat = is_cut ? kPauses : kLong, .verifies = false});
    std::vector<double> values = own_start(context, 2);
    const std::array<Buffer, 1> x{buffer_of(values)};
    EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-110";
    try {
      while (thread.collect(x, true) == GossipThread::Collected::interrupted) {
      }
    } catch (const comm::TimeoutError& error) {
      said = error.what();
    }
  }
  if (!is_cut) {
    EXPECT_EQ(said, "nothing was said") << "GOSSIP-110";
    return;
  }
  const auto attempts = starts.times();
  EXPECT_LE(attempts.size(), 16U) << "GOSSIP-110: attempts whose pauses grow";
  EXPECT_TRUE(pauses_grow(attempts)) << "GOSSIP-110: " << attempts.size() << " attempts whose pauses do not grow";
  const gossip::Peers peers = graph.peers(context.rank(), 0);
  EXPECT_TRUE(has_lists(said, {peers.in, peers.out})) << "GOSSIP-110: the peers in: " << said;
  EXPECT_THAT(said, HasSubstr(BrokenWire::kCause)) << "GOSSIP-110: the cause";
}

// Whether the thread reports an error: to a caller that waits, or to one that asks again and again.
bool reports_error(GossipThread& thread, std::span<const Buffer> x, bool waits) {
  const auto end = std::chrono::steady_clock::now() + kHalfAndDelays;
  try {
    while (std::chrono::steady_clock::now() < end) {
      if (thread.collect(x, waits) == GossipThread::Collected::mixed) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  } catch (const Error&) {
    return true;
  }
  return false;
}

// The thread says that a peer has stopped, and ends.
void thread_stops(Context& context) {
  const std::string& ends_by = context.parameters().text("ends_by");
  auto own = context.world().duplicate();
  if (context.rank() == 0) {
    context.world().barrier();
    return;
  }
  std::vector<double> values = own_start(context, 2);
  const std::array<Buffer, 1> x{buffer_of(values)};
  const Graph graph = live_graph("ring", context.size());
  const gossip::Peers peers = graph.peers(context.rank(), 0);
  const bool meets_it = peers.in.front() == 0 || peers.out.front() == 0;
  GossipThread thread(std::move(own), graph, {}, {.heartbeat = kHalf, .verifies = false});
  auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-047";
  if (ends_by != "closing" && meets_it) {
    EXPECT_TRUE(reports_error(thread, x, ends_by == "collecting")) << "GOSSIP-047: no error is reported";
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kHalfAndDelays) << "GOSSIP-047: the error";
  }
  begin = std::chrono::steady_clock::now();
  thread.close();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kHalfAndDelays) << "GOSSIP-047: the end of the thread";
  context.world().barrier();
}

}  // namespace

void add_gossip_failure_checks(suite::Suite& suite) {
  using comm::Capability;
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds, std::vector<Capability> needs = {}, bool spoils = false) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("gossip.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .needs = std::move(needs),
               .spoils_group = spoils,
               .body = body});
  };
  const suite::Axis mixing{"mixing", {"uniform", "skewed"}};
  const suite::Axis graphs{"graph", {"n-peer-exponential", "ring", "hub"}};
  add("failure.unmatched", "GOSSIP-040@3c50",
      {{"differs",
        {"nothing", "peers", "graph", "book", "row_of_first", "row_of_last", "ends", "lists", "round", "seed",
         "convention", "mixing", "kept", "sent", "second_sent", "share_of_first", "share_of_last", "share_of_later"}}},
      unmatched, {3, 4}, {}, true);
  const suite::Axis with_fairscale{"graph", {"n-peer-exponential", "ring", "hub", "fairscale-hub"}};
  add("failure.interrupted", "GOSSIP-041@70ca", {with_fairscale, mixing, {"exchange", {"0", "1", "2", "3", "9"}}},
      interrupted, {2, 3, 4});
  add("failure.other_group", "GOSSIP-042@2e01",
      {{"graph", {"n-peer-exponential", "hub", "chords", "fairscale-hub"}},
       {"call", {"0", "1", "2", "3", "4", "5", "7", "10", "99"}}},
      other_group, {2, 3, 4, 5}, {Capability::failure_detection}, true);
  add("failure.comparison_cut", "GOSSIP-184@919d", {{"cut", {"no", "0", "1", "0_made", "1_made", "late"}}},
      comparison_cut, {2, 3, 4}, {Capability::failure_detection}, true);
  add("failure.heartbeat", "GOSSIP-043@95ce", {}, heartbeat, {2, 3, 4}, {Capability::wait_timeout}, true);
  add("failure.failed_peer", "GOSSIP-043@95ce", {}, failed_peer, {2, 3, 4}, {Capability::failure_detection}, true);
  add("thread.beside", "GOSSIP-044@a709", {{"graph", {"n-peer-exponential", "hub"}}, mixing}, beside_the_caller,
      {1, 2, 3, 4}, {Capability::thread_multiple});
  add("thread.one_version", "GOSSIP-045@403a", {}, one_version, {2, 3}, {Capability::thread_multiple});
  add("thread.interrupted", "GOSSIP-046@19e9", {}, thread_interrupted, {2, 3, 4}, {Capability::thread_multiple});
  add("thread.under_way", "GOSSIP-116@9321", {}, under_way, {2, 3}, {Capability::thread_multiple});
  add("failure.unfit", "GOSSIP-115@f869", {}, unfit, {2, 3, 4});
  add("failure.pieces", "GOSSIP-049@ad73", {{"values", {"large", "small"}}}, pieces, {2, 3, 4}, {}, true);
  add("failure.confirmed_pieces", "GOSSIP-203@d1e3",
      {{"graph", {"n-peer-exponential", "hub", "complete"}},
       {"again", {"here", "elsewhere"}},
       {"call", {"2", "5", "7", "9", "13", "999"}}},
      confirmed_pieces, {2, 3, 4}, {Capability::failure_detection}, true);
  add("failure.unconfirmed", "GOSSIP-203@d1e3", {{"node", {"mute", "talking"}}}, unconfirmed, {2, 3, 4}, {}, true);
  add("thread.pauses", "GOSSIP-110@d1c6", {{"wire", {"cut", "whole"}}}, thread_pauses, {2, 3},
      {Capability::thread_multiple}, true);
  add("thread.gives_up", "GOSSIP-048@2187", {{"wire", {"cut", "whole"}}}, thread_gives_up, {2, 3, 4},
      {Capability::thread_multiple}, true);
  add("thread.stops", "GOSSIP-047@47f5", {{"ends_by", {"collecting", "polling", "closing"}}}, thread_stops, {2, 3, 4},
      {Capability::thread_multiple, Capability::failure_detection}, true);
}

}  // namespace plumbline::conformance
