// `plumbline schedule --format text`: the timeline in characters, and the figures of each rank.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/cli/schedule_view.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::cli {
namespace {

using schedules::Action;
using schedules::ActionKind;

constexpr int kLine = 112;             // columns of time
constexpr double kMostColumns = 8192;  // of a whole timeline
constexpr int kShownRanks = 64;

// Of the background, in a terminal.
int ansi_colour_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return 44;
    case ActionKind::backward:
      return 42;
    case ActionKind::input_gradient:
      return 46;
    default:
      return 43;
  }
}

// The stage is told where a rank has several.
std::string label_of(const Cell& cell, bool with_stage) {
  std::string label;
  for (const Action& action : cell.actions) {
    if (!label.empty()) label += '+';
    if (with_stage) label += std::to_string(action.stage);
    label += fmt::format("{}{}", schedules::name_of(action.kind), action.micro_batch);
  }
  return label;
}

class Drawing {
 public:
  Drawing(const ScheduleView& view, bool coloured)
      : view_(view), coloured_(coloured), with_stage_(view.request.shape.stages_per_rank > 1) {
    choose_scale();
    for (int rank = 0; rank < ranks(); ++rank) draw(rank);
  }

  [[nodiscard]] std::string text() const {
    std::string text;
    for (int first = 0; first < columns_; first += line_) {
      const int last = std::min(first + line_, columns_);
      text += axis(first, last);
      for (int rank = 0; rank < ranks(); ++rank)
        text += fmt::format("{:>{}} {}\n", rank, kMargin - 1, part(static_cast<std::size_t>(rank), first, last));
      if (last < columns_) text += '\n';
    }
    return text + "F forward, B backward or I and W its halves, of input and weights; . idle" +
           (has_nameless_ ? "; # too short for a name\n" : "\n");
  }

 private:
  static constexpr int kMargin = 6;
  struct Row {
    std::string characters;    // '.' where the rank is idle
    std::vector<int> colours;  // 0: none
  };

  [[nodiscard]] int ranks() const { return static_cast<int>(view_.schedule.ranks.size()); }
  [[nodiscard]] int column(double seconds) const { return static_cast<int>(std::lround(seconds * scale_)); }

  // Every label has room, and a blank after it, unless that makes the timeline endless.
  void choose_scale() {
    int unit = 1;  // columns of the cell that decides
    for (int rank = 0; rank < ranks(); ++rank)
      for (const Cell& cell : cells_of(view_, rank)) {
        const int wanted = static_cast<int>(label_of(cell, with_stage_).size()) + 1;
        if (const double scale = wanted / (cell.period.end - cell.period.start); scale > scale_) {
          scale_ = scale;
          unit = wanted;
        }
      }
    if (scale_ * view_.timeline.makespan > kMostColumns) {
      scale_ = kMostColumns / view_.timeline.makespan;
      unit = 1;
    }
    columns_ = column(view_.timeline.makespan);
    line_ = std::max(unit, kLine / unit * unit);  // cut between cells where they are equal
  }

  void draw(int rank) {
    Row row{std::string(static_cast<std::size_t>(columns_), '.'),
            std::vector<int>(static_cast<std::size_t>(columns_), 0)};
    for (const Cell& cell : cells_of(view_, rank)) {
      const int first = column(cell.period.start), last = column(cell.period.end);
      const std::string label = label_of(cell, with_stage_);
      for (int i = first; i < last; ++i) {
        const auto at = static_cast<std::size_t>(i), inside = static_cast<std::size_t>(i - first);
        const bool fits = static_cast<int>(label.size()) < last - first;
        has_nameless_ = has_nameless_ || !fits;
        row.characters[at] = fits && inside < label.size() ? label[inside] : fits ? ' ' : '#';
        row.colours[at] = ansi_colour_of(cell.actions.front().kind);
      }
    }
    rows_.push_back(std::move(row));
  }

  [[nodiscard]] std::string part(std::size_t rank, int first, int last) const {
    const Row& row = rows_[rank];
    if (!coloured_)
      return row.characters.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    std::string text;
    int colour = 0;
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      if (row.colours[i] != colour)
        text += row.colours[i] == 0 ? "\033[0m" : fmt::format("\033[30;{}m", row.colours[i]);
      colour = row.colours[i];
      text += row.characters[i];
    }
    return text + (colour == 0 ? "" : "\033[0m");
  }

  // Times above their columns.
  [[nodiscard]] std::string axis(int first, int last) const {
    const double tick = tick_of(view_.timeline.makespan, std::max(1.0, columns_ / 10.0));
    std::string line = fmt::format("{:>{}} ", "rank", kMargin - 1);
    for (auto i = static_cast<std::int64_t>(std::ceil(first / scale_ / tick - 1e-9)); column(double(i) * tick) < last;
         ++i) {
      const auto at = static_cast<std::size_t>(kMargin + column(double(i) * tick) - first);
      if (at < line.size()) continue;
      line.resize(at, ' ');
      line += fmt::format("{:.6g}", double(i) * tick);
    }
    return line + '\n';
  }

  const ScheduleView& view_;
  bool coloured_, with_stage_;
  bool has_nameless_ = false;
  double scale_ = 0;  // columns a second
  int columns_ = 0, line_ = kLine;
  std::vector<Row> rows_;
};

// Without what rounding leaves where there is nothing.
double shown(const ScheduleView& view, double seconds) {
  return std::abs(seconds) < 1e-9 * view.timeline.makespan ? 0 : seconds;
}

std::string figures_of(const ScheduleView& view, int rank) {
  const schedules::RankTimes& times = view.timeline.ranks[static_cast<std::size_t>(rank)];
  const schedules::IdleTime& idle = view.idle[static_cast<std::size_t>(rank)];
  const auto seconds = [&](double value) { return shown(view, value); };
  return fmt::format(
      "{:>5} {:>9.6g} {:>9.6g} {:>6.1f}% {:>9.6g} {:>5}  {:>8.5g} {:>8.5g} {:>10.5g} {:>8.5g} {:>9.5g} {:>9.5g} "
      "{:>9.5g}\n",
      rank, seconds(times.work), seconds(times.barrier_bubble), 100 * view.timeline.ratio_of_total(rank),
      seconds(times.span_bubble), times.peak_activations, seconds(idle.fill), seconds(idle.drain),
      seconds(idle.dependency), seconds(idle.transfer), seconds(idle.sent_late), seconds(idle.imbalance),
      seconds(idle.straggler));
}

std::string table(const ScheduleView& view) {
  std::string text = fmt::format("{:>5} {:>9} {:>9} {:>7} {:>9} {:>5}  {:>8} {:>8} {:>10} {:>8} {:>9} {:>9} {:>9}\n",
                                 "rank", "work", "barrier", "ratio", "span", "peak", "fill", "drain", "dependency",
                                 "transfer", "sent late", "imbalance", "straggler");
  const int ranks = static_cast<int>(view.schedule.ranks.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const bool shown = ranks <= kShownRanks || rank < kShownRanks / 8 || rank >= ranks - kShownRanks / 8;
    if (shown) text += figures_of(view, rank);
    if (!shown && rank == kShownRanks / 8) text += fmt::format("{:>5}\n", "…");
  }
  return text +
         "seconds; barrier and span: both bubbles; ratio: barrier over makespan; peak: activations, of a stage and "
         "micro-batch\n";
}

// What the letters of a formula stand for, of those that it has.
std::string symbols_of(const ClosedForm& form, const ScheduleRequest& request) {
  std::vector<std::string> times;
  for (const char* const time : {"tF", "tB", "tI", "tW"})
    if (form.formula.find(time) != std::string::npos) times.emplace_back(time);
  const int chunks = request.shape.stages_per_rank;
  return fmt::format("p: ranks; {}{}: seconds of one micro-batch on a rank{}",
                     form.formula.find("/v") != std::string::npos ? "v: chunks of a rank; " : "",
                     fmt::join(times, ", "), chunks > 1 ? fmt::format(", in its {} chunks together", chunks) : "");
}

std::string formula_text(const ScheduleView& view) {
  if (view.request.given) return view.request.given->notes;
  if (!view.formula) return "closed form: none holds for these times and this shape\n";
  const double simulated = view.simulated_bubble();
  const bool equal = std::abs(simulated - view.formula->seconds) <= 1e-9 * view.timeline.makespan;
  return fmt::format("closed form: {} bubble {} = {:.6g} s; simulated {:.6g} s: {}\n{}\n",
                     view.formula->of_span ? "span" : "barrier", view.formula->formula, view.formula->seconds,
                     shown(view, simulated), equal ? "equal" : "not equal", symbols_of(*view.formula, view.request));
}

std::string found_text(const ScheduleView& view) {
  if (!view.found) return "";
  const double bound = view.found->lower_bound, makespan = view.timeline.makespan;
  return fmt::format("made by: {}; no schedule within the limits takes less than {:.6g} s, this one {:.2f}% more\n",
                     view.found->made_by, bound, bound > 0 ? 100 * shown(view, makespan - bound) / bound : 0);
}

std::string links_text(const ScheduleView& view) {
  if (view.timeline.links.empty()) return "";
  std::int64_t messages = 0;
  double bytes = 0;
  for (const schedules::LinkTraffic& link : view.timeline.links) {
    messages += link.messages;
    bytes += link.bytes;
  }
  const schedules::LinkTraffic& busiest =
      *std::ranges::max_element(view.timeline.links, {}, &schedules::LinkTraffic::messages);
  return fmt::format("messages: {} on {}, {:.6g} bytes in all; most from rank {} to {}: {}, {:.6g} bytes\n", messages,
                     counted(view.timeline.links.size(), "link"), bytes, busiest.from, busiest.to, busiest.messages,
                     busiest.bytes);
}

}  // namespace

std::string schedule_text(const ScheduleView& view, bool coloured) {
  std::string text =
      fmt::format("{}; {}\n\n", view.title(), counted(static_cast<std::size_t>(view.computations), "computation"));
  if (view.computations > kMostDrawnAsText)
    text += fmt::format("(a timeline is drawn of up to {} computations)\n\n", kMostDrawnAsText);
  else if (view.timeline.makespan > 0)
    text += Drawing(view, coloured).text() + '\n';
  text += fmt::format("makespan: {:.6g} s; bubble of the busiest rank: {:.6g} s\n", view.timeline.makespan,
                      view.timeline.barrier_bubble());
  return text + (view.found ? found_text(view) : formula_text(view)) + links_text(view) + '\n' + table(view);
}

std::string slots_text(const ScheduleView& view) {
  const schedules::ActivationSlots slots =
      schedules::activation_slots(view.schedule, view.request.options.forward_only);
  std::string text = "\nactivation slots: the number that a rank needs, and where each forward's activation is kept\n";
  for (std::size_t rank = 0; rank < slots.counts.size(); ++rank) {
    text += fmt::format("{:>5} {:>5} ", rank, slots.counts[rank]);
    for (std::size_t i = 0; i < slots.slots[rank].size(); ++i)
      if (const Action& action = view.schedule.ranks[rank][i]; action.kind == ActionKind::forward)
        text += fmt::format(" {}@{}", to_string(action), slots.slots[rank][i]);
    text += '\n';
  }
  return text;
}

}  // namespace plumbline::cli
