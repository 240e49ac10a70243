#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/schedules/generate.hpp"
#include "reference/schedules/partition.hpp"
#include "reference/schedules/schedule_samples_test.hpp"

namespace plumbline::schedules {
namespace {

using samples::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<LayerCost> equal_layers(std::size_t count) {
  return std::vector<LayerCost>(count, {.forward = 1, .backward = 2, .parameter_bytes = 10, .activation_bytes = 4});
}

TEST(Kept, IsWhatTheScheduleKeeps) {
  EXPECT_THAT(kept_by_1f1b(4, 3), ElementsAre(3, 3, 2, 1));
  EXPECT_EQ(kept_by(generate(ScheduleKind::one_f_one_b, {.ranks = 4, .micro_batches = 3})), kept_by_1f1b(4, 3));
  EXPECT_EQ(kept_by(generate(ScheduleKind::one_f_one_b, {.ranks = 4, .micro_batches = 9})), kept_by_1f1b(4, 9));
  EXPECT_THAT(kept_by(generate(ScheduleKind::forward_only, {.ranks = 2, .micro_batches = 4}), true), ElementsAre(1, 1));
  EXPECT_THAT(kept_by(generate(ScheduleKind::gpipe, {.ranks = 2, .micro_batches = 5})), ElementsAre(5, 5));
  EXPECT_THAT(refusal([] {
                return kept_by(generate(ScheduleKind::zbv, {.ranks = 2, .micro_batches = 4, .stages_per_rank = 2}));
              }),
              HasSubstr("2 ranks have 4"));
  EXPECT_THAT(refusal([] { return kept_by_1f1b(0, 3); }), HasSubstr("0 stages"));
}

// Every way to give each of the stages a layer at least.
std::vector<Boundaries> all_partitions(int items, int parts) {
  if (parts == 1) return {{0, items}};
  std::vector<Boundaries> all;
  for (int last = parts - 1; last < items; ++last)
    for (Boundaries boundaries : all_partitions(last, parts - 1)) {
      boundaries.push_back(items);
      all.push_back(std::move(boundaries));
    }
  return all;
}

struct Best {
  double period = std::numeric_limits<double>::infinity();
  std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();
};
Best brute_force(const std::vector<LayerCost>& layers, const StageLimits& limits) {
  Best best;
  for (const Boundaries& boundaries :
       all_partitions(static_cast<int>(layers.size()), static_cast<int>(limits.kept.size()))) {
    double period = 0;
    std::int64_t fullest = 0;
    for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
      double seconds = 0;
      std::int64_t bytes = 0;
      for (auto i = static_cast<std::size_t>(boundaries[s]); i < static_cast<std::size_t>(boundaries[s + 1]); ++i) {
        seconds += layers[i].forward + layers[i].backward;
        bytes += layers[i].parameter_bytes + limits.kept[s] * layers[i].activation_bytes;
      }
      period = std::max(period, seconds);
      if (s + 2 < boundaries.size())
        period =
            std::max(period, static_cast<double>(layers[static_cast<std::size_t>(boundaries[s + 1] - 1)].output_bytes) /
                                 limits.bandwidth);
      fullest = std::max(fullest, bytes);
    }
    best.least_bytes = std::min(best.least_bytes, fullest);
    if (fullest <= limits.memory) best.period = std::min(best.period, period);
  }
  return best;
}

TEST(Measured, IsTheBestThatFitsOrSaysWhatIsMissing) {
  std::mt19937 random(11);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  int refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<LayerCost> layers(static_cast<std::size_t>(between(1, 7)));
    for (LayerCost& layer : layers)
      layer = {.forward = double(between(0, 4)),
               .backward = double(between(0, 6)),
               .parameter_bytes = between(0, 9),
               .activation_bytes = between(0, 5),
               .output_bytes = between(0, 30)};
    StageLimits limits;
    // Kept as by any schedule, not only fewer and fewer.
    for (int left = between(1, std::min<int>(4, static_cast<int>(layers.size()))); left > 0; --left)
      limits.kept.push_back(between(0, 4));
    if (between(0, 1) == 1) limits.bandwidth = between(1, 4);
    const std::int64_t least = brute_force(layers, limits).least_bytes;
    limits.memory = std::max<std::int64_t>(0, least + between(-3, 12));
    const Best best = brute_force(layers, limits);
    try {
      const Boundaries found = partition_measured(layers, limits);
      const std::vector<StageCost> stages = stage_costs(layers, found, limits);
      ASSERT_EQ(period_of(stages), best.period) << testing::PrintToString(found);
      ASSERT_LE(std::ranges::max(stages, {}, &StageCost::bytes).bytes, limits.memory);
    } catch (const NoPartitionFits& error) {
      ++refused;
      ASSERT_LT(limits.memory, least) << error.what();
      ASSERT_EQ(error.missing(), least - limits.memory);
    }
  }
  EXPECT_GT(refused, 100);
}

// By every end of every stage, each stage's seconds summed in the order of its layers; of several best partitions the
// one whose stages, from the first on, have the most layers.
Boundaries by_every_end(const std::vector<LayerCost>& layers, const StageLimits& limits) {
  const std::size_t n = layers.size(), stages = limits.kept.size();
  std::vector<std::vector<double>> least(stages + 1,
                                         std::vector<double>(n + 1, std::numeric_limits<double>::infinity()));
  least[stages][n] = 0;
  const auto worst_of = [&](std::size_t stage, std::size_t begin, std::size_t end) {
    double seconds = 0;
    std::int64_t bytes = 0;
    for (std::size_t i = begin; i < end; ++i) {
      seconds += layers[i].forward + layers[i].backward;
      bytes += layers[i].parameter_bytes + limits.kept[stage] * layers[i].activation_bytes;
    }
    if (bytes > limits.memory) return std::numeric_limits<double>::infinity();
    return std::max(seconds, end == n ? 0 : static_cast<double>(layers[end - 1].output_bytes) / limits.bandwidth);
  };
  for (std::size_t stage = stages; stage-- > 0;)
    for (std::size_t begin = 0; begin < n; ++begin)
      for (std::size_t end = begin + 1; end <= n; ++end)
        least[stage][begin] =
            std::min(least[stage][begin], std::max(worst_of(stage, begin, end), least[stage + 1][end]));
  Boundaries boundaries{0};
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const auto begin = static_cast<std::size_t>(boundaries.back());
    std::size_t longest = begin;
    for (std::size_t end = begin + 1; end <= n; ++end)
      if (std::max(worst_of(stage, begin, end), least[stage + 1][end]) <= least[0][0]) longest = end;
    boundaries.push_back(static_cast<int>(longest));
  }
  return boundaries;
}

// Of times that are no whole numbers, whose sums depend on where they begin; the many equal ones make many partitions
// as good.
TEST(Measured, HasTheBoundariesOfEveryEndToTheBit) {
  std::mt19937 random(12);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  for (int trial = 0; trial < 400; ++trial) {
    const bool are_equal = between(0, 3) == 0;
    std::vector<LayerCost> layers(static_cast<std::size_t>(between(6, 40)));
    for (LayerCost& layer : layers)
      layer = {.forward = are_equal ? 0.1 : 0.1 * between(0, 40),
               .backward = are_equal ? 0.2 : 0.7 * between(0, 20),
               .parameter_bytes = between(1, 9),
               .activation_bytes = between(0, 5),
               .output_bytes = between(0, 30)};
    StageLimits limits{.kept = kept_by_1f1b(between(1, 6), 4)};
    if (between(0, 1) == 1) limits.bandwidth = 0.3 * between(1, 9);
    if (between(0, 1) == 1)
      limits.memory = 25 * static_cast<std::int64_t>(layers.size()) / static_cast<int>(limits.kept.size());
    try {
      EXPECT_EQ(partition_measured(layers, limits), by_every_end(layers, limits));
    } catch (const NoPartitionFits&) {
    }
  }
}

TEST(Measured, HasTheMostLayersFirst) {
  EXPECT_THAT(partition_measured(equal_layers(7), {.kept = kept_by_1f1b(3, 8)}), ElementsAre(0, 3, 6, 7));
  EXPECT_THAT(partition_measured(std::vector<LayerCost>(5), {.kept = kept_by_1f1b(3, 8)}), ElementsAre(0, 3, 4, 5));
}

TEST(Measured, LeavesTheFirstStagesLessWhereTheyKeepMore) {
  // Of equal layers 3 stages would have 2, 2, 2; stage 0 keeps 3 micro-batches' activations and has no room for that.
  EXPECT_THAT(partition_measured(equal_layers(6), {.kept = kept_by_1f1b(3, 8)}), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(partition_measured(equal_layers(6), {.kept = kept_by_1f1b(3, 8), .memory = 42}), ElementsAre(0, 1, 3, 6));
}

TEST(Measured, SaysWhichStageLacksHowMuch) {
  EXPECT_EQ(
      refusal([] { return partition_measured(equal_layers(6), {.kept = kept_by_1f1b(3, 8), .memory = 40}); }),
      "partition: 6 layers do not fit into 3 stages of 40 bytes each: at best stage 2, with layers 3 to 5, has 42 "
      "bytes, 2 too many: 30 of parameters and 1 times 12 of activations");
}

TEST(Measured, TakesTheMessageForAStage) {
  std::vector<LayerCost> layers = equal_layers(4);
  layers[1].output_bytes = 100;
  const StageLimits slow{.kept = {2, 1}, .bandwidth = 10};
  EXPECT_THAT(partition_measured(layers, {.kept = {2, 1}}), ElementsAre(0, 2, 4));
  EXPECT_THAT(partition_measured(layers, slow), ElementsAre(0, 3, 4));
  EXPECT_EQ(period_of(stage_costs(layers, {0, 2, 4}, slow)), 10);
  EXPECT_EQ(period_of(stage_costs(layers, {0, 3, 4}, slow)), 9);
}

TEST(Measured, RefusesWhatNothingCanBeMadeOf) {
  const auto of = [](LayerCost cost, StageLimits limits = {.kept = {1}}) {
    return refusal([&] { return partition_measured(std::vector{LayerCost{}, cost}, limits); });
  };
  EXPECT_THAT(of({.forward = -1}), HasSubstr("forward of layer 1 is -1"));
  EXPECT_THAT(of({.backward = std::nan("")}), HasSubstr("backward of layer 1 is nan"));
  EXPECT_THAT(of({.backward = 1, .weight_gradient = 2}), HasSubstr("weight_gradient of layer 1 is 2, more than"));
  EXPECT_THAT(of({.activation_bytes = -4}), HasSubstr("activation_bytes of layer 1 is -4"));
  EXPECT_THAT(of({.parameter_bytes = std::int64_t{1} << 53, .activation_bytes = 1}),
              HasSubstr("these stay below 2^53"));
  EXPECT_THAT(of({}, {}), HasSubstr("there is no stage"));
  EXPECT_THAT(of({}, {.kept = {3, 2, 1}}), HasSubstr("3 stages need a layer each, there are 2"));
  EXPECT_THAT(of({}, {.kept = {-1}}), HasSubstr("stage 0 keeps -1"));
  EXPECT_THAT(of({}, {.kept = {1}, .memory = -1}), HasSubstr("limit of -1 bytes"));
  EXPECT_THAT(of({}, {.kept = {1}, .bandwidth = 0}), HasSubstr("bandwidth of 0"));
  EXPECT_THAT(refusal([] { return partition_measured(std::vector<LayerCost>(100'000), {.kept = {1}}); }),
              HasSubstr("100000 layers x 100000 layers x 1 stages"));
}

TEST(Compared, HasTheMakespanOfGpipeForEachCandidate) {
  std::mt19937 random(5);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  for (int trial = 0; trial < 200; ++trial) {
    const int ranks = between(1, 4), micro_batches = between(1, 6);
    std::vector<LayerCost> layers(static_cast<std::size_t>(ranks + between(0, 6)));
    for (LayerCost& layer : layers)
      layer = {.forward = double(between(0, 4)),
               .backward = double(between(0, 8)),
               .parameters = between(0, 9),
               .parameter_bytes = between(0, 9),
               .activation_bytes = between(0, 9)};
    const Schedule schedule = generate(ScheduleKind::gpipe, {.ranks = ranks, .micro_batches = micro_batches});
    const std::vector<PartitionFigures> candidates = compare_partitions(schedule, layers);
    ASSERT_EQ(candidates.size(), 3U);
    for (const PartitionFigures& candidate : candidates) {
      double total = 0, forward = 0, backward = 0, busiest = 0, fullest = 0;
      for (std::size_t s = 0; s + 1 < candidate.boundaries.size(); ++s) {
        double f = 0, b = 0, bytes = 0;
        for (auto i = static_cast<std::size_t>(candidate.boundaries[s]);
             i < static_cast<std::size_t>(candidate.boundaries[s + 1]); ++i) {
          f += layers[i].forward;
          b += layers[i].backward;
          bytes += double(layers[i].parameter_bytes) + micro_batches * double(layers[i].activation_bytes);
        }
        total += f + b;
        forward = std::max(forward, f);
        backward = std::max(backward, b);
        busiest = std::max(busiest, f + b);
        fullest = std::max(fullest, bytes);
      }
      ASSERT_EQ(candidate.makespan, total + (micro_batches - 1) * (forward + backward)) << candidate.name;
      ASSERT_EQ(candidate.barrier_bubble, candidate.makespan - micro_batches * busiest);
      ASSERT_EQ(candidate.slowest_stage, busiest);
      ASSERT_EQ(candidate.peak_bytes, fullest);
      ASSERT_GE(candidate.slowest_stage, candidates.back().slowest_stage);
    }
    EXPECT_EQ(candidates[0].boundaries, partition_uniform(static_cast<int>(layers.size()), ranks));
  }
}

TEST(Compared, TakesAnyScheduleAndALimitOnlyWithOneStageARank) {
  std::vector<LayerCost> layers = equal_layers(8);
  for (LayerCost& layer : layers) layer.weight_gradient = 1;
  const Schedule both = generate(ScheduleKind::zbv, {.ranks = 2, .micro_batches = 4, .stages_per_rank = 2});
  const auto candidates = compare_partitions(both, layers);
  EXPECT_EQ(candidates.back().makespan, 4 * 12 + 2) << "equal times: (p-1) tF/2 more than the work";
  EXPECT_THAT(refusal([&] { return compare_partitions(both, layers, 100); }), HasSubstr("2 ranks have 4"));
}

TEST(Compared, SendsTheOutputOfTheLayerBeforeTheBoundary) {
  std::vector<LayerCost> layers = equal_layers(4);
  layers[0].output_bytes = 7;
  layers[2].output_bytes = 9;
  const SimulationOptions options = options_of(layers, {0, 1, 3, 4});
  EXPECT_THAT(options.message_bytes, ElementsAre(7, 9));
  EXPECT_THAT(options.activation_bytes, ElementsAre(4, 8, 4));
  EXPECT_EQ(options.stages[1].forward, 2);
  EXPECT_EQ(options.stages[1].of(ActionKind::backward), 4);
}

}  // namespace
}  // namespace plumbline::schedules
