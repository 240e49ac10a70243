// `plumbline schedule --format svg`: the timeline as the papers draw it, and where each rank's time goes.
//
// Layout  A row for each rank over a time axis: a box for each computation, its micro-batch inside, its colour the
//         action's, the lighter the later the chunk. Computations at once lie one above the other. Idle time is
//         hatched.
//         Beside each row, how much of the makespan is work, and what the rest is for. Of a timeline that is too long
//         for boxes there is an overview, in which a column has the mean colour of what a rank does meanwhile, and
//         below it the first boxes of the first ranks.
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
constexpr double kBestCell = 26, kLeastCell = 12;                          // mean width of the boxes
constexpr double kLeastWidth = 620, kBestWidth = 1150, kMostWidth = 1600;  // of the timeline
constexpr double kOverviewHeight = 540, kColumn = 2;                       // of all its rows; width of a column
constexpr int kBoxedRanks = 16;                                            // below an overview
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
constexpr Colour kIdle{244, 245, 247};

struct Cause {
  double IdleTime::* seconds;
  Colour colour;
  const char* words;
};
constexpr Colour kWork{122, 130, 142};
constexpr std::array<Cause, 7> kCauses{{{&IdleTime::fill, {250, 218, 120}, "fill"},
                                        {&IdleTime::drain, {204, 121, 167}, "drain"},
                                        {&IdleTime::dependency, {213, 94, 0}, "dependency"},
                                        {&IdleTime::transfer, {0, 158, 115}, "transfer"},
                                        {&IdleTime::sent_late, {120, 190, 60}, "sent late"},
                                        {&IdleTime::imbalance, {86, 80, 160}, "imbalance"},
                                        {&IdleTime::straggler, {150, 20, 20}, "straggler"}}};

// Rows of ranks over a time axis.
struct Panel {
  double top = kTop, row = 32, gap = kGap;
  int ranks = 0;
  double seconds = 0, width = 0;  // of the axis

  [[nodiscard]] double x_of(double at) const {
    return kMargin + kLabels + (seconds > 0 ? std::min(at, seconds) / seconds * width : 0);
  }
  [[nodiscard]] double y_of(int rank) const { return top + rank * (row + gap); }
  [[nodiscard]] double bottom() const { return y_of(ranks); }
};

// What a rank does in a column of the overview, as parts of its time.
class Columns {
 public:
  Columns(double seconds, double width) : shares_(static_cast<std::size_t>(std::ceil(width / kColumn))) {
    a_column_ = seconds / static_cast<double>(shares_.size());
  }
  void add(const schedules::Period& period, double part, const Colour& colour) {
    const auto first = static_cast<std::size_t>(std::max(0.0, period.start / a_column_));
    for (std::size_t i = first; i < shares_.size() && static_cast<double>(i) * a_column_ < period.end; ++i) {
      const double begin = static_cast<double>(i) * a_column_;
      const double share = part * (std::min(period.end, begin + a_column_) - std::max(period.start, begin)) / a_column_;
      if (share <= 0) continue;
      shares_[i].work += share;
      shares_[i].red += share * colour.red, shares_[i].green += share * colour.green,
          shares_[i].blue += share * colour.blue;
    }
  }
  [[nodiscard]] std::size_t size() const { return shares_.size(); }
  [[nodiscard]] bool is_idle(std::size_t column) const { return shares_[column].work < 1e-9; }
  // The mean of what is computed meanwhile, over the ground for idle time, in steps, so that neighbours of one pattern
  // are one rectangle.
  struct Fill {
    std::string colour;
    double opacity = 1;
    bool operator==(const Fill&) const = default;
  };
  [[nodiscard]] Fill fill(std::size_t column) const {
    const Share& share = shares_[column];
    const auto mean = [&](double value) {
      return std::clamp(static_cast<int>(std::lround(value / share.work / 6)) * 6, 0, 255);
    };
    return {Colour{mean(share.red), mean(share.green), mean(share.blue)}.text(),
            std::clamp(std::ceil(share.work * 20) / 20, 0.0, 1.0)};
  }

 private:
  struct Share {
    double work = 0, red = 0, green = 0, blue = 0;
  };
  std::vector<Share> shares_;
  double a_column_ = 0;
};

class Picture {
 public:
  explicit Picture(const ScheduleView& view) : view_(view), chunks_(chunks_of(view.schedule)) {
    bool has_pairs = false;
    for (const auto& actions : view.schedule.ranks)
      for (const Action& action : actions)
        has_pairs = has_pairs || (schedules::is_compute(action.kind) && action.joined);
    const double makespan = view.timeline.makespan, usual = mean_cell(view);
    // Side by side. By the mean: one kind of short boxes among others makes no timeline long.
    const double boxes = usual > 0 ? makespan / usual : 0;
    whole_.ranks = static_cast<int>(view.schedule.ranks.size());
    whole_.seconds = makespan;
    const auto row_of = [&](int ranks) { return (ranks <= kBoxedRanks ? 32 : 22) * (has_pairs ? 1.4 : 1); };
    is_overview_ = boxes * kLeastCell > kMostWidth;
    if (!is_overview_) {
      whole_.row = row_of(whole_.ranks);
      whole_.width = std::max(std::clamp(kBestWidth, boxes * kLeastCell, boxes * kBestCell), kLeastWidth);
      return;
    }
    whole_.row = std::clamp(kOverviewHeight / whole_.ranks, 6.0, 26.0);
    whole_.gap = whole_.row < 12 ? 1 : 3;
    whole_.width = kBestWidth;
    part_ = {.top = whole_.bottom() + 84,
             .row = row_of(kBoxedRanks),
             .ranks = std::min(whole_.ranks, kBoxedRanks),
             .seconds = usual * kBestWidth / kBestCell,
             .width = kBestWidth};
  }

  [[nodiscard]] std::string text() const {
    const double side = kMargin + kLabels + whole_.width + 24;
    std::string svg = head() + axis(whole_);
    for (int rank = 0; rank < whole_.ranks; ++rank)
      svg += label(whole_, rank) + background(whole_, rank) + (is_overview_ ? columns(rank) : boxes(whole_, rank)) +
             figures(rank, side);
    if (is_overview_) svg += part();
    const double bottom = is_overview_ ? part_.bottom() : whole_.bottom();
    return svg_page(side + kSide + kMargin, bottom + 96, svg + side_head(side) + legend(bottom + 46), "",
                    "<pattern id=\"idle\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
                    "patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" class=\"paper\" fill=\"" +
                        kIdle.text() +
                        "\"/><rect width=\"1.2\" height=\"7\" class=\"paper\" fill=\"#d5d9e0\"/></pattern>");
  }

 private:
  [[nodiscard]] std::string head() const {
    std::string figures = fmt::format("makespan {:.6g} s, bubble of the busiest rank {:.6g} s", view_.timeline.makespan,
                                      view_.timeline.barrier_bubble());
    if (view_.formula)
      figures +=
          fmt::format("; closed form of the {} bubble: {} = {:.6g} s{}", view_.formula->of_span ? "span" : "barrier",
                      view_.formula->formula, view_.formula->seconds,
                      view_.request.shape.stages_per_rank > 1 ? ", of times of all chunks of a rank" : "");
    return svg_text(kMargin, 36, 19, "start", view_.title(), "#111", true) +
           svg_text(kMargin, 58, 13, "start", figures);
  }

  // Ticks below the rows.
  [[nodiscard]] static std::string axis(const Panel& panel) {
    if (panel.seconds <= 0) return "";
    const double tick = tick_of(panel.seconds, panel.width / 55), bottom = panel.bottom();
    std::string svg;
    for (int i = 0; i * tick <= panel.seconds * (1 + 1e-9); ++i) {
      const double x = panel.x_of(i * tick);
      svg += fmt::format("<path d=\"M{0:.2f} {1:.2f}V{2:.2f}\" stroke=\"#9aa2ad\" stroke-width=\"1\"/>", x, bottom,
                         bottom + 6) +
             svg_text(x, bottom + 19, 11, "middle", fmt::format("{:.6g}", i * tick));
    }
    return svg + svg_text(kMargin + kLabels - 10, bottom + 19, 11, "end", "seconds");
  }

  // Of rows that are low, those that have room.
  [[nodiscard]] static bool has_text(const Panel& panel, int rank) {
    const int every = static_cast<int>(std::ceil(15 / (panel.row + panel.gap)));
    return rank % every == 0;
  }
  [[nodiscard]] static double baseline(const Panel& panel, int rank) { return panel.y_of(rank) + panel.row / 2 + 4.5; }

  [[nodiscard]] static std::string label(const Panel& panel, int rank) {
    if (!has_text(panel, rank)) return "";
    return svg_text(kMargin + kLabels - 10, baseline(panel, rank), 13, "end", fmt::format("rank {}", rank));
  }
  [[nodiscard]] static std::string background(const Panel& panel, int rank) {
    return svg_rectangle(kMargin + kLabels, panel.y_of(rank), panel.width, panel.row, "url(#idle)", "",
                         " class=\"idle\"");
  }

  [[nodiscard]] std::string columns(int rank) const {
    Columns all(whole_.seconds, whole_.width);
    for (const Cell& cell : cells_of(view_, rank))
      for (const Action& action : cell.actions)
        all.add(cell.period, 1 / static_cast<double>(cell.actions.size()), fill_of(action));
    std::string svg;
    for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
      end = begin + 1;
      if (all.is_idle(begin)) continue;
      const Columns::Fill fill = all.fill(begin);
      while (end < all.size() && !all.is_idle(end) && all.fill(end) == fill) ++end;
      const double width = whole_.width / static_cast<double>(all.size());
      svg += svg_rectangle(kMargin + kLabels + static_cast<double>(begin) * width, whole_.y_of(rank),
                           static_cast<double>(end - begin) * width, whole_.row, fill.colour, "",
                           fill.opacity < 1 ? fmt::format(" fill-opacity=\"{:.2f}\"", fill.opacity) : "");
    }
    return svg;
  }

  // The first boxes, and a frame round them in the overview.
  [[nodiscard]] std::string part() const {
    std::string svg =
        svg_rectangle(whole_.x_of(0), whole_.top - 2, whole_.x_of(part_.seconds) - whole_.x_of(0),
                      whole_.y_of(part_.ranks) - whole_.gap - whole_.top + 4, "none", "",
                      " class=\"enlarged\" stroke=\"#111\" stroke-width=\"2\"") +
        svg_text(kMargin, part_.top - 14, 13, "start",
                 fmt::format("enlarged: the first {:.4g} s of {}", part_.seconds,
                             part_.ranks == whole_.ranks ? "all ranks" : fmt::format("ranks 0 to {}", part_.ranks - 1)),
                 "#111", true) +
        axis(part_);
    for (int rank = 0; rank < part_.ranks; ++rank)
      svg += label(part_, rank) + background(part_, rank) + boxes(part_, rank);
    return svg;
  }

  [[nodiscard]] std::string boxes(const Panel& panel, int rank) const {
    std::string svg;
    for (const Cell& cell : cells_of(view_, rank)) {
      if (cell.period.start >= panel.seconds) break;
      const double height = panel.row / static_cast<double>(cell.actions.size());
      for (std::size_t i = 0; i < cell.actions.size(); ++i)
        svg += box(panel, cell.actions[i], cell.period, panel.y_of(rank) + height * static_cast<double>(i), height);
    }
    return svg;
  }

  [[nodiscard]] Colour fill_of(const Action& action) const {
    const int chunks = view_.request.shape.stages_per_rank;
    const double part =
        chunks == 1 ? 0 : 0.55 * chunks_[static_cast<std::size_t>(action.stage)] / static_cast<double>(chunks - 1);
    return colour_of(action.kind).lighter(part);
  }

  [[nodiscard]] std::string box(const Panel& panel, const Action& action, const schedules::Period& period, double y,
                                double height) const {
    const double x = panel.x_of(period.start), width = panel.x_of(period.end) - x;
    const Colour fill = fill_of(action);
    const std::string number = std::to_string(action.micro_batch);
    const double size = std::min({13.0, height * 0.72, width * 0.88 / (kDigit * static_cast<double>(number.size()))});
    return fmt::format("<g class=\"{}\"><title>{}: {:.6g} to {:.6g} s</title>", schedules::name_of(action.kind),
                       to_string(action), period.start, period.end) +
           svg_rectangle(x, y, width, height, fill.text(), "",
                         fmt::format(" stroke=\"#fff\" stroke-width=\"{:.2f}\"", std::min(1.0, width / 8))) +
           (size < 4 ? "" : svg_text(x + width / 2, y + height / 2 + size * 0.36, size, "middle", number, fill.ink())) +
           "</g>\n";
  }

  [[nodiscard]] std::string side_head(double side) const {
    return svg_text(side, kTop - 10, 11, "start", "work, and why a rank is idle") +
           svg_text(side + kBar + 62, kTop - 10, 11, "end", "bubble") +
           svg_text(side + kBar + 114, kTop - 10, 11, "end", "peak");
  }

  [[nodiscard]] std::string figures(int rank, double side) const {
    const auto at = static_cast<std::size_t>(rank);
    const double makespan = view_.timeline.makespan, pixels = makespan > 0 ? kBar / makespan : 0;
    double x = side;
    std::string svg;
    const auto add = [&](double seconds, const Colour& colour) {
      if (seconds > 0)
        svg +=
            svg_rectangle(x, whole_.y_of(rank) + whole_.row * 0.2, seconds * pixels, whole_.row * 0.6, colour.text());
      x += seconds * pixels;
    };
    add(view_.timeline.ranks[at].work, kWork);
    for (const Cause& cause : kCauses) add(view_.idle[at].*cause.seconds, cause.colour);
    if (!has_text(whole_, rank)) return svg;
    return svg +
           svg_text(side + kBar + 62, baseline(whole_, rank), 13, "end",
                    fmt::format("{:.1f} %", 100 * view_.timeline.ratio_of_total(rank))) +
           svg_text(side + kBar + 114, baseline(whole_, rank), 13, "end",
                    std::to_string(view_.timeline.ranks[at].peak_activations));
  }

  // What there is in the picture, in two lines: boxes, and parts of the bars.
  [[nodiscard]] std::string legend(double y) const {
    double x = kMargin;
    std::string svg;
    const auto add = [&](const std::string& fill, const std::string& text) {
      svg += svg_rectangle(x, y - 11, 14, 14, fill) + svg_text(x + 20, y + 0.5, 12, "start", text);
      x += 44 + 6.2 * static_cast<double>(text.size());
    };
    const auto add_words = [&](const std::string& text) {
      svg += svg_text(x, y + 0.5, 12, "start", text);
      x += 24 + 6.2 * static_cast<double>(text.size());
    };
    for (const Kind& kind : kKinds)
      if (has(kind.kind)) add(kind.colour.text(), kind.words);
    add("url(#idle)", "idle");
    if (view_.request.shape.stages_per_rank > 1) add_words("the lighter, the later the chunk");
    if (is_overview_) add_words("overview: the mean of what a rank does");
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
  bool is_overview_ = false;
  Panel whole_, part_;
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
