// The curves of `plumbline bench pipeline_bubble`.
//
// Layout  A panel for each schedule, side by side: micro-batches from left to right, each twice as far as the one
//         before, the bubble's part of the makespan upwards. A colour for each number of ranks: a line through what is
//         simulated, points with their interval for what was measured, hollow squares where a closed form says
//         something.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "benchmarks/bubble_report.hpp"
#include "harness/cli/svg.hpp"

namespace plumbline::cli {
namespace {

constexpr double kMargin = 24, kTop = 116, kPanelWidth = 250, kPanelHeight = 190, kGapX = 62, kGapY = 70;
constexpr int kColumns = 4;
constexpr std::array<Colour, 6> kColours{
    {{47, 111, 190}, {213, 94, 0}, {24, 116, 78}, {204, 121, 167}, {230, 150, 20}, {86, 80, 160}}};

class Curves {
 public:
  Curves(std::span<const BubbleRow> rows, const std::string& title) : rows_(rows), title_(title) {
    for (const BubbleRow& row : rows) {
      if (std::ranges::count(schedule_kinds_, row.of.schedule_kind) == 0)
        schedule_kinds_.push_back(row.of.schedule_kind);
      ranks_.insert(row.of.shape.ranks);
      micro_batches_.insert(row.of.shape.micro_batches);
      most_ = std::max({most_, row.ratio_of_total.measured.high, row.ratio_of_total.simulated,
                        row.ratio_of_total.closed_form.value_or(0)});
    }
    std::ranges::sort(schedule_kinds_);
    most_ = std::max(0.1, std::ceil(most_ * 10) / 10);
  }

  [[nodiscard]] std::string text() const {
    const int panels = static_cast<int>(schedule_kinds_.size()), columns = std::min(kColumns, panels);
    const int lines = (panels + kColumns - 1) / kColumns;
    const double width = std::max(760.0, kMargin * 2 + columns * (kPanelWidth + kGapX));
    const double height = kTop + lines * (kPanelHeight + kGapY) + 20;
    std::string svg = svg_text(kMargin, 34, 19, "start", title_, "#333", true) + legend();
    for (int i = 0; i < panels; ++i)
      svg += panel(schedule_kinds_[static_cast<std::size_t>(i)], kMargin + 36 + i % kColumns * (kPanelWidth + kGapX),
                   kTop + 10 + i / kColumns * (kPanelHeight + kGapY));
    return svg_page(width, height, svg);
  }

 private:
  [[nodiscard]] double x_of(double left, int micro_batches) const {
    const double first = std::log2(*micro_batches_.begin()), last = std::log2(*micro_batches_.rbegin());
    const double part = last > first ? (std::log2(micro_batches) - first) / (last - first) : 0.5;
    return left + 14 + part * (kPanelWidth - 28);
  }
  [[nodiscard]] double y_of(double top, double ratio) const {
    return top + kPanelHeight - std::clamp(ratio / most_, 0.0, 1.0) * kPanelHeight;
  }
  [[nodiscard]] std::size_t place_of(int ranks) const {
    return static_cast<std::size_t>(std::distance(ranks_.begin(), ranks_.find(ranks)));
  }
  [[nodiscard]] std::string colour_of(int ranks) const { return kColours[place_of(ranks) % kColours.size()].text(); }

  [[nodiscard]] std::string legend() const {
    std::string svg;
    double x = kMargin;
    for (const int ranks : ranks_) {
      svg += fmt::format(R"(<path d="M{:.1f} 60h26" stroke="{}" stroke-width="2"{}/>)", x, colour_of(ranks),
                         svg_dashes(place_of(ranks))) +
             svg_text(x + 32, 64, 12, "start", counted(static_cast<std::size_t>(ranks), "rank"));
      x += 100;
    }
    svg +=
        svg_text(x + 6, 64, 12, "start", "line: simulated; point: measured, median and interval; square: closed form");
    return svg + svg_text(kMargin, 84, 12, "start",
                          "mean barrier bubble of the ranks, of the makespan in %, over the micro-batches of a step");
  }

  [[nodiscard]] std::string panel(schedules::ScheduleKind schedule_kind, double left, double top) const {
    std::string svg = svg_text(left, top - 8, 14, "start", schedules::name_of(schedule_kind), "#333", true);
    svg += svg_rectangle(left, top, kPanelWidth, kPanelHeight, "none", "", " stroke=\"#9aa2ad\"");
    const int ticks = static_cast<int>(std::lround(most_ * 10));
    const int step = ticks > 5 ? 2 : 1;
    for (int tick = 0; tick <= ticks; tick += step) {
      const double y = y_of(top, tick / 10.0);
      svg += fmt::format(R"(<path d="M{:.1f} {:.1f}h{}" stroke="#e3e6ea" stroke-width="1"/>)", left, y, kPanelWidth) +
             svg_text(left - 6, y + 4, 11, "end", std::to_string(tick * 10));
    }
    for (const int micro_batches : micro_batches_)
      svg += svg_text(x_of(left, micro_batches), top + kPanelHeight + 16, 11, "middle", std::to_string(micro_batches));
    for (const int ranks : ranks_) svg += curve(schedule_kind, ranks, left, top);
    return svg;
  }

  [[nodiscard]] std::string curve(schedules::ScheduleKind schedule_kind, int ranks, double left, double top) const {
    std::vector<const BubbleRow*> rows;
    for (const BubbleRow& row : rows_)
      if (row.of.schedule_kind == schedule_kind && row.of.shape.ranks == ranks) rows.push_back(&row);
    std::ranges::sort(rows, {}, [](const BubbleRow* row) { return row->of.shape.micro_batches; });
    const std::string colour = colour_of(ranks);
    std::string line, points;
    for (const BubbleRow* row : rows) {
      const BubbleFigure& figure = row->ratio_of_total;
      const double x = x_of(left, row->of.shape.micro_batches);
      line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x, y_of(top, figure.simulated));
      if (figure.closed_form)
        points += svg_rectangle(x - 4.5, y_of(top, *figure.closed_form) - 4.5, 9, 9, "none", "",
                                fmt::format(" stroke=\"{}\" stroke-width=\"1.2\"", colour));
      points += fmt::format(
          R"(<path d="M{0:.1f} {1:.1f}V{2:.1f}" stroke="{3}" stroke-width="1.4"/><circle cx="{0:.1f}" cy="{4:.1f}" r="3.2" fill="{3}"><title>{5}: measured {6:.1f} %, simulated {7:.1f} %</title></circle>)",
          x, y_of(top, figure.measured.low), y_of(top, figure.measured.high), colour, y_of(top, figure.measured.median),
          row->of.name(), 100 * figure.measured.median, 100 * figure.simulated);
    }
    return line.empty() ? ""
                        : fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{}/>\n{}\n", line,
                                      colour, svg_dashes(place_of(ranks)), points);
  }

  std::span<const BubbleRow> rows_;
  const std::string& title_;
  std::vector<schedules::ScheduleKind> schedule_kinds_;
  std::set<int> ranks_, micro_batches_;
  double most_ = 0;
};

}  // namespace

std::string bubble_svg(std::span<const BubbleRow> rows, const std::string& title) { return Curves(rows, title).text(); }

}  // namespace plumbline::cli
