// Reads questions of bucketing.reduce.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "reference/bucketing/detail/reduction.hpp"

namespace plumbline::adapter {

using comm::DType;

namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 19;  // of all gradients of all ranks, and of all steps
constexpr int kMostWireBuffers = 64;

DType type_of(const Arguments& arguments, const char* name) {
  return arguments.choice<DType>(
      name, {{"f16", DType::f16}, {"bf16", DType::bf16}, {"f32", DType::f32}, {"f64", DType::f64}});
}

// Buckets of these gradients, in launch order; padded to equal parts of that many ranks.
bucketing::Plan plan_in(const Arguments& arguments, const std::vector<bucketing::Gradient>& gradients, DType dtype,
                        int parts) {
  bucketing::Plan plan;
  std::set<int> seen;
  for (const std::vector<int>& members : arguments.get<std::vector<std::vector<int>>>("buckets")) {
    bucketing::Bucket bucket{.first_member = static_cast<int>(plan.members.size()),
                             .members = static_cast<int>(members.size()),
                             .dtype = dtype};
    for (const int gradient : members) {
      if (gradient < 0 || gradient >= static_cast<int>(gradients.size()) || !seen.insert(gradient).second)
        arguments.refuse(fmt::format("buckets name gradient {}, which there is not, or twice", gradient));
      plan.members.push_back({gradient, bucket.elements});
      bucket.elements += gradients[static_cast<std::size_t>(gradient)].elements;
      bucket.sparse = bucket.sparse || gradients[static_cast<std::size_t>(gradient)].sparse;
    }
    bucket.elements = (bucket.elements + parts - 1) / parts * parts;
    plan.buckets.push_back(bucket);
  }
  return plan;
}

// Every rank has them in memory, and the answer has them of every step; empty ones take memory, too.
std::vector<bucketing::Gradient> gradients_in(const Arguments& arguments, DType dtype, std::int64_t copies) {
  std::vector<bucketing::Gradient> gradients;
  std::int64_t left = kMostElements / copies;
  for (const std::int64_t elements : arguments.get<std::vector<std::int64_t>>("numel")) {
    if (elements < 0) arguments.refuse(fmt::format("numel has {}; a gradient has 0 elements or more", elements));
    const std::int64_t counted = std::max<std::int64_t>(1, elements);
    if (counted > left)
      arguments.refuse(fmt::format("numel has more than {} elements for {} ranks times steps", kMostElements, copies));
    left -= counted;
    gradients.push_back({.elements = elements, .dtype = dtype});
  }
  return gradients;
}

void read_plans(const Arguments& arguments, int world, Reduction& all) {
  if (arguments.has("dtype")) all.dtype = type_of(arguments, "dtype");
  const auto steps = static_cast<std::int64_t>(arguments.get<std::vector<std::vector<Arguments>>>("steps").size());
  const std::int64_t copies = world * std::max<std::int64_t>(1, steps);
  const bool is_sharded = all.options.results == bucketing::Results::sharded;
  const int parts = !is_sharded ? 1 : all.instance > 0 ? all.instance : world;
  const auto sparse = arguments.get<std::vector<int>>("sparse", {});
  const auto read = [&](const Arguments& one) {
    RankPlan plan{.gradients = gradients_in(one, all.dtype, copies), .plan = {}};
    for (const int gradient : sparse) {
      if (gradient < 0 || gradient >= static_cast<int>(plan.gradients.size()))
        arguments.refuse(fmt::format("sparse has gradient {}; there are {}", gradient, plan.gradients.size()));
      plan.gradients[static_cast<std::size_t>(gradient)].sparse = true;
    }
    plan.plan = plan_in(one, plan.gradients, all.dtype, parts);
    return plan;
  };
  all.common = read(arguments);
  for (const Arguments& one : arguments.get<std::vector<Arguments>>("plans", {})) all.own_plans.push_back(read(one));
  if (!all.own_plans.empty() && all.own_plans.size() != static_cast<std::size_t>(world))
    arguments.refuse(fmt::format("plans has {} entries for {} ranks", all.own_plans.size(), world));
}

void read_scaling(const Arguments& arguments, int world, bucketing::ReducerOptions& options) {
  options.average = arguments.get<bool>("average", true);
  if (const auto before = arguments.find<int>("divide_before")) {
    if (*before < 1 || world % *before != 0)
      arguments.refuse(fmt::format("divide_before is {}; it must divide the {} ranks", *before, world));
    options.split = bucketing::Split{*before, world / *before};
  }
  if (const auto divisor = arguments.find<int>("divisor")) options.divisors = {*divisor};
  options.largest = arguments.find<double>("largest");
  if (arguments.has("wire")) options.wire = type_of(arguments, "wire");
  options.wire_buffers = arguments.get<int>("wire_buffers", options.wire_buffers);
  if (options.wire_buffers > kMostWireBuffers)
    arguments.refuse(fmt::format("wire_buffers is {}; it is at most {}", options.wire_buffers, kMostWireBuffers));
}

void read_presence(const Arguments& arguments, bucketing::ReducerOptions& options) {
  using bucketing::JoinDivisor, bucketing::Unused;
  if (arguments.has("unused"))
    options.unused = arguments.choice<Unused>(
        "unused",
        {{"zeros", Unused::zeros}, {"find_unused", Unused::find_unused}, {"static_graph", Unused::static_graph}});
  options.join = arguments.has("join");
  if (options.join)
    options.join_divisor = arguments.choice<JoinDivisor>(
        "join", {{"initial_world", JoinDivisor::initial_world}, {"present_ranks", JoinDivisor::present_ranks}});
}

// Of a run that goes on after rejected calls, a gradient that does not exist is one of them.
Produced produced_in(const Arguments& one, const Reduction& all) {
  Produced produced{.gradient = one.get<int>("gradient"),
                    .values = one.get<std::vector<double>>("values", {}),
                    .rows = one.find<std::vector<std::int64_t>>("rows"),
                    .dtype = std::nullopt,
                    .is_unused = one.get<bool>("unused", false)};
  if (one.has("dtype")) produced.dtype = type_of(one, "dtype");
  if (!produced.is_unused && !one.has("values")) one.refuse("a gradient has values, or is unused");
  const std::size_t count = all.common.gradients.size();
  if (!all.goes_on && (produced.gradient < 0 || produced.gradient >= static_cast<int>(count)))
    one.refuse(fmt::format("gradient is {}; there are {} gradients", produced.gradient, count));
  return produced;
}

RankStep step_in(const Arguments& rank, const Reduction& all) {
  RankStep step;
  if (rank.has("passes"))
    for (const auto& pass : rank.get<std::vector<std::vector<Arguments>>>("passes")) {
      auto& list = step.passes.emplace_back();
      for (const Arguments& one : pass) list.push_back(produced_in(one, all));
    }
  step.buffers = rank.get<std::vector<std::vector<double>>>("buffers", {});
  if (!step.buffers.empty() && step.buffers.size() != step.passes.size())
    rank.refuse(fmt::format("buffers has {} entries for {} passes", step.buffers.size(), step.passes.size()));
  return step;
}

// A rank has its buffers in one place, which the reducer knows from the start.
void read_buffers(const Arguments& arguments, Reduction& all) {
  std::optional<std::size_t> length;  // 0: none
  for (std::size_t step = 0; step < all.steps.size(); ++step)
    for (const RankStep& rank : all.steps[step])
      for (std::size_t pass = 0; pass < rank.passes.size(); ++pass) {
        const std::size_t mine = rank.buffers.empty() ? 0 : rank.buffers[pass].size();
        if (!length) length = mine;
        if (mine != *length)
          arguments.refuse(fmt::format("steps[{}] has buffers of {} elements, others have {}", step, mine, *length));
      }
  all.buffer = length.value_or(0);
}

void read_initial(const Arguments& arguments, int world, Reduction& all) {
  all.initial = arguments.get<std::vector<std::vector<double>>>("initial", {});
  if (!all.initial.empty() && all.initial.size() != static_cast<std::size_t>(world))
    arguments.refuse(fmt::format("initial has {} entries for {} ranks", all.initial.size(), world));
  for (const auto& values : all.initial)
    if (values.size() != all.initial[0].size())
      arguments.refuse(
          fmt::format("initial has {} elements of one rank and {} of another", all.initial[0].size(), values.size()));
}

void read_memory(const Arguments& arguments, Reduction& all) {
  all.options.lazy = arguments.get<bool>("lazy", false);
  all.in_views = all.options.results == bucketing::Results::sharded || all.compression ||
                 all.exchange != Exchange::none || all.options.join;
  all.options.memory = all.in_views ? bucketing::GradientMemory::views : bucketing::GradientMemory::copies;
  all.positions = arguments.get<std::vector<std::int64_t>>("positions", {});
  if (all.positions.empty()) return;
  if (all.in_views) throw Unsupported("bucketing.reduce: positions, with gradients that lie in buckets");
  const auto expect_as_many = [&](const RankPlan& plan) {
    if (all.positions.size() != plan.gradients.size())
      arguments.refuse(
          fmt::format("positions has {} entries for {} gradients", all.positions.size(), plan.gradients.size()));
  };
  expect_as_many(all.common);
  std::ranges::for_each(all.own_plans, expect_as_many);
  for (const std::int64_t position : all.positions)
    if (position < 0 || position > kMostElements)
      arguments.refuse(fmt::format("positions has {}; they are 0 to {}", position, kMostElements));
}

void read_instances(const Arguments& arguments, int world, Reduction& all) {
  all.instance = arguments.get<int>("ranks_per_instance", 0);
  if (all.instance == 0) return;
  if (all.instance < 0 || world % all.instance != 0)
    arguments.refuse(fmt::format("ranks_per_instance is {}; it must divide the {} ranks", all.instance, world));
  if (all.options.results != bucketing::Results::sharded)
    throw Unsupported("bucketing.reduce: instances without sharded results");
}

}  // namespace

Reduction reduction_in(const Arguments& arguments, int world) {
  Reduction all;
  read_scaling(arguments, world, all.options);
  read_presence(arguments, all.options);
  all.options.overlap = arguments.get<bool>("overlap", true);
  if (arguments.get<bool>("sharded", false)) all.options.results = bucketing::Results::sharded;
  read_instances(arguments, world, all);
  all.compression = arguments.find<Arguments>("compression");
  if (arguments.has("exchange"))
    all.exchange = arguments.choice<Exchange>(
        "exchange", {{"sum", Exchange::sum}, {"first_rank", Exchange::first_rank}, {"sum_twice", Exchange::sum_twice}});
  if (all.compression && all.exchange != Exchange::none) arguments.refuse("compression is an exchange, too");
  all.rebuild_bytes = arguments.find<std::int64_t>("rebuild_bytes");
  all.calls_back = arguments.get<bool>("callbacks", false);
  all.goes_on = arguments.get<bool>("after_rejections", false);
  all.records = arguments.get<bool>("collectives", false);
  all.options.names = arguments.get<std::vector<std::string>>("names", {});
  read_plans(arguments, world, all);
  read_memory(arguments, all);
  read_initial(arguments, world, all);
  for (const auto& step : arguments.get<std::vector<std::vector<Arguments>>>("steps")) {
    if (step.size() != static_cast<std::size_t>(world))
      arguments.refuse(fmt::format("steps[{}] has {} entries for {} ranks", all.steps.size(), step.size(), world));
    auto& ranks = all.steps.emplace_back();
    for (const Arguments& rank : step) ranks.push_back(step_in(rank, all));
  }
  read_buffers(arguments, all);
  return all;
}

bucketing::CommunicationHook hook_of(const Arguments& asked, std::unique_ptr<bucketing::PowerSgd>& sgd) {
  if (asked.choice<bool>("kind", {{"bytes", true}, {"powersgd", false}}))
    return bucketing::quantising_hook(asked.get<std::int64_t>("channel", bucketing::kWholeBucket));
  const bucketing::PowerSgdOptions options{.rank = asked.get<int>("directions", 1),
                                           .start = asked.get<std::int64_t>("start", 0),
                                           .least_rate = asked.get<double>("least_rate", 0),
                                           .warm_start = asked.get<bool>("warm_start", true),
                                           .error_feedback = asked.get<bool>("error_feedback", true)};
  std::vector<bucketing::MatrixShape> shapes;
  for (const auto& shape : asked.get<std::vector<std::vector<std::int64_t>>>("shapes")) {
    if (shape.size() != 2) asked.refuse("a shape of compression has rows and columns");
    shapes.push_back({shape[0], shape[1]});
  }
  sgd = std::make_unique<bucketing::PowerSgd>(std::move(shapes), options);
  return sgd->hook();
}

}  // namespace plumbline::adapter
