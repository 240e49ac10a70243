// What comes of options on each rank, what each step will do, what a run tells of itself, and what it takes from a
// checkpoint.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/slowmo/slowmo_training.hpp"
#include "conformance/support/claimed_type.hpp"
#include "conformance/support/refusal.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Buffer;
using comm::DType;
using slowmo::BaseAlgorithm;
using slowmo::Convention;
using slowmo::ParameterGroup;
using slowmo::Setting;
using slowmo::SlowMo;
using slowmo::StepPlan;
using suite::Context;
using testing::HasSubstr;

namespace {

Convention convention_in(Context& context) {
  return context.parameters().text("convention") == "fairscale" ? Convention::fairscale : Convention::plumbline;
}

// ---- settings ----

// Numbers that are none of the defaults, of which no two are alike.
slowmo::Options options_asked(Convention convention, BaseAlgorithm base, int ranks_per_node, bool slow, bool efficient,
                              int shards) {
  slowmo::Options options{.convention = convention, .ranks_per_node = ranks_per_node, .base = base};
  options.slow_momentum = slow ? 0.25 : 0;
  options.slow_frequency = 10;
  options.memory_efficient = efficient;
  options.shards = shards;
  options.local_sgd_frequency = 5;
  options.local_sgd_begin = convention == Convention::plumbline ? 7 : 0;
  options.sgp_average_params = efficient;
  options.overlap = options.accepts_stale = convention == Convention::plumbline;
  return options;
}

// Whether nothing is exchanged between nodes: there is one. FairScale asks for a group of masters, which a node of one
// rank has.
bool is_alone(const slowmo::Options& options, int world) {
  if (world != options.ranks_per_node) return false;
  return options.convention == Convention::plumbline || world > 1;
}

std::vector<slowmo::Warning::What> warnings_of(const slowmo::Options& options, int world) {
  using What = slowmo::Warning::What;
  const bool is_slow = options.slow_momentum != 0, has_base = options.base != BaseAlgorithm::none;
  std::vector<What> warnings;
  if (has_base && world > 1 && is_alone(options, world)) warnings.push_back(What::one_node);
  const bool is_nobody_else = world == 1 && is_alone(options, world);
  if (is_slow && !is_nobody_else && (!has_base || is_alone(options, world))) warnings.push_back(What::no_base);
  return warnings;
}

void expect_setting(const slowmo::Options& options, int rank, int world) {
  const Setting got = slowmo::settle(options, rank, world);
  const int width = options.ranks_per_node;
  const bool between = !is_alone(options, world);
  const std::string where = fmt::format("SLOWMO-051: rank {} of {}, {} a node, shards {}", rank, world, width,
                                        options.memory_efficient ? options.shards : -1);
  EXPECT_EQ(got.rank, rank) << where;
  EXPECT_EQ(got.world, world) << where;
  EXPECT_EQ(got.ranks_per_node, width) << where;
  EXPECT_EQ(got.node * width + got.local_rank, rank) << where;
  EXPECT_TRUE(got.local_rank >= 0 && got.local_rank < width) << where << ": local rank " << got.local_rank;
  EXPECT_EQ(got.nodes * width, world) << where;
  EXPECT_EQ(got.is_master(), rank == got.node * width) << where;
  EXPECT_EQ(got.convention, options.convention) << where;
  EXPECT_EQ(got.slow, options.slow_momentum != 0) << where;
  EXPECT_EQ(got.local_sgd, options.base == BaseAlgorithm::local_sgd && between) << where;
  EXPECT_EQ(got.sgp, options.base == BaseAlgorithm::sgp && between) << where;
  EXPECT_EQ(got.overlap, options.overlap && (between || options.base == BaseAlgorithm::none)) << where;
  EXPECT_EQ(got.outer, slowmo::slowmo_rule(options.slow_momentum, options.slow_learning_rate)) << where;
  EXPECT_EQ(got.slow_frequency, 10) << where;
  EXPECT_EQ(got.local_sgd_frequency, 5) << where;
  EXPECT_EQ(got.local_sgd_begin, options.convention == Convention::plumbline ? 7 : 0) << where;
  EXPECT_EQ(got.memory_efficient, options.memory_efficient) << where;
  EXPECT_EQ(got.sgp_average_params, options.sgp_average_params) << where;
  const int shards = options.memory_efficient ? std::min(options.shards, world) : 1;
  EXPECT_EQ(got.shards, shards) << where;
  EXPECT_EQ(got.owns_shard, !options.memory_efficient || rank < shards) << where;
  std::vector<slowmo::Warning::What> said;
  for (const slowmo::Warning& warning : got.warnings) said.push_back(warning.what);
  EXPECT_EQ(said, warnings_of(options, world)) << where;
}

void settings(Context& context) {
  const auto base = slowmo::parse_base_algorithm(context.parameters().text("base"));
  for (const int width : {1, 2, 3})
    for (const int nodes : {1, 2, 3})
      for (const bool slow : {true, false})
        for (const int shards : {0, 1, 2, 32}) {
          const slowmo::Options options =
              options_asked(convention_in(context), base, width, slow, shards > 0, shards > 0 ? shards : 5);
          for (int rank = 0; rank < width * nodes; ++rank) expect_setting(options, rank, width * nodes);
        }
}

// Of frequencies, one a multiple of the other or not, and used or not.
void frequencies(Context& context) {
  const Convention convention = convention_in(context);
  for (const auto base : {BaseAlgorithm::local_sgd, BaseAlgorithm::sgp})
    for (const int slow_every : {4, 5, 6})
      for (const bool slow : {true, false}) {
        slowmo::Options options{.convention = convention, .base = base, .slow_momentum = slow ? 0.5 : 0.0};
        options.slow_frequency = slow_every;
        options.local_sgd_frequency = 3;
        const Setting got = slowmo::settle(options, 0, 2);
        const bool is_warned =
            slow && slow_every != 6 && base == BaseAlgorithm::local_sgd && convention == Convention::plumbline;
        ASSERT_EQ(got.warnings.size(), is_warned ? 1 : 0) << "SLOWMO-037: every " << slow_every << " steps";
        if (!is_warned) continue;
        EXPECT_EQ(got.warnings[0].what, slowmo::Warning::What::frequencies) << "SLOWMO-037";
        EXPECT_THAT(got.warnings[0].message, HasSubstr(fmt::format("slow_frequency is {},", slow_every)))
            << "SLOWMO-037";
        EXPECT_THAT(got.warnings[0].message, HasSubstr("local_sgd_frequency, 3:")) << "SLOWMO-037";
      }
}

void refuses_settings(Context& context) {
  const std::string& what = context.parameters().text("what");
  slowmo::Options options;
  int rank = 1;
  std::string words;
  if (what == "rank_below") rank = -1, words = "rank is -1";
  if (what == "rank_beyond") rank = 2, words = "rank is 2";
  if (what == "another_rank") options.rank = 0, words = "rank is 0";
  if (what == "another_world_below") options.world_size = 1, words = "world_size is 1";
  if (what == "another_world_beyond") options.world_size = 3, words = "world_size is 3";
  if (what == "begin") options.local_sgd_begin = -1, words = "local_sgd_begin is -1";
  if (what.ends_with("of_fairscale")) options.convention = Convention::fairscale;
  if (what == "begin_of_fairscale") options.local_sgd_begin = 1, words = "local_sgd_begin is 1";
  if (what == "outer_of_fairscale") options.outer = slowmo::slowmo_rule(0.5, 1), words = "outer is given";
  if (what == "own") options.rank = 1, options.world_size = 2;
  EXPECT_THAT(refusal<InvalidArgument>([&] { (void)slowmo::settle(options, rank, 2); }),
              HasSubstr(words.empty() ? kNotRefused : words))
      << "SLOWMO-051";
}

// Slow momentum of nothing.
void refuses_nothing_to_optimize(Context& context) {
  const bool has_group = context.parameters().text("groups") == "empty",
             is_slow = context.parameters().text("slow") == "yes";
  const auto group = context.world().create_group(std::vector{context.rank()});
  double value = 0;
  std::vector<ParameterGroup> groups(has_group ? 1 : 0);
  const auto make = [&] {
    const SlowMo slowmo(*group, {.parameters = {{&value, 1, DType::f64}}}, [&] { return groups; },
                        {.slow_momentum = is_slow ? 0.5 : 0});
  };
  if (is_slow)
    expect_rejected<InvalidArgument>("SLOWMO-035", make, {"parameters"});
  else
    EXPECT_EQ(refusal<InvalidArgument>(make), kNotRefused) << "SLOWMO-035";
}

// ---- plans ----

// Whether something is due that comes after every so many steps.
bool falls_on(int step, int every) { return step % every == every - 1; }

StepPlan expected_plan(const slowmo::Options& options, int step) {
  const bool is_sgp = options.base == BaseAlgorithm::sgp;
  StepPlan plan{.slow = options.slow_momentum != 0 && falls_on(step, options.slow_frequency)};
  if (options.base == BaseAlgorithm::local_sgd)
    plan.local_sgd =
        step < options.local_sgd_begin || falls_on(step - options.local_sgd_begin, options.local_sgd_frequency);
  if (options.convention == Convention::fairscale) {
    const bool averages_numerators = is_sgp && options.sgp_average_params && plan.slow;
    plan.slow_average = plan.skip_averaging = plan.slow && options.memory_efficient;
    plan.average = averages_numerators || (plan.local_sgd && !plan.slow_average);
    plan.gossip = is_sgp && !plan.slow_average && !averages_numerators;
    return plan;
  }
  const bool keeps_estimates = is_sgp && !options.memory_efficient && !options.sgp_average_params;
  plan.slow_average = plan.skip_averaging = plan.slow && !keeps_estimates;
  plan.average = plan.local_sgd && !plan.slow_average;
  plan.gossip = is_sgp && !plan.slow_average;
  return plan;
}

void plans(Context& context) {
  const Convention convention = convention_in(context);
  const auto base = slowmo::parse_base_algorithm(context.parameters().text("base"));
  for (const bool slow : {true, false})
    for (const bool efficient : {true, false})
      for (const bool averages : {true, false})
        for (const int begin : {0, 1, 4}) {
          if (begin > 0 && convention == Convention::fairscale) continue;
          slowmo::Options options{.convention = convention, .base = base, .slow_momentum = slow ? 0.5 : 0.0};
          options.slow_frequency = 4;
          options.local_sgd_frequency = 3;
          options.local_sgd_begin = begin;
          options.memory_efficient = efficient;
          options.sgp_average_params = averages;
          const Setting setting = slowmo::settle(options, 0, 2);
          for (int step = 0; step < 14; ++step)
            EXPECT_EQ(slowmo::plan_of(setting, step), expected_plan(options, step))
                << "SLOWMO-052: step " << step << (slow ? ", slow" : "") << (efficient ? ", efficient" : "")
                << (averages ? ", sgp_average_params" : "") << ", LocalSGD from " << begin;
        }
}

// Each element is in one shard, all shards but those at the end are of one length, and there are no others.
void shards(Context& context) {
  const int shards = static_cast<int>(context.parameters().number("shards"));
  for (const std::int64_t elements : {0, 1, 4, 5, 6, 12, 13}) {
    const std::int64_t length = elements / shards + (elements % shards == 0 ? 0 : 1);
    for (int shard = 0; shard < shards; ++shard) {
      const slowmo::Range range = slowmo::shard_range(elements, shards, shard);
      EXPECT_EQ(range.begin, shard * length) << "SLOWMO-016: shard " << shard << " of " << elements << " elements";
      EXPECT_EQ(range.size(), std::clamp<std::int64_t>(elements - shard * length, 0, length))
          << "SLOWMO-016: shard " << shard << " of " << elements << " elements";
    }
  }
  for (const int wrong : {-1, shards, shards + 1})
    EXPECT_THAT(refusal<OutOfRange>([&] { (void)slowmo::shard_range(12, shards, wrong); }),
                HasSubstr(fmt::format("shard {} of {}", wrong, shards)))
        << "SLOWMO-016";
}

// ---- what a run tells ----

// A run over nodes of one rank, a ring of them or "hub", which is not regular.
slowmo::Options told_options(const std::string& base, int nodes) {
  slowmo::Options options{.slow_frequency = 2, .local_sgd_frequency = 1};
  if (base == "localsgd" || nodes == 1) return options;
  options.base = BaseAlgorithm::sgp;
  std::vector<std::vector<int>> rows;
  for (int node = 0; node < nodes; ++node) rows.push_back({base == "hub" && node > 0 ? 0 : (node + 1) % nodes});
  options.graph = gossip::Graph(std::move(rows), 1, Convention::plumbline, base != "hub");
  options.overlap = options.accepts_stale = base == "lagging_ring";
  options.synch_freq = base == "lagging_ring" ? 1 : 0;
  return options;
}

void tells(Context& context) {
  const std::string& base = context.parameters().text("base");
  const slowmo::Options options = told_options(base, context.size());
  const bool is_sgp = options.base == BaseAlgorithm::sgp;
  std::vector<float> values(5);
  const Buffer parameter{values.data(), 5, DType::f32};
  SlowMo slowmo(
      context.world(), {.parameters = {parameter}}, [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; },
      options);
  EXPECT_EQ(slowmo.is_lazy(), is_sgp && base == "ring") << "SLOWMO-054: whether weights stay 1";
  EXPECT_EQ(slowmo.push_sum_weight(), 1) << "SLOWMO-054";
  for (int step = 0; step < 4; ++step) {
    EXPECT_TRUE(slowmo.is_training()) << "SLOWMO-054";
    EXPECT_EQ(slowmo.steps_done(), step) << "SLOWMO-054";
    EXPECT_EQ(slowmo.plan(), slowmo::plan_of(slowmo.setting(), step)) << "SLOWMO-054: step " << step;
    slowmo.before_forward();
    EXPECT_FALSE(slowmo.is_numerator()) << "SLOWMO-054: in the forward of step " << step;
    slowmo.after_backward({});
    EXPECT_EQ(slowmo.is_numerator(), is_sgp) << "SLOWMO-054: after the backward of step " << step;
    slowmo.step();
  }
  slowmo.evaluate();
  EXPECT_FALSE(slowmo.is_training()) << "SLOWMO-054: in evaluation";
  slowmo.train();
  EXPECT_TRUE(slowmo.is_training()) << "SLOWMO-054: after evaluation";
}

// Slow buffers are there from the start, as large as a rank's shard, and stay what they are when they are begun again.
void tells_of_slow_buffers(Context& context) {
  const std::string& memory = context.parameters().text("memory");
  slowmo::Options options{.slow_frequency = 1, .shards = 1, .local_sgd_frequency = 1};
  if (memory == "none") options.slow_momentum = 0;
  options.memory_efficient = memory != "whole";
  const bool keeps = memory == "whole" || (memory == "first_rank" && context.rank() == 0);
  std::vector<double> values{1, 2, 3};
  const Buffer parameter{values.data(), 3, DType::f64};
  SlowMo slowmo(
      context.world(), {.parameters = {parameter}}, [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; },
      options);
  EXPECT_EQ(slowmo.slow_buffer_bytes(), keeps ? 2 * 3 * 8 : 0) << "SLOWMO-054: bytes of slow buffers";
  ASSERT_EQ(slowmo.slow_state().has_value(), keeps) << "SLOWMO-054: whether this rank keeps any";
  for (double& value : values) value -= 1;
  slowmo.step();
  const auto before = slowmo.slow_state();
  values = {7, 8, 9};
  slowmo.begin_slow_buffers();
  EXPECT_EQ(slowmo.slow_state(), before) << "SLOWMO-054: slow buffers that are there already";
  if (!before) return;
  EXPECT_EQ(before->old_parameters, (std::vector<double>{0, 1, 2})) << "SLOWMO-054";
  EXPECT_EQ(before->momentum, (std::vector<double>{4, 4, 4})) << "SLOWMO-054";
}

// Every phase that a step has is told, with rank and step, and timed; nothing is where nobody asks.
void phases(Context& context) {
  require_claimed(context, DType::f16);
  const std::string& asked = context.parameters().text("asked");
  const bool is_told = asked == "yes" || asked == "lines", is_timed = asked == "yes" || asked == "times";
  comm::Float16 half{};
  float master = 0;
  const Buffer parameter{&half, 1, DType::f16}, master_weights{&master, 1, DType::f32};
  std::vector<std::string> lines;
  slowmo::Options options{.slow_frequency = 2, .local_sgd_frequency = 1};
  options.verbose = is_told || asked == "lines_nobody_reads";
  options.profile = is_timed;
  if (asked != "lines_nobody_reads") options.log = [&](std::string_view line) { lines.emplace_back(line); };
  SlowMo slowmo(
      context.world(), {.parameters = {parameter}, .master_weights = master_weights},
      [&] { return std::vector<ParameterGroup>{{{master_weights}, 0.25}}; }, options);
  for (int step = 0; step < 2; ++step) {
    slowmo.before_forward();
    slowmo.after_backward({});
    slowmo.step();
  }
  using slowmo::Phase;
  struct Told {
    Phase phase;
    const char* name;
    bool in_first, in_second;  // step: the second is slow, and averages itself
  };
  for (const auto& [phase, name, in_first, in_second] : {Told{Phase::buffers, "buffers", true, true},
                                                         {Phase::average, "average", true, false},
                                                         {Phase::node, "node", true, false},
                                                         {Phase::error_before, "error_before", true, false},
                                                         {Phase::error_after, "error_after", true, false},
                                                         {Phase::copy_back, "copy_back", true, true},
                                                         {Phase::slow, "slow", false, true},
                                                         {Phase::gossip, "gossip", false, false},
                                                         {Phase::gradients, "gradients", false, false}}) {
    for (const int step : {0, 1}) {
      const std::string line = fmt::format("rank {}, step {}: {} done", context.rank(), step, name);
      EXPECT_EQ(std::ranges::count(lines, line), is_told && (step == 0 ? in_first : in_second) ? 1 : 0)
          << "SLOWMO-113: " << line;
    }
    EXPECT_EQ(slowmo.seconds()[static_cast<std::size_t>(phase)] > 0, is_timed && (in_first || in_second))
        << "SLOWMO-113: seconds of " << name;
  }
}

// A round of gossip that overlaps is told twice: when it is handed over, and when it is collected.
void phases_of_gossip(Context& context) {
  slowmo::Options options{.ranks_per_node = context.size() / 2, .base = BaseAlgorithm::sgp, .slow_momentum = 0};
  options.overlap = options.accepts_stale = context.parameters().text("overlap") == "yes";
  options.verbose = options.profile = true;
  std::vector<std::string> lines;
  options.log = [&](std::string_view line) { lines.emplace_back(line); };
  double value = context.rank(), gradient = 1;
  const Buffer parameter{&value, 1, DType::f64}, made{&gradient, 1, DType::f64};
  SlowMo slowmo(
      context.world(), {.parameters = {parameter}}, [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; },
      options);
  slowmo.before_forward();
  slowmo.after_backward(std::span(&made, 1));
  slowmo.step();
  using slowmo::Phase;
  const int rounds = options.overlap ? 2 : 1;
  for (const auto& [phase, name, times] : {std::tuple{Phase::buffers, "buffers", 1},
                                           {Phase::gradients, "gradients", options.ranks_per_node > 1 ? 1 : 0},
                                           {Phase::gossip, "gossip", rounds},
                                           {Phase::node, "node", rounds},
                                           {Phase::error_before, "error_before", rounds},
                                           {Phase::error_after, "error_after", rounds},
                                           {Phase::copy_back, "copy_back", rounds},
                                           {Phase::average, "average", 0},
                                           {Phase::slow, "slow", 0}}) {
    const std::string line = fmt::format("rank {}, step 0: {} done", context.rank(), name);
    EXPECT_EQ(std::ranges::count(lines, line), times) << "SLOWMO-113: " << line;
    EXPECT_EQ(slowmo.seconds()[static_cast<std::size_t>(phase)] > 0, times > 0) << "SLOWMO-113: seconds of " << name;
  }
}

// A step without a backward is one whose backward made nothing.
void steps_without_a_backward(Context& context) {
  const slowmo::Options options = told_options("hub", context.size());
  const auto trained = [&](bool has_backward) {
    std::vector<float> values{1, 2, 3};
    const Buffer parameter{values.data(), 3, DType::f32};
    SlowMo slowmo(
        context.world(), {.parameters = {parameter}}, [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; },
        options);
    for (int step = 0; step < 6; ++step) {
      for (float& value : values) value += static_cast<float>((context.rank() + 1) * (step + 1));
      slowmo.before_forward();
      if (has_backward) slowmo.after_backward({});
      slowmo.step();
    }
    return values;
  };
  EXPECT_EQ(trained(false), trained(true)) << "SLOWMO-021";
}

// ---- checkpoints that do not fit ----

// Push-sum over two nodes, slow momentum at the first rank; or LocalSGD.
slowmo::Options saved_options(const std::string& base, int world) {
  slowmo::Options options{.slow_frequency = 2, .shards = 1, .local_sgd_frequency = 2};
  options.ranks_per_node = world / 2;
  if (base != "localsgd") options.base = BaseAlgorithm::sgp;
  if (base == "sgp_of_fairscale") options.convention = Convention::fairscale;
  return options;
}

// A checkpoint with one fault, and the words of its refusal.
struct Fault {
  const char* name;
  void (*make)(slowmo::Checkpoint& checkpoint);
  const char* words;
  bool is_lacking = false;
};

const std::vector<Fault>& faults_of(const std::string& base) {
  using Checkpoint = slowmo::Checkpoint;
  static const std::vector<Fault> of_gossip{
      {"weight", [](Checkpoint& one) { one.push_sum_weight.reset(); }, "lacks the push-sum weight", true},
      {"flag", [](Checkpoint& one) { one.is_numerator.reset(); }, "lacks whether parameters are numerators", true}};
  static const std::vector<Fault> of_averages{
      {"a weight", [](Checkpoint& one) { one.push_sum_weight = 1; }, "there is no push-sum here"},
      {"a flag", [](Checkpoint& one) { one.is_numerator = false; }, "there is no push-sum here"},
      {"steps", [](Checkpoint& one) { one.steps.reset(); }, "lacks the number of steps", true}};
  return base == "localsgd" ? of_averages : of_gossip;
}

// What the first rank alone has to have: slow buffers of its range, complete.
const std::vector<Fault>& faults_of_slow_buffers() {
  using Checkpoint = slowmo::Checkpoint;
  constexpr const char* kOthers = "keeps elements 0 to 5";
  static const std::vector<Fault> faults{
      {"slow buffers", [](Checkpoint& one) { one.slow.reset(); }, "lacks the slow momentum buffers", true},
      {"begin", [](Checkpoint& one) { ++one.slow->range.begin; }, kOthers},
      {"end", [](Checkpoint& one) { --one.slow->range.end; }, kOthers},
      {"old, short", [](Checkpoint& one) { one.slow->old_parameters.pop_back(); }, kOthers},
      {"old, long", [](Checkpoint& one) { one.slow->old_parameters.push_back(0); }, kOthers},
      {"momentum, short", [](Checkpoint& one) { one.slow->momentum.pop_back(); }, kOthers},
      {"momentum, long", [](Checkpoint& one) { one.slow->momentum.push_back(0); }, kOthers}};
  return faults;
}

void expect_not_loaded(SlowMo& slowmo, slowmo::Checkpoint checkpoint, const Fault& fault) {
  fault.make(checkpoint);
  const auto load = [&] { slowmo.load(checkpoint); };
  EXPECT_THAT(fault.is_lacking ? refusal<NotFound>(load) : refusal<InvalidArgument>(load), HasSubstr(fault.words))
      << "SLOWMO-053: " << fault.name;
}

void refuses_checkpoints(Context& context) {
  const std::string& base = context.parameters().text("base");
  const slowmo::Options options = saved_options(base, context.size());
  const bool is_whole = options.convention == Convention::plumbline;
  const bool is_master = context.rank() % options.ranks_per_node == 0;
  std::vector<float> values{1, 2, 3, 4, 5};
  const Buffer parameter{values.data(), 5, DType::f32};
  const auto groups = [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; };
  slowmo::Checkpoint saved;
  std::optional<slowmo::SlowState> kept;
  {
    SlowMo first(context.world(), {.parameters = {parameter}}, groups, options);
    for (int step = 0; step < 3; ++step) {
      first.before_forward();
      first.after_backward({});
      for (float& value : values) value -= 1 + static_cast<float>(context.rank());
      first.step();
    }
    saved = first.checkpoint();
    kept = first.slow_state();
  }
  EXPECT_EQ(saved.round.has_value(), is_whole && is_master && base != "localsgd") << "SLOWMO-053: of masters alone";
  SlowMo other(context.world(), {.parameters = {parameter}}, groups, options);
  for (const Fault& fault : faults_of(base)) expect_not_loaded(other, saved, fault);
  if (is_whole && base != "localsgd" && is_master)
    expect_not_loaded(other, saved,
                      {"round", [](slowmo::Checkpoint& one) { one.round.reset(); }, "lacks the round of gossip", true});
  if (is_whole && context.rank() == 0)
    for (const Fault& fault : faults_of_slow_buffers()) expect_not_loaded(other, saved, fault);
  EXPECT_EQ(refusal<InvalidArgument>([&] { other.load(saved); }), kNotRefused) << "SLOWMO-053: what was saved";
  EXPECT_EQ(other.steps_done(), is_whole ? 3 : 0) << "SLOWMO-053: steps";
  if (is_whole) {
    EXPECT_EQ(other.slow_state(), kept) << "SLOWMO-053: slow buffers";
    EXPECT_EQ(other.checkpoint(), saved) << "SLOWMO-053: what is saved again";
  }
  context.world().barrier();
}

// Steps that were never taken would warn again, and average in other steps than those that are counted.
void refuses_counts_below_zero(Context& context) {
  const slowmo::Options options = saved_options(context.parameters().text("base"), context.size());
  std::vector<float> values{1, 2, 3, 4, 5};
  const Buffer parameter{values.data(), 5, DType::f32};
  SlowMo slowmo(
      context.world(), {.parameters = {parameter}}, [&] { return std::vector<ParameterGroup>{{{parameter}, 0.25}}; },
      options);
  slowmo.begin_slow_buffers();
  const slowmo::Checkpoint saved = slowmo.checkpoint();
  EXPECT_TRUE(saved.steps) << "SLOWMO-184: there is a count";
  for (const auto count : {&slowmo::Checkpoint::steps, &slowmo::Checkpoint::round}) {
    if (!(saved.*count)) continue;  // ranks that are not masters have no round
    slowmo::Checkpoint below = saved;
    below.*count = -1;
    EXPECT_THAT(refusal<InvalidArgument>([&] { slowmo.load(below); }),
                testing::AllOf(HasSubstr("-1"), testing::Not(HasSubstr("another error"))))
        << "SLOWMO-184";
    EXPECT_EQ(slowmo.checkpoint(), saved) << "SLOWMO-184: what was loaded";
  }
  EXPECT_EQ(refusal<InvalidArgument>([&] { slowmo.load(saved); }), kNotRefused) << "SLOWMO-184: what was saved";
  context.world().barrier();
}

}  // namespace

void add_slowmo_setting_checks(suite::Suite& suite) {
  const suite::Axis convention{"convention", {"plumbline", "fairscale"}}, base{"base", {"localsgd", "sgp", "none"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds = {1}) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("slowmo.") + name, .verifies = {requirement}, .axes = std::move(axes), .body = body});
  };
  add("options.settled", "SLOWMO-051@f9e2", {convention, base}, settings);
  add("options.frequencies", "SLOWMO-037@9983", {convention}, frequencies);
  add("options.settings_refused", "SLOWMO-051@f9e2",
      {{"what",
        {"nothing", "own", "rank_below", "rank_beyond", "another_rank", "another_world_below", "another_world_beyond",
         "begin", "nothing_of_fairscale", "begin_of_fairscale", "outer_of_fairscale"}}},
      refuses_settings);
  add("options.nothing_to_optimize", "SLOWMO-035@1a22", {{"groups", {"none", "empty"}}, {"slow", {"yes", "no"}}},
      refuses_nothing_to_optimize);
  add("gossip.without_backward", "SLOWMO-021@4310", {}, steps_without_a_backward, {2, 3});
  add("options.plans", "SLOWMO-052@e7e9", {convention, base}, plans);
  add("slow.shard_ranges", "SLOWMO-016@891f", {{"shards", {"1", "2", "5"}}}, shards);
  add("options.told", "SLOWMO-054@373f", {{"base", {"localsgd", "ring", "hub", "lagging_ring"}}}, tells, {1, 2, 3});
  add("options.phases", "SLOWMO-113@b3ef", {{"asked", {"yes", "no", "lines", "times", "lines_nobody_reads"}}}, phases,
      {2, 3});
  add("options.phases_of_gossip", "SLOWMO-113@b3ef", {{"overlap", {"yes", "no"}}}, phases_of_gossip, {2, 4, 6});
  add("slow.buffers_told", "SLOWMO-054@373f", {{"memory", {"whole", "first_rank", "none"}}}, tells_of_slow_buffers,
      {1, 2, 3});
  add("checkpoint.refused", "SLOWMO-053@64f7", {{"base", {"localsgd", "sgp", "sgp_of_fairscale"}}}, refuses_checkpoints,
      {2, 4, 6});
  add("checkpoint.counts_below_zero", "SLOWMO-184@9e9a", {{"base", {"localsgd", "sgp"}}}, refuses_counts_below_zero,
      {2, 4, 6});
}

}  // namespace plumbline::conformance
