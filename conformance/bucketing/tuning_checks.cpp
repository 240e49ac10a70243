// Which size of buckets is chosen by trying, of times that are given.
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/support/recording.hpp"
#include "conformance/support/refusal.hpp"
#include "conformance/support/words.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/bucketing/tuning.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using bucketing::BucketTime;
using bucketing::kNoLimit;
using suite::Context;
using testing::ElementsAre;

namespace {

BucketTime time_named(std::int64_t limit, double seconds, double low, double high) {
  return {.limit_bytes = limit, .seconds = seconds, .low = low, .high = high};
}

// Times of three sizes, of which the largest is the fastest: one second, with quartiles that are given.
void choice(Context& context) {
  const bool is_wide = context.parameters().text("quartiles") == "wide";
  const double high = is_wide ? 1.5 : 1.05, bound = is_wide ? 1.1 * 1.0 : 1.05;
  const double beyond = std::nextafter(bound, 2);
  const auto chosen = [&](double of_none, double of_small) {
    const BucketTime none = time_named(0, of_none, of_none / 2, 3), small = time_named(100, of_small, of_small / 2, 3),
                     large = time_named(900, 1, 0.9, high);
    const std::int64_t limit = bucketing::chosen_limit(std::vector{none, small, large});
    EXPECT_EQ(bucketing::chosen_limit(std::vector{large, none, small}), limit) << "BUCKET-218: in another order";
    return limit;
  };
  EXPECT_EQ(chosen(bound, bound), 0) << "BUCKET-218: none is slower than is tolerated";
  EXPECT_EQ(chosen(beyond, bound), 100) << "BUCKET-218: the smallest is slower";
  EXPECT_EQ(chosen(beyond, beyond), 900) << "BUCKET-218: both are slower";
  EXPECT_EQ(chosen(2.5, 1), 100) << "BUCKET-218: two are the fastest";
  EXPECT_EQ(bucketing::chosen_limit(std::vector{time_named(7, 2, 2, 2)}), 7) << "BUCKET-218: one size";
}

void bad_times(Context&) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto said = [](const std::vector<BucketTime>& times) {
    return refusal<InvalidArgument>([&] { (void)bucketing::chosen_limit(times); });
  };
  const std::string accepted = kNotRefused;
  const BucketTime right = time_named(4, 2, 2, 2);
  EXPECT_EQ(said({right}), accepted) << "BUCKET-218";
  EXPECT_NE(said({}), accepted) << "BUCKET-218: no times";
  for (const BucketTime& wrong : {time_named(4, 2, 2.5, 3), time_named(4, 2, 1, 1.5), time_named(4, none, 1, 3),
                                  time_named(4, 2, none, 3), time_named(4, 2, 1, none)})
    EXPECT_NE(said({right, wrong}), accepted) << "BUCKET-218: a time outside of its quartiles";
  EXPECT_NE(refusal<InvalidArgument>([] { (void)bucketing::time_of(4, {}); }), accepted) << "BUCKET-218: no samples";
  const BucketTime time = bucketing::time_of(4, {5, 1, 2, 4, 3});
  EXPECT_EQ(time.limit_bytes, 4) << "BUCKET-218";
  EXPECT_THAT((std::vector{time.low, time.seconds, time.high}), ElementsAre(2, 3, 4))
      << "BUCKET-218: quartiles and median";
}

// Six gradients of 400 bytes each: a limit of 800 makes three buckets.
std::vector<bucketing::Gradient> six_gradients() { return std::vector<bucketing::Gradient>(6, {.elements = 100}); }

// What is tried takes as many seconds as its number of reductions is given.
void tried(Context& context) {
  const std::string fastest = context.parameters().text("fastest");
  const std::map<std::string, std::map<int, double>> seconds{
      {"none", {{6, 1}, {3, 2}, {1, 3}}}, {"some", {{6, 3}, {3, 1}, {1, 2}}}, {"all", {{6, 3}, {3, 2}, {1, 1}}}};
  const std::map<std::string, std::int64_t> limits{{"none", 0}, {"some", 800}, {"all", kNoLimit}};
  const bool per_tensor = context.parameters().text("per_tensor") == "yes";
  RecordingCommunicator world(context.world().duplicate());
  std::vector<int> measured;                      // reductions of each step that was timed; below 0: blocking ones
  std::vector<std::vector<std::int64_t>> before;  // the numbers in what each candidate is called
  std::set<std::string> called;
  bucketing::TuningOptions options{
      .limits = {800, kNoLimit},
      .rounds = 4,
      .seconds = 1e6,
      .per_tensor = per_tensor,
      .timing =
          [&](comm::Communicator&, const std::function<void()>& body) {
            world.calls.clear();
            body();
            int reductions = 0;
            bool waits = false;
            for (const RecordedCall& call : world.calls)
              if (call.operation == comm::Operation::all_reduce) ++reductions, waits = waits || call.waits;
            measured.push_back(waits ? -reductions : reductions);
            return seconds.at(fastest).at(reductions);
          },
      .before =
          [&](const bucketing::Reducer&, const std::string& candidate, const std::function<void()>& step) {
            before.push_back(numbers_in(candidate));
            called.insert(candidate);
            step();
          }};
  const auto tuning = bucketing::fastest_limit(world, six_gradients(), options);
  EXPECT_EQ(tuning.limit_bytes, limits.at(fastest)) << "BUCKET-218: the choice";
  std::vector<std::int64_t> tried_limits, launches;
  for (const BucketTime& time : tuning.times) {
    tried_limits.push_back(time.limit_bytes);
    launches.push_back(time.launches);
    EXPECT_EQ(time.seconds, seconds.at(fastest).at(static_cast<int>(time.launches))) << "BUCKET-218: a time";
    EXPECT_EQ(time.samples.size(), 4U) << "BUCKET-218: rounds";
  }
  EXPECT_THAT(tried_limits, ElementsAre(0, 800, kNoLimit)) << "BUCKET-218: one bucket a gradient is tried always";
  EXPECT_THAT(launches, ElementsAre(6, 3, 1)) << "BUCKET-218: reductions of a step";
  std::vector<std::vector<std::int64_t>> numbers{{}, {800}, {}};
  if (per_tensor) numbers.emplace_back();
  EXPECT_EQ(before, numbers) << "BUCKET-218: steps before the first one of each, by what they are called";
  EXPECT_EQ(called.size(), numbers.size()) << "BUCKET-218: names of candidates";
  EXPECT_EQ(tuning.per_tensor.samples.size(), per_tensor ? 4U : 0U) << "BUCKET-218: rounds without a reducer";
  EXPECT_EQ(tuning.per_tensor.launches, per_tensor ? 6 : 0) << "BUCKET-218: reductions without a reducer";
  EXPECT_EQ(std::ranges::count(measured, -6) > 0, per_tensor) << "BUCKET-218: reductions that block";
}

// The time is up at once: three rounds are made whatever they take. Zero is not tried twice.
void time_is_up(Context& context) {
  const bool is_up = context.parameters().text("seconds") == "0";
  const auto tuning = bucketing::fastest_limit(
      context.world(), six_gradients(),
      {.limits = {kNoLimit, 0}, .rounds = 5, .seconds = is_up ? 0.0 : 1e6, .timing = [](auto&, const auto& body) {
         body();
         return 1.0;
       }});
  ASSERT_EQ(tuning.times.size(), 2U) << "BUCKET-223: sizes that are tried";
  for (const BucketTime& time : tuning.times) EXPECT_EQ(time.samples.size(), is_up ? 3U : 5U) << "BUCKET-223: rounds";
}

// Memory that counts how often it was waited for what was begun there.
class Settled final : public bucketing::BucketMemory {
 public:
  [[nodiscard]] comm::Device device() const override { return host_->device(); }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  void copy_divided(comm::ConstBuffer from, comm::Buffer to, double divisor) override {
    host_->copy_divided(from, to, divisor);
  }
  void fill_zeros(comm::Buffer buffer) override { host_->fill_zeros(buffer); }
  void settle() override { ++times; }

  int times = 0;

 private:
  std::shared_ptr<bucketing::BucketMemory> host_ = bucketing::host_memory();
};

// By the clock: a step is over when what it began on a device is.
void by_the_clock(Context& context) {
  const auto place = std::make_shared<Settled>();
  for (const bool is_placed : {false, true}) {
    bucketing::TuningOptions options{.limits = {0, kNoLimit}, .rounds = 3};
    if (is_placed) options.place = place;
    const auto tuning = bucketing::fastest_limit(context.world(), six_gradients(), options);
    ASSERT_EQ(tuning.times.size(), 2U) << "BUCKET-218: sizes that are tried";
    for (const BucketTime& time : tuning.times) {
      EXPECT_EQ(time.samples.size(), 3U) << "BUCKET-218: rounds";
      EXPECT_GT(time.low, 0) << "BUCKET-218: seconds of a step";
    }
  }
  EXPECT_GE(place->times, 6) << "BUCKET-218: steps at whose end the device has settled";
}

// The sizes that are tried by default.
void usual(Context&) {
  constexpr std::int64_t mebi = 1 << 20;
  for (const auto& limits : {bucketing::usual_limits(), bucketing::TuningOptions{}.limits})
    EXPECT_THAT(limits, ElementsAre(0, mebi, 4 * mebi, 10 * mebi, 25 * mebi, 100 * mebi, kNoLimit)) << "BUCKET-223";
}

void bad_tuning(Context& context) {
  const auto said = [&](bucketing::TuningOptions options) {
    options.timing = [](auto&, const auto&) { return 1.0; };
    return refusal<InvalidArgument>([&] { (void)bucketing::fastest_limit(context.world(), six_gradients(), options); });
  };
  const std::string accepted = kNotRefused;
  EXPECT_EQ(said({.limits = {0}, .rounds = 1, .seconds = 0}), accepted) << "BUCKET-222";
  for (const int rounds : {0, -1})
    EXPECT_EQ(missing_numbers(said({.rounds = rounds}), {rounds, 1}), "") << "BUCKET-222: rounds, and the fewest";
  for (const double seconds : {-1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(said({.seconds = seconds}), accepted) << "BUCKET-222: " << seconds << " seconds";
  EXPECT_NE(said({.limits = {0, -1}}), accepted) << "BUCKET-222: a limit below 0";
  EXPECT_NE(said({.names = {"one"}}), accepted) << "BUCKET-222: too few names";
}

}  // namespace

void add_tuning_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, std::vector<suite::Axis> axes, void (*body)(Context&),
                       const char* requirement = "BUCKET-218@e7bd") {
    axes.push_back(suite::worlds({1, 3}));
    suite.add({.id = std::string("bucketing.tuning.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .body = body});
  };
  add("choice", {{"quartiles", {"narrow", "wide"}}}, choice);
  add("bad_times", {}, bad_times);
  add("tried", {{"fastest", {"none", "some", "all"}}, {"per_tensor", {"no", "yes"}}}, tried);
  add("time_is_up", {{"seconds", {"0", "many"}}}, time_is_up, "BUCKET-223@ebfe");
  add("by_the_clock", {}, by_the_clock);
  add("usual", {}, usual, "BUCKET-223@ebfe");
  add("bad_options", {}, bad_tuning, "BUCKET-222@642b");
}

}  // namespace plumbline::conformance
