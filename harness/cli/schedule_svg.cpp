// `plumbline schedule --format svg`: the timeline as the papers draw it, and where each rank's time goes.
//
// Layout  A row for each rank over a time axis: a box for each computation, its micro-batch inside, its colour the
//         action's, the lighter the later the chunk. Computations at once lie one above the other. Idle time is
//         hatched.
//         Beside each row, how much of the makespan is work, and what the rest is for.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "harness/cli/schedule_view.hpp"
#include "harness/cli/svg.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using schedules::Action;
using schedules::ActionKind;
using schedules::IdleTime;

constexpr double kMargin = 24, kLabels = 62, kTop = 92, kGap = 4;
constexpr double kBestCell = 26, kLeastCell = 12;                          // widths of the shortest box
constexpr double kLeastWidth = 620, kBestWidth = 1150, kMostWidth = 6400;  // of the timeline
constexpr double kSide = 300, kBar = 170;                                  // the figures beside it, and their bar
constexpr double kDigit = 0.6;                                             // width of a digit for a height of 1

struct Kind {
  ActionKind kind;
  Colour colour;
  const char* words;
};
constexpr std::array<Kind, 4> kKinds{{{ActionKind::forward, {47, 111, 190}, "F forward"},
                                      {ActionKind::backward, {24, 116, 78}, "B backward"},
                                      {ActionKind::input_gradient, {86, 180, 200}, "I gradient of the input"},
                                      {ActionKind::weight_gradient, {230, 150, 20}, "W gradient of the weights"}}};
const Colour& colour_of(ActionKind kind) { return std::ranges::find(kKinds, kind, &Kind::kind)->colour; }

struct Cause {
  double IdleTime::* seconds;
  Colour colour;
  const char* words;
};
constexpr Colour kWork{122, 130, 142};
constexpr std::array<Cause, 6> kCauses{{{&IdleTime::fill, {250, 218, 120}, "fill"},
                                        {&IdleTime::drain, {204, 121, 167}, "drain"},
                                        {&IdleTime::dependency, {213, 94, 0}, "dependency"},
                                        {&IdleTime::transfer, {0, 158, 115}, "transfer"},
                                        {&IdleTime::imbalance, {86, 80, 160}, "imbalance"},
                                        {&IdleTime::straggler, {150, 20, 20}, "straggler"}}};

class Picture {
 public:
  explicit Picture(const ScheduleView& view)
      : view_(view),
        chunks_(chunks_of(view.schedule)),
        ranks_(static_cast<int>(view.schedule.ranks.size())),
        row_(ranks_ <= 16 ? 32 : 22) {
    for (const auto& actions : view.schedule.ranks)
      for (const Action& action : actions) pairs_ = pairs_ || (schedules::is_compute(action.kind) && action.joined);
    if (pairs_) row_ *= 1.4;
    const double makespan = view.timeline.makespan, shortest = shortest_cell(view);
    const double boxes = shortest > 0 ? makespan / shortest : 0;
    width_ = std::clamp(std::clamp(kBestWidth, boxes * kLeastCell, boxes * kBestCell), kLeastWidth, kMostWidth);
    scale_ = makespan > 0 ? width_ / makespan : 0;
  }

  [[nodiscard]] std::string text() const {
    const double bottom = row_y(ranks_), side = kMargin + kLabels + width_ + 24;
    const double width = side + kSide + kMargin, height = bottom + 96;
    std::string svg = head() + axis(bottom);
    for (int rank = 0; rank < ranks_; ++rank) svg += row(rank) + figures(rank, side);
    return svg_page(width, height, svg + side_head(side) + legend(bottom + 46), "",
                    "<pattern id=\"idle\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
                    "patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" fill=\"#f4f5f7\"/>"
                    "<rect width=\"1.2\" height=\"7\" fill=\"#d5d9e0\"/></pattern>");
  }

 private:
  [[nodiscard]] double x_of(double seconds) const { return kMargin + kLabels + seconds * scale_; }
  [[nodiscard]] double row_y(int rank) const { return kTop + rank * (row_ + kGap); }

  [[nodiscard]] std::string head() const {
    std::string figures = fmt::format("makespan {:.6g} s, bubble of the busiest rank {:.6g} s", view_.timeline.makespan,
                                      view_.timeline.barrier_bubble());
    if (view_.formula)
      figures +=
          fmt::format("; closed form of the {} bubble: {} = {:.6g} s", view_.formula->of_span ? "span" : "barrier",
                      view_.formula->formula, view_.formula->seconds);
    return svg_text(kMargin, 36, 19, "start", view_.title(), "#111", true) +
           svg_text(kMargin, 58, 13, "start", figures);
  }

  // Ticks below the rows, with faint lines through them.
  [[nodiscard]] std::string axis(double bottom) const {
    const double makespan = view_.timeline.makespan;
    if (makespan <= 0) return "";
    const double tick = tick_of(makespan, width_ / 55);
    std::string svg;
    for (int i = 0; i * tick <= makespan * (1 + 1e-9); ++i) {
      const double x = x_of(i * tick);
      svg += fmt::format("<path d=\"M{0:.2f} {1:.2f}V{2:.2f}\" stroke=\"#9aa2ad\" stroke-width=\"1\"/>", x, bottom,
                         bottom + 6) +
             svg_text(x, bottom + 19, 11, "middle", fmt::format("{:.6g}", i * tick));
    }
    return svg + svg_text(kMargin + kLabels - 10, bottom + 19, 11, "end", "seconds");
  }

  [[nodiscard]] std::string row(int rank) const {
    const double y = row_y(rank);
    std::string svg = svg_text(kMargin + kLabels - 10, y + row_ / 2 + 4.5, 13, "end", fmt::format("rank {}", rank)) +
                      svg_rectangle(kMargin + kLabels, y, width_, row_, "url(#idle)", "", " class=\"idle\"");
    for (const Cell& cell : cells_of(view_, rank)) {
      const double height = row_ / static_cast<double>(cell.actions.size());
      for (std::size_t i = 0; i < cell.actions.size(); ++i)
        svg += box(cell.actions[i], cell.period, y + height * static_cast<double>(i), height);
    }
    return svg;
  }

  [[nodiscard]] std::string box(const Action& action, const schedules::Period& period, double y, double height) const {
    const double x = x_of(period.start), width = x_of(period.end) - x;
    const int chunks = view_.request.shape.stages_per_rank;
    const double part =
        chunks == 1 ? 0 : 0.55 * chunks_[static_cast<std::size_t>(action.stage)] / static_cast<double>(chunks - 1);
    const Colour fill = colour_of(action.kind).lighter(part);
    const std::string number = std::to_string(action.micro_batch);
    const double size = std::min({13.0, height * 0.72, width * 0.88 / (kDigit * static_cast<double>(number.size()))});
    return fmt::format("<g class=\"{}\"><title>{}: {:.6g} to {:.6g} s</title>", schedules::name_of(action.kind),
                       to_string(action), period.start, period.end) +
           svg_rectangle(x, y, width, height, fill.text(), "",
                         fmt::format(" stroke=\"#fff\" stroke-width=\"{:.2f}\"", std::min(1.0, width / 8))) +
           svg_text(x + width / 2, y + height / 2 + size * 0.36, size, "middle", number, fill.ink()) + "</g>\n";
  }

  [[nodiscard]] std::string side_head(double side) const {
    return svg_text(side, kTop - 10, 11, "start", "work, and why a rank is idle") +
           svg_text(side + kBar + 62, kTop - 10, 11, "end", "bubble") +
           svg_text(side + kBar + 114, kTop - 10, 11, "end", "peak");
  }

  [[nodiscard]] std::string figures(int rank, double side) const {
    const auto at = static_cast<std::size_t>(rank);
    const double y = row_y(rank), middle = y + row_ / 2 + 4.5, makespan = view_.timeline.makespan;
    const double pixels = makespan > 0 ? kBar / makespan : 0;
    double x = side;
    std::string svg;
    const auto add = [&](double seconds, const Colour& colour) {
      if (seconds > 0) svg += svg_rectangle(x, y + row_ * 0.2, seconds * pixels, row_ * 0.6, colour.text());
      x += seconds * pixels;
    };
    add(view_.timeline.ranks[at].work, kWork);
    for (const Cause& cause : kCauses) add(view_.idle[at].*cause.seconds, cause.colour);
    return svg +
           svg_text(side + kBar + 62, middle, 13, "end",
                    fmt::format("{:.1f} %", 100 * view_.timeline.ratio_of_total(rank))) +
           svg_text(side + kBar + 114, middle, 13, "end", std::to_string(view_.timeline.ranks[at].peak_activations));
  }

  // What there is in the picture, in two lines: boxes, and parts of the bars.
  [[nodiscard]] std::string legend(double y) const {
    double x = kMargin;
    std::string svg;
    const auto add = [&](const std::string& fill, const std::string& text) {
      svg += svg_rectangle(x, y - 11, 14, 14, fill) + svg_text(x + 20, y + 0.5, 12, "start", text);
      x += 44 + 6.2 * static_cast<double>(text.size());
    };
    for (const Kind& kind : kKinds)
      if (has(kind.kind)) add(kind.colour.text(), kind.words);
    add("url(#idle)", "idle");
    if (view_.request.shape.stages_per_rank > 1)
      svg += svg_text(x, y + 0.5, 12, "start", "the lighter, the later the chunk");
    x = kMargin;
    y += 24;
    svg += svg_text(x, y + 0.5, 12, "start", "bars:");
    x += 40;
    add(kWork.text(), "work");
    for (const Cause& cause : kCauses)
      if (std::ranges::any_of(view_.idle, [&](const IdleTime& idle) { return idle.*cause.seconds > 0; }))
        add(cause.colour.text(), cause.words);
    return svg + svg_text(x, y + 0.5, 12, "start", "bubble: of the makespan; peak: activations at once");
  }

  [[nodiscard]] bool has(ActionKind kind) const {
    return std::ranges::any_of(view_.schedule.ranks, [kind](const auto& actions) {
      return std::ranges::find(actions, kind, &Action::kind) != actions.end();
    });
  }

  const ScheduleView& view_;
  std::vector<int> chunks_;
  int ranks_;
  double row_;
  bool pairs_ = false;
  double width_ = 0, scale_ = 0;
};

}  // namespace

std::string schedule_svg(const ScheduleView& view) {
  if (view.computations > kMostPicturedComputations)
    throw InvalidArgument(
        fmt::format("--format svg: {} computations; a picture of more than {} is not readable: text sums up",
                    view.computations, kMostPicturedComputations));
  return Picture(view).text();
}

}  // namespace plumbline::cli
