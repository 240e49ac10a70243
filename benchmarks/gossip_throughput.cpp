#include "benchmarks/gossip_throughput.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "benchmarks/slow_links.hpp"
#include "reference/comm/errors.hpp"
#include "reference/gossip/push_sum.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::bench {
namespace {

using comm::Buffer;
using comm::Call;
using comm::Communicator;
using comm::DType;
using gossip::Graph;
using gossip::GraphKind;

constexpr std::array<SlowLink, 2> kLinks{{{.name = "ethernet", .latency = 1e-3, .bandwidth = 12.5e6},
                                          {.name = "wide_area", .latency = 1e-2, .bandwidth = 12.5e6}}};

// The parameters of a rank, all of one value: a mean leaves a value between the ranks' own.
class Round : public Operation {
 public:
  Round(Communicator& world, std::int64_t bytes) : world_(world), values_(static_cast<std::size_t>(bytes) / 4) {}
  [[nodiscard]] std::int64_t bytes() const override { return std::ssize(values_) * 4; }
  [[nodiscard]] std::map<std::string, double> derived() const override {
    return {{"bytes_sent_per_rank", sent_bytes()}};
  }
  // What all have in all, before and behind a round: no mass is lost.
  std::optional<bool> check() override {
    if (values_.empty()) return std::nullopt;
    std::ranges::fill(values_, static_cast<float>(world_.rank() + 1));
    const double before = mass();
    run();
    const bool right = std::abs(mass() - before) <= 1e-5 * before && is_right();
    std::ranges::fill(values_, 0.0F);  // rounds repeat: values must not grow
    return right;
  }

 protected:
  [[nodiscard]] virtual double sent_bytes() const = 0;
  // What else is to be right where each rank has had its number, from 1 on.
  [[nodiscard]] virtual bool is_right() { return true; }
  [[nodiscard]] static bool are_all(std::span<const float> values, double right) {
    return std::ranges::all_of(values, [right](float value) { return std::abs(value - right) <= 1e-5 * right; });
  }
  [[nodiscard]] bool are_mean() const { return are_all(values_, (ranks() + 1) / 2.0); }
  [[nodiscard]] Buffer buffer() { return {values_.data(), std::ssize(values_), DType::f32}; }
  [[nodiscard]] std::span<float> values() { return values_; }
  void exchange_values(std::vector<float>& others) { values_.swap(others); }
  [[nodiscard]] Communicator& world() const { return world_; }
  [[nodiscard]] int ranks() const { return world_.size(); }

 private:
  double mass() {
    double sum = values_.front() + values_.back();
    world_.all_reduce({&sum, 1, DType::f64}, {&sum, 1, DType::f64}, comm::ReduceOp::sum);
    return sum;
  }
  Communicator& world_;
  std::vector<float> values_;
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

// What a round with one peer moves, and nothing else: the same values each time, which the receiver may still have in its
// cache, or what the last exchange brought, which are as new to it as those of a round.
class Exchange final : public Round {
 public:
  Exchange(Communicator& group, std::int64_t bytes, bool passes_on)
      : Round(group, bytes), passes_on_(passes_on), came_(static_cast<std::size_t>(bytes) / 4) {}
  void run() override {
    const int next = (world().rank() + 1) % ranks(), before = (world().rank() + ranks() - 1) % ranks();
    const std::array<Call, 2> calls{{{.operation = comm::Operation::send, .root = next, .in = buffer(), .out = {}},
                                     {.operation = comm::Operation::recv,
                                      .root = before,
                                      .in = {},
                                      .out = {came_.data(), std::ssize(came_), DType::f32}}}};
    world().start(calls).wait();
    if (passes_on_) exchange_values(came_);
  }

 protected:
  [[nodiscard]] double sent_bytes() const override { return static_cast<double>(bytes()); }
  [[nodiscard]] bool is_right() override {
    const std::span<const float> came = passes_on_ ? values() : came_;
    return are_all(came, (world().rank() + ranks() - 1) % ranks() + 1);
  }

 private:
  bool passes_on_;
  std::vector<float> came_;
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
  Gossip(Communicator& group, std::int64_t bytes, const GossipKind& kind)
      : Round(group, bytes),
        wire_(kind.link ? over_slow_links(group.duplicate(), *kind.link) : nullptr),
        push_sum_(wire_ ? *wire_ : group, Graph({.kind = kind.graph, .nodes = group.size(), .peers = kind.peers}),
                  kind.mixing, {.confirms = kind.confirms}) {}
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
      : Round(group, bytes),
        wire_(over_slow_links(group.duplicate(), link)),
        space_(static_cast<std::size_t>(bytes) / 4 / static_cast<std::size_t>(group.size()) + 1) {}
  void run() override { ring_all_reduce_mean(*wire_, values(), space_); }

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
  Step(Communicator& group, std::int64_t bytes, const std::optional<slowmo::Options>& options)
      : Round(group, bytes), gradients_(static_cast<std::size_t>(bytes) / 4) {
    if (!options) return;
    slowmo_.emplace(
        group, slowmo::Tensors{.parameters = {buffer()}},
        [this] { return std::vector<slowmo::ParameterGroup>{{{buffer()}, kRate}}; }, *options);
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
    const Buffer gradients{gradients_.data(), std::ssize(gradients_), DType::f32};
    if (slowmo_) slowmo_->after_backward(std::span(&gradients, 1));
    float* const x = values().data();
    const float* const gradient = gradients_.data();
    for (std::size_t i = 0; i < gradients_.size(); ++i) x[i] -= static_cast<float>(kRate) * gradient[i];
    if (slowmo_) slowmo_->step();
  }
  static constexpr double kRate = 0.125;
  std::vector<float> gradients_;
  std::optional<slowmo::SlowMo> slowmo_;
};

using Prepare = std::function<std::unique_ptr<Operation>(Communicator&, std::int64_t bytes)>;

Prepare gossip_of(const GossipKind& kind) {
  return [kind](Communicator& group, std::int64_t bytes) { return std::make_unique<Gossip>(group, bytes, kind); };
}
Prepare step_of(const std::optional<slowmo::Options>& options) {
  return [options](Communicator& group, std::int64_t bytes) { return std::make_unique<Step>(group, bytes, options); };
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
                               return prepare(world, parameters.bytes);
                             }});
    registry_.back().fits = std::move(fits);
  }
  void add_gossip(const std::string& name, const std::string& title, const GossipKind& kind) {
    add(name, title, gossip_of(kind), [kind](int world) { return bench::fits(kind, world); });
  }

 private:
  Registry& registry_;
};

void add_rounds(Adder& adder) {
  adder.add("rounds.all_reduce", "an average over all ranks",
            [](Communicator& group, std::int64_t bytes) { return std::make_unique<AllReduce>(group, bytes); });
  adder.add("rounds.exchange", "a message to the next rank, and one of the rank before",
            [](Communicator& group, std::int64_t bytes) { return std::make_unique<Exchange>(group, bytes, false); });
  adder.add("rounds.exchange_on", "the same, of what the last one brought",
            [](Communicator& group, std::int64_t bytes) { return std::make_unique<Exchange>(group, bytes, true); });
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
    const std::string name = "network." + std::string(link.name);
    adder.add(name + ".all_reduce", "a ring's all-reduce over slow links",
              [link](Communicator& group, std::int64_t bytes) {
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
