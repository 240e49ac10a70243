// bucketing.reduce: gradients of training steps, reduced in buckets over ranks.
//
// Model   Every rank of a world in this process has a reducer; a step is its backward passes, and the last one reduces.
//         Gradients are in the rank's own memory, where passes accumulate them.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/bucketing/compression.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::adapter {

using bucketing::Reducer;
using comm::DType;
using nlohmann::json;

namespace {

constexpr int kMostReducingRanks = 16;
constexpr std::int64_t kMostElements = std::int64_t{1} << 19;  // of all gradients of all ranks, and of all steps

// A gradient that a pass produces.
struct Produced {
  int gradient = 0;
  std::vector<double> values;
};
// A rank's step; without passes the rank has run out of rows.
struct RankStep {
  std::vector<std::vector<Produced>> passes;
  std::vector<std::vector<double>> buffers;  // before each pass
};

struct Reduction {
  std::vector<bucketing::Gradient> gradients;
  bucketing::Plan plan;
  bucketing::ReducerOptions options;
  bool in_views = false;                      // gradients lie in buckets, and not in the caller's memory
  std::optional<std::int64_t> rebuild_bytes;  // of buckets that are made again after the first pass
  std::vector<std::vector<double>> initial;   // of each rank, where they are there
  std::size_t buffer = 0;                     // elements; 0: steps have no buffers
  std::optional<Arguments> compression;
  std::vector<std::vector<RankStep>> steps;
};

// ---- questions ----

DType type_of(const Arguments& arguments, const char* name) {
  return arguments.choice<DType>(
      name, {{"f16", DType::f16}, {"bf16", DType::bf16}, {"f32", DType::f32}, {"f64", DType::f64}});
}

// Buckets of these gradients, in launch order; padded to equal parts of the ranks where results are sharded.
bucketing::Plan plan_in(const Arguments& arguments, const Reduction& all, int world) {
  bucketing::Plan plan;
  std::set<int> seen;
  const bool is_sharded = all.options.results == bucketing::Results::sharded;
  for (const std::vector<int>& gradients : arguments.get<std::vector<std::vector<int>>>("buckets")) {
    bucketing::Bucket bucket{.first_member = static_cast<int>(plan.members.size()),
                             .members = static_cast<int>(gradients.size()),
                             .dtype = all.gradients.empty() ? DType::f32 : all.gradients.front().dtype};
    for (const int gradient : gradients) {
      if (gradient < 0 || gradient >= static_cast<int>(all.gradients.size()) || !seen.insert(gradient).second)
        arguments.refuse(fmt::format("buckets name gradient {}, which there is not, or twice", gradient));
      plan.members.push_back({gradient, bucket.elements});
      bucket.elements += all.gradients[static_cast<std::size_t>(gradient)].elements;
    }
    if (is_sharded) bucket.elements = (bucket.elements + world - 1) / world * world;
    plan.buckets.push_back(bucket);
  }
  return plan;
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

RankStep step_in(const Arguments& rank, const Reduction& all) {
  RankStep step;
  if (rank.has("passes"))
    for (const auto& pass : rank.get<std::vector<std::vector<Arguments>>>("passes")) {
      auto& list = step.passes.emplace_back();
      for (const Arguments& one : pass) {
        list.push_back({one.get<int>("gradient"), one.get<std::vector<double>>("values")});
        const int gradient = list.back().gradient;
        if (gradient < 0 || gradient >= static_cast<int>(all.gradients.size()))
          one.refuse(fmt::format("gradient is {}; there are {} gradients", gradient, all.gradients.size()));
      }
    }
  step.buffers = rank.get<std::vector<std::vector<double>>>("buffers", {});
  if (!step.buffers.empty() && step.buffers.size() != step.passes.size())
    rank.refuse(fmt::format("buffers has {} entries for {} passes", step.buffers.size(), step.passes.size()));
  return step;
}

// Every rank has them in memory, and the answer has them of every step.
void read_gradients(const Arguments& arguments, int world, Reduction& all) {
  const DType dtype = arguments.has("dtype") ? type_of(arguments, "dtype") : DType::f32;
  const auto steps = static_cast<std::int64_t>(arguments.get<std::vector<std::vector<Arguments>>>("steps").size());
  std::int64_t left = kMostElements / (world * std::max<std::int64_t>(1, steps));
  for (const std::int64_t elements : arguments.get<std::vector<std::int64_t>>("numel")) {
    if (elements < 0) arguments.refuse(fmt::format("numel has {}; a gradient has 0 elements or more", elements));
    if (elements > left)
      arguments.refuse(
          fmt::format("numel has more than {} elements for {} ranks and {} steps", kMostElements, world, steps));
    left -= elements;
    all.gradients.push_back({.elements = elements, .dtype = dtype});
  }
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

Reduction reduction_in(const Arguments& arguments, int world) {
  Reduction all;
  read_gradients(arguments, world, all);
  read_scaling(arguments, world, all.options);
  read_presence(arguments, all.options);
  all.options.overlap = arguments.get<bool>("overlap", true);
  const bool is_sharded = arguments.get<bool>("sharded", false);
  if (is_sharded) all.options.results = bucketing::Results::sharded;
  all.compression = arguments.find<Arguments>("compression");
  all.in_views = is_sharded || all.compression || all.options.join;
  all.options.memory = all.in_views ? bucketing::GradientMemory::views : bucketing::GradientMemory::copies;
  all.rebuild_bytes = arguments.find<std::int64_t>("rebuild_bytes");
  all.plan = plan_in(arguments, all, world);
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

// ---- one rank ----

// As the question's `compression` says; `sgd` keeps what it has from step to step.
bucketing::CommunicationHook hook_of(const Reduction& all, std::unique_ptr<bucketing::PowerSgd>& sgd) {
  const Arguments& asked = *all.compression;
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

class ReducingRank {
 public:
  ReducingRank(const Reduction& all, comm::Communicator& world)
      : all_(all), me_(static_cast<std::size_t>(world.rank())) {
    bucketing::ReducerOptions options = all.options;
    if (!all.initial.empty()) {
      initial_ = all.initial[me_];
      options.initial = {{initial_.data(), static_cast<std::int64_t>(initial_.size()), DType::f64}};
    }
    if (all.buffer > 0) {
      buffer_.resize(all.buffer);
      options.buffers = {{buffer_.data(), static_cast<std::int64_t>(buffer_.size()), DType::f64}};
    }
    if (all.rebuild_bytes)
      options.rebuild = [&all](std::span<const int> order) {
        return bucketing::buckets_in_order(all.gradients, order, std::vector<std::int64_t>{*all.rebuild_bytes});
      };
    if (all.compression) options.hook = hook_of(all, sgd_);
    reducer_ = std::make_unique<Reducer>(std::vector<comm::Communicator*>{&world}, all.gradients, all.plan, options);
  }

  [[nodiscard]] json step(std::size_t at) {
    json row = json::object();
    try {
      run(all_.steps[at][me_], row);
    } catch (const Error& error) {
      row = {{"error", {{"kind", error.kind()}, {"message", error.what()}}}};
    }
    return row;
  }

 private:
  void run(const RankStep& step, json& row) {
    own_.assign(all_.gradients.size(), std::nullopt);
    row["launches"] = json::array();
    std::vector<bool> produced(all_.gradients.size());
    if (step.passes.empty()) {
      if (reducer_->join_step())
        for (const bucketing::Member& member : reducer_->plan().members)
          produced[static_cast<std::size_t>(member.gradient)] = true;
    }
    for (std::size_t pass = 0; pass < step.passes.size(); ++pass) {
      if (!step.buffers.empty()) std::ranges::copy(step.buffers[pass], buffer_.begin());
      const bucketing::Outcome& outcome = made(step.passes[pass], pass + 1 == step.passes.size(), row);
      row["launches"].push_back(launches_of(outcome));
      if (outcome.synchronised) produced = outcome.produced;
    }
    row["grads"] = json::array();
    for (std::size_t i = 0; i < produced.size(); ++i)
      row["grads"].push_back(produced[i] && !is_sharded() ? json(values_of(i)) : json());
    if (is_sharded()) row["shards"] = shards();
    if (!initial_.empty()) row["initial"] = initial_;
    reducer_->clear();
  }
  [[nodiscard]] bool is_sharded() const { return all_.options.results == bucketing::Results::sharded; }

  const bucketing::Outcome& made(const std::vector<Produced>& list, bool synchronises, json& row) {
    bucketing::Pass pass{.synchronise = synchronises};
    using bucketing::Unused;
    if (all_.options.unused == Unused::zeros || all_.options.unused == Unused::find_unused)
      for (int gradient = 0; gradient < static_cast<int>(all_.gradients.size()); ++gradient)
        if (std::ranges::find(list, gradient, &Produced::gradient) == list.end()) pass.unused.push_back(gradient);
    reducer_->begin(pass);
    if (!buffer_.empty()) row["buffers"].push_back(buffer_);
    for (const Produced& one : list) {
      std::optional<TypedValues>& mine = own_[static_cast<std::size_t>(one.gradient)];
      const DType dtype = all_.gradients[static_cast<std::size_t>(one.gradient)].dtype;
      if (!mine || mine->size() != one.values.size())
        mine.emplace(dtype, one.values);
      else
        for (std::size_t i = 0; i < one.values.size(); ++i) mine->set(i, mine->at(i) + one.values[i]);
      reducer_->ready(one.gradient, mine->buffer());
    }
    return reducer_->finish();
  }
  [[nodiscard]] json launches_of(const bucketing::Outcome& outcome) const {
    json list = json::array();
    for (const bucketing::Launch& launch : outcome.launches) {
      if (launch.what != bucketing::Launch::What::bucket) continue;
      json gradients = json::array();
      const bucketing::Plan& plan = reducer_->plan();
      for (const auto& member : plan.members_of(plan.buckets[static_cast<std::size_t>(launch.bucket)]))
        gradients.push_back(member.gradient);
      list.push_back(
          {{"gradients", std::move(gradients)}, {"elements", launch.elements}, {"ready_before", launch.ready_before}});
    }
    return list;
  }
  // What this rank produced is where it lies, and the rest in the bucket.
  [[nodiscard]] std::vector<double> values_of(std::size_t gradient) {
    if (!all_.in_views && own_[gradient]) return own_[gradient]->values();
    return values_in(reducer_->view(static_cast<int>(gradient)));
  }
  static std::vector<double> values_in(const comm::Buffer& buffer) {
    TypedValues copy(buffer.dtype, std::vector<double>(static_cast<std::size_t>(buffer.count)));
    std::copy_n(static_cast<const std::byte*>(buffer.data), buffer.bytes(),
                static_cast<std::byte*>(copy.buffer().data));
    return copy.values();
  }
  [[nodiscard]] json shards() const {
    json list = json::array();
    for (int bucket = 0; bucket < static_cast<int>(reducer_->plan().buckets.size()); ++bucket)
      list.push_back(values_in(reducer_->results(bucket)));
    return list;
  }

  const Reduction& all_;
  std::size_t me_;
  std::vector<double> initial_, buffer_;
  std::vector<std::optional<TypedValues>> own_;  // what this step has accumulated
  std::unique_ptr<bucketing::PowerSgd> sgd_;
  std::unique_ptr<Reducer> reducer_;
};

json reduce(const Arguments& arguments) {
  const auto world = static_cast<int>(arguments.integer_in("world_size", 1, kMostReducingRanks));
  const Reduction all = reduction_in(arguments, world);
  if (all.compression) {  // read here, too, as far as fields are named
    std::unique_ptr<bucketing::PowerSgd> none;
    (void)hook_of(all, none);
    for (const char* field : {"channel", "directions", "start", "least_rate", "warm_start", "error_feedback", "shapes"})
      (void)all.compression->has(field);
  }
  arguments.expect_no_others();
  std::vector<std::vector<json>> rows(static_cast<std::size_t>(world));
  comm::run_ranks(world, [&](comm::Communicator& group) {
    ReducingRank rank(all, group);
    auto& mine = rows[static_cast<std::size_t>(group.rank())];
    for (std::size_t step = 0; step < all.steps.size(); ++step) {
      mine.push_back(rank.step(step));
      if (mine.back().contains("error")) return;
    }
    try {
      group.barrier();  // nobody leaves while another one still communicates
    } catch (const comm::PeerFailed&) {
      // but one whose run has ended with an error
    }
  });
  json steps = json::array();
  for (std::size_t step = 0; step < all.steps.size(); ++step) {
    if (std::ranges::any_of(rows, [&](const auto& mine) { return mine.size() <= step; })) break;
    json& row = steps.emplace_back(json::array());
    for (const auto& mine : rows) row.push_back(mine[step]);
  }
  return {{"steps", std::move(steps)}};
}

}  // namespace

void add_reduce_operations(AdapterService& service) {
  service.add(
      {"bucketing.reduce",
       "reduces the gradients of training steps in buckets over ranks",
       {"plumbline"},
       {{"world_size", "integer", "number of ranks, 1 to 16"},
        {"numel", "list of integer [gradients]",
         "elements of each gradient; their sum times the numbers of ranks and of steps is at most 2^19"},
        {"dtype",
         "text",
         "element type of the gradients; null: f32",
         kOptional,
         {"f16", "bf16", "f32", "f64"},
         {},
         {"f16", "bf16", "f32", "f64"}},
        {"buckets", "list of list of integer [buckets][members]",
         "gradients of each bucket, in the order in which buckets are reduced; others are left alone"},
        {"average", "boolean", "sums are divided by the number of ranks", "true"},
        where_named(
            {"divide_before", "integer",
             "of average: factor of the ranks by which each rank divides before the sum, which is divided by the rest; "
             "null: "
             "the collective averages",
             kOptional}),
        where_named(
            {"divisor", "integer", "of average: by what sums are divided in place of the number of ranks", kOptional}),
        where_named({"largest", "number", "gradients that are larger, NaN or Inf are rejected; null: none", kOptional}),
        {"wire",
         "text",
         "element type in which gradients are communicated; null: their own",
         kOptional,
         {"f16", "bf16", "f32"},
         {},
         {"f16", "bf16", "f32"}},
        {"unused",
         "text",
         "gradients that a rank does not produce: they count as zeros (zeros); ranks learn which no rank produces "
         "(find_unused); they are those of the first step (static_graph); null: all are produced",
         kOptional,
         {"zeros", "find_unused", "static_graph"},
         {},
         {"zeros", "find_unused", "static_graph"}},
        {"join",
         "text",
         "ranks may run out of rows; a sum is divided by all ranks (initial_world) or by those with rows; null: none "
         "does",
         kOptional,
         {"initial_world", "present_ranks"},
         {},
         {"initial_world", "present_ranks"}},
        where_named({"overlap", "boolean", "reductions start during the backward pass", "true"}),
        where_named({"sharded", "boolean", "each rank has its equal part of a bucket's results, and no more", "false"}),
        where_named(
            {"rebuild_bytes", "long integer [bytes]",
             "after the first step, buckets are made again in rank 0's order of readiness, each closed when it reaches "
             "this "
             "size; null: they stay",
             kOptional}),
        with_fields(
            {"compression", "object", "buckets are communicated in fewer bytes", kOptional},
            {{"kind",
              "text",
              "bytes: a byte an element; powersgd: products of two narrow matrices",
              kRequired,
              {"bytes", "powersgd"},
              {},
              {"bytes", "powersgd"}},
             {"channel", "long integer", "of bytes: elements that share a scale; 0: the bucket", "0"},
             {"directions", "integer", "of powersgd: columns of the narrow matrices", "1"},
             {"start", "long integer", "of powersgd: reductions before the first compressed one", "0"},
             {"least_rate", "number", "of powersgd: gradients that shrink by no more are not compressed", "0.0"},
             {"warm_start", "boolean", "of powersgd: a step begins with the directions of the one before", "true"},
             {"error_feedback", "boolean", "of powersgd: what a step lacks is added to the next", "true"},
             {"shapes", "list of list of long integer [gradients][2]", "of powersgd: rows and columns", kOptional}}),
        where_named({"initial", "list of list of number [world_size][elements]",
                     "values of each rank, of which rank 0's are everyone's from the first pass on", kOptional}),
        with_fields(
            {"steps", "list of list of object [steps][world_size]", "what each rank has in each step"},
            {with_fields(
                 {"passes", "list of list of object [passes][gradients]",
                  "backward passes, of which the last reduces, each as the gradients in the order in which they "
                  "are ready; null: the rank has run out of rows",
                  kOptional},
                 {{"gradient", "integer", "its index"}, {"values", "list of number", "what the pass adds to it"}}),
             where_named(
                 {"buffers", "list of list of number [passes][elements]",
                  "buffers of the model before each pass, to be rank 0's in the last; all of one length, or none",
                  kOptional})})},
       {{"steps",
         "list of list of object [steps][world_size]",
         "what each rank has after each step",
         {{"grads", "list of any [gradients]",
           "the reduced gradients: a list of numbers, or null where no rank has it"},
          {"launches",
           "list of list of object [passes][reductions]",
           "reductions of buckets, in the order in which they were started",
           {{"gradients", "list of integer", "the bucket's, in any order"},
            {"elements", "long integer", "the bucket's, with any padding"},
            {"ready_before", "integer", "gradients of the pass that were ready when it was started"}}},
          {"shards", "list of list of number [buckets]", "of sharded: this rank's part of each bucket"},
          {"buffers", "list of list of number [passes][elements]", "buffers of the model in each pass"},
          {"initial", "list of number", "the values of initial"},
          {"error", "object", "kind and message of the error that ends the run of this rank"}}}},
       R"({"world_size": 2, "numel": [2], "buckets": [[0]],
           "steps": [[{"passes": [[{"gradient": 0, "values": [1, 2]}]]}, {"passes": [[{"gradient": 0, "values": [3, 6]}]]}]]})",
       {{"invalid_argument",
         "options exclude each other, a gradient is in two buckets or does not exist, a list has another length, or "
         "gradients have too many elements"},
        {"unsupported", "a combination of options that the system does not have"}}},
      reduce);
}

}  // namespace plumbline::adapter
