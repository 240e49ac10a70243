// The rules by which gradients are put into buckets.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/check_plan.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/plan_samples_test.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

using comm::DType;
using samples::indices_of;
using samples::limits_of;
using samples::of_sizes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Indices = std::vector<std::vector<int>>;
using Limits = std::vector<std::int64_t>;

constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

// ---- by size ----

TEST(BySize, ClosesBehindTheGradientThatReachesTheLimit) {
  EXPECT_EQ(indices_of(plan_by_size(of_sizes({10, 10, 10}), Limits{40})), (Indices{{0}, {1}, {2}}));
  EXPECT_EQ(indices_of(plan_by_size(of_sizes({10, 1, 10}), Limits{41})), (Indices{{0, 1}, {2}}));
  EXPECT_EQ(indices_of(plan_by_size(of_sizes({1, 0, 1}), Limits{0})), (Indices{{0}, {1}, {2}}));
}

TEST(BySize, LaysMembersOneBehindTheOther) {
  const Plan plan = plan_by_size(of_sizes({3, 5, 7}), Limits{32});
  EXPECT_THAT(plan.members, ElementsAre(Member{0, 0}, Member{1, 3}, Member{2, 0}));
  EXPECT_EQ(plan.buckets[0].elements, 8);
  EXPECT_EQ(plan.buckets[1].elements, 7);
}

TEST(BySize, StaysOnTheLastLimit) {
  const Plan plan = plan_by_size(of_sizes({4, 4, 4, 4, 4, 4, 4, 4, 4}), Limits{16, 32, 48});
  EXPECT_EQ(indices_of(plan), (Indices{{0}, {1, 2}, {3, 4, 5}, {6, 7, 8}}));
  EXPECT_THAT(limits_of(plan), ElementsAre(16, 32, 48, 48));
}

TEST(BySize, EachTypeDeviceAndGroupWalksTheLimitsOnItsOwn) {
  auto gradients = of_sizes({4, 4, 4, 4, 4, 4});
  for (const int odd : {1, 3, 5}) gradients[static_cast<std::size_t>(odd)].dtype = DType::f64;
  EXPECT_EQ(indices_of(plan_by_size(gradients, Limits{16, 64})), (Indices{{0}, {1}, {2, 4}, {3, 5}}));
  for (const int odd : {1, 3, 5})
    gradients[static_cast<std::size_t>(odd)] = {.elements = 4, .device = {comm::Device::Kind::cuda, 0}};
  EXPECT_EQ(indices_of(plan_by_size(gradients, Limits{1000})), (Indices{{0, 2, 4}, {1, 3, 5}}));
  for (const int odd : {1, 3, 5}) gradients[static_cast<std::size_t>(odd)] = {.elements = 4, .group = 1};
  EXPECT_EQ(indices_of(plan_by_size(gradients, Limits{1000})), (Indices{{0, 2, 4}, {1, 3, 5}}));
}

TEST(BySize, PutsSparseOnesAloneAndGoesOnWithTheSameLimit) {
  auto gradients = of_sizes({4, 4, 4, 4});
  gradients[1].sparse = true;
  const Plan plan = plan_by_size(gradients, Limits{32, 1});
  EXPECT_EQ(indices_of(plan), (Indices{{0, 2}, {1}, {3}}));
  EXPECT_THAT(limits_of(plan), ElementsAre(32, 0, 1));
  EXPECT_TRUE(plan.buckets[1].sparse);
}

TEST(BySize, KeepsAnotherOrderAsBucketsClose) {
  EXPECT_EQ(indices_of(plan_by_size(of_sizes({4, 4, 4, 4}), Limits{32}, std::vector{3, 2, 1, 0})),
            (Indices{{3, 2}, {1, 0}}));
  auto gradients = of_sizes({1, 1, 1, 1});
  gradients[0].dtype = gradients[3].dtype = DType::f64;
  const std::vector order{0, 1, 2, 3};
  EXPECT_EQ(indices_of(plan_by_size(gradients, Limits{100}, order)), (Indices{{1, 2}, {0, 3}}));
  gradients[3].dtype = DType::f32;
  EXPECT_EQ(indices_of(plan_by_size(gradients, Limits{100}, order)), (Indices{{0}, {1, 2, 3}}));
  EXPECT_EQ(indices_of(plan_by_size(gradients, Limits{100}, order, LastBuckets::torch)), (Indices{{1, 2, 3}, {0}}));
}

TEST(BySize, RefusesWhatIsNoLimitAndNoOrder) {
  const auto refused = [](Limits limits, std::vector<int> order) {
    return [=] { (void)plan_by_size(of_sizes({1, 1}), limits, order); };
  };
  EXPECT_THAT(refused({}, {}), ThrowsMessage<InvalidArgument>(HasSubstr("there is no limit")));
  EXPECT_THAT(refused({4, -1}, {}), ThrowsMessage<InvalidArgument>(HasSubstr("limit 1 of buckets is -1 bytes")));
  EXPECT_THAT(refused({4}, {0}), ThrowsMessage<InvalidArgument>(HasSubstr("1 entries for 2 gradients")));
  EXPECT_THAT(refused({4}, {0, 2}), ThrowsMessage<InvalidArgument>(HasSubstr("gradient 2 at 1; there are 2")));
  EXPECT_THAT(refused({4}, {1, 1}), ThrowsMessage<InvalidArgument>(HasSubstr("gradient 1 twice")));
  EXPECT_THAT([] { (void)plan_by_size(of_sizes({kMostBytes}), Limits{4}); },
              ThrowsMessage<OutOfRange>(HasSubstr("64 bits")));
  EXPECT_TRUE(plan_by_size({}, Limits{4}).buckets.empty());
}

TEST(BySize, TakesSomeGradientsInTheirOrder) {
  auto gradients = of_sizes({4, 4, 4, 4, 4, 4});
  gradients[4].dtype = DType::f64;
  const std::vector<int> order{5, 4, 2, 0};
  EXPECT_EQ(indices_of(plan_some_by_size(gradients, Limits{32}, order)), (Indices{{4}, {5, 2}, {0}}));
  const Limits no_limit{kMostBytes};
  EXPECT_EQ(indices_of(plan_some_by_size(gradients, no_limit, order)), (Indices{{4}, {5, 2, 0}}));
  EXPECT_EQ(indices_of(plan_some_by_size(gradients, no_limit, order, LastBuckets::as_begun)),
            (Indices{{5, 2, 0}, {4}}));
  EXPECT_EQ(plan_some_by_size(gradients, no_limit, {}), Plan{});
  EXPECT_THAT([&] { (void)plan_some_by_size(gradients, no_limit, std::vector{1, 1}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("gradient 1 twice")));
  EXPECT_THAT([&] { (void)plan_some_by_size(gradients, no_limit, std::vector{6}); },
              ThrowsMessage<OutOfRange>(HasSubstr("gradient 6 of 6")));
}

TEST(Reversed, TurnsTheLaunchesAndNotTheMembers) {
  const Plan plan = reversed(plan_by_size(of_sizes({3, 5, 7}), Limits{32}));
  EXPECT_EQ(indices_of(plan), (Indices{{2}, {0, 1}}));
  EXPECT_THAT(plan.members, ElementsAre(Member{2, 0}, Member{0, 0}, Member{1, 3}));
}

// ---- DDP ----

TEST(Ddp, HasItsDefaultCaps) {
  const BucketCapacity capacity = bucket_capacity({});
  EXPECT_EQ(capacity.bucket_bytes_cap, 26214400);
  EXPECT_EQ(capacity.first_bucket_bytes_cap, 1048576);
  EXPECT_THAT(first_limits(capacity, false, false), ElementsAre(kMostBytes));
  EXPECT_THAT(first_limits(capacity, true, false), ElementsAre(1048576, 26214400));
  EXPECT_THAT(first_limits(capacity, true, true), ElementsAre(kMostBytes));
  EXPECT_THAT(rebuilt_limits(capacity), ElementsAre(1048576, 26214400));
}

TEST(Ddp, TruncatesMebibytesAndHasTheLargestOfAList) {
  EXPECT_EQ(bucket_capacity({.bucket_cap_mb = 0.05}).bucket_bytes_cap, 52428);
  EXPECT_EQ(bucket_capacity({.bucket_cap_mb = 0.05}).first_bucket_bytes_cap, 52428);
  EXPECT_EQ(bucket_capacity({.bucket_cap_mb = -1, .bucket_cap_mb_list = {5}}).bucket_bytes_cap, 5 << 20) << "not read";
  const BucketCapacity listed = bucket_capacity({.bucket_cap_mb = 25, .bucket_cap_mb_list = {2, 0.1, 1}});
  EXPECT_EQ(listed.bucket_bytes_cap, 2097152);
  EXPECT_THAT(listed.per_bucket_bytes_caps, ElementsAre(2097152, 104857, 1048576));
  EXPECT_EQ(first_limits(listed, false, true), listed.per_bucket_bytes_caps);
  EXPECT_EQ(rebuilt_limits(listed), listed.per_bucket_bytes_caps);
}

TEST(Ddp, RefusesCapsThatAreNone) {
  for (const double cap : {-1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THAT([=] { (void)bucket_capacity({.bucket_cap_mb = cap}); },
                ThrowsMessage<InvalidArgument>(HasSubstr("MiB")));
  EXPECT_THAT([] { (void)bucket_capacity({.bucket_cap_mb = 1e13}); }, ThrowsMessage<OutOfRange>(HasSubstr("64 bits")));
}

TEST(Ddp, RebuildsOnceTheOrderIsKnown) {
  const auto gradients = of_sizes({4, 4, 4, 4});
  const std::vector ready{3, 1, 2, 0};
  const DdpOptions options{.bucket_cap_mb_list = {32.0 / (1 << 20)}};
  const auto at = [&](DdpOptions with, int iteration) {
    return indices_of(ddp_plan(with, gradients, iteration, ready));
  };
  const Indices first{{2, 3}, {0, 1}}, rebuilt{{3, 1}, {2, 0}};
  EXPECT_EQ(at(options, 0), first);
  EXPECT_EQ(at(options, 1), rebuilt);
  DdpOptions fixed = options;
  fixed.static_graph = true;
  EXPECT_EQ(at(fixed, 1), first);
  EXPECT_EQ(at(fixed, 2), rebuilt);
  fixed.find_unused_parameters = true;
  EXPECT_EQ(at(fixed, 2), rebuilt);
  DdpOptions searching = options;
  searching.find_unused_parameters = true;
  EXPECT_EQ(at(searching, 7), first);
  EXPECT_THAT([&] { (void)ddp_plan(options, gradients, 1, {}); }, ThrowsMessage<InvalidArgument>(HasSubstr("0 known")));
  EXPECT_THAT([&] { (void)at(options, -1); }, ThrowsMessage<InvalidArgument>(HasSubstr("iteration -1")));
}

// ---- by type ----

TEST(ByType, UnfusedHasABucketAGradient) {
  EXPECT_EQ(indices_of(plan_unfused(of_sizes({1, 2, 3}))), (Indices{{0}, {1}, {2}}));
  EXPECT_EQ(indices_of(plan_unfused(of_sizes({1, 2, 3}), std::vector{2, 0, 1})), (Indices{{2}, {0}, {1}}));
}

TEST(ByType, FlatHasABufferATypeByWhoIsCompleteFirst) {
  auto gradients = of_sizes({1, 2, 3, 4, 5});
  gradients[0].dtype = gradients[3].dtype = DType::f16;
  gradients[2].group = 1;
  EXPECT_EQ(indices_of(plan_flat(gradients)), (Indices{{2}, {0, 3}, {1, 4}}));
  EXPECT_EQ(indices_of(plan_flat(gradients, std::vector{4, 3, 2, 1, 0})), (Indices{{2}, {4, 1}, {3, 0}}));
  gradients[1].sparse = true;
  EXPECT_EQ(indices_of(plan_flat(gradients)), (Indices{{1}, {2}, {0, 3}, {4}}));
}

TEST(ByType, ColossalaiTakesGroupAfterGroup) {
  auto gradients = of_sizes({1, 2, 3, 4, 5});
  gradients[0].group = gradients[2].group = gradients[4].group = 7;
  gradients[4].dtype = DType::f16;
  EXPECT_EQ(indices_of(plan_as_colossalai(gradients)), (Indices{{0, 2}, {4}, {1, 3}}));
  gradients[1].sparse = true;
  EXPECT_THAT([&] { (void)plan_as_colossalai(gradients); },
              ThrowsMessage<Unsupported>(HasSubstr("gradient 1 is sparse")));
  gradients[1] = {.elements = 1, .device = {comm::Device::Kind::cuda, 0}};
  EXPECT_THAT([&] { (void)plan_as_colossalai(gradients); }, ThrowsMessage<Unsupported>(HasSubstr("one device")));
}

// ---- Megatron ----

TEST(Megatron, FillsFromTheLastParameter) {
  const MegatronLayout layout = megatron_layout(std::vector<std::int64_t>{1875, 48, 46}, {.bucket_elements = 64});
  EXPECT_THAT(layout.parameters, ElementsAre(Interval{94, 1969}, Interval{46, 94}, Interval{0, 46}));
  EXPECT_THAT(layout.bucket, ElementsAre(1, 0, 0));
  EXPECT_THAT(layout.buckets, ElementsAre(Interval{0, 94}, Interval{94, 1969}));
  EXPECT_EQ(layout.unpadded, (std::vector<std::int64_t>{94, 1875}));
}

TEST(Megatron, PadsForTheDistributedOptimizer) {
  const MegatronLayout layout = megatron_layout(
      std::vector<std::int64_t>{1875, 48, 46},
      {.bucket_elements = 64, .distributed_optimizer = DistributedOptimizer{.ranks = 2, .shared_embedding = {0, 2}}});
  EXPECT_THAT(layout.parameters, ElementsAre(Interval{256, 2131}, Interval{128, 176}, Interval{0, 46}));
  EXPECT_THAT(layout.buckets, ElementsAre(Interval{0, 128}, Interval{128, 256}, Interval{256, 2176}));
  EXPECT_EQ(layout.unpadded, (std::vector<std::int64_t>{46, 64, 1875}));
  const MegatronLayout wide =
      megatron_layout(std::vector<std::int64_t>{10},
                      {.distributed_optimizer = DistributedOptimizer{.ranks = 12, .pads_for_bandwidth = true}});
  EXPECT_THAT(wide.buckets, ElementsAre(Interval{0, 196608}));
  EXPECT_TRUE(megatron_layout({}, {}).buckets.empty());
}

TEST(Megatron, KnowsItsDefaultSize) {
  EXPECT_EQ(megatron_default_elements(8), 40'000'000);
  EXPECT_EQ(megatron_default_elements(4096), 4'096'000'000);
}

TEST(Megatron, PlansABufferAType) {
  auto gradients = of_sizes({100, 70, 30, 5});
  gradients[1].dtype = DType::bf16;
  const MegatronOptions options{.bucket_elements = 40,
                                .distributed_optimizer = DistributedOptimizer{.ranks = 2, .shared_embedding = {0}}};
  const Plan plan = plan_as_megatron(gradients, options);
  EXPECT_EQ(indices_of(plan), (Indices{{3, 2}, {0}, {1}}));
  EXPECT_THAT(plan.members, ElementsAre(Member{3, 0}, Member{2, 64}, Member{0, 0}, Member{1, 0}));
  const PlanRules rules{
      .limits = {160}, .member_alignment = 64, .bucket_alignment = 128, .order = std::vector{3, 2, 1, 0}, .alone = {0}};
  EXPECT_TRUE(is_right(check_plan(plan, gradients, rules)));
}

TEST(Megatron, PadsForTheRanksOfAnInstance) {
  const auto padded = [](int ranks, int instances) {
    return megatron_layout(std::vector<std::int64_t>{100},
                           {.distributed_optimizer = DistributedOptimizer{.ranks = ranks, .instances = instances}})
        .buckets.back()
        .end;
  };
  EXPECT_EQ(padded(6, 1), 384);
  EXPECT_EQ(padded(6, 2), 384) << "of 3 ranks";
  EXPECT_EQ(padded(6, 3), 128) << "of 2 ranks";
}

TEST(Megatron, RefusesInOneLine) {
  const auto refused = [](std::vector<std::int64_t> elements, MegatronOptions options) {
    return [=] { (void)megatron_layout(elements, options); };
  };
  EXPECT_THAT(refused({-1}, {}), ThrowsMessage<InvalidArgument>(HasSubstr("parameter 0 has -1 elements")));
  EXPECT_THAT(refused({1}, {.bucket_elements = -1}),
              ThrowsMessage<InvalidArgument>(HasSubstr("buckets of -1 elements")));
  EXPECT_THAT(refused({1}, {.distributed_optimizer = DistributedOptimizer{.ranks = 0}}),
              ThrowsMessage<InvalidArgument>(HasSubstr("a group of 0 ranks")));
  for (const int instances : {0, 4})
    EXPECT_THAT(refused({1}, {.distributed_optimizer = DistributedOptimizer{.ranks = 6, .instances = instances}}),
                ThrowsMessage<InvalidArgument>(HasSubstr("6 ranks in " + std::to_string(instances) + " instances")));
  EXPECT_THAT(refused({1}, {.distributed_optimizer = DistributedOptimizer{.shared_embedding = {1}}}),
              ThrowsMessage<InvalidArgument>(HasSubstr("parameter 1 of 1")));
  EXPECT_THAT(refused({std::int64_t{1} << 53, 1}, {}), ThrowsMessage<OutOfRange>(HasSubstr("2^53")));
  auto gradients = of_sizes({1});
  gradients[0].sparse = true;
  EXPECT_THAT([&] { (void)plan_as_megatron(gradients, {}); }, ThrowsMessage<Unsupported>(HasSubstr("sparse")));
}

}  // namespace
}  // namespace plumbline::bucketing
