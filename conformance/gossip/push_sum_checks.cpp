// Push-sum with real messages.
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/gossip/live_gossip.hpp"
#include "conformance/gossip/wires.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Buffer;
using comm::DType;
using gossip::Graph;
using gossip::PushSum;
using gossip::PushSumOptions;
using suite::Context;

namespace {

// Of a message, so that a wrong plan ends.
constexpr auto kRoundPatience = std::chrono::seconds(10);

std::vector<double>& mine(World& world, Context& context) {
  return world.numerators[static_cast<std::size_t>(context.rank())];
}

void mass(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const auto seen = context.world().duplicate();
  PushSum push_sum(context.world(), graph, live_mixing(context.parameters().text("mixing")),
                   {.heartbeat = kRoundPatience});
  World start = start_of(context, 3);
  std::vector<double> x = mine(start, context);
  const double nodes = context.size();
  for (int round = 0; round < 12; ++round) {
    push_sum.mix(buffer_of(x));
    const World now = gathered(*seen, x, push_sum.weight());
    double weights = 0;
    for (const double weight : now.weights) {
      weights += weight;
      EXPECT_GT(weight, 0) << "GOSSIP-030: a weight after round " << round;
    }
    EXPECT_NEAR(weights, nodes, 1e-12 * nodes) << "GOSSIP-030: the sum of weights after round " << round;
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(mean_of(now, i), mean_of(start, i), 1e-12) << "GOSSIP-030: the sum of values after round " << round;
  }
}

void push_sum_rounds(Context& context) {
  const std::string mixing = context.parameters().text("mixing");
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const auto algorithm =
      context.parameters().text("algorithm") == "push_sum" ? gossip::Algorithm::push_sum : gossip::Algorithm::push_pull;
  PushSum push_sum(context.world(), graph, live_mixing(mixing), {.algorithm = algorithm, .heartbeat = kRoundPatience});
  World expected = start_of(context, 4);
  std::vector<double> x = mine(expected, context);
  for (int round = 0; round < 7; ++round) {
    push_sum.mix(buffer_of(x));
    deal_out(expected, graph, mixing, round);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(x[i], mine(expected, context)[i], 1e-13) << "GOSSIP-031: element " << i << " after round " << round;
    EXPECT_NEAR(push_sum.weight(), expected.weights[static_cast<std::size_t>(context.rank())], 1e-13)
        << "GOSSIP-031: the weight after round " << round;
  }
}

void estimate(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  PushSum push_sum(context.world(), graph, live_mixing(context.parameters().text("mixing")),
                   {.heartbeat = kRoundPatience});
  World start = start_of(context, 2);
  std::vector<double> x = mine(start, context);
  for (int round = 0; round < 150; ++round) push_sum.mix(buffer_of(x));
  const Buffer values = buffer_of(x);
  const std::vector<double> numerators = x;
  gossip::divide(std::span(&values, 1), push_sum.weight());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], mean_of(start, i), 1e-6) << "GOSSIP-032: x / w";
  gossip::multiply(std::span(&values, 1), push_sum.weight());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], numerators[i], 1e-14) << "GOSSIP-032: x / w * w";
}

// One tensor after the other, alone or fused, confirmed or not: the values of a large, a small and an empty one.
void fusion(Context& context) {
  const std::string mixing = context.parameters().text("mixing");
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const PushSumOptions options{.heartbeat = kRoundPatience,
                               .fuse = context.parameters().text("messages") == "fused",
                               .confirms = context.parameters().text("confirms") == "yes"};
  PushSum push_sum(context.world(), graph, live_mixing(mixing), options);
  constexpr std::size_t large = 80'000;  // several of the pieces in which it travels
  World expected = start_of(context, large + 3);
  std::vector<double> first(mine(expected, context).begin(), mine(expected, context).begin() + large);
  std::vector<double> none, last(mine(expected, context).begin() + large, mine(expected, context).end());
  const std::array<Buffer, 3> x{buffer_of(first), buffer_of(none), buffer_of(last)};
  for (int round = 0; round < 3; ++round) {
    push_sum.mix(x);
    deal_out(expected, graph, mixing, round);
  }
  const std::vector<double>& right = mine(expected, context);
  double apart = 0;
  for (std::size_t i = 0; i < right.size(); ++i)
    apart = std::max(apart, std::abs(right[i] - (i < large ? first[i] : last[i - large])));
  EXPECT_LE(apart, 1e-13) << "GOSSIP-033: the largest difference of " << right.size() << " values";
}

// Four values of a type as memory.
class Stored {
 public:
  Stored(const std::vector<double>& values, DType dtype) : dtype_(dtype), memory_(values.size() * size_of(dtype)) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto put = [&](auto value) { std::memcpy(memory_.data() + i * sizeof value, &value, sizeof value); };
      if (dtype == DType::f16) put(comm::to_float16(static_cast<float>(values[i])).bits);
      if (dtype == DType::bf16) put(comm::to_bfloat16(static_cast<float>(values[i])).bits);
      if (dtype == DType::f32) put(static_cast<float>(values[i]));
      if (dtype == DType::f64) put(values[i]);
    }
  }
  [[nodiscard]] Buffer buffer() {
    return {memory_.data(), static_cast<std::int64_t>(memory_.size() / size_of(dtype_)), dtype_};
  }
  [[nodiscard]] double at(std::size_t i) const {
    const auto get = [&]<class T>(T value) {
      std::memcpy(&value, memory_.data() + i * sizeof value, sizeof value);
      return value;
    };
    if (dtype_ == DType::f16) return comm::to_float(comm::Float16{get(std::uint16_t())});
    if (dtype_ == DType::bf16) return comm::to_float(comm::BFloat16{get(std::uint16_t())});
    return dtype_ == DType::f32 ? double{get(float())} : get(double());
  }

 private:
  DType dtype_;
  std::vector<std::byte> memory_;
};

void types(Context& context) {
  const DType dtype = context.parameters().dtype();
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  PushSum push_sum(context.world(), graph, {}, {.heartbeat = kRoundPatience});
  if (!comm::is_floating(dtype)) {
    std::array<std::byte, 8> memory{};
    EXPECT_THROW(push_sum.mix(Buffer{memory.data(), 1, dtype}), Unsupported) << "GOSSIP-034";
    return;
  }
  World expected = start_of(context, 4);
  for (auto& x : expected.numerators)
    for (double& value : x) value = comm::rounded_to(dtype, value);
  // Values of two types at once.
  Stored x(mine(expected, context), dtype), wide(mine(expected, context), DType::f64);
  constexpr int made = 6;
  for (int round = 0; round < made; ++round) {
    const std::array<Buffer, 2> both{x.buffer(), wide.buffer()};
    push_sum.mix(both);
    deal_out(expected, graph, "uniform", round);
  }
  const double unit = dtype == DType::f16    ? 0x1p-11
                      : dtype == DType::bf16 ? 0x1p-8
                      : dtype == DType::f32  ? 0x1p-24
                                             : 0x1p-53;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(x.at(i), mine(expected, context)[i], 8 * made * unit * context.size()) << "GOSSIP-034: element " << i;
    EXPECT_NEAR(wide.at(i), mine(expected, context)[i], 1e-13) << "GOSSIP-034: element " << i << " of f64";
  }
  EXPECT_NEAR(push_sum.weight(), expected.weights[static_cast<std::size_t>(context.rank())], 1e-13)
      << "GOSSIP-034: the weight beside " << name_of(dtype);
}

// Two types, of the same values. By default both are in the same round; FairScale's turn the graph between them, and
// the weight is the last one's.
void two_types(Context& context) {
  const bool as_fairscale = context.parameters().text("convention") == "fairscale";
  const int nodes = context.size();
  const auto convention = as_fairscale ? gossip::Convention::fairscale : gossip::Convention::plumbline;
  const Graph graph = context.parameters().text("graph") == "hub"
                          ? hub_graph(nodes, convention)
                          : Graph({.nodes = nodes, .peers = 1, .convention = convention});
  PushSum push_sum(context.world(), graph, {}, {.heartbeat = kRoundPatience});
  World first = start_of(context, 3), second = first;
  std::vector<double> wide = mine(first, context);
  Stored narrow(wide, DType::f32);
  const auto rank = static_cast<std::size_t>(context.rank());
  constexpr double close = 1e-5;  // f32
  for (int mixed = 0; mixed < 6; ++mixed) {
    const std::array<Buffer, 2> both{buffer_of(wide), narrow.buffer()};
    push_sum.mix(both);
    deal_out(first, graph, "uniform", as_fairscale ? std::max(0, 2 * mixed - 1) : mixed);
    deal_out(second, graph, "uniform", as_fairscale ? 2 * mixed : mixed);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      EXPECT_NEAR(wide[i], first.numerators[rank][i], close) << "GOSSIP-038: f64 after mix " << mixed;
      EXPECT_NEAR(narrow.at(i), second.numerators[rank][i], close) << "GOSSIP-038: f32 after mix " << mixed;
    }
    EXPECT_NEAR(push_sum.weight(), second.weights[rank], close) << "GOSSIP-038: the weight after mix " << mixed;
  }
}

// Who sends first, where a round is made of starts.
void turns_of_sides(Context& context) {
  const bool pulls = context.parameters().text("algorithm") == "push_pull";
  const Graph graph({.kind = gossip::GraphKind::bipartite_linear, .nodes = context.size()});
  NotingWire wire(context.world().duplicate());
  PushSum push_sum(wire, graph, {},
                   {.algorithm = pulls ? gossip::Algorithm::push_pull : gossip::Algorithm::push_sum,
                    .heartbeat = kRoundPatience,
                    .confirms = false});
  std::vector<double> x(context.parameters().text("values") == "many" ? 20'000 : 3, 1.0);
  for (int round = 0; round < 3; ++round) push_sum.mix(buffer_of(x));
  using comm::Operation;
  std::vector<std::vector<Operation>> expected;
  for (int round = 0; round < 3; ++round) {
    if (!pulls)
      expected.push_back({Operation::send, Operation::recv});
    else if (context.rank() % 2 == 0)
      expected.insert(expected.end(), {{Operation::recv}, {Operation::send}});
    else
      expected.insert(expected.end(), {{Operation::send}, {Operation::recv}});
  }
  EXPECT_EQ(wire.starts, expected) << "GOSSIP-039";
}

// What a node sent, beside what it had to.
struct Traffic {
  std::int64_t numbers = 0, bytes = 0, messages = 0;
};
Traffic traffic_of(const CountingWire& wire) {
  Traffic traffic;
  for (const CountingWire::Sent& sent : wire.sent) {
    traffic.numbers += sent.dtype == DType::f64 ? sent.count : 0;
    traffic.bytes += sent.count * static_cast<std::int64_t>(size_of(sent.dtype));
    ++traffic.messages;
  }
  return traffic;
}

// Rounds of tensors of these lengths, which are one message where they are short or fused.
void count_messages(Context& context, const std::vector<std::size_t>& lengths, const PushSumOptions& options) {
  const std::string mixing = context.parameters().text("mixing");
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  CountingWire wire(context.world().duplicate());
  PushSum push_sum(wire, graph, live_mixing(mixing), options);
  std::vector<std::vector<double>> values;
  std::vector<Buffer> x;
  for (const std::size_t length : lengths) values.emplace_back(length, 1.0);
  for (auto& tensor : values) x.push_back(buffer_of(tensor));
  const std::int64_t elements = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const bool has_weight = mixing == "skewed" || !graph.is_regular(), is_one = options.fuse || elements < 1000;
  Traffic expected;
  int collectives = 0;
  for (int round = 0; round < 4; ++round) {
    const gossip::Peers peers = graph.peers(context.rank(), graph.round_after(round));
    const auto out = std::ssize(peers.out), in = std::ssize(peers.in);
    expected.numbers += out * (elements + (has_weight ? 1 : 0));
    expected.bytes += push_sum.bytes_per_round(elements, DType::f64);
    expected.messages += out * (has_weight ? 2 : 1) + (options.confirms ? in : 0);
    push_sum.mix(x);
    if (round == 0) collectives = wire.collectives;
  }
  const Traffic sent = traffic_of(wire);
  EXPECT_EQ(sent.numbers, expected.numbers) << "GOSSIP-035: values and weights of rounds of " << elements;
  EXPECT_EQ(sent.bytes, expected.bytes) << "GOSSIP-035: bytes of rounds of " << elements;
  if (is_one) {
    EXPECT_EQ(sent.messages, expected.messages) << "GOSSIP-035: messages of rounds of " << elements;
  }
  if (!options.confirms) {
    EXPECT_EQ(sent.bytes, 8 * sent.numbers) << "GOSSIP-035: bytes beside values and weights";
  }
  EXPECT_EQ(wire.collectives, collectives) << "GOSSIP-035: other calls after the first round";
  if (!options.verifies) {
    EXPECT_EQ(collectives, 0) << "GOSSIP-035: calls that compare";
  }
}

// None, a few, and a piece of a large tensor or one more or less.
void messages(Context& context) {
  PushSumOptions options{.heartbeat = kRoundPatience, .confirms = context.parameters().text("confirms") == "yes"};
  for (const std::size_t length : std::initializer_list<std::size_t>{0, 1, 5, 8191, 8192, 8193, 30'000})
    count_messages(context, {length}, options);
  options.verifies = false;
  count_messages(context, {5}, options);
  options.fuse = true;
  count_messages(context, {5, 0, 20'000}, options);
  count_messages(context, {8193}, options);
}

// Messages come late, and overtake each other: no mass is lost, and none is taken for another.
void out_of_order(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const std::string& messages = context.parameters().text("messages");
  std::unique_ptr<comm::Communicator> wire = context.world().duplicate();
  if (messages == "late")
    wire = std::make_unique<LateWire>(std::move(wire), context.seed() + static_cast<std::uint64_t>(context.rank()));
  if (messages == "overtaken") wire = std::make_unique<OvertakingWire>(std::move(wire));
  const bool confirms = context.parameters().text("confirms") == "yes";
  PushSum push_sum(*wire, graph, live_mixing("skewed"), {.heartbeat = kRoundPatience, .confirms = confirms});
  // Of one value: as long as a weight, so that no length tells them apart. A start has one message of a kind to a peer.
  World expected = start_of(context, 1);
  std::vector<double> x = mine(expected, context);
  for (int round = 0; round < 8; ++round) {
    push_sum.mix(buffer_of(x));
    deal_out(expected, graph, "skewed", round);
    EXPECT_NEAR(x[0], mine(expected, context)[0], 1e-13) << "GOSSIP-111: after round " << round;
    EXPECT_NEAR(push_sum.weight(), expected.weights[static_cast<std::size_t>(context.rank())], 1e-13)
        << "GOSSIP-111: the weight after round " << round;
  }
  const World end = gathered(context.world(), x, push_sum.weight());
  double sum = 0, weights = 0;
  for (std::size_t node = 0; node < end.weights.size(); ++node)
    sum += end.numerators[node][0], weights += end.weights[node];
  EXPECT_NEAR(sum, mean_of(expected, 0) * context.size(), 1e-12) << "GOSSIP-111: the sum of all values";
  EXPECT_NEAR(weights, context.size(), 1e-12) << "GOSSIP-111: the sum of all weights";
}

// Who mixes at some of its steps only, or goes on from what was stored, meets its peers in the same order.
void rotation(Context& context) {
  const std::string kind = context.parameters().text("after");
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  World expected = start_of(context, 2);
  std::vector<double> x = mine(expected, context);
  PushSum first(context.world(), graph, {}, {.heartbeat = kRoundPatience});
  PushSum second(context.world(), graph, {}, {.heartbeat = kRoundPatience});
  PushSum* push_sum = &first;
  int mixed = 0;
  for (int step = 0; step < 9; ++step) {
    if (kind == "skips" && step % 3 == 1) continue;
    if (kind == "resume" && step == 4) {
      second.set_round(first.round());
      second.set_weight(first.weight());
      push_sum = &second;
    }
    if (kind == "set" && step == 4 && graph.is_dynamic()) first.set_round(mixed += 5);
    EXPECT_EQ(push_sum->round(), graph.round_after(mixed)) << "GOSSIP-036: before mix " << mixed;
    push_sum->mix(buffer_of(x));
    deal_out(expected, graph, "uniform", mixed++);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(x[i], mine(expected, context)[i], 1e-13) << "GOSSIP-036: element " << i << " after mix " << mixed;
  }
  EXPECT_NEAR(push_sum->weight(), expected.weights[static_cast<std::size_t>(context.rank())], 1e-13) << "GOSSIP-036";
  // A mix of no tensors turns the graph as well, and keeps the weight.
  PushSum none(context.world(), graph, {}, {.heartbeat = kRoundPatience});
  none.mix(std::span<const Buffer>());
  EXPECT_EQ(none.round(), graph.round_after(1)) << "GOSSIP-036: after a mix of no tensors";
  EXPECT_EQ(none.weight(), 1) << "GOSSIP-036: the weight after a mix of no tensors";
}

// Values that are sent in pieces turn a graph as a single one does, and mix alike.
void large_rotation(Context& context) {
  const bool as_fairscale = context.parameters().text("convention") == "fairscale";
  const Graph graph =
      hub_graph(context.size(), as_fairscale ? gossip::Convention::fairscale : gossip::Convention::plumbline);
  WireOfMessages first(context.world().duplicate()), second(context.world().duplicate());
  PushSum of_one(first, graph, {}, {.heartbeat = kRoundPatience});
  PushSum of_many(second, graph, {}, {.heartbeat = kRoundPatience});
  std::vector<double> one{1.0 + context.rank()};
  std::vector<double> many(20'000, one.front());
  for (int mixed = 1; mixed <= 4; ++mixed) {
    of_one.mix(buffer_of(one));
    of_many.mix(buffer_of(many));
    EXPECT_TRUE(std::ranges::all_of(many, [&](double value) { return value == one.front(); }))
        << "GOSSIP-036: values after mix " << mixed;
    EXPECT_EQ(of_many.weight(), of_one.weight()) << "GOSSIP-036: the weight after mix " << mixed;
    EXPECT_EQ(of_many.round(), graph.round_after(mixed)) << "GOSSIP-036: after mix " << mixed;
  }
}

void exact(Context& context) {
  const std::string graph = context.parameters().text("graph");
  PushSum push_sum(context.world(), live_graph(graph, context.size()), {}, {.heartbeat = kRoundPatience});
  World start = start_of(context, 2);
  std::vector<double> x = mine(start, context);
  int needed = 1;
  if (graph == "n-peer-exponential")
    for (needed = 0; (1 << needed) < context.size();) ++needed;
  for (int round = 0; round < needed; ++round) push_sum.mix(buffer_of(x));
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(x[i], mean_of(start, i), 1e-14) << "GOSSIP-037: after " << needed << " rounds";
}

}  // namespace

void add_push_sum_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("gossip.push_sum.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .body = body});
  };
  const suite::Axis mixing{"mixing", {"uniform", "skewed"}};
  const suite::Axis any{"graph", {"n-peer-exponential", "ring", "hub", "chords"}};
  add("mass", "GOSSIP-030@007e", {{"graph", {"hub", "chords", "star", "ring", "random-matching"}}, mixing}, mass,
      {1, 2, 3, 4});
  suite.add(
      {.id = "gossip.push_sum.rounds",
       .verifies = {"GOSSIP-031@028c"},
       .axes = {{"graph",
                 {"n-peer-exponential", "directed-linear", "ring", "hub", "star", "star-of-the-last", "followers"}},
                mixing,
                {"algorithm", {"push_sum", "push_pull"}},
                suite::worlds({1, 2, 3, 4})},
       .deadlock_prone = true,
       .body = push_sum_rounds});
  add("estimate", "GOSSIP-032@d398", {any, mixing}, estimate, {1, 3, 4});
  add("fusion", "GOSSIP-033@fcfc", {any, mixing, {"messages", {"fused", "each"}}, {"confirms", {"yes", "no"}}}, fusion,
      {2, 3});
  add("types", "GOSSIP-034@f873", {suite::dtypes(), {"graph", {"n-peer-exponential", "hub"}}}, types, {2, 3});
  add("two_types", "GOSSIP-038@6008",
      {{"convention", {"plumbline", "fairscale"}}, {"graph", {"hub", "n-peer-exponential"}}}, two_types, {2, 3, 4});
  suite.add({.id = "gossip.push_sum.turns_of_sides",
             .verifies = {"GOSSIP-039@be73"},
             .axes = {{"algorithm", {"push_sum", "push_pull"}}, {"values", {"few", "many"}}, suite::worlds({2, 4, 6})},
             // Many values are sent in pieces where no side waits for the other.
             .applies =
                 [](const suite::Parameters& parameters) {
                   return parameters.text("algorithm") == "push_pull" || parameters.text("values") == "few";
                 },
             .body = turns_of_sides});
  add("messages", "GOSSIP-035@bae5", {any, mixing, {"confirms", {"yes", "no"}}}, messages, {1, 2, 3, 4});
  suite.add({.id = "gossip.push_sum.out_of_order",
             .verifies = {"GOSSIP-111@71eb"},
             .axes = {{"graph", {"hub", "chords", "star"}},
                      {"messages", {"late", "overtaken"}},
                      {"confirms", {"yes", "no"}},
                      suite::worlds({1, 2, 3, 4})},
             .deadlock_prone = true,
             .body = out_of_order});
  add("rotation", "GOSSIP-036@9dfa",
      {{"graph", {"n-peer-exponential", "directed-linear", "ring", "hub"}},
       {"after", {"nothing", "skips", "resume", "set"}}},
      rotation, {2, 3, 4});
  add("large_rotation", "GOSSIP-036@9dfa", {{"convention", {"plumbline", "fairscale"}}}, large_rotation, {2, 3, 4});
  suite.add({.id = "gossip.push_sum.exact",
             .verifies = {"GOSSIP-037@c6d2"},
             .axes = {{"graph", {"complete", "n-peer-exponential"}}, suite::worlds({1, 2, 3, 4, 8})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   const int nodes = parameters.world();
                   return parameters.text("graph") == "complete" || (nodes & (nodes - 1)) == 0;
                 },
             .body = exact});
}

}  // namespace plumbline::conformance
