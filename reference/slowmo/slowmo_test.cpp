// What no check asks of a subject: plain values, refusals that need an environment, the optimizer's formulas.
#include "reference/slowmo/slowmo.hpp"

#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/detail/optimizer.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;
using comm::DType;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(BlockingWait, IsRefusedUnlessItIsOff) {
  EXPECT_NO_THROW(refuse_blocking_wait(nullptr));
  EXPECT_NO_THROW(refuse_blocking_wait("0"));
  EXPECT_THAT([] { refuse_blocking_wait("1"); }, ThrowsMessage<InvalidArgument>(HasSubstr("NCCL_BLOCKING_WAIT is 1")));
}

TEST(BaseAlgorithms, AreReadByName) {
  EXPECT_EQ(parse_base_algorithm("sgp"), BaseAlgorithm::sgp);
  EXPECT_THAT([] { (void)parse_base_algorithm("SGP"); }, ThrowsMessage<InvalidArgument>(HasSubstr("localsgd, sgp")));
}

TEST(Shards, CoverAllElementsOnce) {
  for (const std::int64_t elements : {0, 1, 5, 12, 23})
    for (const int shards : {1, 2, 3, 5, 32}) {
      std::int64_t covered = 0;
      for (int index = 0; index < shards; ++index) {
        const Range range = shard_range(elements, shards, index);
        if (range.size() > 0) {
          EXPECT_EQ(range.begin, covered) << elements << " in " << shards;
        }
        covered += range.size();
      }
      EXPECT_EQ(covered, elements) << elements << " in " << shards;
    }
  EXPECT_THROW((void)shard_range(5, 2, 2), OutOfRange);
}

TEST(Options, HaveFairScalesDefaults) {
  const Options options;
  EXPECT_EQ(options.slow_momentum, 0.5);
  EXPECT_EQ(options.slow_learning_rate, 1);
  EXPECT_EQ(options.slow_frequency, 48);
  EXPECT_EQ(options.shards, 32);
  EXPECT_EQ(options.local_sgd_frequency, 3);
  EXPECT_EQ(options.base, BaseAlgorithm::local_sgd);
  EXPECT_TRUE(options.memory_efficient && options.broadcast_buffers && options.push_sum && options.use_streams);
  EXPECT_FALSE(options.overlap || options.sgp_average_params || options.verbose || options.profile);
  EXPECT_EQ(options.synch_freq, 0);
  EXPECT_EQ(options.heartbeat, std::chrono::seconds(300));
}

TEST(Options, RefuseACommunicationDeviceThatIsNeitherTheParametersNorTheHost) {
  comm::run_ranks(1, [](comm::Communicator& world) {
    double value = 1;
    const comm::Buffer x{&value, 1, DType::f64};
    const auto made = [&](std::optional<comm::Device> device) {
      const SlowMo slowmo(world, {.parameters = {x}}, [&] { return std::vector<ParameterGroup>{{{x}, 0.1}}; },
                          {.communication_device = device});
    };
    EXPECT_THAT([&] { made(comm::Device{comm::Device::Kind::cuda, 0}); },
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("communication_device is cuda:0"), HasSubstr("cpu"))));
    EXPECT_NO_THROW(made({}));
    EXPECT_NO_THROW(made(comm::Device{}));
  });
}

TEST(Options, OfFairScaleHaveNoOtherOuterOptimizer) {
  const Options options{.convention = Convention::fairscale, .outer = diloco_rule()};
  EXPECT_THROW((void)settle(options, 0, 2), InvalidArgument);
}

double after(const OptimizerRule& rule, double value, const std::vector<double>& gradients, double rate) {
  FlatOptimizer optimizer(rule);
  const std::vector<ParameterGroup> groups{{{{&value, 1, DType::f64}}, rate}};
  for (const double& gradient : gradients) {
    const std::array<comm::ConstBuffer, 1> list{{{&gradient, 1, DType::f64}}};
    optimizer.step(groups, list);
  }
  return value;
}

TEST(Optimizers, MakeTorchsSteps) {
  EXPECT_DOUBLE_EQ(after(Sgd{}, 1, {2, 4}, 0.1), 1 - 0.2 - 0.4);
  EXPECT_DOUBLE_EQ(after(Sgd{.momentum = 0.5}, 1, {2, 4}, 0.1), 1 - 0.2 - 0.1 * (0.5 * 2 + 4));
  EXPECT_DOUBLE_EQ(after(Sgd{.momentum = 0.5, .nesterov = true}, 1, {2}, 0.1), 1 - 0.1 * (2 + 0.5 * 2));
  EXPECT_DOUBLE_EQ(after(Sgd{.weight_decay = 0.5}, 1, {2}, 0.1), 1 - 0.1 * 2.5);
  EXPECT_DOUBLE_EQ(after(Sgd{.momentum = 0.5, .dampening = 0.25}, 1, {2, 4}, 0.1), 1 - 0.2 - 0.1 * (1 + 3));
  // The first step of Adam is the rate, whatever the gradient.
  EXPECT_NEAR(after(Adam{}, 1, {2}, 0.1), 0.9, 1e-8);
  const double first = 0.1 * (0.9 * 2 + 4) / (1 - 0.81), second = 0.001 * (0.999 * 4 + 16) / (1 - 0.998001);
  EXPECT_NEAR(after(Adam{}, 1, {2, 4}, 0.1), 0.9 - 0.1 * first / std::sqrt(second), 1e-8);
}

TEST(Optimizers, RefuseWhatTheyCannotDo) { EXPECT_THROW(FlatOptimizer(Sgd{.nesterov = true}), InvalidArgument); }

TEST(Schedules, AreRefusedWhereTheyAreNone) {
  const auto refused = [](std::vector<AveragingLevel> levels, int warmup, const char* words) {
    EXPECT_THAT([&] { require_schedule({std::move(levels), warmup}, 4); },
                ThrowsMessage<InvalidArgument>(HasSubstr(words)));
  };
  refused({}, 0, "no levels");
  refused({{2, 4}}, -1, "warmup of -1");
  refused({{0, 4}}, 0, "period 0");
  refused({{2, 2}, {2, 4}}, 0, "period 2");
  refused({{2, 4}, {4, 2}}, 0, "groups of 2");
  refused({{2, 3}, {4, 4}}, 0, "groups of 4");
  refused({{2, 2}}, 0, "it has all ranks, 4");
}

// A checkpoint of another world, of another convention, and one with weights that there are none for.
TEST(Checkpoints, AreRefusedWhereTheyDoNotFit) {
  comm::run_ranks(1, [](comm::Communicator& world) {
    std::vector<double> values{1, 2, 3};
    const Buffer parameters{values.data(), 3, DType::f64};
    SlowMo slowmo(world, {.parameters = {parameters}},
                  [&] { return std::vector<ParameterGroup>{{{parameters}, 0.1}}; });
    const Checkpoint right = slowmo.checkpoint();
    EXPECT_NO_THROW(slowmo.load(right));
    EXPECT_THAT([&] { slowmo.load({}); }, ThrowsMessage<NotFound>(HasSubstr("the number of steps")));
    Checkpoint other = right;
    other.push_sum_weight = 1;
    EXPECT_THAT([&] { slowmo.load(other); }, ThrowsMessage<InvalidArgument>(HasSubstr("push-sum weight")));
    other = right;
    other.slow->range.end = 2;
    EXPECT_THAT([&] { slowmo.load(other); }, ThrowsMessage<InvalidArgument>(HasSubstr("rank 0 of 1")));
    other.slow.reset();
    EXPECT_THAT([&] { slowmo.load(other); }, ThrowsMessage<NotFound>(HasSubstr("slow momentum buffers")));
  });
}

TEST(Checkpoints, OfARoundBelow0AreRefusedBeforeAnythingIsTaken) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    std::vector<double> values{1, 2};
    const Buffer parameters{values.data(), 2, DType::f64};
    Options options{.base = BaseAlgorithm::sgp};
    options.graph = gossip::Graph({.kind = gossip::GraphKind::ring, .nodes = 2});
    SlowMo slowmo(
        world, {.parameters = {parameters}}, [&] { return std::vector<ParameterGroup>{{{parameters}, 0.1}}; }, options);
    Checkpoint checkpoint = slowmo.checkpoint();
    checkpoint.round = -3;
    checkpoint.push_sum_weight = 7;
    EXPECT_THAT([&] { slowmo.load(checkpoint); },
                ThrowsMessage<InvalidArgument>(HasSubstr("round -3; the first one is 0")));
    EXPECT_EQ(slowmo.push_sum_weight(), 1);
  });
}

TEST(Averages, OfHalvesStayInRange) {
  comm::run_ranks(4, [](comm::Communicator& world) {
    std::array<comm::Float16, 1> value{comm::to_float16(60000)};
    const Buffer tensor{value.data(), 1, DType::f16};
    Workspace workspace;
    all_reduce_mean(world, std::span(&tensor, 1), 4, Convention::plumbline, workspace);
    EXPECT_EQ(comm::to_float(value[0]), 60000);
  });
}

TEST(Phases, AreTimedAndToldWhereTheyShallBe) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    std::vector<double> values(100);
    const Buffer parameters{values.data(), 100, DType::f64};
    std::vector<std::string> lines;
    const Options options{.slow_frequency = 1,
                          .local_sgd_frequency = 1,
                          .verbose = true,
                          .profile = true,
                          .log = [&](std::string_view line) { lines.emplace_back(line); }};
    SlowMo slowmo(
        world, {.parameters = {parameters}}, [&] { return std::vector<ParameterGroup>{{{parameters}, 0.1}}; }, options);
    slowmo.before_forward();
    slowmo.step();
    EXPECT_GT(slowmo.seconds()[static_cast<std::size_t>(Phase::slow)], 0);
    EXPECT_THAT(lines, testing::Contains(HasSubstr("step 0: slow done")));
  });
}

// Also what the thread sanitizer looks at: the gossip thread beside an optimizer, evaluation between, and the end.
TEST(Overlap, KeepsTheSumWhateverIsUnderWay) {
  constexpr int steps = 12;
  for (const int ranks_per_node : {1, 2})
    for (const int lag : {0, 2})
      comm::run_ranks(4, [=](comm::Communicator& world) {
        std::vector<double> values{1.0 * world.rank(), 2}, gradients{0.5, -0.25};
        const std::array<Buffer, 1> parameters{Buffer{values.data(), 2, DType::f64}};
        const std::array<Buffer, 1> made{Buffer{gradients.data(), 2, DType::f64}};
        SlowMo slowmo(world, {.parameters = {parameters[0]}},
                      [&] { return std::vector<ParameterGroup>{{{parameters[0]}, 0.5}}; },
                      {.ranks_per_node = ranks_per_node,
                       .base = BaseAlgorithm::sgp,
                       .slow_momentum = 0,
                       .overlap = true,
                       .accepts_stale = true,
                       .synch_freq = lag});
        for (int step = 0; step < steps; ++step) {
          slowmo.before_forward();
          slowmo.after_backward(made);
          for (std::size_t i = 0; i < 2; ++i) values[i] -= 0.5 * gradients[i];
          slowmo.step();
          if (step % 5 != 4) continue;
          slowmo.evaluate();
          slowmo.train();
        }
        slowmo.evaluate();
        world.all_reduce(parameters[0], parameters[0], comm::ReduceOp::avg);
        // All started with rank 0's.
        EXPECT_NEAR(values[0], 0 - 0.25 * steps, 1e-12);
        EXPECT_NEAR(values[1], 2 + 0.125 * steps, 1e-12);
        EXPECT_EQ(slowmo.push_sum_weight(), 1);
      });
}

TEST(Groups, MayBeGiven) {
  comm::run_ranks(4, [](comm::Communicator& world) {
    const int node = world.rank() / 2;
    const auto own_node = world.create_group(std::vector{2 * node, 2 * node + 1});
    std::unique_ptr<comm::Communicator> master_weights;
    if (world.rank() % 2 == 0) master_weights = world.create_group(std::vector{0, 2});
    double value = 0;
    const Buffer parameter{&value, 1, DType::f64};
    const Options options{.ranks_per_node = 2,
                          .slow_momentum = 0,
                          .local_sgd_frequency = 1,
                          .rank = world.rank(),
                          .world_size = 4,
                          .groups = {.global = &world, .master_weights = master_weights.get(), .node = own_node.get()}};
    SlowMo slowmo(
        world, {.parameters = {parameter}}, [&] { return std::vector<ParameterGroup>{{{parameter}, 0.1}}; }, options);
    value = node == 0 ? 2 : 4;
    slowmo.step();
    EXPECT_EQ(value, 3);
  });
}

}  // namespace
}  // namespace plumbline::slowmo
