// Gossip of tensors in memory of devices: the bits of the host, in the order of streams, without a wait of the host.
#include <array>
#include <chrono>

#include <gtest/gtest.h>

#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/gossip/live_gossip.hpp"
#include "conformance/gossip/wires.hpp"
#include "conformance/support/device_tensors.hpp"
#include "conformance/support/refusal.hpp"
#include "reference/comm/errors.hpp"
#include "reference/gossip/gossip_thread.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::conformance {

using comm::Buffer;
using comm::DType;
using device::OwnStream;
using gossip::GossipThread;
using gossip::PushSum;
using suite::Context;
using suite::DeviceSeat;
using namespace std::chrono_literals;

namespace {

constexpr auto kSlow = 10ms;  // of a producer that a round which does not wait for it overtakes
constexpr int kRounds = 3;

// Of one type, or of several: odd lengths, at odd places, around vectors and blocks of kernels.
std::vector<TensorShape> shapes_of(const std::string& types) {
  if (types == "several") return {{DType::f32, 33, 1}, {DType::f64, 7, 0}, {DType::f16, 100, 3}, {DType::f32, 1, 0}};
  const DType dtype = comm::parse_dtype(types).value();
  return {{dtype, 1, 1}, {dtype, 7, 3}, {dtype, 0, 0}, {dtype, 16384 + 3, 0}, {dtype, 33, 2}};
}

gossip::PushSumOptions options_of(const std::string& kind) {
  return {.algorithm = kind == "push-pull" ? gossip::Algorithm::push_pull : gossip::Algorithm::push_sum,
          .fuse = kind == "fused"};
}
gossip::Mixing mixing_of(const std::string& kind) {
  return live_mixing(kind == "skewed" || kind == "fused" ? "skewed" : "uniform");
}

std::uint64_t seed_of(Context& context, int round) {
  return context.seed() * 100 + static_cast<std::uint64_t>(context.rank() * 10 + round);
}

// Fresh values in each round, of which one rank's come late: the streams of all are full when the first round is made.
// After it all go over to another group.
void rounds(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  const std::string kind = context.parameters().text("kind");
  const auto shapes = shapes_of(context.parameters().text("types"));
  const gossip::Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const OwnStream stream(seat.runtime, seat.device.index);
  const auto on_host = context.world().duplicate(), on_device = context.world().duplicate(),
             elsewhere = context.world().duplicate();
  auto options = options_of(kind);
  PushSum expected(*on_host, graph, mixing_of(kind), options);
  options.device = {seat.runtime, stream.get()};
  std::vector<HostTensors> given, right;
  DeviceTensors x(seat, shapes, stream.get());
  PushSum tested(*on_device, graph, mixing_of(kind), options);
  for (int round = 0; round < kRounds; ++round) {
    given.emplace_back(shapes, seed_of(context, round));
    right.emplace_back(shapes, seed_of(context, round));
  }
  for (int round = 0; round < kRounds; ++round) {
    if (round % context.size() == context.rank()) seat.runtime->pause(seat.device.index, kSlow, stream.get());
    if (round == 1) tested.reconnect(*elsewhere);
    x.take(given[static_cast<std::size_t>(round)]);
    tested.mix(x.views());
    x.note();
  }
  for (int round = 0; round < kRounds; ++round) {
    expected.mix(right[static_cast<std::size_t>(round)].views());
    EXPECT_EQ(x.difference(right[static_cast<std::size_t>(round)]), "") << "GOSSIP-180, GOSSIP-181: round " << round;
  }
  EXPECT_EQ(tested.weight(), expected.weight()) << "GOSSIP-180";
}

// A round lets the host go on while what it mixes is not there yet.
void host_goes_on(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  const bool beside = context.parameters().text("how") == "thread";
  const auto shapes = shapes_of("several");
  const gossip::Graph graph = live_graph("hub", context.size());
  const OwnStream stream(seat.runtime, seat.device.index);
  const gossip::PushSumOptions options{.device = {seat.runtime, stream.get()}};
  const HostTensors values(shapes, seed_of(context, 0));
  DeviceTensors x(seat, shapes, stream.get());
  const auto own = context.world().duplicate();
  PushSum push_sum(*own, graph, {}, options);
  GossipThread thread(context.world().duplicate(), graph, {}, options);
  const auto round = [&] {
    if (!beside) return push_sum.mix(x.views());
    EXPECT_TRUE(thread.hand_over(x.views())) << "GOSSIP-181";
    EXPECT_EQ(thread.collect(x.views(), true), GossipThread::Collected::mixed) << "GOSSIP-181";
  };
  x.take(values);
  for (int warm = 0; warm < 2; ++warm)
    round();  // graphs that turn have two kinds of rounds; memory is there afterwards
  expect_host_goes_on(context, "GOSSIP-181", stream.get(), round);
}

// The caller's stream goes on changing its values while those that it handed over are exchanged in another one.
void beside(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  const auto shapes = shapes_of(context.parameters().text("types"));
  const gossip::Graph graph = live_graph(context.parameters().text("graph"), context.size());
  const OwnStream stream(seat.runtime, seat.device.index);
  const device::MemorySpace place({seat.runtime, stream.get()}, seat.device.index);
  gossip::PushSumOptions options;
  GossipThread expected(context.world().duplicate(), graph, {}, options);
  options.device = place.use();
  options.use_streams = context.parameters().text("streams") == "own";
  std::vector<HostTensors> noise, right;
  for (int round = 0; round < kRounds; ++round) {
    noise.emplace_back(shapes, seed_of(context, round));
    right.emplace_back(shapes, seed_of(context, kRounds));
  }
  const HostTensors begin(shapes, seed_of(context, kRounds));
  DeviceTensors x(seat, shapes, stream.get()), fresh(seat, shapes, stream.get());
  GossipThread tested(context.world().duplicate(), graph, {}, options);
  const auto pairs = [](const auto& from, const auto& to) {
    std::vector<gossip::TensorPair> list;
    for (std::size_t i = 0; i < from.views().size(); ++i) list.push_back({from.views()[i], to.views()[i]});
    return list;
  };
  x.take(begin);
  for (int round = 0; round < kRounds; ++round) {
    if (round % context.size() == context.rank()) seat.runtime->pause(seat.device.index, kSlow, stream.get());
    fresh.take(noise[static_cast<std::size_t>(round)]);
    gossip::add(place, pairs(fresh, x));
    EXPECT_TRUE(tested.hand_over(x.views())) << "GOSSIP-182";
    gossip::add(place, pairs(fresh, x));
    EXPECT_EQ(tested.collect(x.views(), true), GossipThread::Collected::mixed) << "GOSSIP-182";
    x.note();
  }
  for (std::size_t round = 0; round < kRounds; ++round) {
    HostTensors& values = right[round];
    if (round > 0) device::MemorySpace().copy(pairs(right[round - 1], values));
    gossip::add({}, pairs(noise[round], values));
    EXPECT_TRUE(expected.hand_over(values.views())) << "GOSSIP-182";
    gossip::add({}, pairs(noise[round], values));
    EXPECT_EQ(expected.collect(values.views(), true), GossipThread::Collected::mixed) << "GOSSIP-182";
    EXPECT_EQ(x.difference(values), "") << "GOSSIP-182: round " << round;
  }
  EXPECT_EQ(tested.weight(), expected.weight()) << "GOSSIP-182";
}

template <class Refusal>
void refuses_round(PushSum& push_sum, std::span<const Buffer> x, const std::vector<std::string>& words) {
  expect_refused<Refusal>("GOSSIP-183", [&] { push_sum.mix(x); }, words);
}

void refuses(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  const std::string name = comm::name_of(seat.device);
  const gossip::Graph graph = live_graph("hub", context.size());
  const OwnStream stream(seat.runtime, seat.device.index);
  const gossip::PushSumOptions options{.heartbeat = 60s, .device = {seat.runtime, stream.get()}};
  const std::vector<TensorShape> shapes{{DType::f32, 5, 0}, {DType::f32, 3, 0}};
  HostTensors host(shapes, seed_of(context, 0)), right(shapes, seed_of(context, 0));
  DeviceTensors x(seat, shapes, stream.get());
  x.take(host);
  const std::array mixed{x.views()[0], host.views()[1]};
  PushSum push_sum(context.world(), graph, {}, options);
  refuses_round<InvalidArgument>(push_sum, mixed, {"tensor 1", "cpu", name});
  EXPECT_EQ(push_sum.round(), 0) << "GOSSIP-183: something has happened";
  // What came for a tensor lies where the tensor does.
  const device::MemorySpace place({seat.runtime, stream.get()}, seat.device.index);
  for (const auto& [to, from] : {std::pair{x.views()[0], host.views()[0]}, std::pair{host.views()[0], x.views()[0]}}) {
    const std::array<gossip::Arrivals, 1> tensors{{{.x = to, .came = {from}}}};
    expect_refused<InvalidArgument>("GOSSIP-183", [&] { gossip::mix(place, tensors, {}); }, {"cpu", name});
  }
  PushSum without(context.world(), graph, {}, {});
  refuses_round<Unsupported>(without, x.views(), {name, "no runtime"});
  const auto of_host = std::make_unique<WireOfTheHost>(context.world().duplicate());
  PushSum unserved(*of_host, graph, {}, options);
  refuses_round<Unsupported>(unserved, x.views(), {name, "takes that of cpu"});
  push_sum.mix(x.views());
  x.note();
  refuses_round<InvalidArgument>(push_sum, host.views(), {"tensor 0", "cpu", name});
  PushSum expected(context.world(), graph, {}, {.heartbeat = 60s});
  expected.mix(right.views());
  EXPECT_EQ(x.difference(right), "") << "GOSSIP-183: a right round after the refusals";
}

}  // namespace

void add_gossip_device_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, std::vector<std::string> requirements, std::vector<suite::Axis> axes,
                       void (*body)(Context&), std::vector<int> worlds, std::chrono::seconds limit = 60s) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("gossip.device.") + name,
               .verifies = std::move(requirements),
               .axes = std::move(axes),
               .needs = {comm::Capability::thread_multiple},
               .limit = limit,
               .on_device = true,
               .beside_host = true,
               .body = body});
  };
  const suite::Axis types{"types", {"f16", "bf16", "f32", "f64", "several"}};
  add("rounds", {"GOSSIP-180@de98", "GOSSIP-181@7474"},
      {{"graph", {"ring", "hub"}}, {"kind", {"uniform", "skewed", "fused", "push-pull"}}, types}, rounds, {1, 2, 3, 5});
  add("host_goes_on", {"GOSSIP-181@7474"}, {{"how", {"mix", "thread"}}}, host_goes_on, {2, 3}, 90s);
  add("beside", {"GOSSIP-182@29dd"},
      {{"graph", {"ring", "hub"}}, {"streams", {"own", "callers"}}, {"types", {"f32", "several"}}}, beside, {1, 2, 3});
  add("refuses", {"GOSSIP-183@e875"}, {}, refuses, {1, 2, 3});
}

}  // namespace plumbline::conformance
