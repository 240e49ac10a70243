// benchmarks/bubble_report.hpp: bubbles as they were measured, beside those of the simulator and of the closed forms.
//
// Model   A case is a schedule with the times of its computations. A row has what was measured of it, each figure once
//         a repetition, and what the simulator and a closed form say without messages: what is beyond that is overhead,
//         transfer and the machine.
// Units   seconds. A bubble is the mean of the ranks' barrier bubbles, or the longest span bubble of a rank, as the
//         closed forms mean them; ratios are of the makespan (GPipe's) or of the work (Megatron-LM's).
// Centre  Medians of the repetitions, with an interval that has the median of all repetitions in so many of 100 cases,
//         from the order of the samples alone. What ranks were idle for is told of one repetition, the one with the
//         median bubble: parts of several would not sum to any.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/cli/schedule_view.hpp"
#include "harness/record/result.hpp"

namespace plumbline::cli {

struct BubbleCase {
  schedules::ScheduleKind schedule_kind = schedules::ScheduleKind::gpipe;
  schedules::Shape shape;
  /// Of a rank's stages together, for one micro-batch.
  schedules::StageTimes times;
  bool libtorch = false;  // else emulated

  /// "zb-h1 of 4 ranks, 8 micro-batches".
  [[nodiscard]] std::string name() const;
  /// What the simulator is asked. Each stage has its share of the rank's times. They are not asked of LibTorch, which
  /// has its own.
  [[nodiscard]] ScheduleRequest request() const;
};

/// A median, and the interval around it.
struct Centre {
  double median = 0;
  double low = 0;
  double high = 0;
  double confidence = 0;  // of the interval; it is all that there is for fewer than six samples
};
/// Throws InvalidArgument without samples.
[[nodiscard]] Centre centre_of(std::vector<double> samples);

/// One figure of a row: what was measured, simulated and, where one holds, calculated. What is simulated with measured
/// times is a median, too.
struct BubbleFigure {
  Centre measured;
  double simulated = 0;
  std::optional<double> closed_form = {};
};

struct BubbleRow {
  BubbleCase of;
  std::vector<double> makespans;   // of each repetition
  std::vector<double> free_steps;  // of each: the longest that a rank takes from its begin to its end
  double simulated_makespan = 0;
  std::vector<double> ratios;  // of each repetition's makespan to its simulated one
  Centre ratio;
  BubbleFigure barrier;         // the mean of the ranks
  BubbleFigure span;            // the longest of a rank
  BubbleFigure ratio_of_total;  // of the barrier bubble to the makespan
  BubbleFigure ratio_of_work;   // and to the work
  schedules::IdleTime idle;     // the mean of the ranks, in the repetition with the (lower) median bubble
  int peak_activations = 0;     // in chunks, of the rank that has most
  struct Rank {
    std::vector<double> barrier_bubbles;  // of each repetition
    double span_bubble = 0;               // the others are medians
    double simulated_barrier_bubble = 0;
    double simulated_span_bubble = 0;
    schedules::IdleTime idle;  // in that repetition
  };
  std::vector<Rank> ranks;
};
/// `answer` is what the benchmark says: benchmarks/pipeline_bubble.hpp.
[[nodiscard]] BubbleRow bubble_row(BubbleCase of, const nlohmann::json& answer);

/// Why there is no closed form for this shape; empty where there is one.
[[nodiscard]] std::string why_no_closed_form(const BubbleCase& of);

/// The row, and one more for each rank.
[[nodiscard]] std::vector<record::Measurement> measurements_of(const BubbleRow& row, const std::string& backend);

/// Lines for people, without end of line.
[[nodiscard]] std::string bubble_head();
[[nodiscard]] std::string bubble_line(const BubbleRow& row);

/// A panel for each schedule: the ratio of the bubble to the makespan over the micro-batches, a curve for each number
/// of ranks.
[[nodiscard]] std::string bubble_svg(std::span<const BubbleRow> rows, const std::string& title);

}  // namespace plumbline::cli
