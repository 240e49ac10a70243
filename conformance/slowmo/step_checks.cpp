// What averages and slow steps come to, and when they are made.
#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/slowmo/slowmo_training.hpp"
#include "conformance/support/element.hpp"
#include "reference/comm/ring_sum.hpp"

namespace plumbline::conformance {

using slowmo::BaseAlgorithm;
using suite::Context;

namespace {

slowmo::Options local_sgd(int frequency, int ranks_per_node = 1) {
  return {.ranks_per_node = ranks_per_node,
          .base = BaseAlgorithm::local_sgd,
          .slow_momentum = 0,
          .slow_learning_rate = 1,
          .local_sgd_frequency = frequency};
}

slowmo::Options slow_momentum(double beta, double alpha, int frequency, bool efficient, int shards = 32) {
  return {.slow_momentum = beta,
          .slow_learning_rate = alpha,
          .slow_frequency = frequency,
          .memory_efficient = efficient,
          .shards = shards,
          .local_sgd_frequency = frequency};
}

// Counts reductions, and who is in them.
class Counting final : public comm::CommunicatorDecorator {
 public:
  explicit Counting(std::unique_ptr<comm::Communicator> inner, std::shared_ptr<std::vector<comm::Operation>> calls)
      : CommunicatorDecorator(std::move(inner)), calls_(std::move(calls)) {}

 protected:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    calls_->push_back(call.operation);
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    for (const comm::Call& call : calls) calls_->push_back(call.operation);
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<Counting>(std::move(group), calls_);
  }

 private:
  std::shared_ptr<std::vector<comm::Operation>> calls_;
};

// ---- when ----

void averages_on_time(Context& context) {
  SlowMoTraining training{.options = local_sgd(static_cast<int>(context.parameters().number("every"))),
                          .groups = static_cast<int>(context.parameters().number("groups"))};
  const ExpectedSlowMoRun run{.ranks = context.size(), .average_every = training.options.local_sgd_frequency};
  EXPECT_EQ(problem_of_run(context.world(), training, run), "") << "SLOWMO-010";
}

// Plain data-parallel SGD: one model, the mean of all ranks' gradients.
void equals_synchronous(Context& context) {
  const int ranks_per_node = static_cast<int>(context.parameters().number("node"));
  const SlowMoTraining training{.options = local_sgd(1, ranks_per_node)};
  const SlowMoRankResult trained = train_with_slowmo(context.world(), training);
  SlowMoValues model = initial_values(training);
  for (int step = 0; step < training.steps; ++step) {
    SlowMoValues next = model;
    for (int rank = 0; rank < context.size(); ++rank) {
      const SlowMoValues gradients = gradients_at(model, rank, step);
      for (std::size_t i = 0; i < model.size(); ++i) next[i] -= training.rate(step) * gradients[i] / context.size();
    }
    model = next;
    EXPECT_EQ(difference_of(model, trained.steps[static_cast<std::size_t>(step)].parameters, 1e-11), "")
        << "SLOWMO-011: after step " << step;
  }
}

void gradients_are_complete(Context& context) {
  const int ranks_per_node = static_cast<int>(context.parameters().number("node"));
  double parameter = 0;
  const comm::Buffer parameters{&parameter, 1, comm::DType::f64};
  slowmo::SlowMo slowmo(
      context.world(), {.parameters = {parameters}},
      [&] { return std::vector<slowmo::ParameterGroup>{{{parameters}, 0.25}}; }, local_sgd(3, ranks_per_node));
  for (int step = 0; step < 3; ++step) {
    slowmo.before_forward();
    double gradient = 10 * step + context.rank();
    const comm::Buffer gradients{&gradient, 1, comm::DType::f64};
    slowmo.after_backward(std::span(&gradients, 1));
    const int first = context.rank() / ranks_per_node * ranks_per_node;
    EXPECT_DOUBLE_EQ(gradient, 10 * step + first + (ranks_per_node - 1) / 2.0) << "SLOWMO-019: backward " << step;
    slowmo.step();
  }
}

// Tensors of several types and sizes, none among them.
void every_parameter(Context& context) {
  const bool many = context.parameters().text("tensors") == "many";
  const auto calls = std::make_shared<std::vector<comm::Operation>>();
  Counting world(context.world().duplicate(), calls);
  std::vector<double> wide(many ? 3 : 1), last(1);
  std::vector<float> narrow(2);
  std::vector<comm::Buffer> parameters{{wide.data(), static_cast<std::int64_t>(wide.size()), comm::DType::f64}};
  if (many)
    parameters.insert(
        parameters.end(),
        {{narrow.data(), 2, comm::DType::f32}, {nullptr, 0, comm::DType::f16}, {last.data(), 1, comm::DType::f64}});
  slowmo::SlowMo slowmo(
      world, {.parameters = parameters}, [&] { return std::vector<slowmo::ParameterGroup>{{parameters, 0.25}}; },
      local_sgd(2));
  const double mean = (context.size() - 1) / 2.0;
  for (int step = 0; step < 4; ++step) {
    std::ranges::fill(wide, context.rank());
    std::ranges::fill(narrow, static_cast<float>(context.rank()));
    last = {10.0 * context.rank()};
    calls->clear();
    slowmo.step();
    if (step % 2 == 0) continue;
    EXPECT_EQ(calls->size(), many ? 2 : 1) << "SLOWMO-045: messages, one of each type that has elements";
    for (const double value : wide) EXPECT_DOUBLE_EQ(value, mean) << "SLOWMO-045: step " << step;
    if (!many) continue;
    for (const float value : narrow) EXPECT_FLOAT_EQ(value, static_cast<float>(mean)) << "SLOWMO-045: step " << step;
    EXPECT_DOUBLE_EQ(last[0], 10 * mean) << "SLOWMO-045: step " << step;
  }
}

// The backward before an average makes gradients for all parameters, or for the first one alone.
void without_gradients(Context& context) {
  const bool all = context.parameters().text("gradients") == "all";
  std::vector<double> first(2), second(3), gradients(5);
  const std::vector<comm::Buffer> parameters{{first.data(), 2, comm::DType::f64}, {second.data(), 3, comm::DType::f64}};
  const std::vector<comm::Buffer> made{{gradients.data(), 2, comm::DType::f64},
                                       {gradients.data() + 2, 3, comm::DType::f64}};
  slowmo::SlowMo slowmo(
      context.world(), {.parameters = parameters},
      [&] { return std::vector<slowmo::ParameterGroup>{{parameters, 0.25}}; }, local_sgd(2));
  for (int step = 0; step < 4; ++step) {
    slowmo.before_forward();
    slowmo.after_backward(std::span(made).first(all || step % 2 == 0 ? 2 : 1));
    if (step % 2 == 0) {
      std::ranges::fill(first, context.rank());
      std::ranges::fill(second, 10.0 * context.rank());
    }
    slowmo.step();
    if (step % 2 == 0) continue;
    const double mean = (context.size() - 1) / 2.0;
    for (const double value : first) EXPECT_DOUBLE_EQ(value, mean) << "SLOWMO-046: step " << step;
    for (const double value : second) EXPECT_DOUBLE_EQ(value, 10 * mean) << "SLOWMO-046: step " << step;
  }
}

// ---- what calls are made ----

// The steps in which parameters are averaged: the union of both periods, and once in each.
void averages_once(Context& context) {
  const int slow_every = 3, average_every = static_cast<int>(context.parameters().number("every"));
  slowmo::Options options = slow_momentum(0.5, 1, slow_every, context.parameters().text("memory") == "efficient");
  options.local_sgd_frequency = average_every;
  const auto calls = std::make_shared<std::vector<comm::Operation>>();
  Counting world(context.world().duplicate(), calls);
  const SlowMoTraining training{.options = options, .steps = 12};
  std::vector<double> memory(12);
  double rate = 0.25;
  comm::Buffer parameters{memory.data(), 12, comm::DType::f64};
  slowmo::SlowMo slowmo(
      world, {.parameters = {parameters}}, [&] { return std::vector<slowmo::ParameterGroup>{{{parameters}, rate}}; },
      options);
  for (int step = 0; step < training.steps; ++step) {
    calls->clear();
    slowmo.step();
    const bool is_slow = (step + 1) % slow_every == 0, is_due = (step + 1) % average_every == 0;
    const auto reductions = std::ranges::count_if(*calls, [](comm::Operation one) { return comm::is_reduction(one); });
    const auto shards = options.memory_efficient ? std::min(context.size(), options.shards) : 1;
    EXPECT_EQ(reductions, is_slow ? shards : is_due ? 1 : 0) << "SLOWMO-012: reductions in step " << step;
  }
}

void periods_that_do_not_divide(Context& context) {
  slowmo::Options options = slow_momentum(0.5, 1, 3, context.parameters().text("memory") == "efficient");
  options.local_sgd_frequency = static_cast<int>(context.parameters().number("every"));
  const SlowMoTraining training{.options = options, .steps = 9};
  const ExpectedSlowMoRun run{
      .ranks = context.size(), .average_every = options.local_sgd_frequency, .slow_every = 3, .beta = 0.5, .alpha = 1};
  EXPECT_EQ(problem_of_run(context.world(), training, run), "") << "SLOWMO-012";
}

// ---- what a slow step comes to ----

void as_the_paper(Context& context) {
  const std::string& rule = context.parameters().text("rule");
  const double beta = rule == "rate" ? 0 : 0.5, alpha = rule == "momentum" ? 1 : 0.75;
  SlowMoTraining training{.options = slow_momentum(beta, alpha, 2, context.parameters().text("memory") == "efficient"),
                          .groups = static_cast<int>(context.parameters().number("groups"))};
  training.rate = [](int step) { return step < 4 ? 0.25 : 0.125; };
  const ExpectedSlowMoRun run{
      .ranks = context.size(), .average_every = 2, .slow_every = 2, .beta = beta, .alpha = alpha};
  EXPECT_EQ(problem_of_run(context.world(), training, run), "") << "SLOWMO-013";
}

void step_inside_nodes(Context& context) {
  slowmo::Options options = slow_momentum(0.5, 0.75, 2, context.parameters().text("memory") == "efficient");
  options.ranks_per_node = static_cast<int>(context.parameters().number("node"));
  options.local_sgd_frequency = 2;
  const SlowMoTraining training{.options = options};
  const ExpectedSlowMoRun run{.ranks = context.size(),
                              .ranks_per_node = options.ranks_per_node,
                              .average_every = 2,
                              .slow_every = 2,
                              .beta = 0.5,
                              .alpha = 0.75};
  EXPECT_EQ(problem_of_run(context.world(), training, run), "") << "SLOWMO-014";
}

// ---- memory ----

void shards_do_not_matter(Context& context) {
  const auto train = [&](bool efficient, int shards) {
    return train_with_slowmo(context.world(), {.options = slow_momentum(0.5, 0.75, 2, efficient, shards)});
  };
  const SlowMoRankResult whole = train(false, 1);
  const SlowMoRankResult sharded = train(true, static_cast<int>(context.parameters().number("shards")));
  const bool same_order = context.capabilities().has(comm::Capability::rank_order);
  for (std::size_t step = 0; step < whole.steps.size(); ++step)
    EXPECT_EQ(difference_of(whole.steps[step].parameters, sharded.steps[step].parameters, same_order ? 0 : 1e-11), "")
        << "SLOWMO-015: after step " << step;
}

void shards_are_kept(Context& context) {
  const int setting = static_cast<int>(context.parameters().number("shards"));
  const SlowMoRankResult trained =
      train_with_slowmo(context.world(), {.options = slow_momentum(0.5, 1, 2, true, setting), .steps = 2});
  const std::int64_t elements = 12, shards = std::min(context.size(), setting);
  const std::int64_t length = (elements + shards - 1) / shards;
  const auto& slow = trained.steps.back().slow;
  ASSERT_EQ(slow.has_value(), context.rank() < shards) << "SLOWMO-016: whether this rank keeps slow momentum";
  if (!slow) return;
  const std::int64_t begin = context.rank() * length, end = std::min(begin + length, elements);
  EXPECT_EQ(slow->range.size(), std::max<std::int64_t>(0, end - begin)) << "SLOWMO-016";
  EXPECT_EQ(slow->range.begin, begin) << "SLOWMO-016";
  EXPECT_EQ(slow->momentum.size(), static_cast<std::size_t>(slow->range.size())) << "SLOWMO-016";
  EXPECT_EQ(slow->old_parameters.size(), static_cast<std::size_t>(slow->range.size())) << "SLOWMO-016";
}

// ---- where it starts ----

void starts_together(Context& context) {
  SlowMoTraining training{.options = slow_momentum(0.5, 0.75, 3, context.parameters().text("memory") == "efficient"),
                          .starts_apart = context.parameters().text("start") == "apart"};
  const ExpectedSlowMoRun run{.ranks = context.size(), .average_every = 3, .slow_every = 3, .beta = 0.5, .alpha = 0.75};
  EXPECT_EQ(problem_of_run(context.world(), training, run), "") << "SLOWMO-017";
}

// Tensors that the optimizer alone has, such as masters that nobody else knows of.
void starts_optimizers_tensors(Context& context) {
  const bool own = context.parameters().text("tensors") == "own";
  double parameter = 1 + context.rank(), other = 10 + context.rank();
  const comm::Buffer parameters{&parameter, 1, comm::DType::f64}, others{&other, 1, comm::DType::f64};
  const slowmo::SlowMo slowmo(
      context.world(), {.parameters = {parameters}},
      [&] { return std::vector<slowmo::ParameterGroup>{{{own ? others : parameters}, 0.25}}; }, local_sgd(2));
  EXPECT_EQ(parameter, 1) << "SLOWMO-017";
  EXPECT_EQ(other, own ? 10 : 10 + context.rank()) << "SLOWMO-017: the optimizer's";
}

// Larger than what is summed at once; small multiples of the world's size, whose mean is exact in any order.
void large_parameter(Context& context) {
  constexpr std::int64_t count = 655'361;
  const auto size = static_cast<float>(context.size());
  slowmo::Options options = local_sgd(1);
  if (context.parameters().text("convention") == "fairscale") options.convention = slowmo::Convention::fairscale;
  std::vector<float> values(count);
  const comm::Buffer parameters{values.data(), count, comm::DType::f32};
  slowmo::SlowMo slowmo(
      context.world(), {.parameters = {parameters}},
      [&] { return std::vector<slowmo::ParameterGroup>{{{parameters}, 0.25}}; }, options);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = size * (static_cast<float>(i % 61) + 4 * static_cast<float>(context.rank()));
  slowmo.step();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != size * (static_cast<float>(i % 61) + 2 * (size - 1))) ++wrong;
  EXPECT_EQ(wrong, 0U) << "SLOWMO-045: elements that are not the mean";
}

// What all ranks have is its own mean, however large.
void large_halves(Context& context) {
  const comm::DType dtype = context.parameters().dtype();
  const double largest = dtype == comm::DType::f16 ? 60'000 : 0x1.8p+127;
  std::array<std::byte, 4> memory{};
  const comm::Buffer parameters{memory.data(), 2, dtype};
  slowmo::SlowMo slowmo(
      context.world(), {.parameters = {parameters}},
      [&] { return std::vector<slowmo::ParameterGroup>{{{parameters}, 0.25}}; }, local_sgd(1));
  for (const std::size_t at : {0, 2}) put_bits(dtype, memory.data() + at, nearest_bits(dtype, at == 0 ? largest : 1));
  slowmo.step();
  EXPECT_EQ(static_cast<double>(number_of(dtype, bits_at(dtype, memory.data()))), largest) << "SLOWMO-057";
  EXPECT_NEAR(static_cast<double>(number_of(dtype, bits_at(dtype, memory.data() + 2))), 1, 0x1p-7) << "SLOWMO-057";
}

// A number with all of a float's bits, which differs by rank and element.
float rough_value(int rank, std::int64_t element) {
  return static_cast<float>((element * 7919 + (rank + 1) * 104'729) % 1'000'003) * 0x1.8p-20F +
         static_cast<float>(rank);
}

// Each rank's part first, and then added from the rank before the chunk's own backwards.
float sum_along_ring(std::int64_t element, std::int64_t count, int ranks) {
  const std::int64_t chunk = element / comm::ring_chunk(count, ranks);
  const auto part = [&](int step) {
    return rough_value(static_cast<int>((chunk + ranks - step) % ranks), element) / static_cast<float>(ranks);
  };
  float sum = part(1);
  for (int step = 2; step <= ranks; ++step) sum += part(step);
  return sum;
}

// As long as the order is known for, and an element longer; averaged in a step of LocalSGD, or in a slow one, which
// then goes half of the way from 0.
void order_of_the_ring(Context& context) {
  const bool is_slow = context.parameters().text("step") == "slow",
             is_known = context.parameters().text("length") == "known";
  const std::int64_t count = (std::int64_t{2} << 20) * context.size() / 4 + (is_known ? 0 : 1);
  slowmo::Options options = local_sgd(1);
  options.convention = slowmo::Convention::fairscale;
  if (is_slow) options.slow_frequency = options.shards = 1, options.slow_learning_rate = 0.5;
  const auto calls = std::make_shared<std::vector<comm::Operation>>();
  Counting world(context.world().duplicate(), calls);
  std::vector<float> values(static_cast<std::size_t>(count));
  const comm::Buffer parameters{values.data(), count, comm::DType::f32};
  slowmo::SlowMo slowmo(
      world, {.parameters = {parameters}}, [&] { return std::vector<slowmo::ParameterGroup>{{{parameters}, 1}}; },
      options);
  slowmo.begin_slow_buffers();
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = rough_value(context.rank(), i);
  slowmo.step();
  const bool adds_itself = std::ranges::none_of(*calls, [](comm::Operation one) { return comm::is_reduction(one); });
  EXPECT_EQ(adds_itself, is_known) << "SLOWMO-056: whether the order is that of the ring";
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count && is_known; ++i)
    if (values[static_cast<std::size_t>(i)] != sum_along_ring(i, count, context.size()) * (is_slow ? 0.5F : 1)) ++wrong;
  EXPECT_EQ(wrong, 0) << "SLOWMO-056: elements of another order";
}

// A convention that begins slow buffers after the first step keeps ranks apart.
void begins_before_the_first_step(Context& context) {
  const auto train = [&](slowmo::Convention convention) {
    slowmo::Options options = slow_momentum(0.5, 1, 2, false);
    options.convention = convention;
    return train_with_slowmo(context.world(), {.options = options, .dtype = comm::DType::f32});
  };
  const auto apart = [&](const SlowMoRankResult& trained) {
    std::vector<double> all(static_cast<std::size_t>(context.size()) * 12);
    const SlowMoValues& last = trained.steps[5].parameters;  // after a slow step
    context.world().all_gather({last.data(), 12, comm::DType::f64},
                               {all.data(), static_cast<std::int64_t>(all.size()), comm::DType::f64});
    bool differs = false;
    for (std::size_t i = 0; i < all.size(); ++i) differs = differs || all[i] != all[i % 12];
    return differs;
  };
  EXPECT_FALSE(apart(train(slowmo::Convention::plumbline))) << "SLOWMO-018: ranks differ after a slow step";
  EXPECT_EQ(apart(train(slowmo::Convention::fairscale)), context.size() > 1)
      << "SLOWMO-018: FairScale's ranks stay apart, since each begins with its own parameters";
}

}  // namespace

void add_slowmo_step_checks(suite::Suite& suite) {
  const suite::Axis memory{"memory", {"efficient", "whole"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds = {1, 2, 3}) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("slowmo.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .applies =
                   [](const suite::Parameters& parameters) {
                     return !parameters.has("node") || parameters.world() % parameters.number("node") == 0;
                   },
               .body = body});
  };
  add("average.on_time", "SLOWMO-010@305d", {{"every", {"1", "2", "3"}}, {"groups", {"1", "2"}}}, averages_on_time,
      {2, 3});
  add("average.equals_synchronous", "SLOWMO-011@2a0f", {{"node", {"1", "2"}}}, equals_synchronous, {1, 2, 3, 4});
  add("average.gradients_are_complete", "SLOWMO-019@c74c", {{"node", {"1", "2"}}}, gradients_are_complete, {1, 3, 4});
  add("average.every_parameter", "SLOWMO-045@d4ee", {{"tensors", {"one", "many"}}}, every_parameter, {2, 3});
  add("average.without_gradients", "SLOWMO-046@35f2", {{"gradients", {"all", "some"}}}, without_gradients, {2, 3});
  add("slow.averages_once", "SLOWMO-012@f92f", {{"every", {"1", "2", "3"}}, memory}, averages_once, {2, 3});
  add("slow.periods", "SLOWMO-012@f92f", {{"every", {"1", "2", "3"}}, memory}, periods_that_do_not_divide, {2, 3});
  add("slow.as_the_paper", "SLOWMO-013@8aee", {{"rule", {"both", "momentum", "rate"}}, {"groups", {"1", "2"}}, memory},
      as_the_paper);
  add("slow.inside_nodes", "SLOWMO-014@7dd6", {{"node", {"1", "2"}}, memory}, step_inside_nodes, {2, 4, 6});
  add("slow.shards_do_not_matter", "SLOWMO-015@98f5", {{"shards", {"1", "2", "5", "32"}}}, shards_do_not_matter,
      {1, 2, 3, 5});
  add("slow.shards_are_kept", "SLOWMO-016@891f", {{"shards", {"1", "2", "5", "32"}}}, shards_are_kept, {1, 2, 3, 5});
  add("slow.starts_together", "SLOWMO-017@db3e", {{"start", {"together", "apart"}}, memory}, starts_together, {2, 3});
  add("slow.starts_optimizers_tensors", "SLOWMO-017@db3e", {{"tensors", {"own", "parameters"}}},
      starts_optimizers_tensors, {2, 3});
  add("average.large", "SLOWMO-045@d4ee", {{"convention", {"plumbline", "fairscale"}}}, large_parameter, {2, 3, 4});
  add("average.large_halves", "SLOWMO-057@e06b", {{"dtype", {"f16", "bf16"}}}, large_halves, {2, 3});
  add("average.order_of_the_ring", "SLOWMO-056@ce99", {{"step", {"average", "slow"}}, {"length", {"known", "longer"}}},
      order_of_the_ring, {2, 3});
  add("slow.begins_before_the_first_step", "SLOWMO-018@2949", {}, begins_before_the_first_step, {1, 2, 3});
}

}  // namespace plumbline::conformance
