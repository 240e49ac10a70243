// benchmarks/bubble_figures.hpp: what a pipeline that was run says of its bubbles. Pure functions.
//
// Model   Every rank notes when its computations began and ended, by the clock of the machine that all of them share.
//         The step lasts from the begin of the first computation of any rank to the end of the last.
// Bubbles As simulator.hpp defines them: barrier bubble makespan - work, span bubble (last end - first start) - work.
#pragma once

#include <span>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reference/schedules/executor.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::bench {

/// Notes when the computations of a rank happen. One for each run; it must outlive them.
class ComputationClock {
 public:
  /// What an executor calls around computations.
  [[nodiscard]] schedules::AroundComputation around();
  /// Of the computations so far, in their order: seconds of the machine's steady clock.
  [[nodiscard]] const std::vector<schedules::Period>& periods() const { return periods_; }

 private:
  std::vector<schedules::Period> periods_;
};

/// Of one run: of each rank, the periods of its computations in the row's order.
using Computations = std::vector<std::vector<schedules::Period>>;

/// The number of computations of a row.
[[nodiscard]] std::size_t computations_of(const schedules::Schedule& schedule, int rank);

/// The timeline of a run by one clock. Time begins with the first computation of all. Actions that compute nothing have
/// no time. Throws InvalidArgument for other numbers of computations than the schedule's.
[[nodiscard]] schedules::Timeline measured_timeline(const schedules::Schedule& schedule,
                                                    const Computations& computations);

/// How long the computations of each stage took on the average of a run that measured_timeline() takes; 0 for a kind
/// that a stage does not have. A backward that is split has no time but that of its halves.
[[nodiscard]] std::vector<schedules::StageTimes> mean_times(const schedules::Schedule& schedule,
                                                            const Computations& run);

struct BubbleFigures {
  double makespan = 0;
  std::vector<schedules::RankTimes> ranks;
  std::vector<schedules::IdleTime> idle;  // of each rank: sums to its barrier bubble
};
/// `options` says how long computations should take, in seconds.
[[nodiscard]] BubbleFigures figures_of(const schedules::Schedule& schedule, const schedules::SimulationOptions& options,
                                       const schedules::Timeline& timeline);

/// {"makespan":s,"ranks":[{"work":s,"barrier_bubble":s,"span_bubble":s,"peak_activations":n,"idle":{"fill":s,…}},…]}
[[nodiscard]] nlohmann::json to_json_value(const BubbleFigures& figures);

}  // namespace plumbline::bench
