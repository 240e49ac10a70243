// harness/cli/schedule_view.hpp: what `plumbline schedule` shows: a schedule, when it happens, and why ranks are idle.
//
// Model   A request is a family, its shape and what computations and messages cost. A view has what the simulator says
//         of it, and the bubble that a closed form says there is, where one holds.
// Cost    O(actions).
// Sources The closed forms: the papers that reference/schedules/generate.hpp names; schedule_view_test.cpp holds them
//         against the simulator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/cli/arguments.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::cli {

/// More computations than a reader looks at one by one.
inline constexpr std::int64_t kMostDrawnAsText = 4096;
inline constexpr std::int64_t kMostPicturedComputations = 1 << 20;

enum class Lowering { none, torch, plumbline };
/// Throws InvalidArgument, naming --lower.
[[nodiscard]] Lowering lowering_of(const std::string& name);

/// A schedule from a file, which no generator makes.
struct GivenSchedule {
  std::string name;  // of the file
  schedules::Schedule schedule;
  std::string notes;  // what was found in it, in lines
  bool forward_only = false;
};

struct ScheduleRequest {
  schedules::ScheduleKind schedule_kind = schedules::ScheduleKind::gpipe;
  schedules::Shape shape;
  Lowering lowering = Lowering::none;
  schedules::SimulationOptions options;
  std::shared_ptr<const GivenSchedule> given = nullptr;  // in place of what schedule_kind makes
  std::vector<int> activation_limits;  // of the automatic schedule: of each rank, one for all, or none
};

/// Throws NotFound that says which names are near, and `option`, which gave it.
[[nodiscard]] schedules::ScheduleKind schedule_kind_named(const std::string& name,
                                                          const std::string& option = "--name");

/// A bubble that a formula gives.
struct ClosedForm {
  std::string formula;  // of tF, tI and tW, the times of all of a rank's stages for one micro-batch
  double seconds = 0;
  bool of_span = false;  // of the ranks' span bubbles; else of the busiest rank's barrier bubble
};
/// Nothing where no formula holds: for stages that differ, messages that take time, shapes that it is not about, and
/// schedules from files.
[[nodiscard]] std::optional<ClosedForm> closed_form(const ScheduleRequest& request);

/// How an automatic schedule came about.
struct Found {
  std::string made_by;
  double lower_bound = 0;  // of the makespan of any schedule
};

struct ScheduleView {
  ScheduleRequest request;
  schedules::Schedule schedule;  // lowered as requested
  schedules::Timeline timeline;
  std::vector<schedules::IdleTime> idle;
  std::optional<ClosedForm> formula;
  std::optional<Found> found;
  std::int64_t computations = 0;

  /// "zb-h1: 4 stages on 4 ranks, 8 micro-batches".
  [[nodiscard]] std::string title() const;
  /// The simulated bubble that the formula is about: of a span bubble, the longest.
  [[nodiscard]] double simulated_bubble() const;
};

/// The schedule alone. Throws what generating and lowering throw.
[[nodiscard]] schedules::Schedule schedule_of(const ScheduleRequest& request);
/// Throws what schedule_of() and simulating throw.
[[nodiscard]] ScheduleView view_of(const ScheduleRequest& request);

/// "--file 'mine.csv'", or "--name 'zbv' with --stages 4, --micro-batches 8, --chunks 3".
[[nodiscard]] std::string options_of(const ScheduleRequest& request);
/// What make() returns, which makes the request's schedule. Throws what it throws, with the options that the request is
/// from in front of an InvalidArgument.
template <class Make>
[[nodiscard]] auto made_for(const ScheduleRequest& request, const Make& make) {
  try {
    return make();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(options_of(request) + ": " + error.what());
  }
}

/// What a rank does at one time: one computation, or several at once.
struct Cell {
  schedules::Period period;
  std::span<const schedules::Action> actions;
};
/// Those of a rank that take time, in order.
[[nodiscard]] std::vector<Cell> cells_of(const ScheduleView& view, int rank);
/// "1 stage", "2 stages", "3 micro-batches".
[[nodiscard]] std::string counted(std::size_t count, std::string_view what);
/// Which of its rank's stages it is, from 0.
[[nodiscard]] std::vector<int> chunks_of(const schedules::Schedule& schedule);
/// The mean time of computations that take any; 0 when none does.
[[nodiscard]] double mean_cell(const ScheduleView& view);
/// A round number of seconds of which no more than `most` fit into the makespan.
[[nodiscard]] double tick_of(double makespan, double most);

/// The timeline, drawn up to kMostDrawnAsText computations, and the figures.
[[nodiscard]] std::string schedule_text(const ScheduleView& view, bool coloured);
/// In which slot of its rank each activation is kept: a line a rank. Throws what activation_slots() throws.
[[nodiscard]] std::string slots_text(const ScheduleView& view);
/// Throws InvalidArgument for more than kMostPicturedComputations.
[[nodiscard]] std::string schedule_svg(const ScheduleView& view);
/// The rows, which `--file` reads, when each action starts, and the figures of each rank.
[[nodiscard]] std::string schedule_json(const ScheduleView& view);
/// Chrome's trace events: a track for each rank, and one for the messages between each two. A second is a second.
/// Throws InvalidArgument for a step of more microseconds than a number holds.
void write_trace(const ScheduleView& view, TextOutput& output);
/// Of any schedule and when it happened, under a title.
void write_trace(const std::string& title, const schedules::Schedule& schedule, const schedules::Timeline& timeline,
                 TextOutput& output);

}  // namespace plumbline::cli
