// The curves of `plumbline train --averaging`.
//
// Layout  Two panels, one above the other, steps from left to right: the loss upwards, by tens; the largest distance of
//         a rank to the ranks' mean, by tens, nothing below the panel's floor. A colour an algorithm, the mean over its
//         seeds.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "harness/cli/svg.hpp"
#include "harness/cli/train_averaging.hpp"

namespace plumbline::cli {
namespace {

constexpr double kCurveLeft = 70, kCurveTop = 96, kCurveWidth = 820, kCurveHeight = 230, kCurveGap = 70;
constexpr std::array<Colour, 7> kCurveColours{
    {{70, 70, 70}, {47, 111, 190}, {213, 94, 0}, {24, 116, 78}, {204, 121, 167}, {190, 140, 20}, {86, 80, 160}}};

// By step, over the seeds; of steps that are not numbers nothing.
std::vector<double> mean_by_step(const AveragingSeries& series, std::vector<double> AveragingCurve::* values) {
  std::vector<double> mean;
  for (std::size_t step = 0;; ++step) {
    double sum = 0;
    for (const AveragingCurve& curve : series.seeds) {
      if (step >= (curve.*values).size()) return mean;
      sum += (curve.*values)[step];
    }
    mean.push_back(sum / static_cast<double>(series.seeds.size()));
  }
}

class LogPanel {
 public:
  LogPanel(double top, std::string title, std::size_t steps) : top_(top), title_(std::move(title)), steps_(steps) {}
  void add(std::vector<double> values, Colour colour) {
    for (const double value : values)
      if (std::isfinite(value) && value > 0) {
        most_ = std::max(most_, std::log10(value));
        least_ = std::min(least_, std::log10(value));
      }
    curves_.emplace_back(std::move(values), colour);
  }
  [[nodiscard]] std::string text() const {
    // Averages leave a distance of roundings: four tens are what there is to be seen.
    const double high = std::ceil(most_ * 2) / 2, low = std::max(std::floor(least_ * 2) / 2, high - 4);
    const double span = std::max(high - low, 0.5);
    const auto y_of = [&](double value) {
      const double part = value > 0 ? (std::log10(value) - low) / span : 0;
      return top_ + kCurveHeight * (1 - std::clamp(part, 0.0, 1.0));
    };
    std::string svg = svg_text(kCurveLeft, top_ - 10, 14, "start", title_) +
                      svg_rectangle(kCurveLeft, top_, kCurveWidth, kCurveHeight, "none", "", " stroke=\"#9aa2ad\"");
    for (double ten = std::ceil(low); ten <= low + span; ++ten)
      svg += fmt::format("<path d=\"M{} {:.1f}h{}\" stroke=\"#e3e6ea\"/>\n", kCurveLeft, y_of(std::pow(10, ten)),
                         kCurveWidth) +
             svg_text(kCurveLeft - 6, y_of(std::pow(10, ten)) + 4, 11, "end", fmt::format("{:g}", std::pow(10, ten)));
    for (std::size_t tick = 0; tick <= 5; ++tick)
      svg += svg_text(x_of(tick * (steps_ - 1) / 5), top_ + kCurveHeight + 16, 11, "middle",
                      std::to_string(tick * (steps_ - 1) / 5 + 1));
    svg += svg_text(x_of((steps_ - 1) / 10), top_ + kCurveHeight + 16, 11, "middle", "step");
    for (std::size_t series = 0; series < curves_.size(); ++series) {
      const auto& [values, colour] = curves_[series];
      std::string line;
      bool lifted = true;
      for (std::size_t step = 0; step < values.size(); ++step) {
        if (std::isfinite(values[step]))
          line += fmt::format("{}{:.1f} {:.1f}", lifted ? "M" : "L", x_of(step), y_of(values[step]));
        lifted = !std::isfinite(values[step]);
      }
      if (!line.empty())
        svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.3\"{}/>\n", line, colour.text(),
                           svg_dashes(series));
    }
    return svg;
  }

 private:
  [[nodiscard]] double x_of(std::size_t step) const {
    return kCurveLeft +
           kCurveWidth * static_cast<double>(step) / static_cast<double>(std::max<std::size_t>(steps_ - 1, 1));
  }
  double top_;
  std::string title_;
  std::size_t steps_;
  double most_ = -12, least_ = 12;
  std::vector<std::pair<std::vector<double>, Colour>> curves_;
};

}  // namespace

std::string averaging_svg(const std::vector<AveragingSeries>& series, const std::string& title) {
  const std::size_t steps = series.front().seeds.front().losses.size();
  LogPanel losses(kCurveTop, "loss of a step, mean over ranks", steps);
  LogPanel distances(kCurveTop + kCurveHeight + kCurveGap,
                     "consensus distance after a step: largest 2-norm of a rank's distance to the mean", steps);
  std::string legend;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const Colour colour = kCurveColours[i % kCurveColours.size()];
    losses.add(mean_by_step(series[i], &AveragingCurve::losses), colour);
    distances.add(mean_by_step(series[i], &AveragingCurve::largest), colour);
    const double x = kCurveLeft + static_cast<double>(i) * 136;
    legend += fmt::format("<path d=\"M{:.1f} 56h22\" stroke=\"{}\" stroke-width=\"2.5\"{}/>\n", x, colour.text(),
                          svg_dashes(i)) +
              svg_text(x + 27, 60, 12, "start", series[i].name);
  }
  const double width = kCurveLeft + kCurveWidth + 40, height = kCurveTop + 2 * kCurveHeight + kCurveGap + 40;
  return svg_page(width, height,
                  svg_text(kCurveLeft, 32, 18, "start", title) + legend + losses.text() + distances.text());
}

}  // namespace plumbline::cli
