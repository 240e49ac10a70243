// Where gradients lie while they are reduced, what of them is looked at first, and what is known of a bucket when.
#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/bucketing/reducer_training.hpp"
#include "conformance/support/recording.hpp"
#include "harness/bench/known_values.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using bucketing::GradientMemory;
using bucketing::Reducer;
using comm::Buffer;
using comm::DType;
using suite::Context;
using testing::AllOf;
using testing::HasSubstr;

namespace {

// ---- in the caller's memory ----

// Bytes of the gradients of a step that do not have a bucket of their own, of those that this rank makes.
std::int64_t bytes_in_company(const ReducerTraining& training, int step, int rank) {
  std::vector<int> order(training.sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  const bucketing::Plan plan = plan_of_training(training, order);
  std::int64_t bytes = 0;
  for (const auto& bucket : plan.buckets)
    for (const auto& member : plan.members_of(bucket))
      if (bucket.members > 1 && training.produces(step, 0, rank, member.gradient))
        bytes += 4 * training.sizes[static_cast<std::size_t>(member.gradient)];
  return bytes;
}

void in_place(Context& context) {
  const std::string limit = context.parameters().text("limit");
  ReducerTraining training{.sizes = sizes_of_model("mlp"),
                           .limit_bytes = limit == "each"   ? 0
                                          : limit == "flat" ? 1 << 30
                                                            : 600,
                           .made_in = MadeIn::own_memory};
  if (context.parameters().text("lacking") == "in_turn") {
    training.options.unused = bucketing::Unused::find_unused;
    training.produces = [](int step, int, int rank, int gradient) { return (gradient + step + rank) % 3 != 0; };
  }
  const Trained trained = train_with_reducer(context.world(), training);
  judge_training(context, training, trained, nearness_of(context.capabilities()), "BUCKET-101");
  for (int step = 0; step < training.steps; ++step) {
    const bucketing::Outcome& outcome = trained[static_cast<std::size_t>(step)].passes.back();
    const std::int64_t expected = bytes_in_company(training, step, context.rank());
    EXPECT_EQ(outcome.copied_in, expected) << "BUCKET-101: bytes copied into buckets, step " << step;
    EXPECT_EQ(outcome.copied_out, expected) << "BUCKET-101: and out of them";
  }
}

// A reducer of two gradients, of 5 and 4 numbers, of this rank alone: nobody waits for it.
template <class Part>
std::string refusal_alone(Context& context, bucketing::ReducerOptions options, const Part& part) {
  const auto own = context.world().create_group(std::vector{context.rank()});
  const ReducerTraining training{.sizes = {5, 4}};
  options.names = {"weight", "bias"};
  Reducer reducer({own.get()}, gradients_of_training(training), plan_of_training(training, {1, 0}), options);
  return refusal<InvalidArgument>([&] {
    reducer.begin();
    part(reducer);
  });
}
std::string rank_alone(Context& context) { return fmt::format("rank 0 of group [{}]", context.rank()); }

void shared_memory(Context& context) {
  const std::string shared = context.parameters().text("shared");
  std::vector<float> memory(16);
  // Where the four numbers of the second one begin; the five of the first do at 4.
  const std::int64_t begin = shared == "all"     ? 4
                             : shared == "begin" ? 1
                             : shared == "end"   ? 8
                             : shared == "none"  ? 9
                                                 : 0;
  const std::string said = refusal_alone(context, {.memory = GradientMemory::copies}, [&](Reducer& reducer) {
    reducer.ready(0, {memory.data() + 4, 5, DType::f32});
    reducer.ready(1, {memory.data() + begin, 4, DType::f32});
  });
  if (shared == "none" || shared == "none_before")
    EXPECT_EQ(said, kNotRefused) << "BUCKET-100: gradients side by side";
  else
    EXPECT_THAT(said, AllOf(HasSubstr("'weight' and 'bias' share memory"), HasSubstr(rank_alone(context))))
        << "BUCKET-100";
}

// In the next step gradients may have each other's memory, and then both the same.
void memory_exchanged(Context& context) {
  const auto own = context.world().create_group(std::vector{context.rank()});
  const std::vector<bucketing::Gradient> gradients(3, {.elements = 4});
  Reducer reducer({own.get()}, gradients, bucketing::plan_unfused(gradients), {.memory = GradientMemory::copies});
  std::vector<float> first(4), second(4), third(4);
  const auto step = [&](std::vector<float>& a, std::vector<float>& b, std::vector<float>& c) {
    return refusal<InvalidArgument>([&] {
      reducer.begin();
      int gradient = 0;
      for (std::vector<float>* memory : {&a, &b, &c}) reducer.ready(gradient++, comm::Buffer::of(*memory));
      (void)reducer.finish();
      reducer.clear();
    });
  };
  EXPECT_EQ(step(first, second, third), kNotRefused) << "BUCKET-100: each in its own";
  EXPECT_EQ(step(second, first, third), kNotRefused) << "BUCKET-100: exchanged";
  EXPECT_NE(step(third, third, first), kNotRefused) << "BUCKET-100: two in one that was another's";
}

// ---- before a reduction ----

void finite(Context& context) {
  const std::string what = context.parameters().text("what");
  const bool views = context.parameters().text("memory") == "views";
  using Limits = std::numeric_limits<float>;
  const double largest = what == "large" ? 100 : Limits::max();
  std::vector<float> values{1, -2, 3, -100, 5};
  if (what == "infinity") values.back() = -Limits::infinity();
  if (what == "nan") values.back() = Limits::quiet_NaN();
  if (what == "large") values.back() = 101;
  const std::string said =
      refusal_alone(context, {.memory = views ? GradientMemory::views : GradientMemory::copies, .largest = largest},
                    [&](Reducer& reducer) { reducer.ready(0, {values.data(), 5, DType::f32}); });
  if (what == "nothing")
    EXPECT_EQ(said, kNotRefused) << "BUCKET-102";
  else
    EXPECT_THAT(said, AllOf(HasSubstr("'weight'"), HasSubstr("element 4"), HasSubstr(rank_alone(context))))
        << "BUCKET-102";
}

// ---- when a bucket is reduced ----

// How many of a gradient's numbers are not the known ones.
std::size_t wrong_numbers(Buffer values, int gradient, float factor) {
  std::vector<float> expected(static_cast<std::size_t>(values.count));
  bucketing::fill_known({expected.data(), values.count, DType::f32}, gradient, factor);
  const std::span<const float> found(static_cast<const float*>(values.data), expected.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) wrong += found[i] == expected[i] ? 0 : 1;
  return wrong;
}

void told(Context& context) {
  ReducerTraining training{.sizes = {3000, 5, 700, 4000}, .limit_bytes = 4000};
  if (context.parameters().text("limit") == "flat") training.limit_bytes = 1 << 30;
  const bool views = context.parameters().text("memory") == "views";
  const std::vector<int> order{3, 2, 1, 0};
  Vectors own;
  for (const std::int64_t size : training.sizes) own.emplace_back(static_cast<std::size_t>(size));
  std::vector<int> buckets;
  std::function<void(int)> reduced;
  Reducer reducer({&context.world()}, gradients_of_training(training), plan_of_training(training, order),
                  {.memory = views ? GradientMemory::views : GradientMemory::copies,
                   .average = false,
                   .reduced = [&](int bucket) { reduced(bucket); }});
  const auto place = [&](int gradient) {
    std::vector<float>& values = own[static_cast<std::size_t>(gradient)];
    return views ? reducer.view(gradient) : Buffer::of(values);
  };
  reduced = [&](int bucket) {
    buckets.push_back(bucket);
    for (const auto& member : reducer.plan().members_of(reducer.plan().buckets.at(static_cast<std::size_t>(bucket))))
      EXPECT_EQ(wrong_numbers(place(member.gradient), member.gradient, bucketing::factor_of_sum(context.size())), 0U)
          << "BUCKET-103: not yet reduced when told of, bucket " << bucket << ", gradient " << member.gradient;
  };
  for (int step = 0; step < 3; ++step) {
    buckets.clear();
    reducer.begin();
    for (const int gradient : order) {
      bucketing::fill_known(place(gradient), gradient, bucketing::factor_of_rank(context.rank()));
      reducer.ready(gradient, place(gradient));
    }
    (void)reducer.finish();
    std::vector<int> all(reducer.plan().buckets.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(buckets, all) << "BUCKET-103: buckets in the order in which they were told of";
    reducer.clear();
  }
}

// Of four gradients the first is in no bucket, the second is ready first, and delayed where it says so.
void left_alone(Context& context) {
  const bool delays = context.parameters().text("delayed") == "first_ready";
  const ReducerTraining training{.sizes = {7, 50, 40, 30}};
  const std::vector<bucketing::Gradient> gradients = gradients_of_training(training);
  const std::vector<int> others{3, 2}, all{1, 3, 2};
  const std::vector<std::int64_t> limits{0};
  bucketing::Plan plan = delays ? bucketing::buckets_in_order(gradients, others, limits, std::vector{1})
                                : bucketing::buckets_in_order(gradients, all, limits);
  Reducer reducer({&context.world()}, gradients, std::move(plan),
                  {.names = names_of_training(training), .average = false});
  for (int step = 0; step < 2; ++step) {
    reducer.begin();
    EXPECT_THAT(refusal<InvalidArgument>([&] { reducer.ready(0); }), HasSubstr("'p0' is in no bucket")) << "BUCKET-107";
    for (const int gradient : all) {
      bucketing::fill_known(reducer.view(gradient), gradient, bucketing::factor_of_rank(context.rank()));
      reducer.ready(gradient);
    }
    const bucketing::Outcome& outcome = reducer.finish();
    std::vector<std::int64_t> started;
    for (const auto& launch : outcome.launches) started.push_back(launch.elements);
    EXPECT_THAT(started, delays ? testing::ElementsAre(30, 40, 50) : testing::ElementsAre(50, 30, 40))
        << "BUCKET-107: elements of the reductions that were started";
    EXPECT_FALSE(outcome.produced[0]) << "BUCKET-107: what is not reduced is there";
    for (const int gradient : all)
      EXPECT_EQ(wrong_numbers(reducer.view(gradient), gradient, bucketing::factor_of_sum(context.size())), 0U)
          << "BUCKET-107: gradient " << gradient;
    reducer.clear();
  }
}

// ---- memory that is taken when it is needed ----

// Started exchanges are over when they are started: so what a bucket has meanwhile depends on no machine.
class AtOnce final : public comm::CommunicatorDecorator {
 public:
  explicit AtOnce(std::unique_ptr<comm::Communicator> inner) : CommunicatorDecorator(std::move(inner)) {}

 protected:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    CommunicatorDecorator::do_start(calls).wait();
    return {};
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
};

void lazy(Context& context) {
  const bool lazy = context.parameters().text("memory") == "lazy";
  const bool lacks = context.parameters().text("lacking") == "one" && context.rank() == 0;
  const ReducerTraining training{.sizes = {3000, 5, 700, 4000, 60}, .limit_bytes = 2820};
  const std::vector<int> order{4, 3, 2, 1, 0};  // buckets of 16240, 2820 and 12000 bytes, the last of one gradient
  Vectors own;
  for (const std::int64_t size : training.sizes) own.emplace_back(static_cast<std::size_t>(size));
  AtOnce world(context.world().duplicate());
  Reducer reducer(
      {&world}, gradients_of_training(training), plan_of_training(training, order),
      {.memory = GradientMemory::copies, .lazy = lazy, .average = false, .unused = bucketing::Unused::zeros});
  ASSERT_EQ(reducer.plan().buckets.size(), 3U) << "BUCKET-215: the check is wrong";
  std::int64_t all = 0, in_company = 0, first = 0;
  for (const auto& bucket : reducer.plan().buckets) {
    all += bucket.bytes();
    in_company += bucket.members > 1 ? bucket.bytes() : 0;
    if (first == 0) first = bucket.bytes();
  }
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(reducer.bucket_memory(), lazy ? 0 : all) << "BUCKET-215: bytes of buckets before step " << step;
    reducer.begin();
    for (const int gradient : order) {
      std::vector<float>& values = own[static_cast<std::size_t>(gradient)];
      const Buffer buffer = Buffer::of(values);
      bucketing::fill_known(buffer, gradient, bucketing::factor_of_rank(context.rank()));
      if (lacks && gradient == 4)
        reducer.mark_unused(gradient);
      else
        reducer.ready(gradient, buffer);
    }
    const bucketing::Outcome& outcome = reducer.finish();
    EXPECT_EQ(outcome.most_memory, !lazy ? all : lacks ? in_company : first) << "BUCKET-215: at once";
    EXPECT_EQ(reducer.bucket_memory(), !lazy ? all : lacks ? first : 0) << "BUCKET-215: bytes when results are there";
    const int ranks = context.size();
    for (const int gradient : {0, 1, 2, 3})
      EXPECT_EQ(
          wrong_numbers(Buffer::of(own[static_cast<std::size_t>(gradient)]), gradient, bucketing::factor_of_sum(ranks)),
          0U)
          << "BUCKET-215: gradient " << gradient;
    if (lacks) {
      EXPECT_EQ(wrong_numbers(reducer.view(4), 4, bucketing::factor_of_sum(ranks) - bucketing::factor_of_rank(0)), 0U)
          << "BUCKET-215: what this rank lacks";
    }
    reducer.clear();
  }
}

// ---- results that are shared out ----

// The gradients that a step of known values leaves, put together of all ranks' parts.
Vectors put_together(comm::Communicator& group, Reducer& reducer) {
  Vectors gradients(3);
  for (std::size_t k = 0; k < reducer.plan().buckets.size(); ++k) {
    const auto& bucket = reducer.plan().buckets[k];
    std::vector<float> whole(static_cast<std::size_t>(bucket.elements));
    group.all_gather(reducer.results(static_cast<int>(k)), {whole.data(), bucket.elements, DType::f32});
    for (const auto& member : reducer.plan().members_of(bucket)) {
      const auto begin = whole.begin() + member.begin;
      const auto i = static_cast<std::size_t>(member.gradient);
      gradients[i].assign(begin, begin + reducer.view(member.gradient).count);
    }
  }
  return gradients;
}

void sharded(Context& context) {
  const std::string division = context.parameters().text("division");
  const int ranks = context.size();
  ReducerTraining training{.sizes = {70, 5, 130}, .limit_bytes = 128};
  training.aligned = ranks;  // so that buckets end at its multiples
  training.options.names = names_of_training(training);
  training.options.results = bucketing::Results::sharded;
  training.options.average = division != "sum";
  if (division == "before") training.options.split = {ranks, 1};
  if (division == "after") training.options.split = {1, ranks};
  Reducer reducer({&context.world()}, gradients_of_training(training), plan_of_training(training, {2, 1, 0}),
                  training.options);
  for (int step = 0; step < 2; ++step) {
    reducer.begin();
    for (const int gradient : {2, 1, 0}) {
      bucketing::fill_known(reducer.view(gradient), gradient, bucketing::factor_of_rank(context.rank()));
      reducer.ready(gradient);
    }
    (void)reducer.finish();
    Vectors found = put_together(context.world(), reducer);
    for (int gradient = 0; gradient < 3; ++gradient) {
      std::vector<float>& values = found[static_cast<std::size_t>(gradient)];
      const Buffer whole = Buffer::of(values);
      const float factor =
          training.options.average ? bucketing::factor_of_mean(ranks) : bucketing::factor_of_sum(ranks);
      EXPECT_EQ(refusal<RuntimeFailure>([&] { bucketing::require_known(whole, gradient, factor, "a part"); }),
                kNotRefused)
          << "BUCKET-104: gradient " << gradient;
    }
    reducer.clear();
  }
}

// Ranks in instances of equally many, one after the other; the r-th ranks of all instances hold the same part.
void instances(Context& context) {
  const int ranks = context.size(), count = static_cast<int>(context.parameters().number("instances"));
  const int each = ranks / count, instance = context.rank() / each;
  std::vector<int> members, peers;
  for (int i = 0; i < each; ++i) members.push_back(instance * each + i);
  for (int i = 0; i < count; ++i) peers.push_back(i * each + context.rank() % each);
  RecordingCommunicator within(context.world().create_group(members)), across(context.world().create_group(peers));
  const std::string division = context.parameters().text("division");
  ReducerTraining training{.sizes = {70, 5, 130}, .limit_bytes = 128};
  training.aligned = each;
  float initial = static_cast<float>(context.rank()) + 7;
  bucketing::ReducerOptions options{.names = names_of_training(training),
                                    .average = division != "sum",
                                    .results = bucketing::Results::sharded,
                                    .inter_instance = {&across},
                                    .initial = {{&initial, 1, DType::f32}}};
  if (division == "before") options.split = {ranks, 1};
  if (division == "after") options.split = {1, ranks};
  Reducer reducer({&within}, gradients_of_training(training), plan_of_training(training, {2, 1, 0}), options);
  for (int step = 0; step < 2; ++step) {
    reducer.begin();
    EXPECT_EQ(initial, 7) << "BUCKET-213: initial values that are not the first instance's rank 0's";
    within.calls.clear();
    across.calls.clear();
    for (const int gradient : {2, 1, 0}) {
      bucketing::fill_known(reducer.view(gradient), gradient, bucketing::factor_of_rank(context.rank()));
      reducer.ready(gradient);
    }
    (void)reducer.finish();
    std::vector<std::int64_t> parts, scattered, added;
    for (const auto& bucket : reducer.plan().buckets) parts.push_back(bucket.elements / each);
    for (const RecordedCall& call : within.calls) {
      EXPECT_EQ(call.operation, comm::Operation::reduce_scatter) << "BUCKET-214: within an instance";
      scattered.push_back(call.elements);
    }
    for (const RecordedCall& call : across.calls) {
      EXPECT_EQ(call.operation, comm::Operation::all_reduce) << "BUCKET-214: across instances";
      added.push_back(call.elements);
    }
    EXPECT_EQ(scattered, parts) << "BUCKET-214: elements of a rank, of each bucket within an instance";
    EXPECT_EQ(added, count > 1 ? parts : std::vector<std::int64_t>{}) << "BUCKET-214: and across instances";
    Vectors found = put_together(within, reducer);
    const float factor = options.average ? bucketing::factor_of_mean(ranks) : bucketing::factor_of_sum(ranks);
    for (int gradient = 0; gradient < 3; ++gradient) {
      std::vector<float>& values = found[static_cast<std::size_t>(gradient)];
      EXPECT_EQ(
          refusal<RuntimeFailure>([&] { bucketing::require_known(Buffer::of(values), gradient, factor, "a part"); }),
          kNotRefused)
          << "BUCKET-213: gradient " << gradient;
    }
    reducer.clear();
  }
}

}  // namespace

void add_reducer_memory_checks(suite::Suite& suite) {
  const suite::Axis memory{"memory", {"views", "own"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes,
                       std::vector<int> worlds, void (*body)(Context&)) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("bucketing.reducer.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .body = body});
  };
  add("memory_exchanged", "BUCKET-100@4595", {}, {1, 3}, memory_exchanged);
  add("shared_memory", "BUCKET-100@4595", {{"shared", {"none", "none_before", "all", "begin", "end"}}}, {1, 3},
      shared_memory);
  add("in_place", "BUCKET-101@cebc", {{"limit", {"each", "buckets", "flat"}}, {"lacking", {"nothing", "in_turn"}}},
      {1, 2, 3}, in_place);
  add("finite", "BUCKET-102@7bfa", {{"what", {"nothing", "nan", "infinity", "large"}}, memory}, {1, 3}, finite);
  add("told", "BUCKET-103@d4d4", {{"limit", {"buckets", "flat"}}, memory}, {1, 2, 3}, told);
  add("left_alone", "BUCKET-107@dbe9", {{"delayed", {"nothing", "first_ready"}}}, {1, 2, 3}, left_alone);
  add("lazy", "BUCKET-215@52e9", {{"memory", {"lazy", "kept"}}, {"lacking", {"nothing", "one"}}}, {1, 2, 3}, lazy);
  suite.add(
      {.id = "bucketing.reducer.instances",
       .verifies = {"BUCKET-213@9f39", "BUCKET-214@4ccf"},
       .axes = {{"instances", {"1", "2", "3"}},
                {"division", {"collective", "before", "after", "sum"}},
                suite::worlds({1, 2, 3, 4, 6})},
       .applies =
           [](const suite::Parameters& parameters) { return parameters.world() % parameters.number("instances") == 0; },
       .body = instances});
  add("shared_out", "BUCKET-104@1404", {{"division", {"collective", "before", "after", "sum"}}}, {1, 2, 3, 4}, sharded);
}

}  // namespace plumbline::conformance
