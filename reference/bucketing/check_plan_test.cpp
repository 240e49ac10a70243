// What is found wrong with a plan, and what of its communication a backward hides.
#include "reference/bucketing/check_plan.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/exposed.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/plan_samples_test.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

using samples::of_sizes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using Limits = std::vector<std::int64_t>;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::vector<std::string> faults(const Plan& plan, std::span<const Gradient> gradients, const PlanRules& rules = {}) {
  std::vector<std::string> names;
  for (const PlanProblem& problem : check_plan(plan, gradients, rules)) names.emplace_back(name_of(problem.fault));
  return names;
}

// Two buckets: 0 and 1, 2.
struct Sample {
  std::vector<Gradient> gradients = of_sizes({3, 5, 7});
  Plan plan = plan_by_size(gradients, Limits{32});
  PlanRules rules{.limits = {32}, .order = std::vector{0, 1, 2}};
  [[nodiscard]] std::vector<std::string> faults() const { return bucketing::faults(plan, gradients, rules); }
};

TEST(CheckPlan, PassesWhatIsRight) { EXPECT_THAT(Sample().faults(), IsEmpty()); }

TEST(CheckPlan, FindsWhoIsNotThereOnce) {
  Sample one;
  one.plan.members[2].gradient = 1;
  EXPECT_THAT(one.faults(), ElementsAre("doubled", "missing", "gap"));
  one.plan.members[2].gradient = 3;
  EXPECT_THAT(one.faults(), ElementsAre("range", "missing"));
  one = {};
  one.plan.buckets[1].members = 2;
  EXPECT_THAT(one.faults(), ElementsAre("range", "missing"));
  one.plan.buckets[1] = {.elements = -1, .first_member = 2, .members = 1};
  EXPECT_THAT(one.faults(), ElementsAre("range"));
  one = {};
  one.rules.frozen = {2};
  EXPECT_THAT(one.faults(), ElementsAre("frozen"));
}

TEST(CheckPlan, FindsPlacesThatDoNotFit) {
  Sample one;
  one.plan.members[1].begin = 2;
  EXPECT_THAT(one.faults(), ElementsAre("overlap", "gap"));
  one.plan.members[1].begin = 4;
  EXPECT_THAT(one.faults(), ElementsAre("outside"));
  one.plan.members[1].begin = kMost;
  EXPECT_THAT(one.faults(), ElementsAre("outside"));
  one.plan.members[1].begin = -1;
  EXPECT_THAT(one.faults(), ElementsAre("outside"));
  one = {};
  one.plan.buckets[0].elements = 9;
  EXPECT_THAT(one.faults(), ElementsAre("gap"));
  one.rules.bucket_alignment = 4;
  EXPECT_THAT(one.faults(), ElementsAre("alignment", "gap", "alignment"));
  one.plan.buckets[0].elements = kMost;
  one.rules.bucket_alignment = 1;
  EXPECT_THAT(one.faults(), ElementsAre("overflow", "gap"));
}

TEST(CheckPlan, FindsWhatDoesNotMix) {
  for (const Gradient& other :
       {Gradient{.elements = 5, .dtype = comm::DType::i32}, Gradient{.elements = 5, .components_per_element = 2},
        Gradient{.elements = 5, .device = {comm::Device::Kind::cuda, 0}}, Gradient{.elements = 5, .group = 1}}) {
    Sample one;
    one.rules = {};
    one.gradients[1] = other;
    EXPECT_THAT(one.faults(), ElementsAre("mixed"));
  }
  Sample one;
  one.gradients[1].sparse = true;
  EXPECT_THAT(one.faults(), ElementsAre("alone"));
  one = {};
  one.rules.alone = {0};
  EXPECT_THAT(one.faults(), ElementsAre("alone"));
  one = {};
  one.plan.buckets[1].sparse = true;
  EXPECT_THAT(one.faults(), ElementsAre("alone"));
}

TEST(CheckPlan, KnowsBothRulesOfCaps) {
  const auto gradients = of_sizes({3, 5, 7});
  const Plan two = plan_by_size(gradients, Limits{32}), three = plan_unfused(gradients);
  EXPECT_THAT(faults(three, gradients, {.limits = {32}}), ElementsAre("cap", "cap"));
  EXPECT_THAT(faults(three, gradients, {.limits = {12}}), IsEmpty());
  EXPECT_THAT(faults(two, gradients, {.limits = {12}}), ElementsAre("cap"));
  EXPECT_THAT(faults(two, gradients, {.limits = {33}}), ElementsAre("cap"));
  const auto before = [](std::int64_t limit) {
    return PlanRules{.limits = {limit}, .closing = Closing::before_exceeding};
  };
  EXPECT_THAT(faults(two, gradients, before(32)), IsEmpty());
  EXPECT_THAT(faults(two, gradients, before(59)), IsEmpty());
  EXPECT_THAT(faults(two, gradients, before(31)), ElementsAre("cap"));
  EXPECT_THAT(faults(two, gradients, before(60)), ElementsAre("cap"));
  EXPECT_THAT(faults(three, gradients, before(4)), IsEmpty());
}

TEST(CheckPlan, KnowsFromWhichEndLimitsAreWalked) {
  const auto gradients = of_sizes({1, 4, 4});
  const Plan turned = reversed(plan_by_size(gradients, Limits{4, 32}));
  EXPECT_THAT(faults(turned, gradients, {.limits = {4, 32}, .planned_in_reverse = true}), IsEmpty());
  EXPECT_THAT(faults(turned, gradients, {.limits = {4, 32}}), ElementsAre("cap"));
}

TEST(CheckPlan, HoldsOrdersAgainstThePlan) {
  Sample one;
  one.rules.order = std::vector{1, 0, 2};
  EXPECT_THAT(one.faults(), ElementsAre("order"));
  one.rules.order = std::vector{2, 0, 1};
  EXPECT_THAT(one.faults(), ElementsAre("order"));
  one = {};
  one.rules.ready = std::vector{2, 1, 0};
  EXPECT_THAT(one.faults(), ElementsAre("waits"));
  EXPECT_TRUE(is_right(check_plan(one.plan, one.gradients, one.rules)));
  one.plan = reversed(one.plan);
  one.rules.planned_in_reverse = true;
  EXPECT_THAT(one.faults(), IsEmpty());
}

TEST(CheckPlan, WarnsOfBucketsWithoutMembers) {
  Sample one;
  one.plan.buckets.push_back({.first_member = 3});
  EXPECT_THAT(one.faults(), ElementsAre("empty"));
}

TEST(CheckPlan, RefusesRulesThatAreNone) {
  const auto refused = [](PlanRules rules) {
    return [=] { (void)check_plan(Sample().plan, Sample().gradients, rules); };
  };
  EXPECT_THAT(refused({.limits = {-1}}), ThrowsMessage<InvalidArgument>(HasSubstr("-1 bytes")));
  EXPECT_THAT(refused({.member_alignment = 0}),
              ThrowsMessage<InvalidArgument>(HasSubstr("member_alignment: 0 elements")));
  EXPECT_THAT(refused({.order = std::vector{0, 1}}), ThrowsMessage<InvalidArgument>(HasSubstr("2 entries")));
  EXPECT_THAT(refused({.frozen = {3}}), ThrowsMessage<InvalidArgument>(HasSubstr("frozen: there is no gradient 3")));
}

// ---- exposed communication ----

TEST(Exposed, IsTheLastBucketAloneWhereTheBackwardIsLonger) {
  const Link link{.ranks = 4, .latency = 0.5, .bandwidth = 6};
  const auto gradients = of_sizes({1, 1});  // 8 bytes: 3 + 1.5 x 4 / 6 = 4 each
  const Plan plan = plan_unfused(gradients, std::vector{1, 0});
  const Exposure hidden = exposed_communication(plan, ready_evenly(gradients, 16), 16, link);
  EXPECT_THAT(hidden.launches, ElementsAre(PredictedReduction{8, 8, 12}, PredictedReduction{16, 16, 20}));
  EXPECT_EQ(hidden.communication, 8);
  EXPECT_EQ(hidden.exposed, 4);
  EXPECT_EQ(hidden.overlap_ratio(), 0.5);
  EXPECT_EQ(hidden.exposed, exposed_of_equal_buckets(16, 8, 2, link));
  const Exposure bound = exposed_communication(plan, ready_evenly(gradients, 4), 4, link);
  EXPECT_EQ(bound.exposed, 6);
  EXPECT_EQ(bound.exposed, exposed_of_equal_buckets(4, 8, 2, link));
}

TEST(Exposed, WaitsForTheBucketAhead) {
  const auto gradients = of_sizes({1, 1});
  const Link link{.ranks = 2, .latency = 1};
  const Exposure late = exposed_communication(plan_unfused(gradients), std::vector<double>{5, 1}, 5, link);
  EXPECT_THAT(late.launches, ElementsAre(PredictedReduction{5, 5, 7}, PredictedReduction{1, 7, 9}));
  EXPECT_EQ(late.exposed, 4);
}

TEST(Exposed, HasABestNumberOfBuckets) {
  const Link link{.ranks = 3, .latency = 0.01, .bandwidth = 1};
  const double best = best_bucket_count(16, link);
  EXPECT_DOUBLE_EQ(best, 20);
  for (const int other : {10, 19, 21, 40})
    EXPECT_GT(exposed_of_equal_buckets(16, 60, other, link), exposed_of_equal_buckets(16, 60, 20, link)) << other;
  EXPECT_TRUE(std::isinf(best_bucket_count(16, {.ranks = 1, .latency = 1})));
}

TEST(Exposed, IsNothingOfOneRankAndOfNothing) {
  const auto gradients = of_sizes({8});
  EXPECT_EQ(
      exposed_communication(plan_unfused(gradients), ready_evenly(gradients, 1), 1, {.ranks = 1, .latency = 1}).exposed,
      0);
  EXPECT_EQ(exposed_communication({}, {}, 1, {}).overlap_ratio(), 1);
}

TEST(Exposed, RefusesTimesThatAreNone) {
  const auto gradients = of_sizes({8});
  const Plan plan = plan_unfused(gradients);
  EXPECT_THAT([&] { (void)exposed_communication(plan, {}, 1, {}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("has no time")));
  EXPECT_THAT([&] { (void)exposed_communication(plan, std::vector{-1.0}, 1, {}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("-1")));
  EXPECT_THAT([] { (void)all_reduce_seconds(1, {.ranks = 0}); }, ThrowsMessage<InvalidArgument>(HasSubstr("0 ranks")));
  EXPECT_THAT([] { (void)all_reduce_seconds(-1, {}); }, ThrowsMessage<InvalidArgument>(HasSubstr("-1 bytes")));
  EXPECT_THAT([] { (void)best_bucket_count(std::nan(""), {}); }, ThrowsMessage<InvalidArgument>(HasSubstr("no time")));
  EXPECT_THAT([] { (void)exposed_of_equal_buckets(1, 1, 0, {}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("0 buckets")));
}

}  // namespace
}  // namespace plumbline::bucketing
