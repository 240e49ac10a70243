#include "benchmarks/bubble_report.hpp"

#include <bit>
#include <cmath>
#include <numeric>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "benchmarks/bubble_published.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using nlohmann::json;
using schedules::ScheduleKind;
using testing::HasSubstr;

// The part of all ways to fall below or above the median in which it lies between the low-th sample and the last but
// low-th.
double share_around_median(unsigned samples, int low) {
  int inside = 0;
  for (unsigned ways = 0; ways < 1u << samples; ++ways) {
    const int below = std::popcount(ways);
    inside += below > low && below < static_cast<int>(samples) - low ? 1 : 0;
  }
  return static_cast<double>(inside) / (1u << samples);
}

TEST(Centre, IsAMedianWithAnIntervalFromTheOrder) {
  const Centre one = centre_of({3});
  EXPECT_EQ(one.median, 3);
  EXPECT_EQ(one.confidence, 0);
  const Centre even = centre_of({4, 1, 3, 2});
  EXPECT_EQ(even.median, 2.5);
  EXPECT_EQ(even.low, 1);
  EXPECT_EQ(even.high, 4);
  for (unsigned count = 1; count <= 16; ++count) {
    std::vector<double> samples(count);
    std::iota(samples.begin(), samples.end(), 0);
    const Centre centre = centre_of(samples);
    const int low = static_cast<int>(centre.low);
    SCOPED_TRACE(count);
    EXPECT_EQ(centre.low + centre.high, count - 1) << "as many samples above as below";
    EXPECT_NEAR(centre.confidence, share_around_median(count, low), 1e-12);
    if (low > 0) {
      EXPECT_GE(centre.confidence, 0.95);
    }
    EXPECT_LT(share_around_median(count, low + 1), 0.95) << "a narrower one would do";
  }
  EXPECT_THROW((void)centre_of({}), InvalidArgument);
}

// The binomial distribution of many samples is the normal one.
TEST(Centre, HasAnIntervalOfManySamples) {
  for (const double count : {2000.0, 100'000.0}) {
    std::vector<double> samples(static_cast<std::size_t>(count));
    std::iota(samples.begin(), samples.end(), 0);
    const Centre centre = centre_of(samples);
    EXPECT_NEAR(centre.low, (count - 1) / 2 - 1.96 * std::sqrt(count) / 2, 1.5);
    EXPECT_EQ(centre.low + centre.high, count - 1);
    EXPECT_GE(centre.confidence, 0.95);
    EXPECT_LT(centre.confidence, 0.955);
  }
}

// What a machine says on which everything takes as long as the simulator says, times a factor.
json answer_for(const BubbleCase& of, std::vector<double> factors) {
  const ScheduleView view = view_of(of.request());
  json repetitions = json::array();
  for (const double factor : factors) {
    json ranks = json::array();
    for (std::size_t rank = 0; rank < view.idle.size(); ++rank) {
      const schedules::RankTimes& times = view.timeline.ranks[rank];
      const schedules::IdleTime& idle = view.idle[rank];
      ranks.push_back({{"work", factor * times.work},
                       {"barrier_bubble", factor * times.barrier_bubble},
                       {"span_bubble", factor * times.span_bubble},
                       {"peak_activations", times.peak_activations},
                       {"idle",
                        {{"fill", factor * idle.fill},
                         {"drain", factor * idle.drain},
                         {"dependency", factor * idle.dependency},
                         {"transfer", 0},
                         {"sent_late", 0},
                         {"imbalance", factor * idle.imbalance},
                         {"straggler", 0},
                         {"overhead", 0}}}});
    }
    repetitions.push_back({{"makespan", factor * view.timeline.makespan}, {"ranks", std::move(ranks)}});
  }
  return {{"repetitions", std::move(repetitions)}};
}

TEST(BubbleRow, HasMeasuredSimulatedAndCalculatedSideBySide) {
  // 1F1B of 4 ranks and 8 micro-batches, a forward of 1 and a backward of 2: 24 of work, 3 hops of 3.
  const BubbleCase of{.schedule_kind = ScheduleKind::one_f_one_b, .shape = {4, 8, 1}, .times = {1, 1, 1, {}}};
  const BubbleRow row = bubble_row(of, answer_for(of, {1.25, 1, 1.5}));
  EXPECT_EQ(row.simulated_makespan, 33);
  EXPECT_EQ(row.ratio.median, 1.25);
  EXPECT_EQ(row.ratio.low, 1);
  EXPECT_EQ(row.ratio.high, 1.5);
  EXPECT_EQ(row.barrier.measured.median, 1.25 * 9);
  EXPECT_EQ(row.barrier.simulated, 9);
  EXPECT_EQ(row.barrier.closed_form, 9);
  EXPECT_EQ(row.span.simulated, 9) << "of rank 0; of the others 6, 3 and none";
  EXPECT_EQ(row.span.measured.median, 1.25 * 9);
  EXPECT_DOUBLE_EQ(*row.ratio_of_total.closed_form, 9.0 / 33);
  EXPECT_DOUBLE_EQ(*row.ratio_of_work.closed_form, 9.0 / 24);
  EXPECT_DOUBLE_EQ(row.ratio_of_total.measured.median, 9.0 / 33);
  EXPECT_DOUBLE_EQ(row.idle.sum(), 1.25 * 9);
  EXPECT_EQ(row.peak_activations, 4);
  EXPECT_THAT(bubble_line(row), HasSubstr("1.250 [1.000, 1.500]"));
}

// Three repetitions in which ranks were idle for something else each time: part by part, no medians but one sum to a
// bubble.
TEST(BubbleRow, HasWhatRanksWereIdleForInOneRepetition) {
  const BubbleCase of{.schedule_kind = ScheduleKind::gpipe, .shape = {2, 2, 1}, .times = {1, 1, 1, {}}};
  json answer = answer_for(of, {1, 1, 1});
  const auto set = [&](std::size_t repetition, std::size_t rank, double fill, double transfer, double overhead) {
    json& figures = answer["repetitions"][repetition]["ranks"][rank];
    figures["idle"] = {{"fill", fill},   {"drain", 0},     {"dependency", 0}, {"transfer", transfer},
                       {"sent_late", 0}, {"imbalance", 0}, {"straggler", 0},  {"overhead", overhead}};
    figures["barrier_bubble"] = fill + transfer + overhead;
  };
  set(0, 0, 8, 0, 0);
  set(0, 1, 0, 0, 4);  // 6 on the average
  set(1, 0, 0, 0, 1);
  set(1, 1, 0, 3, 0);  // 2
  set(2, 0, 0, 5, 0);
  set(2, 1, 1, 0, 2);  // 4: the median
  const BubbleRow row = bubble_row(of, answer);
  EXPECT_EQ(row.barrier.measured.median, 4);
  EXPECT_EQ(row.idle.sum(), 4);
  EXPECT_EQ(row.idle.fill, 0.5);
  EXPECT_EQ(row.idle.transfer, 2.5);
  EXPECT_EQ(row.idle.overhead, 1);
  EXPECT_EQ(row.ranks[0].idle.sum(), 5);
  EXPECT_EQ(row.ranks[1].idle.sum(), 3);
  answer["repetitions"].erase(2);
  EXPECT_EQ(bubble_row(of, answer).idle.sum(), 2) << "of two, the lower";
}

TEST(BubbleRow, HasTheClosedFormsThatTheSimulatorConfirms) {
  int forms = 0;
  for (const ScheduleKind schedule_kind : schedules::schedule_kinds()) {
    if (schedule_kind == ScheduleKind::forward_only || schedule_kind == ScheduleKind::automatic) continue;
    for (const int ranks : {2, 4, 8})
      for (const int micro_batches : {4, 8, 16, 32, 64}) {
        const BubbleCase of{.schedule_kind = schedule_kind,
                            .shape = {ranks, micro_batches, schedules::traits_of(schedule_kind).usual_stages_per_rank},
                            .times = {0.003, 0.003, 0.003, {}}};
        SCOPED_TRACE(of.name());
        try {
          (void)schedule_of(of.request());
        } catch (const InvalidArgument&) {
          continue;  // it is not one of its shapes
        }
        const BubbleRow row = bubble_row(of, answer_for(of, {1}));
        const bool has_form = row.barrier.closed_form || row.span.closed_form;
        EXPECT_EQ(has_form, why_no_closed_form(of).empty());
        if (row.barrier.closed_form) {
          EXPECT_NEAR(*row.barrier.closed_form, row.barrier.simulated, 1e-9);
        }
        if (row.span.closed_form) {
          EXPECT_NEAR(*row.span.closed_form, row.span.simulated, 1e-9);
        }
        forms += has_form ? 1 : 0;
      }
  }
  EXPECT_GT(forms, 100);
}

TEST(BubbleRow, OfMeasuredTimesIsSimulatedWithThem) {
  const BubbleCase of{
      .schedule_kind = ScheduleKind::one_f_one_b, .shape = {2, 2, 1}, .times = {9, 9, 9, {}}, .libtorch = true};
  json answer = answer_for(of, {1});
  answer["repetitions"][0]["stages"] = {
      {{"forward", 1}, {"backward", 2}, {"input_gradient", 0}, {"weight_gradient", 0}},
      {{"forward", 2}, {"backward", 2}, {"input_gradient", 0}, {"weight_gradient", 0}}};
  const BubbleRow row = bubble_row(of, answer);
  // 0F0 0-1, 1F0 1-3, 1B0 3-5, 1F1 5-7, 1B1 7-9, 0B1 9-11.
  EXPECT_EQ(row.simulated_makespan, 11);
  EXPECT_EQ(row.ratio.median, row.makespans.front() / 11);
  EXPECT_FALSE(row.barrier.closed_form);
  EXPECT_THAT(why_no_closed_form(row.of), HasSubstr("different times"));
}

TEST(BubbleRow, BecomesMeasurements) {
  const BubbleCase of{.schedule_kind = ScheduleKind::zb_h1, .shape = {4, 8, 1}, .times = {1, 1, 1, {}}};
  const BubbleRow row = bubble_row(of, answer_for(of, {1, 1}));
  const std::vector<record::Measurement> list = measurements_of(row, "local");
  ASSERT_EQ(list.size(), 5u) << "the whole, and its ranks";
  EXPECT_EQ(list[0].labels.at("schedule"), "zb-h1");
  EXPECT_EQ(list[0].labels.at("micro_batches"), "8");
  EXPECT_EQ(list[0].samples, (std::vector<double>{27, 27}));
  EXPECT_EQ(list[0].derived.at("barrier_bubble_seconds"), 3);
  EXPECT_EQ(list[0].derived.at("closed_form_barrier_bubble_seconds"), 3);
  EXPECT_EQ(list[0].derived.at("ratio_to_simulated"), 1);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const record::Measurement& one = list[rank + 1];
    EXPECT_EQ(one.labels.at("rank"), std::to_string(rank));
    double idle = 0;
    for (const auto& [name, seconds] : one.derived) idle += name.starts_with("idle_") ? seconds : 0;
    EXPECT_DOUBLE_EQ(idle, one.samples.front());
  }
}

TEST(BubblePicture, HasAPointForEachRow) {
  std::vector<BubbleRow> rows;
  for (const ScheduleKind schedule_kind : {ScheduleKind::gpipe, ScheduleKind::zbv})
    for (const int micro_batches : {4, 8, 16}) {
      const BubbleCase of{.schedule_kind = schedule_kind,
                          .shape = {4, micro_batches, schedules::traits_of(schedule_kind).usual_stages_per_rank},
                          .times = {1, 1, 1, {}}};
      rows.push_back(bubble_row(of, answer_for(of, {1})));
    }
  const std::string svg = bubble_svg(rows, "a & b <c>");
  const auto count = [&](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(text); at != svg.npos; at = svg.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<circle"), 6u);
  EXPECT_EQ(count("width=\"9.00\" height=\"9.00\""), 5u) << "zbv of 4 micro-batches has no closed form";
  EXPECT_THAT(svg, HasSubstr(">gpipe</text>"));
  EXPECT_THAT(svg, HasSubstr(">a &amp; b &lt;c&gt;</text>"));
  EXPECT_THAT(svg, HasSubstr("gpipe of 4 ranks, 4 micro-batches: measured 42.9 %, simulated 42.9 %"));
}

TEST(PublishedRatios, AreThoseOfTheirConfigurations) {
  std::vector<BubbleRow> rows;
  for (const BubbleCase& of : published_cases({1, 1, 1, {}})) rows.push_back(bubble_row(of, answer_for(of, {1, 1, 1})));
  const std::string text = published_text(rows);
  constexpr std::size_t kRatiosFrom = 54 + 30;
  // By hand: 32 x 3 of work, 7 hops of 3, of 3/2 or of 3/4; 24 x 3 of work, 7 hops of 3 or of 1, or none.
  for (const auto& [what, ratio] : {std::pair{"Megatron-LM", 117.0 / 106.5},
                                    {"similar memory", 93.0 / 79},
                                    {"with more memory", 93.0 / 72},
                                    {"interleaved over 1F1B, 8 H800", 117.0 / 101.25},
                                    {"ZB-2P over 1F1B", 117.0 / 96},
                                    {"ZB-V over 1F1B", 117.0 / 96}}) {
    const std::size_t at = text.find(what);
    ASSERT_NE(at, text.npos) << what;
    // After the claim and its source, in columns: published, simulated, differs in %, measured.
    std::istringstream columns(text.substr(text.rfind('\n', at) + 1 + kRatiosFrom));
    double published = 0, simulated = 0, measured = 0;
    std::string differs;
    columns >> published >> simulated >> differs >> measured;
    ASSERT_TRUE(columns) << what;
    EXPECT_NEAR(simulated, ratio, 0.0006) << what;
    EXPECT_NEAR(measured, ratio, 0.0006) << what << ": on an ideal machine";
  }
  EXPECT_THAT(text, HasSubstr("0.625")) << "V-Half: 10 chunks of 16";
  EXPECT_THAT(text, HasSubstr("Chimera"));
}

}  // namespace
}  // namespace plumbline::cli
