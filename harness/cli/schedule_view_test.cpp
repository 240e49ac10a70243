// The closed forms against the simulator, wherever they say that they hold; and that they hold where the papers say so.
#include "harness/cli/schedule_view.hpp"

#include <array>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using schedules::ScheduleKind;

ScheduleRequest request_of(ScheduleKind schedule_kind, int ranks, int micro_batches, int chunks, double f, double i,
                           double w) {
  ScheduleRequest request{.schedule_kind = schedule_kind, .shape = {ranks, micro_batches, chunks}};
  request.options.stages = {{.forward = f, .input_gradient = i, .weight_gradient = w}};
  return request;
}

bool exists(const ScheduleRequest& request) {
  try {
    (void)schedule_of(request);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

// Times are exact in binary, so that bubbles are equal or are not.
TEST(ScheduleView, closed_forms_are_what_the_simulator_finds) {
  int held = 0;
  std::vector<std::array<double, 3>> times;
  for (const double f : {1.0, 3.0, 12.0})
    for (const double i : {1.0, 3.0, 12.0})
      for (const double w : {1.0, 3.0, 12.0}) times.push_back({6 * f, 6 * i, 6 * w});  // of 1, 2 and 3 chunks
  for (const ScheduleKind schedule_kind : schedules::schedule_kinds())
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const int micro_batches : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32})
        for (const int chunks : {1, 2, 3})
          for (const auto& [f, i, w] : times) {
            const ScheduleRequest request = request_of(schedule_kind, ranks, micro_batches, chunks, f, i, w);
            if (!closed_form(request) || !exists(request)) continue;
            const ScheduleView view = view_of(request);
            EXPECT_EQ(view.simulated_bubble(), view.formula->seconds)
                << view.title() << ", times " << f << ' ' << i << ' ' << w;
            ++held;
          }
  EXPECT_GT(held, 1000);
}

TEST(ScheduleView, closed_forms_hold_where_the_papers_say_so) {
  using enum ScheduleKind;
  for (const ScheduleKind schedule_kind : {gpipe, one_f_one_b, interleaved, looped_breadth_first, zb_h1, zb_h2,
                                           interleaved_zero_bubble, zbv, v_half, v_min, dualpipev}) {
    EXPECT_TRUE(closed_form(
        request_of(schedule_kind, 4, 8, schedules::traits_of(schedule_kind).usual_stages_per_rank, 1, 1, 1)))
        << name_of(schedule_kind);
  }
}

TEST(ScheduleView, whole_backwards_have_their_own_time) {
  ScheduleRequest request = request_of(ScheduleKind::gpipe, 4, 8, 1, 1, 1, 1);
  request.options.stages.front().backward = 3;
  const ScheduleView view = view_of(request);
  ASSERT_TRUE(view.formula);
  EXPECT_EQ(view.formula->seconds, 12);
  EXPECT_EQ(view.simulated_bubble(), 12);
}

TEST(ScheduleView, no_closed_form_where_something_else_costs_time) {
  const ScheduleRequest ideal = request_of(ScheduleKind::one_f_one_b, 4, 8, 1, 1, 1, 1);
  const auto without = [&](auto change) {
    ScheduleRequest request = ideal;
    change(request.options);
    return !closed_form(request);
  };
  using Options = schedules::SimulationOptions;
  EXPECT_TRUE(closed_form(ideal));
  EXPECT_TRUE(without([](Options& options) { options.links.latency = 1; }));
  EXPECT_TRUE(without([](Options& options) {
    options.links.bandwidth = 1;
    options.message_bytes = {1};
  }));
  EXPECT_TRUE(without([](Options& options) { options.rank_slowdown = {1, 1, 2, 1}; }));
  EXPECT_TRUE(without([](Options& options) { options.jitter = 0.5; }));
  EXPECT_TRUE(without([](Options& options) { options.stages = {{}, {}, {.forward = 2}, {}}; }));
}

TEST(ScheduleView, cells_are_all_computations_that_take_time) {
  for (const ScheduleKind schedule_kind : schedules::schedule_kinds()) {
    const ScheduleView view =
        view_of(request_of(schedule_kind, 3, 6, schedules::traits_of(schedule_kind).usual_stages_per_rank, 1, 1, 1));
    std::int64_t shown = 0;
    for (int rank = 0; rank < 3; ++rank) {
      double end = 0, work = 0;
      for (const Cell& cell : cells_of(view, rank)) {
        EXPECT_GE(cell.period.start, end) << name_of(schedule_kind);
        end = cell.period.end;
        work += cell.period.end - cell.period.start;
        shown += static_cast<std::int64_t>(cell.actions.size());
      }
      EXPECT_EQ(work, view.timeline.ranks[static_cast<std::size_t>(rank)].work) << name_of(schedule_kind);
    }
    EXPECT_EQ(shown, view.computations) << name_of(schedule_kind);
  }
}

TEST(ScheduleView, ticks_are_round_and_few) {
  EXPECT_EQ(tick_of(33, 10), 5);
  EXPECT_EQ(tick_of(20, 10), 2);
  EXPECT_EQ(tick_of(3, 2), 2);
  EXPECT_EQ(tick_of(60, 8), 10);
  for (const double makespan : {1e-6, 0.003, 7.0, 1e9}) EXPECT_LE(makespan / tick_of(makespan, 12), 12 * (1 + 1e-9));
}

TEST(ScheduleView, a_wrong_name_is_answered_with_the_nearest) {
  for (const auto& [wrong, nearest] : {std::pair{"zb-h3", "zb-h1"},
                                       {"ZBVZeroBuble", "zbv"},
                                       {"1F1", "1f1b"},
                                       {"Interleaved1F1", "interleaved"},
                                       {"ScheduleGPip", "gpipe"}})
    try {
      (void)schedule_kind_named(wrong);
      ADD_FAILURE() << wrong;
    } catch (const NotFound& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("did you mean {}?", nearest)), std::string::npos)
          << error.what();
    }
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ScheduleView, a_picture_of_a_long_timeline_is_no_wider_and_has_an_overview) {
  const std::string boxes = schedule_svg(view_of(request_of(ScheduleKind::one_f_one_b, 4, 16, 1, 1, 1, 1)));
  EXPECT_EQ(count_of(boxes, "class=\"enlarged\""), 0u);
  EXPECT_EQ(count_of(boxes, "<g class=\"F\""), 64u);
  const std::string large = schedule_svg(view_of(request_of(ScheduleKind::gpipe, 8, 2048, 1, 1, 1, 1)));
  EXPECT_EQ(count_of(large, "class=\"enlarged\""), 1u);
  // Time for 44.2 of the mean, 1.5 s, in 1150 pixels: rank r, which begins after r others, has begun 67 - r.
  EXPECT_EQ(count_of(large, "<g class=\"F\""), 8u * 67u - 28u);
  EXPECT_LT(large.size(), std::size_t{400'000});
  EXPECT_EQ(large.find(" width=\""), large.find(" width=\"1584\""));
}

TEST(ScheduleView, pictures_beyond_the_stated_size_are_refused) {
  EXPECT_THROW((void)schedule_svg(view_of(request_of(ScheduleKind::gpipe, 8, 1 << 16 | 1, 1, 1, 1, 1))),
               InvalidArgument);
}

}  // namespace
}  // namespace plumbline::cli
