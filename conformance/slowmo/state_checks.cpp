// Halves and their masters, buffers, checkpoints, what is said and what is refused.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/slowmo/slowmo_training.hpp"
#include "conformance/support/claimed_type.hpp"
#include "conformance/support/refusal.hpp"
#include "conformance/support/words.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Buffer;
using comm::DType;
using slowmo::BaseAlgorithm;
using slowmo::ParameterGroup;
using slowmo::SlowMo;
using suite::Context;

namespace {

// ---- halves ----

// Masters that are no halves, on halves whose averages are exact.
struct Halves {
  static constexpr std::int64_t kCount = 6;
  std::vector<comm::Float16> halves = std::vector<comm::Float16>(kCount);
  std::vector<float> master_weights = std::vector<float>(kCount);
  Halves(int rank, int ranks, bool exact) { set(rank, ranks, exact); }
  // In the same memory.
  void set(int rank, int ranks, bool exact) {
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const auto value = static_cast<float>(ranks * (rank + 1) * static_cast<int>(i + 1)) * 0x1p-5F;
      halves[i] = comm::to_float16(value);
      master_weights[i] = value + (exact ? 0.0F : 0x1p-14F * static_cast<float>(rank + 1));
    }
  }
  [[nodiscard]] Buffer half_buffer() { return {halves.data(), kCount, DType::f16}; }
  [[nodiscard]] Buffer master_buffer() { return {master_weights.data(), kCount, DType::f32}; }
};

slowmo::Masters master_weights_as(const std::string& form, Buffer master_weights) {
  if (form == "flat") return master_weights;
  if (form == "list") return std::vector<Buffer>{master_weights};
  return std::map<std::string, Buffer>{{"flat", master_weights}};
}

// The mean of the masters is what it was, whatever the halves lose.
void keeps_errors(Context& context) {
  require_claimed(context, DType::f16);
  const int ranks = context.size();
  Halves mine(0, ranks, false);
  slowmo::Options options{.slow_momentum = 0, .local_sgd_frequency = 1};
  SlowMo slowmo(
      context.world(),
      {.parameters = {mine.half_buffer()},
       .master_weights = master_weights_as(context.parameters().text("masters"), mine.master_buffer())},
      [&] { return std::vector<ParameterGroup>{{{mine.master_buffer()}, 0.25}}; }, options);
  mine.set(context.rank(), ranks, context.parameters().text("loss") == "none");
  SlowMoValues before(mine.master_weights.begin(), mine.master_weights.end());
  slowmo.step();
  SlowMoValues after(mine.master_weights.begin(), mine.master_weights.end());
  SlowMoValues mean(after.size());
  for (std::size_t i = 0; i < mean.size(); ++i)
    for (int rank = 0; rank < ranks; ++rank)
      mean[i] += static_cast<double>(comm::to_float(Halves(rank, ranks, true).halves[i])) / ranks;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double lost = before[i] - static_cast<double>(Halves(context.rank(), ranks, true).master_weights[i]);
    EXPECT_EQ(after[i], mean[i] + lost) << "SLOWMO-030: master " << i
                                        << " is not the average and what its half had lost";
    EXPECT_EQ(mine.halves[i], comm::to_float16(mine.master_weights[i])) << "SLOWMO-031: half " << i;
  }
}

// Overlapping rounds bring values whose halves are finer than what is there, so that masters have bits to give.
void halves_follow_gossip(Context& context) {
  require_claimed(context, DType::f16);
  slowmo::Options options{.base = BaseAlgorithm::sgp, .slow_momentum = 0};
  options.overlap = options.accepts_stale = context.parameters().text("overlap") == "yes";
  float master = context.rank() % 2 == 0 ? 1 + 0x1p-12F : -0.875F;
  comm::Float16 half{};
  const Buffer parameter{&half, 1, DType::f16}, master_weights{&master, 1, DType::f32};
  SlowMo slowmo(
      context.world(), {.parameters = {parameter}, .master_weights = master_weights},
      [&] { return std::vector<ParameterGroup>{{{master_weights}, 0.25}}; }, options);
  const float start = context.rank() % 2 == 0 ? 1 + 0x1p-12F : -0.875F;
  master = start;
  half = comm::to_float16(master);
  for (int step = 0; step < 3; ++step) {
    slowmo.before_forward();
    slowmo.after_backward({});
    if (options.overlap) {
      EXPECT_EQ(half, comm::to_float16(master)) << "SLOWMO-031: after backward " << step;
    }
    slowmo.step();
    EXPECT_EQ(half, comm::to_float16(master)) << "SLOWMO-031: after step " << step;
  }
  EXPECT_NE(master, start) << "SLOWMO-031: gossip has changed nothing";
}

// ---- buffers ----

void buffers(Context& context) {
  const bool broadcasts = context.parameters().text("broadcast") == "yes";
  std::vector<double> parameters(3), statistics{1.0 + context.rank()};
  std::vector<std::int64_t> count{10 + context.rank()};
  const slowmo::Options options{.broadcast_buffers = broadcasts, .slow_momentum = 0};
  SlowMo slowmo(
      context.world(),
      {.parameters = {{parameters.data(), 3, DType::f64}},
       .buffers = {{statistics.data(), 1, DType::f64}, {count.data(), 1, DType::i64}}},
      [] { return std::vector<ParameterGroup>{}; }, options);
  EXPECT_EQ(statistics[0], 1.0 + (broadcasts ? 0 : context.rank())) << "SLOWMO-032: at the start";
  EXPECT_EQ(count[0], 10 + (broadcasts ? 0 : context.rank())) << "SLOWMO-032: at the start";
  for (int forward = 0; forward < 3; ++forward) {
    statistics[0] = 1.0 + context.rank() + forward;
    count[0] = 10 + context.rank() + forward;
    if (forward == 2) slowmo.evaluate();
    slowmo.before_forward();
    const int from = broadcasts ? 0 : context.rank();
    EXPECT_EQ(statistics[0], 1.0 + from + forward) << "SLOWMO-032: forward " << forward;
    EXPECT_EQ(count[0], 10 + from + forward) << "SLOWMO-032: forward " << forward;
    slowmo.after_backward({});
  }
}

// Counts broadcasts.
class CountingBroadcasts final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  int broadcasts = 0;

 protected:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    broadcasts += call.operation == comm::Operation::broadcast ? 1 : 0;
    CommunicatorDecorator::do_run(call, timeout);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
};

void buckets_of_buffers(Context& context) {
  constexpr std::int64_t kMiB = 1024 * 1024;
  const std::string& sizes = context.parameters().text("sizes");
  const std::int64_t elements = (sizes == "large" ? 6 : sizes == "full" ? 10 : 1) * kMiB / 4;
  std::vector<float> one(static_cast<std::size_t>(elements)), two(sizes == "full" ? 1 : one.size()), three = one,
                                                                                                     more = two;
  CountingBroadcasts world(context.world().duplicate());
  double parameter = 0;
  std::int64_t count = 0;  // of another type, which has messages of its own
  SlowMo slowmo(world,
                {.parameters = {{&parameter, 1, DType::f64}},
                 .buffers = {{one.data(), static_cast<std::int64_t>(one.size()), DType::f32},
                             {two.data(), static_cast<std::int64_t>(two.size()), DType::f32},
                             {three.data(), static_cast<std::int64_t>(three.size()), DType::f32},
                             {&count, 1, DType::i64},
                             {nullptr, 0, DType::u8},
                             {more.data(), static_cast<std::int64_t>(more.size()), DType::f32}}},
                [] { return std::vector<ParameterGroup>{}; }, {.slow_momentum = 0});
  world.broadcasts = 0;
  slowmo.before_forward();
  // 6 + 6 MiB fill a bucket of 10, and so do 10 alone; what is short of it has room for more: of 10 MiB, 4 bytes,
  // 10 MiB and 4 bytes the middle two travel together.
  const int of_floats = sizes == "large" ? 2 : sizes == "full" ? 3 : 1;
  EXPECT_EQ(world.broadcasts, of_floats + 1) << "SLOWMO-033: messages";
}

// ---- checkpoints ----

SlowMoTraining resumable(const std::string& base, const std::string& memory, int nodes) {
  SlowMoTraining training{.steps = 8};
  slowmo::Options& options = training.options;
  options.slow_frequency = 3;
  options.local_sgd_frequency = 2;
  options.memory_efficient = memory == "efficient";
  if (base == "localsgd") return training;
  options.base = BaseAlgorithm::sgp;
  options.overlap = options.accepts_stale = base == "sgp_overlap";  // nothing is under way between steps
  if (base != "sgp_slow") options.slow_momentum = 0;                // alone, so that nothing sets weights back
  std::vector<std::vector<int>> rows{{1 % nodes}};
  for (int node = 1; node < nodes; ++node) rows.push_back(node + 1 < nodes ? std::vector{0, node + 1} : std::vector{0});
  if (nodes > 1) options.graph = gossip::Graph(rows, 1, slowmo::Convention::plumbline, false);
  return training;
}

void resumes(Context& context) {
  const auto& parameters = context.parameters();
  SlowMoTraining training = resumable(parameters.text("base"), parameters.text("memory"), context.size());
  const SlowMoRankResult straight = train_with_slowmo(context.world(), training);
  training.resumes_before = static_cast<int>(parameters.number("before"));
  const SlowMoRankResult resumed = train_with_slowmo(context.world(), training);
  for (std::size_t step = 0; step < straight.steps.size(); ++step) {
    EXPECT_EQ(straight.steps[step].parameters, resumed.steps[step].parameters) << "SLOWMO-034: after step " << step;
    EXPECT_EQ(straight.steps[step].weight, resumed.steps[step].weight) << "SLOWMO-034: weight after step " << step;
    EXPECT_EQ(straight.steps[step].slow, resumed.steps[step].slow) << "SLOWMO-034: slow buffers after step " << step;
  }
}

// What is saved: all of a run; of FairScale's what its own checkpoints have.
void contents(Context& context) {
  const bool is_whole = context.parameters().text("convention") == "plumbline";
  const bool is_sgp = context.parameters().text("base") == "sgp";
  slowmo::Options options{.slow_frequency = 2};
  options.convention = is_whole ? slowmo::Convention::plumbline : slowmo::Convention::fairscale;
  options.base = is_sgp ? BaseAlgorithm::sgp : BaseAlgorithm::local_sgd;
  options.memory_efficient = false;
  const SlowMoTraining training{.options = options};
  float value = 0;
  const Buffer parameter{&value, 1, DType::f32};
  SlowMo slowmo(
      context.world(), {.parameters = {parameter}}, [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; },
      options);
  slowmo.before_forward();
  slowmo.after_backward({});
  slowmo.step();
  const slowmo::Checkpoint made = slowmo.checkpoint();
  EXPECT_EQ(made.push_sum_weight.has_value(), is_sgp) << "SLOWMO-005";
  EXPECT_EQ(made.is_numerator.has_value(), is_sgp) << "SLOWMO-005";
  EXPECT_EQ(made.steps.has_value(), is_whole) << "SLOWMO-005: the number of steps";
  EXPECT_EQ(made.round.has_value(), is_whole && is_sgp) << "SLOWMO-005: the round";
  EXPECT_EQ(made.slow.has_value(), is_whole) << "SLOWMO-005: slow buffers";
}

// A run of FairScale's convention, saved after four steps or in the evaluation after them, and what another SlowMo has
// of it: the weight and the flag are those saved, and all else is as in a new one.
void resumes_as_fairscale(Context& context) {
  const std::string& base = context.parameters().text("base");
  const bool is_sgp = base == "sgp", is_estimate = context.parameters().text("saved") == "in_evaluation";
  slowmo::Options options = resumable(is_sgp ? "sgp_slow" : base, "whole", context.size()).options;
  options.convention = slowmo::Convention::fairscale;
  std::vector<float> values{1, 2, 3};
  const Buffer parameter{values.data(), 3, DType::f32};
  const auto made = [&] {
    return SlowMo(
        context.world(), {.parameters = {parameter}}, [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; },
        options);
  };
  const auto step_of = [&](SlowMo& slowmo) {
    slowmo.before_forward();
    slowmo.after_backward({});
    for (float& value : values) value -= 1 + static_cast<float>(context.rank());
    slowmo.step();
  };
  slowmo::Checkpoint saved;
  {
    SlowMo first = made();
    for (int step = 0; step < 4; ++step) step_of(first);
    if (is_estimate) first.evaluate();
    if (is_estimate) first.before_forward();
    saved = first.checkpoint();
    const auto weight = is_sgp ? std::optional(first.push_sum_weight()) : std::nullopt;
    const auto flag = is_sgp ? std::optional(!is_estimate) : std::nullopt;
    EXPECT_EQ(saved, (slowmo::Checkpoint{.push_sum_weight = weight, .is_numerator = flag})) << "SLOWMO-005";
  }
  SlowMo other = made();
  other.load(saved);
  EXPECT_EQ(other.push_sum_weight(), saved.push_sum_weight.value_or(1)) << "SLOWMO-005: the weight";
  EXPECT_EQ(other.is_numerator(), saved.is_numerator.value_or(other.is_numerator())) << "SLOWMO-005: the flag";
  EXPECT_EQ(other.steps_done(), 0) << "SLOWMO-005: the step count restarts";
  EXPECT_FALSE(other.slow_state()) << "SLOWMO-005: slow buffers before the first step";
  step_of(other);
  EXPECT_EQ(other.slow_state().value_or(slowmo::SlowState{}).momentum, std::vector<double>(3)) << "SLOWMO-005";
}

// Evaluation leaves the estimate in the place of the numerator; what is saved then says so.
void resumes_at_the_estimate(Context& context) {
  const std::string& base = context.parameters().text("base");
  const SlowMoTraining training = resumable(base, "whole", context.size());
  const auto flag = base == "localsgd" ? std::nullopt : std::optional(false);
  const auto trained = [&](bool saves) {
    std::vector<double> values = initial_values(training);
    const Buffer parameters{values.data(), static_cast<std::int64_t>(values.size()), DType::f64};
    const auto groups = [&] { return std::vector<ParameterGroup>{{{parameters}, 0.25}}; };
    auto slowmo = std::make_unique<SlowMo>(context.world(), slowmo::Tensors{.parameters = {parameters}}, groups,
                                           training.options);
    for (int step = 0; step < training.steps; ++step) {
      slowmo->before_forward();
      std::vector<double> gradients = gradients_at(values, context.rank(), step);
      const Buffer made{gradients.data(), parameters.count, DType::f64};
      slowmo->after_backward(std::span(&made, 1));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.25 * gradients[i];
      slowmo->step();
      slowmo->evaluate();
      slowmo->before_forward();
      if (saves) {
        const slowmo::Checkpoint checkpoint = slowmo->checkpoint();
        EXPECT_EQ(checkpoint.is_numerator, flag) << "SLOWMO-111: what is saved after step " << step;
        const std::vector<double> saved = values;
        slowmo.reset();
        slowmo = std::make_unique<SlowMo>(context.world(), slowmo::Tensors{.parameters = {parameters}}, groups,
                                          training.options);
        values = saved;
        slowmo->load(checkpoint);
      }
      slowmo->train();
    }
    return std::tuple(values, slowmo->push_sum_weight(), slowmo->slow_state());
  };
  EXPECT_EQ(trained(true), trained(false)) << "SLOWMO-111: parameters, weight and slow buffers";
}

// ---- what the caller brings, and what is told ----

// Counts what is made over it.
class CountedGroup final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  int calls = 0;

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    ++calls;
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const comm::Call> started) override {
    ++calls;
    return CommunicatorDecorator::do_start(started);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
};

// Nodes of two ranks, whose groups are the caller's or not.
void groups_of_the_caller(Context& context) {
  const std::string& groups = context.parameters().text("groups");
  const auto is_given = [&](const char* which) { return groups == "given" || groups == which; };
  const int first = context.rank() / 2 * 2;
  std::vector<int> master_weights;
  for (int rank = 0; rank < context.size(); rank += 2) master_weights.push_back(rank);
  CountedGroup world(context.world().duplicate()), global(context.world().duplicate());
  CountedGroup node(context.world().create_group(std::vector{first, first + 1}));
  std::unique_ptr<CountedGroup> between;
  if (context.rank() == first) between = std::make_unique<CountedGroup>(context.world().create_group(master_weights));
  double value = 0, gradient = context.rank();
  const Buffer parameter{&value, 1, DType::f64}, made{&gradient, 1, DType::f64};
  slowmo::Options options{.ranks_per_node = 2, .slow_momentum = 0, .local_sgd_frequency = 1};
  options.rank = context.rank();
  options.world_size = context.size();
  if (is_given("all")) options.groups.global = &global;
  if (is_given("masters")) options.groups.master_weights = between.get();
  if (is_given("node")) options.groups.node = &node;
  SlowMo slowmo(
      world, {.parameters = {parameter}}, [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; }, options);
  slowmo.before_forward();
  slowmo.after_backward(std::span(&made, 1));
  value = gradient;
  slowmo.step();
  EXPECT_EQ(gradient, first + 0.5) << "SLOWMO-112: the mean of the node's gradients";
  EXPECT_EQ(value, (context.size() - 1) / 2.0) << "SLOWMO-112: the mean of the nodes";
  EXPECT_EQ(global.calls > 0, is_given("all")) << "SLOWMO-112: what was made over the group of all ranks";
  if (is_given("all")) {
    EXPECT_EQ(world.calls, 0) << "SLOWMO-112: what was made over the communicator beside the groups";
  }
  EXPECT_EQ(node.calls > 0, is_given("node")) << "SLOWMO-112: what was made over the node's group";
  if (between) {
    EXPECT_EQ(between->calls > 0, is_given("masters")) << "SLOWMO-112: what was made over the masters' group";
  }
}

// ---- what is said ----

// A model of one parameter on a group of this rank alone, unless the options say other ones.
struct Alone {
  explicit Alone(Context& context)
      : group(std::make_unique<CountedGroup>(context.world().create_group(std::vector{context.rank()}))) {}
  void make(const slowmo::Options& options, slowmo::Tensors tensors) const {
    const std::vector<Buffer> parameters = tensors.parameters;
    SlowMo slowmo(
        *group, std::move(tensors), [parameters] { return std::vector<ParameterGroup>{{parameters, 0.25}}; }, options);
    slowmo.begin_slow_buffers();  // FairScale's are made in the first step
  }
  std::unique_ptr<CountedGroup> group;
};

// What is refused, and what its message has to name: the option, or what the tensors are, and its value.
struct Refused {
  slowmo::Options options{};
  slowmo::Tensors tensors{};
  std::vector<std::string> names{};
};

using Cases = std::map<std::string, Refused>;

Cases refused_numbers(const Buffer& wide) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const slowmo::Tensors one{.parameters = {wide}};
  using Convention = slowmo::Convention;
  const slowmo::Options stale{.convention = Convention::fairscale, .overlap = true, .accepts_stale = true};
  return {{"node_of_none", {{.ranks_per_node = 0}, one, {"ranks_per_node", "0"}}},
          {"node_below_none", {{.ranks_per_node = -1}, one, {"ranks_per_node", "-1"}}},
          {"world_no_multiple", {{.ranks_per_node = 2}, one, {"ranks_per_node", "2"}}},
          {"slow_frequency", {{.slow_frequency = 0}, one, {"slow_frequency", "0"}}},
          {"slow_frequency_below", {{.slow_frequency = -1}, one, {"slow_frequency", "-1"}}},
          {"local_sgd_frequency", {{.local_sgd_frequency = 0}, one, {"local_sgd_frequency", "0"}}},
          {"local_sgd_frequency_below", {{.local_sgd_frequency = -1}, one, {"local_sgd_frequency", "-1"}}},
          {"shards", {{.shards = 0}, one, {"shards", "0"}}},
          {"shards_below", {{.shards = -1}, one, {"shards", "-1"}}},
          {"momentum", {{.slow_momentum = nan}, one, {"slow_momentum", "nan"}}},
          {"infinite_momentum", {{.slow_momentum = -inf}, one, {"slow_momentum", "-inf"}}},
          {"learning_rate", {{.slow_learning_rate = inf}, one, {"slow_learning_rate", "inf"}}},
          {"learning_rate_no_number", {{.slow_learning_rate = nan}, one, {"slow_learning_rate", "nan"}}},
          {"lag", {{.synch_freq = -1}, one, {"synch_freq", "-1"}}},
          {"overlap", {{.overlap = true}, one, {"overlap", "true"}}},
          {"overlap_of_fairscale", {stale, one, {"overlap", "true"}}},
          {"another_rank", {{.rank = 5}, one, {"rank", "5"}}},
          {"another_world", {{.world_size = 5}, one, {"world_size", "5"}}}};
}

// Of masters, how many there are or how long they are, and what that should be.
Cases refused_tensors(const Buffer& wide, const Buffer& narrow, const Buffer& half) {
  using Masters = std::vector<Buffer>;
  using Named = std::map<std::string, Buffer>;
  const auto of_length = [&](std::int64_t count) { return Buffer{narrow.data, count, DType::f32}; };
  return {
      {"no_parameters", {{}, {.parameters = {}}, {"parameters"}}},
      {"two_types", {{}, {.parameters = {wide, narrow}}, {"parameters", "f64", "f32"}}},
      {"doubles_of_fairscale",
       {{.convention = slowmo::Convention::fairscale}, {.parameters = {wide}}, {"parameters", "f64"}}},
      {"halves", {{}, {.parameters = {half}}, {"parameters", "f16"}}},
      {"masters_too_few", {{}, {.parameters = {narrow}, .master_weights = Masters{}}, {"master", "0"}}},
      {"masters_of_another_type", {{}, {.parameters = {narrow}, .master_weights = Masters{wide}}, {"master", "f64"}}},
      {"masters_of_another_size",
       {{}, {.parameters = {narrow}, .master_weights = Masters{of_length(0)}}, {"master", "0", "1"}}},
      {"second_master_of_another_size",
       {{}, {.parameters = {narrow, narrow}, .master_weights = Masters{narrow, of_length(2)}}, {"master", "1", "2"}}},
      {"masters_too_short", {{}, {.parameters = {narrow}, .master_weights = of_length(0)}, {"master", "0", "1"}}},
      {"masters_too_long", {{}, {.parameters = {narrow}, .master_weights = of_length(2)}, {"master", "2", "1"}}},
      {"dictionary_of_none", {{}, {.parameters = {narrow}, .master_weights = Named{}}, {"master", "0"}}},
      {"dictionary_of_two",
       {{}, {.parameters = {narrow}, .master_weights = Named{{"a", narrow}, {"b", narrow}}}, {"master", "2"}}}};
}

void refuses_states(Context& context) {
  double value = 0;
  float single = 0;
  comm::Float16 half;
  const Buffer wide{&value, 1, DType::f64}, narrow{&single, 1, DType::f32}, short_one{&half, 1, DType::f16};
  Cases cases = refused_numbers(wide);
  cases.merge(refused_tensors(wide, narrow, short_one));
  const std::string& what = context.parameters().text("what");
  const Alone alone(context);
  if (what == "nothing") {
    EXPECT_NO_THROW(alone.make({}, {.parameters = {wide}})) << "SLOWMO-035";
    return;
  }
  const auto& [options, tensors, names] = cases.at(what);
  expect_rejected<InvalidArgument>("SLOWMO-035", [&] { alone.make(options, tensors); }, names);
  EXPECT_EQ(alone.group->calls, 0) << "SLOWMO-035: communication before the refusal";
}

// Waits that block one group keep others from going on.
void blocking_waits(Context& context) {
  const std::string& value = context.parameters().text("value");
  const bool is_refused = value != "absent" && value != "0";
  const auto set = [](const char* to) {
    to == nullptr ? ::unsetenv("NCCL_BLOCKING_WAIT") : ::setenv("NCCL_BLOCKING_WAIT", to, 1);
  };
  double parameter = 0;
  std::string said;
  {
    static std::mutex one_at_a_time;  // ranks that are threads share the environment
    const std::lock_guard hold(one_at_a_time);
    const char* const there = std::getenv("NCCL_BLOCKING_WAIT");
    const auto before = there == nullptr ? std::nullopt : std::optional<std::string>(there);
    set(value == "absent" ? nullptr : value.c_str());
    said = refusal<InvalidArgument>([&] { Alone(context).make({}, {.parameters = {{&parameter, 1, DType::f64}}}); });
    set(before ? before->c_str() : nullptr);
  }
  if (is_refused) {
    EXPECT_THAT(said, testing::Not(testing::HasSubstr("another error"))) << "SLOWMO-114";
    EXPECT_EQ(missing_words(said, {"NCCL_BLOCKING_WAIT", value}), "") << "SLOWMO-114: " << said;
  } else {
    EXPECT_EQ(said, kNotRefused) << "SLOWMO-114";
  }
}

// What is made of options that nobody gave.
void defaults(Context& context) {
  const int ranks = static_cast<int>(context.parameters().number("ranks"));
  const slowmo::Setting setting = slowmo::settle({}, 0, ranks);
  EXPECT_TRUE(setting.slow && setting.memory_efficient) << "SLOWMO-115";
  EXPECT_EQ(setting.local_sgd, ranks > 1) << "SLOWMO-115: LocalSGD";
  EXPECT_FALSE(setting.sgp || setting.sgp_average_params || setting.overlap) << "SLOWMO-115";
  EXPECT_EQ(setting.ranks_per_node, 1) << "SLOWMO-115";
  EXPECT_EQ(setting.outer.momentum, 0.5) << "SLOWMO-115: slow momentum";
  EXPECT_EQ(setting.outer.learning_rate, 1) << "SLOWMO-115: slow learning rate";
  EXPECT_EQ(setting.slow_frequency, 48) << "SLOWMO-115";
  EXPECT_EQ(setting.local_sgd_frequency, 3) << "SLOWMO-115";
  EXPECT_EQ(setting.shards, std::min(ranks, 32)) << "SLOWMO-115";
  const slowmo::Options options;
  EXPECT_TRUE(options.broadcast_buffers && options.push_sum && options.use_streams) << "SLOWMO-115";
  EXPECT_EQ(options.synch_freq, 0) << "SLOWMO-115";
  EXPECT_EQ(options.heartbeat, std::chrono::seconds(300)) << "SLOWMO-115";
}

void takes(Context& context) {
  const std::string& what = context.parameters().text("what");
  if (what == "halves_without_slow_momentum" && !context.capabilities().supports(DType::f16))
    GTEST_SKIP() << "needs dtype f16, which the subject does not claim";
  const Alone alone(context);
  double value = 0;
  slowmo::Options options;
  if (what == "negative_momentum") options.slow_momentum = -0.5;
  if (what == "frequency_that_is_not_used") options.slow_momentum = 0, options.slow_frequency = 0;
  if (what == "frequency_of_another_base")
    options.slow_momentum = 0, options.local_sgd_frequency = 0, options.base = BaseAlgorithm::sgp;
  if (what == "shards_that_are_not_used") options.shards = 0, options.memory_efficient = false;
  if (what == "least") options.slow_frequency = options.local_sgd_frequency = options.shards = 1;
  if (what == "own_rank") options.rank = 0, options.world_size = 1;
  if (what == "more_shards_than_ranks") options.shards = 1000;
  if (what == "lag_without_overlap") options.synch_freq = 7;
  if (what == "begin_of_local_sgd") options.local_sgd_begin = 1;
  float single = 0;
  if (what == "fairscale") options.convention = slowmo::Convention::fairscale;
  if (what == "halves_without_slow_momentum") options.slow_momentum = 0;
  comm::Float16 half;
  slowmo::Tensors tensors{.parameters = {what == "halves_without_slow_momentum" ? Buffer{&half, 1, DType::f16}
                                         : what == "fairscale"                  ? Buffer{&single, 1, DType::f32}
                                                                                : Buffer{&value, 1, DType::f64}}};
  EXPECT_EQ(refusal<InvalidArgument>([&] { alone.make(options, tensors); }), kNotRefused) << "SLOWMO-036";
}

// A rank alone has nobody to average with, and needs not be told so.
void one_rank_is_not_warned(Context& context) {
  const Alone alone(context);
  double value = 0;
  const Buffer parameter{&value, 1, DType::f64};
  SlowMo slowmo(*alone.group, {.parameters = {parameter}},
                [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; }, {});
  slowmo.step();
  EXPECT_TRUE(slowmo.warnings().empty()) << "SLOWMO-037";
}

// Evaluation and a checkpoint find no round under way.
void overlap_is_not_warned(Context& context) {
  slowmo::Options options{.base = BaseAlgorithm::sgp, .slow_momentum = 0};
  options.overlap = options.accepts_stale = true;
  double value = 0;
  const Buffer parameter{&value, 1, DType::f64};
  SlowMo slowmo(
      context.world(), {.parameters = {parameter}}, [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; },
      options);
  (void)slowmo.checkpoint();
  for (int step = 0; step < 2; ++step) {
    slowmo.before_forward();
    slowmo.after_backward({});
    slowmo.step();
    slowmo.evaluate();
    slowmo.train();
  }
  EXPECT_TRUE(slowmo.warnings().empty()) << "SLOWMO-037: " << slowmo.warnings().front().message;
}

void warns(Context& context) {
  const std::string& what = context.parameters().text("what");
  if (what == "one_rank") return one_rank_is_not_warned(context);
  if (what == "overlap") return overlap_is_not_warned(context);
  slowmo::Options options{.ranks_per_node = what.starts_with("one_node") ? context.size() : 1};
  if (what == "one_node") options.slow_momentum = 0;
  if (what == "frequencies") options.slow_frequency = 4;
  if (what == "no_base") options.base = BaseAlgorithm::none;
  std::vector<slowmo::Warning::What> expected;
  using What = slowmo::Warning::What;
  if (what.starts_with("one_node")) expected.push_back(What::one_node);
  if (what == "one_node_slow" || what == "no_base") expected.push_back(What::no_base);
  if (what == "frequencies") expected.push_back(What::frequencies);
  if (what == "halves") expected.push_back(What::no_master_weights);
  std::vector<slowmo::Warning> warnings;
  if (what.starts_with("halves")) {
    require_claimed(context, DType::f16);
    Halves mine(context.rank(), context.size(), false);
    slowmo::Tensors tensors{.parameters = {mine.half_buffer()}};
    if (what == "halves_with_masters") tensors.master_weights = mine.master_buffer();
    std::vector<std::string> lines;
    SlowMo slowmo(context.world(), tensors, [] { return std::vector<ParameterGroup>{}; },
                  {.slow_momentum = 0, .log = [&](std::string_view line) { lines.emplace_back(line); }});
    slowmo.step();
    slowmo.step();  // it is said once
    warnings = slowmo.warnings();
    EXPECT_EQ(lines.size(), expected.size()) << "SLOWMO-037: lines of the log";
  } else {
    warnings = train_with_slowmo(context.world(), {.options = options, .steps = 1}).warnings;
  }
  std::vector<What> said;
  for (const slowmo::Warning& warning : warnings) said.push_back(warning.what);
  EXPECT_EQ(said, expected) << "SLOWMO-037";
  const std::map<What, const char*> words{
      {What::one_node, "LocalSGD and SGP are off: with one node"},
      {What::no_base, "slow momentum is used without LocalSGD and SGP"},
      {What::frequencies, "slow_frequency is 4"},
      {What::no_master_weights, "parameters have 16 bits and no f32 master weights"}};
  for (const slowmo::Warning& warning : warnings)
    EXPECT_THAT(warning.message, testing::StartsWith(words.at(warning.what))) << "SLOWMO-037";
}

// With one node, parameters are never averaged: what its gradients do is enough.
void one_node(Context& context) {
  slowmo::Options options{.ranks_per_node = context.size(), .slow_momentum = 0, .local_sgd_frequency = 1};
  options.base = slowmo::parse_base_algorithm(context.parameters().text("base"));
  const SlowMoTraining training{.options = options};
  const ExpectedSlowMoRun run{.ranks = context.size(), .ranks_per_node = context.size()};
  EXPECT_EQ(problem_of_run(context.world(), training, run), "") << "SLOWMO-038";
  double value = 0;
  const SlowMo slowmo(
      context.world(), {.parameters = {{&value, 1, DType::f64}}}, [] { return std::vector<ParameterGroup>{}; },
      options);
  EXPECT_FALSE(slowmo.setting().local_sgd || slowmo.setting().sgp) << "SLOWMO-038";
}

// A rate of 0 is refused, and nothing has happened to the parameters.
void rate_of_0(Context& context) {
  const std::string& which = context.parameters().text("rate");
  const bool is_zero = which.starts_with("zero");
  std::vector<double> values{1.0, 2.0};
  const std::vector<Buffer> parameters{{values.data(), 1, DType::f64}, {values.data() + 1, 1, DType::f64}};
  double first = 0.25, second = 0.25;
  slowmo::Options options{.slow_frequency = 2, .local_sgd_frequency = 2};
  if (which == "unused") options.outer = slowmo::bmuf_rule(0.5, 1);  // which divides by none
  SlowMo slowmo(
      context.world(), {.parameters = parameters},
      [&] { return std::vector<ParameterGroup>{{{parameters[0]}, first}, {{parameters[1]}, second}}; }, options);
  if (which == "usual") first = second = 0;  // in a step that is none
  slowmo.step();
  first = which == "zero" || which == "unused" ? 0 : which == "negative" ? -0.25 : 0.25;
  second = which == "zero_of_the_second" ? 0 : which == "negative" ? -0.25 : 0.25;
  values = {3.0 + context.rank(), 4.0};
  if (is_zero) {
    expect_rejected<InvalidArgument>("SLOWMO-039", [&] { slowmo.step(); });
    EXPECT_EQ(values, (std::vector<double>{3.0 + context.rank(), 4.0})) << "SLOWMO-039";
  } else {
    EXPECT_EQ(refusal<InvalidArgument>([&] { slowmo.step(); }), kNotRefused) << "SLOWMO-039";
  }
}

}  // namespace

void add_slowmo_state_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, std::vector<std::string> requirements, std::vector<suite::Axis> axes,
                       void (*body)(Context&), std::vector<int> worlds = {1, 2, 3}) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("slowmo.") + name,
               .verifies = std::move(requirements),
               .axes = std::move(axes),
               .applies =
                   [](const suite::Parameters& parameters) {  // gossip alone has no slow buffers
                     return !parameters.has("memory") || parameters.text("memory") == "whole" ||
                            (parameters.text("base") != "sgp" && parameters.text("base") != "sgp_overlap");
                   },
               .body = body});
  };
  add("halves.keep_errors", {"SLOWMO-030@0519", "SLOWMO-031@c096"},
      {{"masters", {"flat", "list", "dictionary"}}, {"loss", {"some", "none"}}}, keeps_errors, {2, 3, 4});
  add("halves.follow_gossip", {"SLOWMO-031@c096"}, {{"overlap", {"yes", "no"}}}, halves_follow_gossip, {2, 3, 4});
  add("checkpoint.contents", {"SLOWMO-005@527b"},
      {{"convention", {"plumbline", "fairscale"}}, {"base", {"localsgd", "sgp"}}}, contents, {2, 3});
  add("buffers.of_rank_0", {"SLOWMO-032@1b2c"}, {{"broadcast", {"yes", "no"}}}, buffers);
  add("buffers.in_buckets", {"SLOWMO-033@db26"}, {{"sizes", {"small", "large", "full"}}}, buckets_of_buffers, {2, 3});
  add("checkpoint.resumes", {"SLOWMO-034@1380"},
      {{"base", {"localsgd", "sgp", "sgp_slow", "sgp_overlap"}},
       {"memory", {"efficient", "whole"}},
       {"before", {"1", "3", "4", "5"}}},
      resumes, {2, 3});
  add("checkpoint.of_fairscale", {"SLOWMO-005@527b"},
      {{"base", {"localsgd", "sgp"}}, {"saved", {"after_a_step", "in_evaluation"}}}, resumes_as_fairscale, {2, 3});
  add("checkpoint.at_the_estimate", {"SLOWMO-111@d4f0"}, {{"base", {"sgp", "sgp_slow", "localsgd"}}},
      resumes_at_the_estimate, {2, 3});
  add("options.groups", {"SLOWMO-112@7904"}, {{"groups", {"given", "made", "all", "masters", "node"}}},
      groups_of_the_caller, {4, 6});
  add("options.blocking_waits", {"SLOWMO-114@c8f0"}, {{"value", {"absent", "0", "1", "2", "yes"}}}, blocking_waits,
      {1, 3});
  add("options.defaults", {"SLOWMO-115@811f"}, {{"ranks", {"1", "2", "31", "32", "33", "64"}}}, defaults, {1, 3});
  add("options.refused", {"SLOWMO-035@1a22"},
      {{"what",
        {"nothing",
         "node_of_none",
         "node_below_none",
         "world_no_multiple",
         "slow_frequency",
         "local_sgd_frequency",
         "shards",
         "momentum",
         "lag",
         "overlap",
         "overlap_of_fairscale",
         "another_rank",
         "another_world",
         "no_parameters",
         "two_types",
         "halves",
         "masters_too_few",
         "masters_too_long",
         "dictionary_of_two",
         "learning_rate",
         "masters_of_another_type",
         "masters_of_another_size",
         "masters_too_short",
         "slow_frequency_below",
         "local_sgd_frequency_below",
         "shards_below",
         "infinite_momentum",
         "learning_rate_no_number",
         "doubles_of_fairscale",
         "second_master_of_another_size",
         "dictionary_of_none"}}},
      refuses_states, {1, 3});
  add("options.taken", {"SLOWMO-036@a4a9"},
      {{"what",
        {"negative_momentum", "frequency_that_is_not_used", "more_shards_than_ranks", "halves_without_slow_momentum",
         "frequency_of_another_base", "shards_that_are_not_used", "least", "own_rank", "lag_without_overlap",
         "begin_of_local_sgd", "fairscale"}}},
      takes, {1, 3});
  add("options.warned", {"SLOWMO-037@9983"},
      {{"what",
        {"nothing", "one_node", "one_node_slow", "frequencies", "no_base", "halves", "halves_with_masters", "one_rank",
         "overlap"}}},
      warns, {2, 3});
  add("options.one_node", {"SLOWMO-038@cdec"}, {{"base", {"localsgd", "sgp"}}}, one_node, {1, 2, 3});
  add("slow.rate_of_0", {"SLOWMO-039@2f24"}, {{"rate", {"zero", "usual", "zero_of_the_second", "unused", "negative"}}},
      rate_of_0);
}

}  // namespace plumbline::conformance
