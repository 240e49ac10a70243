// SlowMo, LocalSGD and stochastic gradient push on parameters in memory of devices: the bits of the host, in the order
// of streams, without a wait of the host, and by way of the host where that is wanted.
#include <array>
#include <chrono>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/gossip/wires.hpp"
#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/support/device_tensors.hpp"
#include "conformance/support/refusal.hpp"
#include "reference/comm/errors.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::conformance {

using comm::Buffer;
using comm::Communicator;
using comm::DType;
using device::MemorySpace;
using device::OwnStream;
using slowmo::Options;
using slowmo::SlowMo;
using suite::Context;
using suite::DeviceSeat;
using namespace std::chrono_literals;

namespace {

constexpr auto kSlow = 10ms;  // of gradients that a step which does not wait for them overtakes
constexpr int kSteps = 7;
constexpr double kRate = 0.25;

// By names of cases: what is averaged when. Slow steps fall on steps that average and on others.
Options options_of(const std::string& run, int ranks) {
  Options options{.broadcast_buffers = true, .slow_momentum = 0, .slow_frequency = 3, .local_sgd_frequency = 2};
  const bool is_sgp = run.starts_with("sgp") || run == "overlap";
  if (is_sgp) options.base = slowmo::BaseAlgorithm::sgp;
  if (run == "localsgd-nodes") options.ranks_per_node = 2;
  if (run == "overlap") options.overlap = options.accepts_stale = true;
  if (run == "slowmo-whole" || run == "slowmo-efficient" || run == "sgp-slowmo" || run == "fairscale")
    options.slow_momentum = 0.5;
  options.memory_efficient = run == "slowmo-efficient" || run == "fairscale";
  if (run == "fairscale") options.convention = slowmo::Convention::fairscale;
  if (is_sgp && run != "sgp") options.graph = gossip::Graph({.kind = gossip::GraphKind::star, .nodes = ranks});
  return options;
}

bool has_master_weights(DType type) { return comm::size_of(type) == 2; }

// What a rank trains, on the host or on a device.
struct Tensors {
  std::vector<Buffer> parameters, master_weights, buffers, gradients;
  std::vector<Buffer> descents;     // of the optimizer's type
  std::vector<Buffer> optimized{};  // where they are others than masters or parameters
};

std::vector<gossip::TensorPair> pairs(const std::vector<Buffer>& from, const std::vector<Buffer>& to) {
  std::vector<gossip::TensorPair> list;
  for (std::size_t i = 0; i < to.size(); ++i) list.push_back({from[i], to[i]});
  return list;
}

// Gradients are given; the optimizer is a plain descent, of masters where there are some.
class Trainer {
 public:
  Trainer(Communicator& world, const MemorySpace& place, Tensors tensors, Options options)
      : place_(place), tensors_(std::move(tensors)) {
    options.device = place.use();
    slowmo::Tensors all{.parameters = tensors_.parameters, .buffers = tensors_.buffers};
    if (!tensors_.master_weights.empty()) all.master_weights = tensors_.master_weights;
    slowmo_.emplace(
        world, std::move(all), [this] { return std::vector<slowmo::ParameterGroup>{{optimized(), kRate}}; }, options);
  }
  void step() {
    slowmo_->before_forward();
    slowmo_->after_backward(tensors_.gradients);
    slowmo::copy(place_, pairs(tensors_.gradients, tensors_.descents));
    slowmo::multiply(place_, tensors_.descents, -kRate);
    gossip::add(place_, pairs(tensors_.descents, optimized()));
    if (!tensors_.master_weights.empty()) slowmo::copy(place_, pairs(tensors_.master_weights, tensors_.parameters));
    slowmo_->step();
  }
  [[nodiscard]] const SlowMo& slowmo() const { return *slowmo_; }

 private:
  [[nodiscard]] const std::vector<Buffer>& optimized() const {
    if (!tensors_.optimized.empty()) return tensors_.optimized;
    return tensors_.master_weights.empty() ? tensors_.parameters : tensors_.master_weights;
  }
  MemorySpace place_;
  Tensors tensors_;
  std::optional<SlowMo> slowmo_;
};

struct Shapes {
  explicit Shapes(DType type)
      : parameters{{type, 5, 1}, {type, 33, 0}, {type, 701, 3}},
        master_weights{{DType::f32, 5, 0}, {DType::f32, 33, 1}, {DType::f32, 701, 0}},
        buffers{{DType::f32, 9, 1}, {DType::f64, 2, 0}} {
    if (!has_master_weights(type)) master_weights.clear();
  }
  [[nodiscard]] const std::vector<TensorShape>& optimized() const {
    return master_weights.empty() ? parameters : master_weights;
  }
  std::vector<TensorShape> parameters, master_weights, buffers;
};

// All tensors of a rank in both memories, begun alike.
class BothSides {
 public:
  BothSides(Context& context, DType type, device::Stream stream)
      : shapes_(type),
        seed_(context.seed() * 1000 + static_cast<std::uint64_t>(context.rank()) * 100),
        begin_{HostTensors{shapes_.parameters, seed_}, HostTensors{shapes_.master_weights, seed_},
               HostTensors{shapes_.buffers, seed_ + 1}},
        host_{HostTensors{shapes_.parameters, seed_}, HostTensors{shapes_.master_weights, seed_},
              HostTensors{shapes_.buffers, seed_ + 1}},
        parameters_(context.device_seat(), shapes_.parameters, stream),
        master_weights_(context.device_seat(), shapes_.master_weights, stream),
        buffers_(context.device_seat(), shapes_.buffers, stream),
        gradients_(context.device_seat(), shapes_.parameters, stream),
        descents_(context.device_seat(), shapes_.optimized(), stream),
        gradients_here_(shapes_.parameters, 0),
        descents_here_(shapes_.optimized(), 0) {
    parameters_.take(begin_[0]);
    master_weights_.take(begin_[1]);
    buffers_.take(begin_[2]);
    for (int step = 0; step < kSteps; ++step)
      given_.emplace_back(shapes_.parameters, seed_ + 10 + static_cast<std::uint64_t>(step));
  }
  [[nodiscard]] Tensors there() const {
    return {parameters_.views(), master_weights_.views(), buffers_.views(), gradients_.views(), descents_.views()};
  }
  [[nodiscard]] Tensors here() const {
    return {host_[0].views(), host_[1].views(), host_[2].views(), gradients_here_.views(), descents_here_.views()};
  }
  void give(int step) const { gradients_.take(given_[static_cast<std::size_t>(step)]); }
  void give_here(int step) const {
    device::MemorySpace().copy(pairs(given_[static_cast<std::size_t>(step)].views(), gradients_here_.views()));
  }
  void note() {
    for (DeviceTensors* tensors : {&parameters_, &master_weights_, &buffers_}) tensors->note();
  }
  [[nodiscard]] std::string difference() {
    if (const std::string words = parameters_.difference(host_[0]); !words.empty()) return "parameters: " + words;
    if (const std::string words = master_weights_.difference(host_[1]); !words.empty()) return "masters: " + words;
    if (const std::string words = buffers_.difference(host_[2]); !words.empty()) return "buffers: " + words;
    return {};
  }

 private:
  Shapes shapes_;
  std::uint64_t seed_;
  std::array<HostTensors, 3> begin_, host_;
  DeviceTensors parameters_, master_weights_, buffers_, gradients_, descents_;
  HostTensors gradients_here_, descents_here_;
  std::vector<HostTensors> given_;
};

// Trains on both sides, with gradients of which one rank's come late on the device: all steps are put into the streams
// before anything is looked at.
void train_on_both(Context& context, const std::optional<comm::Device>& communication_device, const char* requirement) {
  const DeviceSeat& seat = context.device_seat();
  const OwnStream stream(seat.runtime, seat.device.index);
  const MemorySpace place({seat.runtime, stream.get()}, seat.device.index);
  Options options = options_of(context.parameters().text("run"), context.size());
  BothSides both(context, context.parameters().dtype(), stream.get());
  const auto on_host = context.world().duplicate();
  auto on_device = context.world().duplicate();
  if (communication_device) on_device = std::make_unique<WireOfTheHost>(std::move(on_device));  // who ignores it fails
  Trainer expected(*on_host, {}, both.here(), options);
  options.communication_device = communication_device;
  Trainer tested(*on_device, place, both.there(), options);
  for (int step = 0; step < kSteps; ++step) {
    if (step % context.size() == context.rank()) seat.runtime->pause(seat.device.index, kSlow, stream.get());
    both.give(step);
    tested.step();
    both.note();
  }
  for (int step = 0; step < kSteps; ++step) {
    both.give_here(step);
    expected.step();
    EXPECT_EQ(both.difference(), "") << requirement << ": step " << step;
  }
  EXPECT_EQ(tested.slowmo().push_sum_weight(), expected.slowmo().push_sum_weight()) << requirement;
  EXPECT_EQ(tested.slowmo().slow_state(), expected.slowmo().slow_state()) << requirement;
}

void steps(Context& context) { train_on_both(context, {}, "SLOWMO-180, SLOWMO-181"); }
void by_way_of_the_host(Context& context) { train_on_both(context, comm::Device{}, "SLOWMO-182"); }

// Steps let the host go on while the gradients are not there yet.
void host_goes_on(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  const OwnStream stream(seat.runtime, seat.device.index);
  const MemorySpace place({seat.runtime, stream.get()}, seat.device.index);
  const BothSides both(context, context.parameters().dtype(), stream.get());
  const auto group = context.world().duplicate();
  Trainer tested(*group, place, both.there(), options_of(context.parameters().text("run"), context.size()));
  both.give(0);
  const auto some_steps = [&] {
    for (int step = 0; step < 6; ++step) tested.step();
  };
  some_steps();  // memory is there afterwards
  expect_host_goes_on(context, "SLOWMO-181", stream.get(), some_steps);
}

// In one line that names the devices, and nothing is communicated before it.
template <class Refusal>
void refuses_to_train(Communicator& group, const Tensors& tensors, const Options& options, const MemorySpace& place,
                      const std::vector<std::string>& devices) {
  CountingCalls counting(group.duplicate());
  const auto train = [&] { const Trainer trainer(counting, place, tensors, options); };
  expect_rejected<Refusal>("SLOWMO-183", train, devices);
  EXPECT_THAT(refusal<Refusal>(train), testing::Not(testing::HasSubstr("\n"))) << "SLOWMO-183";
  EXPECT_EQ(counting.calls, 0) << "SLOWMO-183: something was communicated before";
}

// Each list of tensors in turn has one of another device: the first, the second or the last.
void refuses_tensors(Communicator& world, const MemorySpace& place, const Tensors& there, const Tensors& here,
                     const std::vector<std::string>& devices) {
  const auto refuses_with = [&](std::vector<Buffer> Tensors::* list, std::size_t position) {
    Tensors mixed = there;
    mixed.optimized = there.master_weights;
    (mixed.*list)[position] = (list == &Tensors::optimized ? here.master_weights : here.*list)[position];
    refuses_to_train<InvalidArgument>(world, mixed, {}, place, devices);
  };
  for (const auto list : {&Tensors::parameters, &Tensors::master_weights, &Tensors::buffers, &Tensors::optimized})
    for (std::size_t position = 0; position < (list == &Tensors::buffers ? 2 : 3); ++position)
      refuses_with(list, position);
  Tensors mixed = there;
  mixed.master_weights = here.master_weights;
  refuses_to_train<InvalidArgument>(world, mixed, {}, place, devices);
}

void refuses(Context& context) {
  const DeviceSeat& seat = context.device_seat();
  const std::string name = comm::name_of(seat.device);
  const OwnStream stream(seat.runtime, seat.device.index);
  const MemorySpace place({seat.runtime, stream.get()}, seat.device.index);
  BothSides both(context, DType::f16, stream.get());
  const Tensors there = both.there(), here = both.here();
  Communicator& world = context.world();
  refuses_tensors(world, place, there, here, {"cpu", name});
  refuses_to_train<Unsupported>(world, there, {}, {}, {name});
  WireOfTheHost of_host(world.duplicate());
  refuses_to_train<Unsupported>(of_host, there, {}, place, {name, "cpu"});
  refuses_to_train<InvalidArgument>(world, here, {.communication_device = seat.device}, {}, {name, "cpu"});
  comm::Device another = seat.device;
  another.index = seat.device.index + 1;
  refuses_to_train<InvalidArgument>(world, there, {.communication_device = another}, place,
                                    {name, comm::name_of(another)});
  // By way of the host it is no hindrance.
  Trainer trainer(of_host, place, there, {.communication_device = comm::Device{}});
  both.give(0);
  trainer.step();
  world.barrier();
}

}  // namespace

void add_slowmo_device_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, std::vector<std::string> requirements, std::vector<suite::Axis> axes,
                       void (*body)(Context&), std::vector<int> worlds, std::chrono::seconds limit = 60s) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("slowmo.device.") + name,
               .verifies = std::move(requirements),
               .axes = std::move(axes),
               .applies =
                   [](const suite::Parameters& parameters) {
                     const std::string run = parameters.has("run") ? parameters.text("run") : "";
                     return (run != "localsgd-nodes" || parameters.world() % 2 == 0) &&
                            (run != "fairscale" || parameters.dtype() != DType::f64);
                   },
               .needs = {comm::Capability::thread_multiple},
               .limit = limit,
               .on_device = true,
               .beside_host = true,
               .body = body});
  };
  const suite::Axis runs{"run",
                         {"localsgd", "localsgd-nodes", "sgp", "sgp-star", "overlap", "slowmo-whole",
                          "slowmo-efficient", "sgp-slowmo", "fairscale"}};
  add("steps", {"SLOWMO-180@16c9", "SLOWMO-181@563c"}, {runs, suite::floating_dtypes()}, steps, {1, 2, 3, 4});
  add("host_goes_on", {"SLOWMO-181@563c"}, {runs, {"dtype", {"f32", "f16"}}}, host_goes_on, {2, 3}, 90s);
  add("by_way_of_the_host", {"SLOWMO-182@c438"}, {runs, {"dtype", {"f32", "f16"}}}, by_way_of_the_host, {2, 3});
  add("refuses", {"SLOWMO-183@201b"}, {}, refuses, {1, 2, 3});
}

}  // namespace plumbline::conformance
