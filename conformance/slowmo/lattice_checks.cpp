// Outer optimizers as points of one rule, each by its own paper's recurrence; where they coincide; who averages how
// often.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/slowmo/slowmo_training.hpp"
#include "conformance/support/refusal.hpp"
#include "reference/slowmo/averaging.hpp"

namespace plumbline::conformance {

using slowmo::OuterRule;
using suite::Context;

namespace {

SlowMoTraining training_by(const OuterRule& rule, int every = 2) {
  SlowMoTraining training{.steps = 9};
  training.options.outer = rule;
  training.options.slow_frequency = training.options.local_sgd_frequency = every;
  return training;
}

// ---- each by its own recurrence ----

// x: where the outer step starts; mean: of the ranks; memory: what the optimizer remembers.
using Outer = std::function<void(double& x, double mean, double& memory)>;

Outer recurrence_of(const std::string& name) {
  if (name == "bmuf")
    return [](double& x, double mean, double& delta) {
      delta = 0.5 * delta + 0.75 * (mean - x);
      x += delta;
    };
  if (name == "lookahead") return [](double& x, double mean, double&) { x += 0.5 * (mean - x); };
  if (name == "localsgd") return [](double& x, double mean, double&) { x = mean; };
  return [](double& x, double mean, double& velocity) {  // DiLoCo
    const double gradient = x - mean;
    velocity = 0.9 * velocity + gradient;
    x -= 0.7 * (gradient + 0.9 * velocity);
  };
}

OuterRule rule_named(const std::string& name) {
  if (name == "bmuf") return slowmo::bmuf_rule(0.5, 0.75);
  if (name == "lookahead") return slowmo::lookahead_rule(0.5);
  if (name == "localsgd") return slowmo::local_sgd_rule();
  return slowmo::diloco_rule();
}

void as_published(Context& context) {
  const std::string& name = context.parameters().text("rule");
  SlowMoTraining training = training_by(rule_named(name));
  training.rate = [](int step) { return step < 4 ? 0.25 : 0.125; };
  const ExpectedSlowMoRun run{.ranks = context.size(), .slow_every = 2, .outer = recurrence_of(name)};
  EXPECT_EQ(problem_of_run(context.world(), training, run), "") << "SLOWMO-040";
}

// ---- where they coincide ----

// Momentum that is lost when it is added, and yet not 0: slow steps are made even where they change nothing, so that
// what is compared is not the same code.
constexpr double kNone = 1e-300;

void expect_same(Context& context, const SlowMoTraining& one, const SlowMoTraining& other) {
  const SlowMoRankResult first = train_with_slowmo(context.world(), one);
  EXPECT_TRUE(first.steps.front().slow) << "SLOWMO-041: the first run has no slow steps";
  const SlowMoRankResult second = train_with_slowmo(context.world(), other);
  for (std::size_t step = 0; step < first.steps.size(); ++step)
    EXPECT_EQ(difference_of(first.steps[step].parameters, second.steps[step].parameters, 1e-11), "")
        << "SLOWMO-041: after step " << step;
}

SlowMoTraining slowmo_training(double beta, double alpha, int every = 2) {
  return training_by(slowmo::slowmo_rule(beta, alpha), every);
}

void coincide(Context& context) {
  const std::string& what = context.parameters().text("what");
  if (what == "slowmo_is_local_sgd") {
    SlowMoTraining local{.steps = 9};
    local.options.slow_momentum = 0;
    local.options.local_sgd_frequency = 2;
    expect_same(context, slowmo_training(kNone, 1), local);
  }
  if (what == "slowmo_is_synchronous_sgd") {
    SlowMoTraining synchronous{.steps = 9};
    synchronous.options.slow_momentum = 0;
    synchronous.options.local_sgd_frequency = 1;
    expect_same(context, slowmo_training(kNone, 1, 1), synchronous);
  }
  if (what == "slowmo_is_lookahead")
    expect_same(context, slowmo_training(0, 0.5), training_by(slowmo::lookahead_rule(0.5)));
  if (what == "slowmo_is_bmuf")
    expect_same(context, slowmo_training(0.5, 0.75), training_by(slowmo::bmuf_rule(0.5, 0.75)));
  if (what == "slowmo_is_heavy_ball") {
    OuterRule heavy_ball = slowmo::diloco_rule(0.75, 0.5);
    heavy_ball.nesterov = false;
    expect_same(context, slowmo_training(0.5, 0.75), training_by(heavy_ball));
  }
  if (what == "diloco_is_local_sgd")
    expect_same(context, training_by(slowmo::diloco_rule(1, kNone)), training_by(slowmo::local_sgd_rule()));
  if (what == "options_are_a_rule") {
    SlowMoTraining options = slowmo_training(0, 1);
    options.options.outer.reset();
    options.options.slow_momentum = 0.5;
    options.options.slow_learning_rate = 0.75;
    expect_same(context, slowmo_training(0.5, 0.75), options);
  }
}

// Slow momentum is of differences divided by the rate of their time; block momentum is of the differences themselves.
void rates_that_change(Context& context) {
  const bool changes = context.parameters().text("rate") == "changes";
  SlowMoTraining slow = slowmo_training(0.5, 1), block = training_by(slowmo::bmuf_rule(0.5, 1));
  slow.rate = block.rate = [changes](int step) { return changes && step >= 4 ? 0.125 : 0.25; };
  const SlowMoValues one = train_with_slowmo(context.world(), slow).steps.back().parameters;
  const SlowMoValues other = train_with_slowmo(context.world(), block).steps.back().parameters;
  EXPECT_EQ(difference_of(one, other, 1e-11).empty(), !changes) << "SLOWMO-042";
}

// ---- who averages how often ----

void post_local(Context& context) {
  const int begin = static_cast<int>(context.parameters().number("begin"));
  SlowMoTraining training{.steps = 10};
  training.options.slow_momentum = 0;
  training.options.local_sgd_frequency = 3;
  training.options.local_sgd_begin = begin;
  ExpectedSlowMoRun run{.ranks = context.size()};
  run.averages = [begin](int step) { return step < begin || (step - begin + 1) % 3 == 0; };
  EXPECT_EQ(problem_of_run(context.world(), training, run), "") << "SLOWMO-043";
}

// Every rank's value is its own; what it has become says with whom it was averaged, and so when.
void averagers(Context& context) {
  const int warmup = static_cast<int>(context.parameters().number("warmup"));
  const bool two_levels = context.parameters().text("levels") == "two";
  slowmo::AveragingSchedule schedule{.warmup = warmup};
  if (two_levels) schedule.levels.push_back({.period = 2, .group_size = 2});
  schedule.levels.push_back({.period = two_levels ? 4 : 3, .group_size = context.size()});
  slowmo::ModelAverager averager(context.world(), schedule);
  for (int call = 0; call < warmup + 9; ++call) {
    double one = context.rank(), two = 10.0 * context.rank();
    const std::vector<comm::Buffer> tensors{{&one, 1, comm::DType::f64}, {&two, 1, comm::DType::f64}};
    EXPECT_EQ(averager.calls(), call) << "SLOWMO-044";
    const int level = averager.average(tensors), since = call - warmup;
    const bool all = since >= 0 && since % (two_levels ? 4 : 3) == 0;
    const bool pairs = two_levels && since >= 0 && since % 2 == 0;
    const double expected = all ? (context.size() - 1) / 2.0 : pairs ? context.rank() / 2 * 2 + 0.5 : context.rank();
    EXPECT_EQ(level, all ? (two_levels ? 1 : 0) : pairs ? 0 : -1) << "SLOWMO-044: the level of call " << call;
    EXPECT_DOUBLE_EQ(one, expected) << "SLOWMO-044: call " << call;
    EXPECT_DOUBLE_EQ(two, 10 * expected) << "SLOWMO-044: call " << call;
  }
}

// Levels of one rank, of some, and of all are an averager; each fault alone makes it none.
void averagers_refused(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  const int world = context.size();
  const auto said = [&](const slowmo::AveragingSchedule& schedule) {
    return refusal<InvalidArgument>([&] { const slowmo::ModelAverager averager(context.world(), schedule); });
  };
  const slowmo::AveragingSchedule right{
      .levels = {{.period = 1, .group_size = 1}, {.period = 2, .group_size = 2}, {.period = 3, .group_size = world}}};
  EXPECT_EQ(said(right), kNotRefused) << "SLOWMO-049";
  slowmo::AveragingSchedule wrong = right;
  if (fault == "no_levels") wrong.levels.clear();
  if (fault == "warmup") wrong.warmup = -1;
  if (fault == "period_0") wrong.levels[0].period = 0;
  if (fault == "period_stays") wrong.levels[1].period = 1;
  if (fault == "period_falls") wrong.levels[2].period = 1;
  if (fault == "group_0") wrong.levels[0].group_size = 0;
  if (fault == "group_below_0") wrong.levels[0].group_size = -1;
  if (fault == "group_stays") wrong.levels[1].group_size = 1;
  if (fault == "group_falls") wrong.levels[0].group_size = 4;
  if (fault == "group_no_multiple") wrong.levels[1].group_size = world - 1;
  if (fault == "part_of_the_world") wrong.levels.pop_back();
  if (fault == "beyond_the_world") wrong.levels[2].group_size = 2 * world;
  const std::string words = said(wrong);
  EXPECT_NE(words, kNotRefused) << "SLOWMO-049";
  EXPECT_EQ(words.find("another error"), std::string::npos) << "SLOWMO-049: " << words;
}

}  // namespace

void add_slowmo_lattice_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("slowmo.") + name, .verifies = {requirement}, .axes = std::move(axes), .body = body});
  };
  add("lattice.as_published", "SLOWMO-040@60c9", {{"rule", {"bmuf", "lookahead", "localsgd", "diloco"}}}, as_published,
      {1, 2, 3});
  add("lattice.coincide", "SLOWMO-041@f7c6",
      {{"what",
        {"slowmo_is_local_sgd", "slowmo_is_synchronous_sgd", "slowmo_is_lookahead", "slowmo_is_bmuf",
         "slowmo_is_heavy_ball", "diloco_is_local_sgd", "options_are_a_rule"}}},
      coincide, {1, 3});
  add("lattice.rates_that_change", "SLOWMO-042@ec9d", {{"rate", {"changes", "stays"}}}, rates_that_change, {2, 3});
  add("average.post_local", "SLOWMO-043@5582", {{"begin", {"0", "1", "4"}}}, post_local, {2, 3});
  add("average.in_groups", "SLOWMO-044@14e0", {{"levels", {"one", "two"}}, {"warmup", {"0", "3"}}}, averagers, {4, 6});
  add("average.schedules_refused", "SLOWMO-049@3a1a",
      {{"fault",
        {"no_levels", "warmup", "period_0", "period_stays", "period_falls", "group_0", "group_below_0", "group_stays",
         "group_falls", "group_no_multiple", "part_of_the_world", "beyond_the_world"}}},
      averagers_refused, {4, 6});
}

}  // namespace plumbline::conformance
