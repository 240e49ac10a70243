#include "benchmarks/gossip_throughput.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "benchmarks/memory.hpp"
#include "benchmarks/slow_links.hpp"
#include "reference/comm/errors.hpp"
#include "reference/gossip/push_sum.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::bench {
namespace {

using comm::Buffer;
using comm::Call;
using comm::Communicator;
using comm::DType;
using device::MemorySpace;
using gossip::Graph;
using gossip::GraphKind;

constexpr const char* kNetworks = "network.";
constexpr std::array<SlowLink, 2> kLinks{{{.name = "ethernet", .latency = 1e-3, .bandwidth = 12.5e6},
                                          {.name = "wide_area", .latency = 1e-2, .bandwidth = 12.5e6}}};

// The parameters of a rank: its own number times factors that depend on the place. A mean leaves a number between the
// ranks' own.
class Round : public Operation {
 public:
  Round(Communicator& world, const MemorySpace& place, std::int64_t bytes)
      : world_(world), values_(place, bytes / 4), sum_(place, 1, DType::f64) {}
  [[nodiscard]] std::int64_t bytes() const override { return values_.elements() * 4; }
  [[nodiscard]] std::map<std::string, double> derived() const override {
    return {{"bytes_sent_per_rank", sent_bytes()}};
  }
  // What all have in all, before and after a round: no mass is lost.
  std::optional<bool> check() override {
    if (values_.elements() == 0) return std::nullopt;
    std::vector<float> own = factors();
    for (float& value : own) value *= static_cast<float>(world_.rank() + 1);
    values_.put(0, values_.elements(), std::as_bytes(std::span(own)));
    const double before = mass();
    run();
    const bool right = std::abs(mass() - before) <= kTolerance * before && is_right();
    values_.fill(0);  // rounds repeat: values must not grow
    return right;
  }

 protected:
  static constexpr double kTolerance = 1e-5;
  [[nodiscard]] virtual double sent_bytes() const = 0;
  // What else is to be right where each rank has had its number, from 1 on.
  [[nodiscard]] virtual bool is_right() { return true; }
  [[nodiscard]] bool are_mean() const { return values_.all_are_near((ranks() + 1) / 2.0, kTolerance, factors()); }
  // From 1 to 2, of a place; they repeat after a prime number of places.
  [[nodiscard]] static std::vector<float> factors() {
    std::vector<float> list(127);
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = 1 + static_cast<float>(i) / 128;
    return list;
  }
  [[nodiscard]] Buffer buffer() const { return values_.buffer(); }
  [[nodiscard]] Memory& values() { return values_; }
  [[nodiscard]] const MemorySpace& place() const { return values_.place(); }
  [[nodiscard]] Communicator& world() const { return world_; }
  [[nodiscard]] int ranks() const { return world_.size(); }

 private:
  // A group may know no other memory than the place's.
  double mass() {
    double sum = values_.at(0) + values_.at(values_.elements() - 1);
    set_bytes(place(), sum_.buffer(), std::as_bytes(std::span(&sum, 1)));
    world_.all_reduce(sum_.buffer(), sum_.buffer(), comm::ReduceOp::sum);
    std::memcpy(&sum, bytes_of(place(), sum_.buffer()).data(), sizeof sum);
    return sum;
  }
  Communicator& world_;
  Memory values_, sum_;
};

class AllReduce final : public Round {
 public:
  using Round::Round;
  void run() override { world().all_reduce(buffer(), buffer(), comm::ReduceOp::avg); }

 protected:
  [[nodiscard]] double sent_bytes() const override {
    return 2.0 * (ranks() - 1) / ranks() * static_cast<double>(bytes());
  }
  [[nodiscard]] bool is_right() override { return are_mean(); }
};

// What a round with one peer moves, and nothing else: the same values each time, which the receiver may still have in
// its cache, or what the last exchange brought, which are as new to it as those of a round.
class Exchange final : public Round {
 public:
  Exchange(Communicator& group, const MemorySpace& at, std::int64_t bytes, bool passes_on)
      : Round(group, at, bytes), passes_on_(passes_on), came_(at, bytes / 4) {}
  void run() override {
    const int next = (world().rank() + 1) % ranks(), before = (world().rank() + ranks() - 1) % ranks();
    const std::array<Call, 2> calls{
        {{.operation = comm::Operation::send, .root = next, .in = buffer(), .out = {}},
         {.operation = comm::Operation::recv, .root = before, .in = {}, .out = came_.buffer()}}};
    world().start(calls).wait();
    if (passes_on_) std::swap(values(), came_);
  }

 protected:
  [[nodiscard]] double sent_bytes() const override { return static_cast<double>(bytes()); }
  [[nodiscard]] bool is_right() override {
    return (passes_on_ ? values() : came_)
        .all_are_near((world().rank() + ranks() - 1) % ranks() + 1, kTolerance, factors());
  }

 private:
  bool passes_on_;
  Memory came_;
};

struct GossipKind {
  GraphKind graph = GraphKind::n_peer_exponential;
  int peers = 1;  // 0: all neighbours
  gossip::Mixing mixing{};
  bool confirms = false;
  std::optional<SlowLink> link{};
};

class Gossip final : public Round {
 public:
  Gossip(Communicator& group, const MemorySpace& at, std::int64_t bytes, const GossipKind& kind)
      : Round(group, at, bytes),
        wire_(kind.link ? over_slow_links(group.duplicate(), *kind.link) : nullptr),
        push_sum_(wire_ ? *wire_ : group, Graph({.kind = kind.graph, .nodes = group.size(), .peers = kind.peers}),
                  kind.mixing, {.confirms = kind.confirms, .device = at.use()}) {}
  void run() override { push_sum_.mix(buffer()); }
  [[nodiscard]] std::map<std::string, double> derived() const override {
    auto derived = Round::derived();
    derived["peers"] = static_cast<double>(push_sum_.graph().peers(0, 0).out.size());
    return derived;
  }

 protected:
  [[nodiscard]] double sent_bytes() const override {
    return static_cast<double>(push_sum_.bytes_per_round(bytes() / 4, DType::f32));
  }

 private:
  std::unique_ptr<Communicator> wire_;
  gossip::PushSum push_sum_;
};

class SlowAllReduce final : public Round {
 public:
  SlowAllReduce(Communicator& group, std::int64_t bytes, SlowLink link)
      : Round(group, {}, bytes),
        wire_(over_slow_links(group.duplicate(), link)),
        space_(static_cast<std::size_t>(bytes) / 4 / static_cast<std::size_t>(group.size()) + 1) {}
  void run() override { ring_all_reduce_mean(*wire_, values().floats(), space_); }

 protected:
  [[nodiscard]] double sent_bytes() const override {
    return 2.0 * (ranks() - 1) / ranks() * static_cast<double>(bytes());
  }
  [[nodiscard]] bool is_right() override { return are_mean(); }

 private:
  std::unique_ptr<Communicator> wire_;
  std::vector<float> space_;
};

// Steps of SGD, in SlowMo's wrapper or without: as many as it takes until all is done that is done every few steps.
class Step final : public Round {
 public:
  Step(Communicator& group, const MemorySpace& at, std::int64_t bytes, const std::optional<slowmo::Options>& options)
      : Round(group, at, bytes), gradients_(at, bytes / 4) {
    if (!options) return;
    slowmo::Options here = *options;
    here.device = at.use();
    slowmo_.emplace(
        group, slowmo::Tensors{.parameters = {buffer()}},
        [this] { return std::vector<slowmo::ParameterGroup>{{{buffer()}, kRate}}; }, here);
  }
  void run() override {
    for (int i = 0; i < kSteps; ++i) step();
  }
  // Slow momentum moves the mean.
  std::optional<bool> check() override { return std::nullopt; }
  [[nodiscard]] std::map<std::string, double> derived() const override { return {{"steps", kSteps}}; }

  static constexpr int kSteps = 6;

 protected:
  [[nodiscard]] double sent_bytes() const override { return 0; }

 private:
  void step() {
    if (slowmo_) slowmo_->before_forward();
    if (slowmo_) slowmo_->after_backward(std::array{gradients_.buffer()});
    place().is_host() ? step_on_host() : step_on_device();
    if (slowmo_) slowmo_->step();
  }
  void step_on_host() {
    float* const x = values().floats().data();
    const std::span<const float> gradients = gradients_.floats();
    for (std::size_t i = 0; i < gradients.size(); ++i) x[i] -= static_cast<float>(kRate) * gradients[i];
  }
  // The kernel there has no rate: the gradients, which are zeros, are those of a loss that is so much smaller.
  void step_on_device() const {
    slowmo::subtract(place(), std::array{slowmo::TensorPair{gradients_.buffer(), buffer()}});
  }
  static constexpr double kRate = 0.125;
  Memory gradients_;
  std::optional<slowmo::SlowMo> slowmo_;
};

using Prepare = std::function<std::unique_ptr<Operation>(Communicator&, const MemorySpace&, std::int64_t bytes)>;

Prepare gossip_of(const GossipKind& kind) {
  return [kind](Communicator& group, const MemorySpace& place, std::int64_t bytes) {
    return std::make_unique<Gossip>(group, place, bytes, kind);
  };
}
Prepare step_of(const std::optional<slowmo::Options>& options) {
  return [options](Communicator& group, const MemorySpace& place, std::int64_t bytes) {
    return std::make_unique<Step>(group, place, bytes, options);
  };
}

bool fits(const GossipKind& kind, int world) {
  try {
    return Graph({.kind = kind.graph, .nodes = world, .peers = kind.peers}).nodes() > 1;
  } catch (const InvalidArgument&) {
    return false;
  }
}

class Adder {
 public:
  explicit Adder(Registry& registry) : registry_(registry) {}
  void add(
      const std::string& name, const std::string& title, const Prepare& prepare,
      std::function<bool(int world)> fits = [](int world) { return world > 1; }) {
    registry_.push_back({.name = "gossip_throughput." + name,
                         .title = title,
                         .busbw_factor = [](int) { return 1.0; },
                         .prepare =
                             [prepare](Communicator& world, const Parameters& parameters) {
                               if (parameters.dtype != DType::f32)
                                 throw Unsupported("the benchmark of gossip takes dtype f32");
                               return prepare(world, parameters.place, parameters.bytes);
                             }});
    registry_.back().fits = std::move(fits);
    if (name.starts_with(kNetworks)) registry_.back().only_on_host = "its slow links are emulated there";
  }
  void add_gossip(const std::string& name, const std::string& title, const GossipKind& kind) {
    add(name, title, gossip_of(kind), [kind](int world) { return bench::fits(kind, world); });
  }

 private:
  Registry& registry_;
};

void add_rounds(Adder& adder) {
  const auto exchange = [](bool passes_on) -> Prepare {
    return [passes_on](Communicator& group, const MemorySpace& place, std::int64_t bytes) {
      return std::make_unique<Exchange>(group, place, bytes, passes_on);
    };
  };
  adder.add("rounds.all_reduce", "an average over all ranks",
            [](Communicator& group, const MemorySpace& place, std::int64_t bytes) {
              return std::make_unique<AllReduce>(group, place, bytes);
            });
  adder.add("rounds.exchange", "a message to the next rank, and one of the rank before", exchange(false));
  adder.add("rounds.exchange_on", "the same, of what the last one brought", exchange(true));
  for (const GraphKind graph : gossip::kNamedGraphs) {
    const std::string name = "rounds." + std::string(name_of(graph));
    const bool takes_all = Graph({.kind = graph, .nodes = 2}).peers_per_round() == 0;
    if (takes_all) adder.add_gossip(name + ".all", "gossip with all neighbours", {.graph = graph, .peers = 0});
    for (int peers = 1; peers <= 3 && !takes_all; ++peers)
      adder.add_gossip(name + ".p" + std::to_string(peers), "gossip with " + std::to_string(peers) + " a round",
                       {.graph = graph, .peers = peers});
  }
  adder.add_gossip("rounds.confirmed", "gossip with one a round, who says that it came", {.confirms = true});
  adder.add_gossip("rounds.skewed", "gossip with one a round, uneven shares",
                   {.mixing = {.kind = gossip::MixingKind::skewed}});
}

void add_steps(Adder& adder) {
  using slowmo::BaseAlgorithm;
  const auto alone = [](BaseAlgorithm base, int every) {
    return slowmo::Options{.base = base, .slow_momentum = 0, .local_sgd_frequency = every};
  };
  const auto slow = [](BaseAlgorithm base, bool efficient) {
    return slowmo::Options{.base = base, .slow_frequency = Step::kSteps, .memory_efficient = efficient};
  };
  adder.add("step.base", "six steps of SGD", step_of({}));
  adder.add("step.all_reduce", "the same, with an average of all parameters in each",
            step_of(alone(BaseAlgorithm::local_sgd, 1)));
  adder.add("step.local_sgd", "the same, with one every 3 steps", step_of(alone(BaseAlgorithm::local_sgd, 3)));
  adder.add("step.sgp", "six steps of SGD, with a round of gossip in each", step_of(alone(BaseAlgorithm::sgp, 1)));
  for (const bool efficient : {true, false}) {
    const std::string memory = efficient ? "in shards" : "whole", suffix = efficient ? ".shards" : ".whole";
    adder.add("step.slow_local_sgd" + suffix, "LocalSGD, and slow momentum every 6 steps, " + memory,
              step_of(slow(BaseAlgorithm::local_sgd, efficient)));
    adder.add("step.slow_sgp" + suffix, "gossip, and slow momentum every 6 steps, " + memory,
              step_of(slow(BaseAlgorithm::sgp, efficient)));
  }
}

void add_networks(Adder& adder) {
  for (const SlowLink link : kLinks) {
    const std::string name = kNetworks + std::string(link.name);
    adder.add(name + ".all_reduce", "a ring's all-reduce over slow links",
              [link](Communicator& group, const MemorySpace&, std::int64_t bytes) {
                return std::make_unique<SlowAllReduce>(group, bytes, link);
              });
    for (int peers = 1; peers <= 3; ++peers)
      adder.add_gossip(name + ".p" + std::to_string(peers), "gossip over slow links", {.peers = peers, .link = link});
  }
}

}  // namespace

void add_gossip_throughput(Registry& registry) {
  Adder adder(registry);
  add_rounds(adder);
  add_steps(adder);
  add_networks(adder);
}

}  // namespace plumbline::bench
