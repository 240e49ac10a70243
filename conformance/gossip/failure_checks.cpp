// What goes wrong on the way, and rounds on a thread of their own.
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
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

// The graphs of "book", "round" and "convention" have the same peers in the first round.
Graph graph_that_differs(const std::string& differs, bool is_other, int nodes) {
  using gossip::GraphKind;
  std::vector<std::vector<int>> book;
  for (int node = 0; node < nodes; ++node) {
    const int next = (node + 1) % nodes, last = (node + 2) % nodes;
    book.push_back(is_other ? std::vector{next, next, last} : std::vector{next, last, last});
  }
  if (differs == "book") return Graph(book, 1, gossip::Convention::plumbline, false);
  if (differs == "round") return Graph({.nodes = nodes});
  const bool as_fairscale = differs == "convention" && is_other;
  return Graph({.kind = differs == "graph" && is_other ? GraphKind::complete : GraphKind::ring,
                .nodes = nodes,
                .peers = differs == "peers" && is_other ? 2 : 1,
                .convention = as_fairscale ? gossip::Convention::fairscale : gossip::Convention::plumbline});
}

gossip::Mixing mixing_that_differs(const std::string& differs, bool is_other, int nodes) {
  if (differs != "kept" && differs != "sent")
    return live_mixing(differs == "mixing" && is_other ? "skewed" : "uniform");
  const double kept = differs == "kept" && is_other ? 0.25 : 0.5, sent = differs == "sent" && is_other ? 0.25 : 0.5;
  return {.kind = gossip::MixingKind::given,
          .shares = std::vector(static_cast<std::size_t>(nodes), std::vector<gossip::Shares>{{kept, {sent}}})};
}

// A node with another graph, mixing or round than the others, or with the same.
void unmatched(Context& context) {
  const std::string differs = context.parameters().text("differs");
  const bool is_other = context.rank() == context.size() - 1;
  PushSum push_sum(context.world(), graph_that_differs(differs, is_other, context.size()),
                   mixing_that_differs(differs, is_other, context.size()), {.heartbeat = kShort});
  // Of two or of three distances that are taken in turn, the same as in round 0.
  if (differs == "round" && is_other) push_sum.set_round(2);
  std::vector<double> x = own_start(context, 2);
  std::string said = "nothing was said";
  try {
    push_sum.mix(buffer_of(x));
  } catch (const comm::MismatchError& error) {
    said = error.what();
  } catch (const Error& error) {
    said = fmt::format("another error: {}", error.what());
  }
  if (differs == "nothing")
    EXPECT_EQ(said, "nothing was said") << "GOSSIP-040";
  else
    EXPECT_THAT(said,
                AllOf(HasSubstr("sends to ["), HasSubstr("receives from ["), testing::Not(HasSubstr("another error"))))
        << "GOSSIP-040";
}

// One node's exchange is cut before anything is sent; the others wait.
void interrupted(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const auto mixing = live_mixing(context.parameters().text("mixing"));
  const int failing = static_cast<int>(context.parameters().number("exchange"));
  const auto quiet = context.world().duplicate();
  std::unique_ptr<comm::Communicator> wire = context.world().duplicate();
  if (context.rank() == context.size() - 1) wire = std::make_unique<FailingWire>(std::move(wire), failing);
  PushSum undisturbed(*quiet, graph, mixing), disturbed(*wire, graph, mixing, {.heartbeat = kShort});
  std::vector<double> smooth = own_start(context, 3), rough = smooth;
  int interruptions = 0;
  for (int round = 0; round < 6; ++round) {
    undisturbed.mix(buffer_of(smooth));
    try {
      disturbed.mix(buffer_of(rough));
    } catch (const RuntimeFailure&) {
      ++interruptions;
      EXPECT_TRUE(disturbed.is_interrupted()) << "GOSSIP-041";
      EXPECT_EQ(disturbed.reported_weight(), -1) << "GOSSIP-041: the weight of an interrupted round";
      EXPECT_THROW(disturbed.mix(buffer_of(rough)), StateError) << "GOSSIP-041: a new round behind an interrupted one";
      disturbed.retry(first_of(rough));
    }
    EXPECT_FALSE(disturbed.is_interrupted()) << "GOSSIP-041";
    EXPECT_EQ(rough, smooth) << "GOSSIP-041: values behind round " << round;
    EXPECT_EQ(disturbed.reported_weight(), undisturbed.weight()) << "GOSSIP-041: the weight behind round " << round;
  }
  EXPECT_EQ(interruptions, context.rank() == context.size() - 1 && context.size() > 1 ? 1 : 0) << "GOSSIP-041";
}

// The group fails under a round, some nodes being done with it and others not; all go over to another group.
void other_group(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const auto mixing = live_mixing("skewed");
  const int failing = static_cast<int>(context.parameters().number("call"));
  constexpr int made = 4;
  World expected = start_of(context, 2);
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
      group.abort("a check cuts the wires");
      is_over = true;
      push_sum.retry(*second, first_of(x));
    }
    deal_out(expected, graph, "skewed", round);
  }
  if (!is_over) push_sum.retry(*second, first_of(x));
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(x[i], expected.numerators[static_cast<std::size_t>(context.rank())][i], 1e-13)
        << "GOSSIP-042: element " << i;
  EXPECT_NEAR(push_sum.weight(), expected.weights[static_cast<std::size_t>(context.rank())], 1e-13) << "GOSSIP-042";
  // Where nobody says what has come, nothing may be sent twice.
  PushSum unconfirmed(*second, graph, mixing, {.confirms = false});
  EXPECT_THROW(unconfirmed.retry(context.world(), first_of(x)), StateError) << "GOSSIP-042: without confirmations";
}

// The comparison of all nodes is cut on one of them: before one of its calls, or because the node is not there yet when
// the group fails. It is made again, and so is the round.
void comparison_cut(Context& context) {
  const std::string cut = context.parameters().text("cut");
  const bool is_cut = context.rank() == context.size() - 1 && cut != "no";
  const Graph graph = live_graph("hub", context.size());
  const auto quiet = context.world().duplicate(), second = context.world().duplicate();
  auto first = context.world().duplicate();
  comm::Communicator& group = *first;
  std::unique_ptr<comm::Communicator> wire = std::move(first);
  if (is_cut && cut != "late") wire = std::make_unique<FailingCall>(std::move(wire), std::stoi(cut));
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
    EXPECT_EQ(rough, smooth) << "GOSSIP-184: values behind the first round";
  }
  for (int round = 0; round < 3; ++round) {
    undisturbed.mix(buffer_of(smooth));
    try {
      disturbed.mix(buffer_of(rough));
    } catch (const RuntimeFailure&) {
      EXPECT_TRUE(is_cut) << "GOSSIP-184";
      disturbed.retry(first_of(rough));
    }
    EXPECT_EQ(rough, smooth) << "GOSSIP-184: values behind round " << round;
  }
}

void heartbeat(Context& context) {
  EXPECT_EQ(gossip::PushSumOptions().heartbeat, std::chrono::seconds(300)) << "GOSSIP-043: the default";
  const auto own = context.world().duplicate();
  if (context.rank() == 0) {  // stops
    context.world().barrier();
    return;
  }
  constexpr auto limit = std::chrono::milliseconds(200);
  PushSum push_sum(*own, live_graph("ring", context.size()), {}, {.heartbeat = limit, .verifies = false});
  std::vector<double> x = own_start(context, 2);
  const auto begin = std::chrono::steady_clock::now();
  std::string said = "nothing was said";
  try {
    for (int round = 0; round < context.size(); ++round) push_sum.mix(buffer_of(x));
  } catch (const comm::TimeoutError& error) {
    said = error.what();
  } catch (const comm::PeerFailed& error) {
    said = error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "GOSSIP-043";
  EXPECT_THAT(said, AllOf(HasSubstr("round 0 of gossip"), HasSubstr("receives from ["))) << "GOSSIP-043";
  context.world().barrier();
}

// Large values are mixed piece by piece while they come, where nothing is confirmed. Cut among them, some are mixed.
void pieces(Context& context) {
  const bool large = context.parameters().text("values") == "large";
  PushSum push_sum(context.world(), live_graph("ring", context.size()), {}, {.heartbeat = kShort, .confirms = false});
  // Four pieces are received ahead and as many sent before the first one is mixed; behind twelve starts it is, and the
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
  const bool is_mute = context.parameters().text("node") == "mute" && context.rank() == 0;
  std::unique_ptr<comm::Communicator> wire = context.world().duplicate();
  if (is_mute) wire = std::make_unique<MuteWire>(std::move(wire));
  const Graph graph = live_graph("ring", context.size());
  PushSum push_sum(*wire, graph, {}, {.heartbeat = kShort, .verifies = false});
  const std::vector<double> start = own_start(context, 40'000);
  std::vector<double> x = start;
  const bool sends_to_mute = context.parameters().text("node") == "mute" && graph.peers(context.rank(), 0).out[0] == 0;
  try {
    push_sum.mix(buffer_of(x));
    EXPECT_FALSE(sends_to_mute) << "GOSSIP-203: a round that was not confirmed is done";
  } catch (const Error&) {
    EXPECT_EQ(context.parameters().text("node"), "mute") << "GOSSIP-203";
  }
  if (sends_to_mute) {
    EXPECT_EQ(x, start) << "GOSSIP-203: values that were not confirmed";
  }
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
  const auto compare = [&](int round) {
    deal_out(expected, graph, context.parameters().text("mixing"), round);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], expected.numerators[rank][i], 1e-13)
          << "GOSSIP-044: element " << i << " behind round " << round;
    EXPECT_NEAR(thread.weight(), expected.weights[rank], 1e-13) << "GOSSIP-044: the weight behind round " << round;
  };
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
  std::fill(values.begin(), values.begin() + count / 2, 100.0);
  gate.open();
  EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::mixed) << "GOSSIP-045";
  const int peer = graph.peers(context.rank(), 0).in.front();
  EXPECT_EQ(values.front(), (100.0 + 1.0 + peer) / 2) << "GOSSIP-045: the first element, of version " << 1 + peer;
  EXPECT_EQ(values.back(), (1.0 + context.rank() + 1.0 + peer) / 2)
      << "GOSSIP-045: the last element, of version " << 1 + peer;
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

// A wire that stays cut.
void thread_gives_up(Context& context) {
  const bool is_cut = context.parameters().text("wire") == "cut";
  std::unique_ptr<comm::Communicator> wire = context.world().duplicate();
  std::atomic<int> starts = 0;
  if (is_cut) wire = std::make_unique<BrokenWire>(std::move(wire), starts);
  GossipThread thread(std::move(wire), live_graph("ring", context.size()), {},
                      {.heartbeat = is_cut ? std::chrono::seconds(1) : kLong, .verifies = false});
  std::vector<double> values = own_start(context, 2);
  const std::array<Buffer, 1> x{buffer_of(values)};
  EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-048";
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(6);
  bool is_given_up = false;
  auto collected = GossipThread::Collected::interrupted;
  while (!is_given_up && collected == GossipThread::Collected::interrupted && std::chrono::steady_clock::now() < end)
    try {
      collected = thread.collect(x, true);
    } catch (const comm::TimeoutError&) {
      is_given_up = true;
    }
  EXPECT_EQ(is_given_up, is_cut) << "GOSSIP-048: given up behind the heartbeat time";
  EXPECT_EQ(collected, is_cut ? GossipThread::Collected::interrupted : GossipThread::Collected::mixed) << "GOSSIP-048";
}

// How often a round is repeated over a wire that stays cut, and what is said in the end; nothing is over one that is
// whole.
void thread_pauses(Context& context) {
  const bool is_cut = context.parameters().text("wire") == "cut";
  std::unique_ptr<comm::Communicator> wire = context.world().duplicate();
  std::atomic<int> starts = 0;
  if (is_cut) wire = std::make_unique<BrokenWire>(std::move(wire), starts);
  std::string said = "nothing was said";
  const Graph graph = live_graph("ring", context.size());
  {
    GossipThread thread(std::move(wire), graph, {}, {.heartbeat = is_cut ? kShort : kLong, .verifies = false});
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
  // Pauses of 1, 2, 4, … 512 and then 750 ms are more than the heartbeat time behind 14 attempts.
  EXPECT_GE(starts, 2) << "GOSSIP-110: attempts";
  EXPECT_LE(starts, 20) << "GOSSIP-110: attempts";
  const gossip::Peers peers = graph.peers(context.rank(), 0);
  EXPECT_THAT(said,
              AllOf(HasSubstr(fmt::format("receives from [{}]", peers.in.front())),
                    HasSubstr(fmt::format("sends to [{}]", peers.out.front())), HasSubstr("a wire that a check cut")))
      << "GOSSIP-110";
}

// The thread says that a peer has stopped, and ends.
void thread_stops(Context& context) {
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
  const auto begin = std::chrono::steady_clock::now();
  {
    GossipThread thread(std::move(own), graph, {}, {.heartbeat = std::chrono::milliseconds(200), .verifies = false});
    EXPECT_TRUE(thread.hand_over(x)) << "GOSSIP-047";
    if (context.parameters().text("ends_by") == "collecting" && meets_it) {
      EXPECT_THROW((void)thread.collect(x, true), Error) << "GOSSIP-047";
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "GOSSIP-047";
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
      {{"differs", {"nothing", "peers", "graph", "book", "round", "convention", "mixing", "kept", "sent"}}}, unmatched,
      {3, 4}, {}, true);
  add("failure.interrupted", "GOSSIP-041@5bac", {graphs, mixing, {"exchange", {"0", "2", "5"}}}, interrupted,
      {2, 3, 4});
  add("failure.other_group", "GOSSIP-042@2e01",
      {{"graph", {"n-peer-exponential", "hub"}}, {"call", {"0", "1", "2", "3", "4", "5", "9"}}}, other_group,
      {2, 3, 4, 5}, {Capability::failure_detection}, true);
  add("failure.comparison_cut", "GOSSIP-184@23cc", {{"cut", {"no", "0", "1", "late"}}}, comparison_cut, {2, 3, 4},
      {Capability::failure_detection}, true);
  add("failure.heartbeat", "GOSSIP-043@95ce", {}, heartbeat, {2, 3, 4}, {Capability::wait_timeout}, true);
  add("thread.beside", "GOSSIP-044@ad3c", {{"graph", {"n-peer-exponential", "hub"}}, mixing}, beside_the_caller,
      {1, 2, 3, 4}, {Capability::thread_multiple});
  add("thread.one_version", "GOSSIP-045@9dd5", {}, one_version, {2, 3}, {Capability::thread_multiple});
  add("thread.interrupted", "GOSSIP-046@fd87", {}, thread_interrupted, {2, 3, 4}, {Capability::thread_multiple});
  add("failure.pieces", "GOSSIP-049@a98b", {{"values", {"large", "small"}}}, pieces, {2, 3, 4}, {}, true);
  add("failure.confirmed_pieces", "GOSSIP-203@2085",
      {{"graph", {"n-peer-exponential", "hub"}}, {"again", {"here", "elsewhere"}}, {"call", {"2", "7", "13", "999"}}},
      confirmed_pieces, {2, 3, 4}, {Capability::failure_detection}, true);
  add("failure.unconfirmed", "GOSSIP-203@2085", {{"node", {"mute", "talking"}}}, unconfirmed, {2, 3, 4}, {}, true);
  add("thread.pauses", "GOSSIP-110@9db2", {{"wire", {"cut", "whole"}}}, thread_pauses, {2, 3},
      {Capability::thread_multiple}, true);
  add("thread.gives_up", "GOSSIP-048@2187", {{"wire", {"cut", "whole"}}}, thread_gives_up, {2, 3, 4},
      {Capability::thread_multiple}, true);
  add("thread.stops", "GOSSIP-047@c1e0", {{"ends_by", {"collecting", "closing"}}}, thread_stops, {2, 3, 4},
      {Capability::thread_multiple, Capability::failure_detection}, true);
}

}  // namespace plumbline::conformance
