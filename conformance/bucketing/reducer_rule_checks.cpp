// What a reducer starts and when, how it scales and compresses, and what it refuses.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/bucketing/reducer_training.hpp"
#include "conformance/support/claimed_type.hpp"
#include "conformance/support/recording.hpp"
#include "harness/bench/known_values.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using bucketing::Reducer;
using comm::DType;
using suite::Context;
using testing::AllOf;
using testing::HasSubstr;

namespace {

// Limits of buckets: each gradient alone, several buckets, all in one.
std::int64_t limit_named(const std::string& name) {
  if (name == "each") return 0;
  return name == "flat" ? 1 << 30 : 600;
}

std::vector<std::int64_t> sizes_of_buckets(const ReducerTraining& training) {
  std::vector<int> order(training.sizes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(order.size() - 1 - i);
  std::vector<std::int64_t> sizes;
  for (const auto& bucket : plan_of_training(training, order).buckets) sizes.push_back(bucket.elements);
  return sizes;
}

// The all-reductions of gradients that were started, in order.
std::vector<RecordedCall> started(const RecordingCommunicator& world) {
  std::vector<RecordedCall> calls;
  for (const RecordedCall& call : world.calls)
    if (call.operation == comm::Operation::all_reduce && call.dtype == DType::f32) calls.push_back(call);
  return calls;
}

struct Watched {
  Trained trained;
  std::vector<RecordedCall> calls;       // reductions of gradients
  std::vector<RecordedCall> broadcasts;  // of buffers
};

// Runs over a communicator that notes what was made before each call: 100 * step + gradients of the step.
Watched watch(Context& context, ReducerTraining training) {
  auto recording = std::make_unique<RecordingCommunicator>(context.world().duplicate());
  const auto count = static_cast<int>(training.sizes.size());
  training.watch = [&recording, count](int step, int gradient) { recording->now = 100 * step + count - 1 - gradient; };
  Watched watched{.trained = train_with_reducer(*recording, training), .calls = {}, .broadcasts = {}};
  watched.calls = started(*recording);
  for (const RecordedCall& call : recording->calls)
    if (call.operation == comm::Operation::broadcast) watched.broadcasts.push_back(call);
  return watched;
}

void starts_in_plan_order(Context& context) {
  ReducerTraining training{.sizes = sizes_of_model("mlp"),
                           .limit_bytes = limit_named(context.parameters().text("limit"))};
  training.passes = [count = static_cast<int>(context.parameters().number("passes"))](int) { return count; };
  const Watched watched = watch(context, training);
  std::vector<std::int64_t> expected, found;
  for (int step = 0; step < training.steps; ++step)
    for (const std::int64_t size : sizes_of_buckets(training)) expected.push_back(size);
  for (const RecordedCall& call : watched.calls) found.push_back(call.elements);
  EXPECT_EQ(found, expected) << "BUCKET-058: elements of the reductions that were started";
  for (const TrainedStep& step : watched.trained) {
    std::vector<std::int64_t> said;
    for (const auto& launch : step.passes.back().launches)
      if (launch.what == bucketing::Launch::What::bucket) said.push_back(launch.elements);
    EXPECT_EQ(said, sizes_of_buckets(training)) << "BUCKET-058: what the outcome of a pass says";
  }
}

// What ranks exchange in each pass, beside what they compare of their plans: the reducer says all of it.
void says_what_it_starts(Context& context) {
  const std::string with = context.parameters().text("with");
  RecordingCommunicator world(context.world().duplicate());
  std::vector<float> initial(3), statistics(2);
  const ReducerTraining training{.sizes = {40, 30, 20, 10}, .limit_bytes = 200};
  bucketing::ReducerOptions options{.names = names_of_training(training)};
  if (with == "initial") options.initial = {{initial.data(), 3, DType::f32}, {initial.data(), 1, DType::f32}};
  if (with == "buffers") options.buffers = {{statistics.data(), 2, DType::f32}};
  if (with == "join") options.join = true;
  if (with == "find_unused") options.unused = bucketing::Unused::find_unused;
  if (with == "static_graph") options.unused = bucketing::Unused::static_graph;
  int rebuilt = 0;
  if (with == "rebuild")
    options.rebuild = [&](std::span<const int> order) {
      EXPECT_THAT(order, testing::ElementsAre(3, 1, 2, 0)) << "BUCKET-058: the order that is known";
      ++rebuilt;
      return plan_of_training(training, {order.begin(), order.end()});
    };
  Reducer reducer({&world}, gradients_of_training(training), plan_of_training(training, {3, 2, 1, 0}), options);
  using Exchange = std::pair<DType, std::int64_t>;
  int started = 0;
  for (int step = 0; step < 3; ++step) {
    world.calls.clear();
    reducer.begin();
    for (const int gradient : {3, 1, 2, 0}) {
      std::ranges::fill(std::span(static_cast<float*>(reducer.view(gradient).data), 10), 1.0F);
      reducer.ready(gradient);
    }
    const bucketing::Outcome& outcome = reducer.finish();
    std::vector<Exchange> made, said;
    for (const RecordedCall& call : world.calls)
      if (call.operation != comm::Operation::all_gather) made.emplace_back(call.dtype, call.elements);
    int bucket = 0, ready = 0;
    for (const auto& launch : outcome.launches) {
      said.emplace_back(launch.dtype, launch.elements);
      if (launch.what != bucketing::Launch::What::bucket) continue;
      EXPECT_EQ(launch.bucket, bucket++) << "BUCKET-058: the bucket of a reduction";
      EXPECT_EQ(launch.bytes(), launch.elements * 4) << "BUCKET-058: bytes of a reduction";
      EXPECT_GE(launch.ready_before, std::max(1, ready)) << "BUCKET-058: gradients that were there";
      ready = launch.ready_before;
    }
    EXPECT_EQ(ready, 4) << "BUCKET-058: gradients before the last reduction";
    EXPECT_EQ(said, made) << "BUCKET-058: collectives of step " << step;
    EXPECT_EQ(outcome.present, with == "join" ? context.size() : 0) << "BUCKET-058: ranks with rows";
    EXPECT_EQ(outcome.produced, std::vector<bool>(4, true)) << "BUCKET-058: gradients that there are";
    started = static_cast<int>(made.size());
    reducer.clear();
  }
  EXPECT_EQ(started, static_cast<int>(reducer.plan().buckets.size()) +
                         (with == "buffers" || with == "join" || with == "find_unused" ? 1 : 0))
      << "BUCKET-058: collectives of the last step";
  EXPECT_EQ(rebuilt, with == "rebuild" ? 1 : 0) << "BUCKET-058: plans that were made again";
  EXPECT_EQ(reducer.has_rebuilt(), with == "rebuild") << "BUCKET-058: whether one was";
}

// Two groups: all ranks, and this rank alone. Rank 0 lacks the first gradient of each, every rank the second ones.
void absent_in_groups(Context& context) {
  const auto own = context.world().create_group(std::vector{context.rank()});
  std::vector<bucketing::Gradient> gradients;
  for (const int group : {0, 1, 0, 1, 1}) gradients.push_back({.elements = 4, .group = group});
  Reducer reducer({&context.world(), own.get()}, gradients, bucketing::plan_unfused(gradients),
                  {.unused = bucketing::Unused::find_unused});
  for (int step = 0; step < 2; ++step) {
    const bool lacks = context.rank() == 0;
    reducer.begin({.synchronise = true, .unused = lacks ? std::vector{0, 2, 3} : std::vector{2, 3}});
    for (const int gradient : {4, 1, 0}) {
      if (lacks && gradient == 0) continue;
      std::ranges::fill(std::span(static_cast<float*>(reducer.view(gradient).data), 4), 6.0F);
      if (lacks && gradient == 1)
        reducer.mark_unused(gradient);
      else
        reducer.ready(gradient);
    }
    const bucketing::Outcome& outcome = reducer.finish();
    EXPECT_EQ(outcome.produced, (std::vector<bool>{context.size() > 1, !lacks, false, false, true}))
        << "BUCKET-054: gradients that there are in step " << step;
    std::vector<std::int64_t> used;
    for (const auto& launch : outcome.launches)
      if (launch.what == bucketing::Launch::What::used) used.push_back(10 * launch.group + launch.elements);
    EXPECT_THAT(used, testing::ElementsAre(2, 13)) << "BUCKET-054: what each group's ranks tell each other";
    const float others = 6.0F * static_cast<float>(context.size() - 1) / static_cast<float>(context.size());
    EXPECT_FLOAT_EQ(static_cast<const float*>(reducer.view(0).data)[3], others) << "BUCKET-054: the mean of the others";
    EXPECT_EQ(static_cast<const float*>(reducer.view(4).data)[3], 6) << "BUCKET-054: one that every rank has";
    reducer.clear();
  }
}

void overlaps(Context& context) {
  const ReducerTraining training{.sizes = sizes_of_model("mlp"),
                                 .limit_bytes = limit_named(context.parameters().text("limit"))};
  const Watched watched = watch(context, training);
  const std::vector<std::int64_t> buckets = sizes_of_buckets(training);
  ASSERT_EQ(watched.calls.size(), buckets.size() * static_cast<std::size_t>(training.steps)) << "BUCKET-059";
  for (std::size_t i = 0; i < watched.calls.size(); ++i) {
    EXPECT_FALSE(watched.calls[i].waits) << "BUCKET-059: a reduction that blocks";
    const std::size_t bucket = i % buckets.size();
    std::int64_t covered = 0, through = 0;
    for (std::size_t k = 0; k <= bucket; ++k) through += buckets[k];
    // The last gradient of the bucket, counted in the order in which they are made.
    int last = -1;
    for (auto size = training.sizes.rbegin(); size != training.sizes.rend() && covered < through; ++size, ++last)
      covered += *size;
    EXPECT_EQ(watched.calls[i].after % 100, last) << "BUCKET-059: gradients made before bucket " << bucket << " starts";
  }
}

void starts_when_written(Context& context) {
  const ReducerTraining training{.sizes = sizes_of_model("mlp"),
                                 .limit_bytes = limit_named(context.parameters().text("limit"))};
  const Watched watched = watch(context, training);
  for (std::size_t i = 0; i < watched.calls.size(); ++i)
    EXPECT_FALSE(watched.calls[i].has_no_number)
        << "BUCKET-060: reduction " << i << " began before its gradients were written";
}

void buffers(Context& context) {
  std::vector<float> statistics{static_cast<float>(context.rank()) + 1, 5};
  ReducerTraining training{.sizes = sizes_of_model("one")};
  training.passes = [count = static_cast<int>(context.parameters().number("passes"))](int) { return count; };
  training.options.buffers = {{statistics.data(), 2, DType::f32}};
  const Watched watched = watch(context, training);
  EXPECT_EQ(watched.broadcasts.size(), static_cast<std::size_t>(training.steps))
      << "BUCKET-061: broadcasts in all steps";
  EXPECT_EQ(statistics.front(), 1) << "BUCKET-061: rank 0's";
}

// Parameters, one of them empty, whose values are given before the reducer is made or after it.
void initial_values(Context& context) {
  const auto number = [](int rank, std::size_t i) { return static_cast<float>(1000 * rank) + static_cast<float>(i); };
  const std::vector<std::int64_t> sizes{3, 0, 5000};
  std::vector<std::vector<float>> values;
  bucketing::ReducerOptions options{.average = false};
  for (const std::int64_t size : sizes) values.emplace_back(static_cast<std::size_t>(size), -1.0F);
  for (auto& one : values) options.initial.push_back({one.data(), static_cast<std::int64_t>(one.size()), DType::f32});
  const auto fill = [&](int rank) {
    for (auto& one : values)
      for (std::size_t i = 0; i < one.size(); ++i) one[i] = number(rank, i);
  };
  const auto differ_from = [&](int rank) {
    std::size_t count = 0;
    for (const auto& one : values)
      for (std::size_t i = 0; i < one.size(); ++i) count += one[i] == number(rank, i) ? 0 : 1;
    return count;
  };
  const bool after = context.parameters().text("given") == "after";
  if (!after) fill(context.rank());
  const ReducerTraining training{.sizes = sizes};
  bucketing::Reducer reducer({&context.world()}, gradients_of_training(training), plan_of_training(training, {2, 1, 0}),
                             options);
  if (after) fill(context.rank());
  const auto pass = [&](bool synchronise) {
    reducer.begin({.synchronise = synchronise});
    for (const int gradient : {2, 1, 0}) reducer.ready(gradient);
    (void)reducer.finish();
  };
  pass(false);
  EXPECT_EQ(differ_from(0), 0U) << "BUCKET-086: values that are not rank 0's when the first pass is over";
  fill(context.rank() + 1);
  pass(true);
  EXPECT_EQ(differ_from(context.rank() + 1), 0U) << "BUCKET-086: values that a later pass changed";
}

void division(Context& context) {
  const std::string kind = context.parameters().text("division");
  const int ranks = context.size();
  ReducerTraining training{
      .sizes = sizes_of_model("mlp"),
      .made_in = context.parameters().text("memory") == "own" ? MadeIn::own_memory : MadeIn::views};
  if (kind == "before") training.options.split = {ranks, 1};
  if (kind == "after") training.options.split = {1, ranks};
  if (kind == "split") training.options.split = {2, ranks / 2};
  const Trained trained = train_with_reducer(context.world(), training);
  judge_training(context, training, trained, {}, "BUCKET-062");
}

// Numbers whose sum is none are divided first.
void divided_before(Context& context) {
  const std::vector<bucketing::Gradient> gradients{{.elements = 3}};
  Reducer reducer({&context.world()}, gradients, bucketing::plan_unfused(gradients),
                  {.split = bucketing::Split{.before = context.size(), .after = 1}});
  constexpr float large = 3e38F;
  auto* const values = static_cast<float*>(reducer.view(0).data);
  reducer.begin();
  std::fill_n(values, 3, large);
  reducer.ready(0);
  (void)reducer.finish();
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(values[i] / large, 1, 1e-6) << "BUCKET-062: the mean of large numbers";
}

void sum(Context& context) {
  ReducerTraining training{.sizes = sizes_of_model("mlp")};
  training.options.average = context.parameters().text("result") == "average";
  const Trained trained = train_with_reducer(context.world(), training);
  judge_training(context, training, trained, {}, "BUCKET-063");
}

// Experts are dealt out to the ranks of a block, which send each other their samples; every block has all experts. All
// gradients are small whole numbers over a number of ranks.
void experts(Context& context) {
  const int ranks = context.size(), rank = context.rank();
  const int count = static_cast<int>(context.parameters().number("experts"));
  std::vector<int> holders;
  for (int other = rank % count; other < ranks; other += count) holders.push_back(other);
  const auto group = context.world().create_group(holders);
  const std::vector<bucketing::Gradient> gradients{{.elements = 3}, {.elements = 5, .group = 1}};
  bucketing::Plan plan{.buckets = {{.elements = 3, .first_member = 0, .members = 1},
                                   {.elements = 5, .first_member = 1, .members = 1, .group = 1}},
                       .members = {{0, 0}, {1, 0}}};
  Reducer reducer({&context.world(), group.get()}, gradients, std::move(plan),
                  {.names = {"router", "expert"}, .divisors = {ranks, ranks}});
  // What the samples of a rank contribute to a number of the router's, or of an expert's.
  const auto part = [](int samples_of, int expert, std::int64_t at) {
    return static_cast<float>(1 + samples_of * 7 + expert * 3 + static_cast<int>(at));
  };
  reducer.begin();
  const auto fill = [&](int gradient, int expert, int first, int end) {
    const comm::Buffer view = reducer.view(gradient);
    for (std::int64_t at = 0; at < view.count; ++at) {
      float sum = 0;
      for (int samples_of = first; samples_of < end; ++samples_of) sum += part(samples_of, expert, at);
      static_cast<float*>(view.data)[at] = sum;
    }
    reducer.ready(gradient);
  };
  const int block = rank / count * count;
  fill(0, -1, rank, rank + 1);
  fill(1, rank % count, block, block + count);
  (void)reducer.finish();
  for (const auto& [gradient, expert] : {std::pair(0, -1), std::pair(1, rank % count)}) {
    const comm::Buffer view = reducer.view(gradient);
    for (std::int64_t at = 0; at < view.count; ++at) {
      float sum = 0;
      for (int samples_of = 0; samples_of < ranks; ++samples_of) sum += part(samples_of, expert, at);
      EXPECT_FLOAT_EQ(static_cast<float*>(view.data)[at], sum / static_cast<float>(ranks))
          << "BUCKET-085: number " << at << (gradient == 0 ? " of the router" : " of an expert");
    }
  }
}

// Whole numbers whose sum in bf16, rounded after each addition, stays where it begins; of two there is one addition
// alone.
// Without being asked for, nothing travels as f32: the backend has 16-bit numbers then, and may add them as it likes.
void wide(Context& context) {
  const bool in_f32 = context.parameters().text("wire") == "f32";
  if (!in_f32 && !context.capabilities().supports(DType::bf16))
    GTEST_SKIP() << "needs dtype bf16, which the subject does not claim";
  const int ranks = context.size();
  std::vector<bucketing::Gradient> gradients{{.elements = 33, .dtype = DType::bf16}};
  bucketing::Plan plan{.buckets = {{.elements = 33, .members = 1, .dtype = DType::bf16}}, .members = {{0, 0}}};
  bucketing::ReducerOptions options{.average = false};
  if (in_f32) options.wire = DType::f32;
  Reducer reducer({&context.world()}, gradients, std::move(plan), options);
  constexpr float begin = 256;  // from here to 512 bf16 has the even numbers
  reducer.begin();
  const comm::Buffer view = reducer.view(0);
  const std::span values(static_cast<comm::BFloat16*>(view.data), 33);
  std::ranges::fill(values, comm::to_bfloat16(context.rank() == 0 ? begin : 1));
  reducer.ready(0);
  const bucketing::Outcome& outcome = reducer.finish();
  const float expected = comm::to_float(comm::to_bfloat16(begin + static_cast<float>(ranks - 1)));
  for (const comm::BFloat16 value : values)
    if (in_f32) {
      ASSERT_EQ(comm::to_float(value), expected)
          << "BUCKET-106: the sum of " << begin << " and " << ranks - 1 << " ones";
    }
  EXPECT_EQ(outcome.launches.back().dtype, in_f32 ? DType::f32 : DType::bf16) << "BUCKET-106: the type on the way";
}

// The largest of the ranks' numbers in place of their mean, or what each rank has: as the caller says.
void hook(Context& context) {
  const bool exchanges = context.parameters().text("hook") == "largest";
  const ReducerTraining training{.sizes = sizes_of_model("mlp"), .limit_bytes = 600};
  std::vector<int> started, finished;
  bucketing::ReducerOptions options{.names = names_of_training(training)};
  if (context.parameters().text("memory") == "own") options.memory = bucketing::GradientMemory::copies;
  options.hook.start = [&](comm::Communicator& group, const bucketing::HookedBucket& bucket) {
    started.push_back(bucket.index);
    if (!exchanges) return comm::Work();
    return group.start(comm::Call{.operation = comm::Operation::all_reduce,
                                  .op = comm::ReduceOp::max,
                                  .in = bucket.values,
                                  .out = bucket.values});
  };
  options.hook.finish = [&](comm::Communicator&, const bucketing::HookedBucket& bucket) {
    finished.push_back(bucket.index);
  };
  std::vector<int> order(training.sizes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(order.size() - 1 - i);
  Reducer reducer({&context.world()}, gradients_of_training(training), plan_of_training(training, order), options);
  Vectors own;
  for (const std::int64_t size : training.sizes) own.emplace_back(static_cast<std::size_t>(size));
  reducer.begin();
  for (const int gradient : order) {
    auto& values = own[static_cast<std::size_t>(gradient)];
    const comm::Buffer buffer = comm::Buffer::of(values);
    bucketing::fill_known(buffer, gradient, bucketing::factor_of_rank(context.rank()));
    reducer.ready(gradient, buffer);
  }
  (void)reducer.finish();
  for (const int gradient : order) {
    const auto& values = own[static_cast<std::size_t>(gradient)];
    const comm::ConstBuffer copied = comm::ConstBuffer::of(values);
    const comm::ConstBuffer found =
        options.memory == bucketing::GradientMemory::copies ? copied : reducer.view(gradient);
    const int of_rank = exchanges ? context.size() - 1 : context.rank();
    EXPECT_EQ(refusal<RuntimeFailure>(
                  [&] { bucketing::require_known(found, gradient, bucketing::factor_of_rank(of_rank), "a gradient"); }),
              kNotRefused)
        << "BUCKET-105: gradient p" << gradient;
  }
  std::vector<int> all(reducer.plan().buckets.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  EXPECT_EQ(started, all) << "BUCKET-105: buckets whose exchange was started";
  EXPECT_EQ(finished, all) << "BUCKET-105: and was finished";
}

// Each is over before the next one starts, and none starts before the pass is over.
void without_overlap(Context& context) {
  RecordingCommunicator world(context.world().duplicate());
  const std::vector<bucketing::Gradient> gradients(3, {.elements = 4});
  std::vector<std::size_t> told;  // of a bucket, after so many reductions were started
  Reducer reducer({&world}, gradients, bucketing::plan_unfused(gradients),
                  {.overlap = false, .reduced = [&](int) { told.push_back(started(world).size()); }});
  reducer.begin();
  for (const int gradient : {0, 1, 2}) reducer.ready(gradient);
  EXPECT_TRUE(started(world).empty()) << "BUCKET-225: reductions before the pass is over";
  (void)reducer.finish();
  EXPECT_THAT(told, testing::ElementsAre(1, 2, 3)) << "BUCKET-225: reductions until each is over";
}

// Of a 16-bit type: the relative error of rounding, and the distance between its smallest numbers.
Nearness nearness_of_wire(DType wire) {
  return wire == DType::f16 ? Nearness{.unit = 0x1p-11, .least = 0x1p-24} : Nearness{.unit = 0x1p-8, .least = 0x1p-126};
}

void half_stays_finite(Context& context) {
  const DType wire = context.parameters().dtype();
  // The largest numbers of f16 are near 65504.
  ReducerTraining training{.sizes = sizes_of_model("mlp"),
                           .steps = 1,
                           .magnitude = context.parameters().text("values") == "large" ? 50e3 : 1.0};
  training.options.wire = wire;
  const Trained trained = train_with_reducer(context.world(), training);
  for (const auto& values : trained.back().gradients)
    for (const float value : values)
      ASSERT_TRUE(std::isfinite(value)) << "BUCKET-064: an average of finite numbers is " << value;
  judge_training(context, training, trained, nearness_of_wire(wire), "BUCKET-064");
}

// Notes the memory of each reduction in a 16-bit type, and which of it is under way: until it is waited for.
class WatchedBuffers final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  std::vector<const void*> started;  // in order
  std::size_t most = 0;              // at once
  bool was_handed_out = false;       // memory that was under way

 private:
  class Watched final : public comm::Work::State {
   public:
    Watched(comm::Work inner, WatchedBuffers& owner, const void* memory)
        : inner_(std::move(inner)), owner_(owner), memory_(memory) {}
    bool test() override { return false; }
    void wait(comm::Timeout timeout) override {
      inner_.wait(timeout);
      std::erase(owner_.under_way_, memory_);
    }
    [[nodiscard]] bool outlasts_wait() const override { return true; }

   private:
    comm::Work inner_;
    WatchedBuffers& owner_;
    const void* memory_;
  };

  comm::Work do_start(std::span<const comm::Call> calls) override {
    comm::Work work = CommunicatorDecorator::do_start(calls);
    if (calls.size() != 1 || calls[0].in.dtype != DType::bf16) return work;
    const void* const memory = calls[0].in.data;
    was_handed_out = was_handed_out || std::ranges::count(under_way_, memory) > 0;
    started.push_back(memory);
    under_way_.push_back(memory);
    most = std::max(most, under_way_.size());
    return comm::Work(std::make_unique<Watched>(std::move(work), *this, memory));
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }

  std::vector<const void*> under_way_;
};

// With n buffers, bucket k of a step has that of bucket k - n, whose reduction is over.
void wire_buffers(Context& context) {
  require_claimed(context, DType::bf16);
  const auto buckets = static_cast<std::size_t>(context.parameters().number("buckets"));
  const auto buffers = static_cast<std::size_t>(context.parameters().number("buffers"));
  // Larger than what a backend sends at once.
  ReducerTraining training{.sizes = std::vector<std::int64_t>(buckets, 3000), .limit_bytes = 0};
  training.options.wire = DType::bf16;
  training.options.wire_buffers = static_cast<int>(buffers);
  WatchedBuffers world(context.world().duplicate());
  const Trained trained = train_with_reducer(world, training);
  judge_training(context, training, trained, nearness_of_wire(DType::bf16), "BUCKET-065");
  EXPECT_FALSE(world.was_handed_out) << "BUCKET-065: a buffer that is in flight is handed out";
  EXPECT_EQ(world.most, std::min(buffers, buckets)) << "BUCKET-065: buffers in flight at once";
  ASSERT_EQ(world.started.size(), buckets * static_cast<std::size_t>(training.steps)) << "BUCKET-065: reductions";
  for (std::size_t i = 0; i < world.started.size(); ++i)
    if (i % buckets >= buffers) {
      EXPECT_EQ(world.started[i], world.started[i - buffers])
          << "BUCKET-065: the buffer of bucket " << i % buckets << ", with " << buffers << " of them";
    }
}

void other_plans(Context& context) {
  const std::string differs = context.parameters().text("differs");
  ReducerTraining training{.sizes = sizes_of_model("mlp")};
  if (context.rank() == 1) {
    if (differs == "limits") training.limit_bytes = 300;
    if (differs == "sizes") std::swap(training.sizes[2], training.sizes[4]);
    if (differs == "count") training.sizes.pop_back();
  }
  const std::string said = refusal<comm::MismatchError>([&] { (void)train_with_reducer(context.world(), training); });
  if (differs == "nothing") {
    EXPECT_EQ(said, kNotRefused) << "BUCKET-066";
  } else {
    EXPECT_THAT(said, HasSubstr("1")) << "BUCKET-066: the rank";
    EXPECT_THAT(said, testing::ContainsRegex(R"(\bp[0-9])")) << "BUCKET-066: the parameter";
    EXPECT_THAT(said, testing::Not(HasSubstr("another error"))) << "BUCKET-066";
    EXPECT_THAT(said, testing::Not(HasSubstr("all_reduce"))) << "BUCKET-066: found only when a reduction was under way";
  }
}

// Hands in a gradient that is none of its parameter's, or ends a pass without one, and so on. Of ranks' own doing: no
// rank waits for another.
void refusals(Context& context) {
  const std::string what = context.parameters().text("what");
  const auto own = context.world().create_group(std::vector{context.rank()});
  ReducerTraining training{.sizes = {5, 4}};
  bucketing::ReducerOptions options;
  options.names = {"weight", "bias"};
  if (context.parameters().text("memory") == "own") options.memory = bucketing::GradientMemory::copies;
  std::vector<double> wide(6);
  std::vector<float> values(6);
  const auto said_of = [&](std::int64_t count, DType dtype) {
    Reducer reducer({own.get()}, gradients_of_training(training), plan_of_training(training, {1, 0}), options);
    return refusal<InvalidArgument>([&] {
      reducer.begin();
      reducer.ready(0, {dtype == DType::f64 ? static_cast<void*>(wide.data()) : values.data(), count, dtype});
    });
  };
  if (what == "nothing") {
    EXPECT_EQ(said_of(5, DType::f32), kNotRefused) << "BUCKET-067";
    return;
  }
  const DType dtype = what == "other_type" ? DType::f64 : DType::f32;
  const auto word = [](const auto& text) { return testing::ContainsRegex(fmt::format(R"(\b{}\b)", text)); };
  const std::vector<std::int64_t> counts =
      what == "other_type" ? std::vector<std::int64_t>{5} : std::vector<std::int64_t>{0, 4, 6};
  for (const std::int64_t count : counts)
    EXPECT_THAT(said_of(count, dtype),
                AllOf(word("weight"), word("rank 0"), HasSubstr(fmt::format("[{}]", context.rank())), word(5),
                      word(count), word("f32"), word(comm::name_of(dtype)), testing::Not(HasSubstr("another error"))))
        << "BUCKET-067";
}

void late(Context& context) {
  const auto own = context.world().create_group(std::vector{context.rank()});
  ReducerTraining training{.sizes = {5, 4}};
  bucketing::ReducerOptions options;
  options.names = {"weight", "bias"};
  Reducer reducer({own.get()}, gradients_of_training(training), plan_of_training(training, {1, 0}), options);
  reducer.begin();
  reducer.ready(0);
  if (context.parameters().text("late") == "nothing") reducer.ready(1);
  const std::string said = refusal<StateError>([&] { (void)reducer.finish(); });
  if (context.parameters().text("late") == "nothing")
    EXPECT_EQ(said, kNotRefused) << "BUCKET-068";
  else
    EXPECT_THAT(said, AllOf(HasSubstr("'bias'"), testing::Not(HasSubstr("'weight'")), HasSubstr("never got ready")))
        << "BUCKET-068";
}

}  // namespace

void add_reducer_rule_checks(suite::Suite& suite) {
  const suite::Axis limit{"limit", {"each", "buckets", "flat"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds = {2, 3}) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("bucketing.reducer.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .body = body});
  };
  add("starts_in_plan_order", "BUCKET-058@cdec", {limit, {"passes", {"1", "2"}}}, starts_in_plan_order, {1, 2, 3});
  add("says_what_it_starts", "BUCKET-058@cdec",
      {{"with", {"nothing", "initial", "buffers", "join", "find_unused", "static_graph", "rebuild"}}},
      says_what_it_starts, {1, 2, 3});
  add("absent_in_groups", "BUCKET-054@a2d4", {}, absent_in_groups, {1, 2, 3});
  add("overlaps", "BUCKET-059@f557", {limit}, overlaps);
  add("divided_before", "BUCKET-062@e64c", {}, divided_before);
  add("without_overlap", "BUCKET-225@5000", {}, without_overlap);
  add("starts_when_written", "BUCKET-060@e63f", {limit}, starts_when_written);
  add("buffers", "BUCKET-061@4d6a", {{"passes", {"1", "3"}}}, buffers);
  add("initial_values", "BUCKET-086@d3ee", {{"given", {"before", "after"}}}, initial_values);
  suite.add({.id = "bucketing.reducer.division",
             .verifies = {"BUCKET-062@e64c"},
             .axes = {{"division", {"collective", "before", "after", "split"}},
                      {"memory", {"views", "own"}},
                      suite::worlds({1, 2, 3, 4, 6})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   return parameters.text("division") != "split" ||
                          (parameters.world() % 2 == 0 && parameters.world() > 2);
                 },
             .body = division});
  suite.add(
      {.id = "bucketing.reducer.experts",
       .verifies = {"BUCKET-085@6782"},
       .axes = {{"experts", {"1", "2", "3"}}, suite::worlds({2, 3, 4, 6})},
       .applies =
           [](const suite::Parameters& parameters) { return parameters.world() % parameters.number("experts") == 0; },
       .body = experts});
  add("hook", "BUCKET-105@7544", {{"hook", {"largest", "nothing"}}, {"memory", {"views", "own"}}}, hook, {1, 2, 3});
  add("wide", "BUCKET-106@c9c9", {{"wire", {"own", "f32"}}}, wide, {3, 4});
  add("sum", "BUCKET-063@1971", {{"result", {"sum", "average"}}}, sum);
  add("half_stays_finite", "BUCKET-064@ad62", {suite::half_dtypes(), {"values", {"usual", "large"}}}, half_stays_finite,
      {2, 3, 4});
  add("wire_buffers", "BUCKET-065@ed9f", {{"buffers", {"1", "2", "3"}}, {"buckets", {"1", "3", "5"}}}, wire_buffers);
  suite.add({.id = "bucketing.reducer.other_plans",
             .verifies = {"BUCKET-066@f421"},
             .axes = {{"differs", {"nothing", "limits", "sizes", "count"}}, suite::worlds({2, 3})},
             .spoils_group = true,
             .body = other_plans});
  add("refusals", "BUCKET-067@2b3e", {{"what", {"nothing", "other_count", "other_type"}}, {"memory", {"views", "own"}}},
      refusals, {1, 3});
  add("late", "BUCKET-068@088a", {{"late", {"nothing", "bias"}}}, late, {1, 3});
}

}  // namespace plumbline::conformance
