// Rounds of two nodes that meet only each other, which a group may make in place.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/gossip/live_gossip.hpp"
#include "conformance/gossip/wires.hpp"
#include "reference/comm/errors.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::conformance {

using comm::Buffer;
using comm::DType;
using gossip::Graph;
using gossip::PushSum;
using suite::Context;

namespace {

constexpr auto kPatience = std::chrono::seconds(60);

// A tensor's bytes.
struct Tensor {
  Tensor(DType type, std::size_t elements) : dtype(type), bytes(elements * size_of(type)) {}
  [[nodiscard]] Buffer buffer() {
    return {bytes.data(), static_cast<std::int64_t>(bytes.size() / size_of(dtype)), dtype};
  }
  DType dtype;
  std::vector<std::byte> bytes;
};

// Values between -2 and 2, other ones on each rank, which that many roundings change.
Tensor tensor_of(Context& context, DType dtype, std::size_t elements) {
  const World start = start_of(context, std::min<std::size_t>(elements, 1009));
  const std::vector<double>& values = start.numerators[static_cast<std::size_t>(context.rank())];
  Tensor tensor(dtype, elements);
  gossip::with_type(dtype, [&]<class T>(T) {
    for (std::size_t i = 0; i < elements; ++i) {
      const T value = gossip::narrowed<T>(values[i % values.size()]);
      std::memcpy(tensor.bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return tensor;
}

std::size_t first_difference(const Tensor& one, const Tensor& other) {
  const auto differing = std::ranges::mismatch(one.bytes, other.bytes).in1;
  return static_cast<std::size_t>(differing - one.bytes.begin()) / size_of(one.dtype);
}

void equals_messages(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const auto mixing = live_mixing(context.parameters().text("mixing"));
  // A few, and as many as are cut into ten pieces, the last one of which is none of the others' length; of one type and
  // world into more than are under way at once.
  const bool many = context.parameters().text("values") == "many";
  const DType dtype = context.parameters().dtype();
  const std::size_t bytes = dtype == DType::f64 && context.size() == 2 ? 2'400'056 : 600'014;
  Tensor messages = tensor_of(context, dtype, many ? bytes / size_of(dtype) : 3), single = tensor_of(context, dtype, 1);
  Tensor met = messages, met_single = single;
  WireOfMessages wire(context.world().duplicate());
  PushSum by_messages(wire, graph, mixing, {.heartbeat = kPatience});
  PushSum by_any(context.world(), graph, mixing, {.heartbeat = kPatience});
  const std::array<Buffer, 2> x{messages.buffer(), single.buffer()}, y{met.buffer(), met_single.buffer()};
  for (int round = 0; round < 4; ++round) {
    by_messages.mix(x);
    by_any.mix(y);
    EXPECT_EQ(by_any.weight(), by_messages.weight()) << "GOSSIP-200: the weight after round " << round;
    EXPECT_EQ(by_any.round(), by_messages.round()) << "GOSSIP-200";
    EXPECT_TRUE(met.bytes == messages.bytes)
        << "GOSSIP-200: element " << first_difference(met, messages) << " after round " << round;
    EXPECT_TRUE(met_single.bytes == single.bytes) << "GOSSIP-200: the single element after round " << round;
  }
}

bool meets_one(const Graph& graph, int node, std::int64_t round) {
  const gossip::Peers peers = graph.peers(node, round);
  if (peers.out.size() != 1 || peers.in != peers.out) return false;
  const gossip::Peers theirs = graph.peers(peers.out.front(), round);
  return theirs.out == std::vector{node} && theirs.in == theirs.out;
}

// A node fails the group instead of a round that others have begun or even made; all go over to another group, which
// makes the round as the first one would have, or by messages.
void cut(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const auto mixing = live_mixing(context.parameters().text("mixing"));
  auto first = context.world().duplicate();
  auto second = context.world().duplicate();
  const std::string& again = context.parameters().text("again");
  if (again == "by_messages" || (again == "by_messages_of_one" && context.rank() == 0))
    second = std::make_unique<WireOfMessages>(std::move(second));
  const auto quiet = context.world().duplicate();
  const bool is_whole = first->pair_exchanges() != nullptr && meets_one(graph, context.rank(), graph.round_after(1));
  PushSum undisturbed(*quiet, graph, mixing, {.heartbeat = kPatience});
  PushSum disturbed(*first, graph, mixing, {.heartbeat = kPatience});
  std::vector<double> smooth = start_of(context, 5).numerators[static_cast<std::size_t>(context.rank())],
                      rough = smooth;
  const auto make_round = [&](PushSum& push_sum, std::vector<double>& x) { push_sum.mix(buffer_of(x)); };
  make_round(disturbed, rough);
  context.world().barrier();
  const std::vector<double> before = rough;
  if (context.rank() == 0) {
    first->abort("a check cuts the wires");
  } else {
    try {
      make_round(disturbed, rough);
    } catch (const Error&) {
      EXPECT_EQ(disturbed.reported_weight(), -1) << "GOSSIP-201";
      if (is_whole) {
        EXPECT_EQ(rough, before) << "GOSSIP-201: values of a round that was cut";
      }
    }
  }
  disturbed.retry(*second, std::array{buffer_of(rough)});
  if (context.rank() == 0) make_round(disturbed, rough);
  make_round(disturbed, rough);
  for (int round = 0; round < 3; ++round) make_round(undisturbed, smooth);
  EXPECT_EQ(rough, smooth) << "GOSSIP-201";
  EXPECT_EQ(disturbed.reported_weight(), undisturbed.weight()) << "GOSSIP-201: the weight";
}

// One node's wire, or nobody's, lets nothing through but messages. If one's does, no node exchanges in place, and the
// values are those of nodes that do.
void some_alone(Context& context) {
  const Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const std::string& alone = context.parameters().text("wire");
  const bool is_alone = alone != "of_nobody";
  const auto quiet = context.world().duplicate();
  auto counting = std::make_unique<CountingExchanges>(context.world().duplicate());
  const CountingExchanges& counted = *counting;
  std::unique_ptr<comm::Communicator> wire = std::move(counting);
  if (is_alone && context.rank() == (alone == "of_first" ? 0 : context.size() - 1))
    wire = std::make_unique<WireOfMessages>(std::move(wire));
  PushSum push_sum(*wire, graph, live_mixing("skewed"), {.heartbeat = kPatience});
  PushSum unchanged(*quiet, graph, live_mixing("skewed"), {.heartbeat = kPatience});
  World expected = start_of(context, 2);
  std::vector<double> x = expected.numerators[static_cast<std::size_t>(context.rank())], smooth = x;
  for (int round = 0; round < 4; ++round) {
    push_sum.mix(buffer_of(x));
    unchanged.mix(buffer_of(smooth));
    EXPECT_EQ(x, smooth) << "GOSSIP-202: values after round " << round;
    deal_out(expected, graph, "skewed", round);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(x[i], expected.numerators[static_cast<std::size_t>(context.rank())][i], 1e-13)
          << "GOSSIP-202: element " << i << " after round " << round;
  }
  if (is_alone) {
    EXPECT_EQ(counted.exchanges, 0) << "GOSSIP-202: exchanges in place beside a node of messages only";
  }
}

}  // namespace

void add_gossip_meeting_checks(suite::Suite& suite) {
  using comm::Capability;
  const suite::Axis mixing{"mixing", {"uniform", "skewed"}};
  suite.add({.id = "gossip.meeting.equals_messages",
             .verifies = {"GOSSIP-200@e23b"},
             .axes = {{"graph", {"n-peer-exponential", "random-matching", "hub"}},
                      mixing,
                      suite::floating_dtypes(),
                      {"values", {"few", "many"}},
                      suite::worlds({2, 3, 4})},
             .body = equals_messages});
  suite.add({.id = "gossip.meeting.cut",
             .verifies = {"GOSSIP-201@7efb"},
             .axes = {{"graph", {"n-peer-exponential", "hub"}},
                      mixing,
                      {"again", {"alike", "by_messages", "by_messages_of_one"}},
                      suite::worlds({2, 4, 6})},
             .needs = {Capability::failure_detection},
             .spoils_group = true,
             .body = cut});
  suite.add({.id = "gossip.meeting.some_alone",
             .verifies = {"GOSSIP-202@56c6"},
             .axes = {{"graph", {"n-peer-exponential", "random-matching"}},
                      {"wire", {"of_first", "of_last", "of_nobody"}},
                      suite::worlds({2, 4, 6})},
             .spoils_group = true,
             .body = some_alone});
}

}  // namespace plumbline::conformance
