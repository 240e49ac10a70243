// The binding around modules that are none of the digits': what tensors it takes, when it does what, whom it tells.
#include "reference/training/slowmo/averaged_module.hpp"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/support/temporary_folder.hpp"
#include "reference/training/averaging.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/slowmo/averaged_run.hpp"

namespace plumbline::training {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

at::Tensor leaf_of(double value, at::ScalarType type = at::kFloat) {
  return at::ones({3, 2}, type).mul(value).requires_grad_();
}

AveragedModule module_of(comm::Communicator& world, const at::Tensor& weight, const AveragingSettings& settings,
                         std::vector<NamedTensor> buffers = {}) {
  return AveragedModule(
      world, {.parameters = {{"weight", weight}}, .buffers = std::move(buffers)},
      [weight](const at::Tensor& x, bool) { return at::mm(x, weight); },
      [weight] { return std::vector<OptimizedTensors>{{{weight}, 0.1}}; }, options_of(settings, world.size()));
}

const AveragingSettings kStar{.algorithm = "sgp", .graph = "star"};

float first_of(const at::Tensor& tensor) { return tensor.detach().flatten()[0].item<float>(); }

// Whether `act` throws an error of that type which says so.
template <class Error, class Act>
void expect_error(const Act& act, const std::string& words) {
  try {
    act();
    ADD_FAILURE() << "no error that says " << words;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

TEST(AveragedModule, ChangesTheTensorsThatItIsGiven) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    const at::Tensor weight = leaf_of(1);
    const void* memory = weight.data_ptr();
    AveragedModule module = module_of(world, weight, {.algorithm = "localsgd", .local_sgd_frequency = 1});
    module.forward(at::ones({1, 3})).sum().backward();
    weight.detach().fill_(world.rank() == 0 ? 2 : 6);
    module.perform_slowmo();
    EXPECT_EQ(weight.data_ptr(), memory);
    EXPECT_EQ(first_of(weight), 4);
  });
}

TEST(AveragedModule, TakesTensorsInTheirOwnOrderInMemory) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    const at::Tensor weight = at::rand({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
    AveragedModule module(
        world, {.parameters = {{"weight", weight}}}, [&](const at::Tensor&, bool) { return weight.sum(); },
        [&] { return std::vector<OptimizedTensors>{{{weight}, 0.1}}; },
        options_of({.algorithm = "localsgd", .local_sgd_frequency = 1}, 2));
    const at::Tensor start = weight.detach().clone();
    weight.detach().add_(world.rank() == 0 ? 1 : 3);
    module.perform_slowmo();
    EXPECT_TRUE(weight.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_LT(weight.detach().sub(start).sub(2).abs().max().item<float>(), 1e-6);
  });
}

// The leaf's weight differs from 1 after a round over a star.
TEST(AveragedModule, HasEstimatesUntilTheBackwardIsOver) {
  comm::run_ranks(3, [](comm::Communicator& world) {
    const at::Tensor weight = leaf_of(1);
    AveragedModule module = module_of(world, weight, kStar);
    module.forward(at::ones({1, 3})).sum().backward();
    module.perform_slowmo();
    const double share = module.averaging().push_sum_weight();
    ASSERT_GT(std::abs(share - 1), 0.1);
    const float numerator = first_of(weight);
    EXPECT_NEAR(numerator, share, 1e-6);
    const at::Tensor result = module.forward(at::ones({1, 3}));
    EXPECT_NEAR(first_of(weight), 1, 1e-6);
    // Other back-propagations are none of the module's.
    const at::Tensor other = leaf_of(1);
    other.sum().backward();
    EXPECT_NEAR(first_of(weight), 1, 1e-6);
    result.pow(2).sum().backward();
    EXPECT_NEAR(first_of(weight), numerator, 1e-6);
    EXPECT_TRUE(module.averaging().is_numerator());
  });
}

TEST(AveragedModule, LeavesAllButTheLastForwardOfAStepAlone) {
  comm::run_ranks(3, [](comm::Communicator& world) {
    const at::Tensor weight = leaf_of(1);
    AveragedModule module = module_of(world, weight, kStar);
    module.forward(at::ones({1, 3})).sum().backward();
    module.perform_slowmo();
    module.forward(at::ones({1, 3}), false).sum().backward();
    EXPECT_FALSE(module.averaging().is_numerator());
    module.forward(at::ones({1, 3}), true).sum().backward();
    EXPECT_TRUE(module.averaging().is_numerator());
  });
}

TEST(AveragedModule, AveragesANodesGradientsWithZerosForWhatHasNone) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    const at::Tensor used = leaf_of(1), sometimes = leaf_of(1);
    AveragedModule module(
        world, {.parameters = {{"used", used}, {"sometimes", sometimes}}},
        [&](const at::Tensor& x, bool) {
          const at::Tensor y = at::mm(x, used);
          return world.rank() == 0 ? y.add(at::mm(x, sometimes)) : y;
        },
        [&] { return std::vector<OptimizedTensors>{{{used, sometimes}, 0.1}}; },
        options_of({.algorithm = "localsgd", .ranks_per_node = 2}, 2));
    module.forward(at::ones({1, 3}).mul(world.rank() + 1)).sum().backward();
    EXPECT_EQ(first_of(used.grad()), 1.5f);
    EXPECT_EQ(first_of(sometimes.grad()), 0.5f);
  });
}

TEST(AveragedModule, BroadcastsBuffersOfAnyTypeInEvaluationToo) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    const at::Tensor weight = leaf_of(1), mean = at::zeros({4}), count = at::zeros({}, at::kLong);
    AveragedModule module = module_of(world, weight, {.algorithm = "localsgd"}, {{"mean", mean}, {"count", count}});
    mean.fill_(world.rank() + 1);
    count.fill_(world.rank() + 7);
    module.evaluate();
    (void)module.forward(at::ones({1, 3}));
    EXPECT_EQ(first_of(mean), 1);
    EXPECT_EQ(count.item<std::int64_t>(), 7);
  });
}

TEST(AveragedModule, MayEndBeforeTheBackwardOfItsForward) {
  comm::run_ranks(1, [](comm::Communicator& world) {
    const at::Tensor weight = leaf_of(1);
    at::Tensor result;
    {
      AveragedModule module = module_of(world, weight, {});
      result = module.forward(at::ones({1, 3}));
    }
    result.sum().backward();
    EXPECT_EQ(first_of(weight.grad()), 1);
  });
}

TEST(AveragedModule, TellsWhatItDoesNotTake) {
  comm::run_ranks(1, [](comm::Communicator& world) {
    const auto make = [&](const at::Tensor& weight, std::vector<at::Tensor> master_weights = {}) {
      AveragedModule(
          world, {.parameters = {{"weight", weight}}, .master_weights = std::move(master_weights)},
          [](const at::Tensor& x, bool) { return x; }, [] { return std::vector<OptimizedTensors>(); },
          options_of({.algorithm = "localsgd"}, 1));
    };
    expect_error<InvalidArgument>([&] { make(leaf_of(1).mul(2)); }, "'weight' is no leaf");
    expect_error<InvalidArgument>([&] { make(at::ones({3, 2})); }, "'weight' is no leaf that requires a gradient");
    expect_error<InvalidArgument>([&] { make(at::ones({3, 4}).slice(1, 0, 2).requires_grad_()); },
                                  "'weight' has gaps in memory");
    expect_error<Unsupported>([&] { make(at::ones({3, 2}, at::kComplexFloat).requires_grad_()); },
                              "'weight' is of ComplexFloat, which does not travel");
    expect_error<Unsupported>([&] { make(at::zeros({3, 2}, at::TensorOptions().device(at::kMeta)).requires_grad_()); },
                              "'weight' lies on meta");
    expect_error<InvalidArgument>([&] { make(leaf_of(1, at::kHalf), {at::ones({2, 3})}); },
                                  "the master of 'weight' has another shape");
    expect_error<InvalidArgument>([&] { make(leaf_of(1, at::kHalf), {at::ones({3, 2}), at::ones({3, 2})}); },
                                  "2 master weights for 1 parameters");
    const at::Tensor weight = leaf_of(1);
    AveragedModule module = module_of(world, weight, {});
    weight.detach();
    weight.set_data(at::ones({3, 2}));
    expect_error<StateError>([&] { module.perform_slowmo(); }, "'weight' has other memory");
  });
}

TEST(AveragingSettings, AreRefusedWithTheOptionAndItsValue) {
  const auto refuses = [](const AveragingSettings& settings, int world, const std::string& words) {
    expect_error<InvalidArgument>([&] { (void)options_of(settings, world); }, words);
  };
  refuses({.algorithm = "sgd"}, 4, "averaging 'sgd'; it must be localsgd, post-localsgd, sgp, slowmo, diloco");
  refuses({.base = "diloco"}, 4, "averaging-base 'diloco'; it must be localsgd, sgp, none");
  refuses({.ranks_per_node = 3}, 4, "ranks-per-node 3; it must divide the 4 ranks");
  refuses({.ranks_per_node = 0}, 4, "ranks-per-node 0; it must be at least 1");
  refuses({.local_sgd_frequency = 0}, 4, "localsgd-frequency 0; it must be at least 1");
  refuses({.slow_frequency = -1}, 4, "slowmo-frequency -1; it must be at least 1");
  refuses({.slow_momentum = INFINITY}, 4, "slowmo-momentum inf; it must be a finite number");
  refuses({.shards = 0}, 4, "slowmo-shards 0; it must be at least 1");
  refuses({.rate_decay = 0}, 4, "lr-decay 0; it must be a number above 0");
  refuses({.algorithm = "sgp", .graph = "torus"}, 4, "gossip-graph 'torus'; it must be directed-exponential");
  refuses({.algorithm = "sgp", .peers = 9}, 4, "gossip-graph n-peer-exponential, gossip-peers 9: ");
  refuses({.algorithm = "sgp", .graph = "bipartite-linear"}, 3, "gossip-graph bipartite-linear, gossip-peers 0: ");
  EXPECT_NO_THROW((void)options_of({.algorithm = "sgp", .graph = "bipartite-linear"}, 4));
}

// Steps of two ranks, and what the first one evaluates to.
struct RanksSteps {
  std::vector<std::vector<AveragedStep>> steps{2};
  double accuracy = 0;
};
RanksSteps steps_on(const std::string& device, const std::string& dtype, const AveragingSettings& settings) {
  const job::TemporaryFolder folder;
  job::RunSpec spec = write_digits_run({.model = "conv", .data = 2, .steps = 5, .micro_batches = 1, .device = device},
                                       digits(), folder.path());
  spec.run.dtype = dtype;
  const auto runtime = device == "cpu" ? nullptr : device::make_emulated({.longest_delay = 100us});
  comm::LocalOptions options;
  if (runtime != nullptr) options.device_calls = device::make_calls(runtime);
  RanksSteps all;
  comm::run_ranks(
      2,
      [&](comm::Communicator& world) {
        const auto session = averaged_run(spec, world, settings, runtime);
        auto& own = all.steps.at(static_cast<std::size_t>(world.rank()));
        for (int step = 0; step < 3; ++step) own.push_back(session->step(step));
        session->save(folder.path());
        world.barrier();
        const auto resumed = averaged_run(spec, world, settings, runtime);
        resumed->load(folder.path(), 3);
        for (int step = 3; step < 5; ++step) own.push_back(resumed->step(step));
        const double accuracy = resumed->evaluate(held_out_rows(spec, digits()));
        if (world.rank() == 0) all.accuracy = accuracy;
      },
      options);
  return all;
}

TEST(AveragedRun, OnADeviceHasTheBitsOfTheHost) {
  const std::vector<AveragingSettings> runs{
      {.algorithm = "localsgd", .ranks_per_node = 2, .local_sgd_frequency = 2},
      {.local_sgd_frequency = 2, .slow_frequency = 2},
      {.algorithm = "sgp", .graph = "star"},
      {.base = "sgp", .slow_frequency = 2, .memory_efficient = false, .graph = "star", .overlap = true},
  };
  for (const AveragingSettings& settings : runs)
    for (const std::string dtype : {"float32", "float16"}) {
      SCOPED_TRACE(testing::Message() << settings.algorithm << " over " << settings.base << ", " << dtype);
      const RanksSteps host = steps_on("cpu", dtype, settings), there = steps_on("emulated", dtype, settings);
      EXPECT_TRUE(there.steps == host.steps);
      EXPECT_EQ(there.accuracy, host.accuracy);
    }
}

TEST(AveragedRun, RefusesCheckpointsThatAreNotItsOwn) {
  const job::TemporaryFolder folder;
  const job::RunSpec spec = write_digits_run({.data = 1, .steps = 2, .micro_batches = 1}, digits(), folder.path());
  comm::run_ranks(1, [&](comm::Communicator& world) {
    const AveragingSettings settings{.algorithm = "slowmo", .base = "none", .slow_frequency = 2};
    const auto session = averaged_run(spec, world, settings, {});
    (void)session->step(0);
    session->save(folder.path());
    AveragingSettings other = settings;
    other.slow_momentum = 0.25;
    expect_error<InvalidArgument>([&] { averaged_run(spec, world, other, {})->load(folder.path(), 1); },
                                  "slowmo-momentum is 0x1p-1 there and 0x1p-2 here");
    expect_error<NotFound>([&] { session->load(folder.path(), 2); }, "step-2");
    session->load(folder.path(), 1);
    (void)session->step(1);
    job::RunSpec halves = spec;
    halves.run.dtype = "float16";
    expect_error<InvalidArgument>([&] { averaged_run(halves, world, settings, {})->load(folder.path(), 1); },
                                  "dtype is float32 there and float16 here");
    job::RunSpec wide = spec;
    wide.parallel.data = 3;
    expect_error<InvalidArgument>([&] { (void)averaged_run(wide, world, settings, {}); },
                                  "parallel.data = 3, but 1 ranks were started");
    wide.parallel = {.pipeline = 2, .data = 1};
    expect_error<InvalidArgument>([&] { (void)averaged_run(wide, world, settings, {}); },
                                  "parallel.pipeline = 2: parameters are averaged only without a pipeline");
    job::RunSpec recording = spec;
    recording.run.activations = true;
    expect_error<InvalidArgument>([&] { (void)averaged_run(recording, world, settings, {}); },
                                  "run.activations = true: parameters are averaged only without it");
  });
}

}  // namespace
}  // namespace plumbline::training
