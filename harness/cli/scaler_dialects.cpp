// Rules of loss scales side by side, as text, JSON, CSV and a picture.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/cli/scaler_views.hpp"
#include "harness/cli/svg.hpp"
#include "harness/run/counted.hpp"

namespace plumbline::cli {
namespace {

using nlohmann::json;
using scaler::DialectRun;
using scaler::Divergence;
using scaler::Transition;

constexpr std::size_t kMostLines = 64;

// "2^16", or the number where it is no power of two.
std::string power_text(double scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5 ? fmt::format("2^{}", exponent - 1) : fmt::format("{:.6g}", scale);
}

char mark_of(Transition deed) {
  constexpr std::array<char, 9> marks{' ', '^', '=', 'r', 's', 'v', '=', 'x', ' '};
  return marks[static_cast<std::size_t>(deed)];
}

bool is_worth_telling(Transition deed) { return deed != Transition::counts && deed != Transition::is_constant; }

// The steps in which some rule does more than count.
std::vector<std::size_t> told_steps(const DialectView& view) {
  std::vector<std::size_t> steps;
  for (std::size_t step = 0; step < view.found_inf.size(); ++step)
    if (view.found_inf[step] || std::ranges::any_of(view.runs, [&](const DialectRun& run) {
          return step < run.deeds.size() && is_worth_telling(run.deeds[step]);
        }))
      steps.push_back(step);
  return steps;
}

std::vector<std::size_t> overflows_of(const DialectView& view) {
  std::vector<std::size_t> steps;
  for (std::size_t step = 0; step < view.found_inf.size(); ++step)
    if (view.found_inf[step]) steps.push_back(step + 1);
  return steps;
}

std::string header_text(const DialectView& view) {
  const auto overflows = overflows_of(view);
  constexpr std::size_t most = 16;
  const std::vector<std::size_t> shown(
      overflows.begin(), overflows.begin() + static_cast<std::ptrdiff_t>(std::min(most, overflows.size())));
  return fmt::format("{}, {} overflow{}{}{}\n{}\n", run::counted(view.found_inf.size(), "step"),
                     overflows.empty() ? "none of them with an" : std::to_string(overflows.size()) + " of them with an",
                     overflows.empty() ? "" : ": ", fmt::join(shown, " "), overflows.size() > most ? " ..." : "",
                     view.settings);
}

std::string table_text(const DialectView& view) {
  std::string text = fmt::format("{:>8}          ", "step");
  for (const DialectRun& run : view.runs)
    text += fmt::format("  {:>{}}", run.name, std::max<std::size_t>(run.name.size(), 10));
  const auto line = [&](std::string_view left, const auto& cell) {
    text += fmt::format("\n{:<18}", left);
    for (const DialectRun& run : view.runs)
      text += fmt::format("  {:>{}}", cell(run), std::max<std::size_t>(run.name.size(), 10));
  };
  line(fmt::format("{:>8}", 0), [](const DialectRun& run) { return power_text(run.first_scale) + "  "; });
  const auto steps = told_steps(view);
  for (std::size_t i = 0; i < std::min(steps.size(), kMostLines); ++i) {
    const std::size_t step = steps[i];
    line(fmt::format("{:>8} {}", step + 1, view.found_inf[step] ? "overflow" : ""), [&](const DialectRun& run) {
      if (step >= run.deeds.size()) return std::string("  ");
      return fmt::format("{} {}", power_text(run.scales[step]), mark_of(run.deeds[step]));
    });
  }
  if (steps.size() > kMostLines)
    text += fmt::format("\n     ... {} more steps in which something happens; --format csv has all",
                        steps.size() - kMostLines);
  return text + "\n^ grows  v backs off  s spends a chance  r gets its chances back  = a bound holds it  x gives up\n";
}

// "backs off: torch; spends a chance: megatron".
std::string parting_text(const DialectView& view, const Divergence& parting) {
  std::vector<std::pair<Transition, std::vector<std::string>>> by_deed;
  const auto step = static_cast<std::size_t>(parting.step - 1);
  for (const DialectRun& run : view.runs) {
    if (step >= run.deeds.size() || run.deeds[step] == Transition::is_constant) continue;
    auto at = std::ranges::find(by_deed, run.deeds[step], &decltype(by_deed)::value_type::first);
    if (at == by_deed.end()) at = by_deed.insert(at, {run.deeds[step], {}});
    at->second.push_back(run.name);
  }
  std::vector<std::string> parts;
  for (const auto& [deed, names] : by_deed)
    parts.push_back(fmt::format("{}: {}", name_of(deed), fmt::join(names, ", ")));
  return fmt::format("step {}, {}: {}", parting.step,
                     parting.found_inf ? "overflow" : fmt::format("clean step {} in a row", parting.clean_steps),
                     fmt::join(parts, "; "));
}

json deeds_json(const DialectRun& run) {
  json rows = json::array();
  for (std::size_t step = 0; step < run.deeds.size(); ++step)
    if (is_worth_telling(run.deeds[step]))
      rows.push_back({{"step", step + 1}, {"does", name_of(run.deeds[step])}, {"scale", run.scales[step]}});
  return rows;
}

// ---- the picture ----

constexpr double kPlotLeft = 64, kPlotTop = 56, kPlotWidth = 900, kPlotHeight = 360, kPlotRight = 230;
constexpr std::array<Colour, 6> kRuleColours{
    {{213, 94, 0}, {150, 150, 150}, {47, 111, 190}, {24, 116, 78}, {204, 121, 167}, {86, 80, 160}}};

// Where a step and a scale are drawn.
struct ScaleAxes {
  double steps = 1, low = 0, high = 1;
  [[nodiscard]] double x(double step) const { return kPlotLeft + kPlotWidth * step / steps; }
  [[nodiscard]] double y(double scale) const {
    const double power = scale > 0 ? std::log2(scale) : low;
    return kPlotTop + kPlotHeight * (high - std::clamp(power, low, high)) / (high - low);
  }
};

ScaleAxes axes_of(const DialectView& view) {
  double least = HUGE_VAL, most = 0;
  for (const DialectRun& run : view.runs) {
    least = std::min(least, run.first_scale), most = std::max(most, run.first_scale);
    for (const double scale : run.scales)
      if (scale > 0 && std::isfinite(scale)) least = std::min(least, scale), most = std::max(most, scale);
  }
  return {.steps = static_cast<double>(std::max<std::size_t>(view.found_inf.size(), 1)),
          .low = std::floor(std::log2(least)) - 1,
          .high = std::ceil(std::log2(most)) + 1};
}

std::string grid_svg(const ScaleAxes& axes) {
  std::string svg;
  const int by = std::max(1, static_cast<int>((axes.high - axes.low) / 12));
  for (int power = static_cast<int>(axes.low); power <= static_cast<int>(axes.high); power += by)
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#ddd\"/>", kPlotLeft, axes.y(std::exp2(power)),
                       kPlotWidth) +
           svg_text(kPlotLeft - 6, axes.y(std::exp2(power)) + 4, 12, "end", fmt::format("2^{}", power));
  for (int part = 0; part <= 4; ++part)
    svg += svg_text(axes.x(axes.steps * part / 4), kPlotTop + kPlotHeight + 30, 12, "middle",
                    fmt::format("{:.0f}", axes.steps * part / 4));
  return svg + svg_text(axes.x(axes.steps / 8), kPlotTop + kPlotHeight + 30, 12, "middle", "step");
}

// A point where the scale changes, and one before it. Curves are drawn a little apart, so that equal ones are seen.
std::string curve_svg(const DialectRun& run, const ScaleAxes& axes, std::size_t number, std::size_t count) {
  const double apart = 1.6 * (static_cast<double>(number) - static_cast<double>(count - 1) / 2);
  std::string points;
  const auto add = [&](std::size_t step, double scale) {
    points += fmt::format("{:.1f},{:.1f} ", axes.x(static_cast<double>(step)), axes.y(scale) + apart);
  };
  double scale = run.first_scale;
  add(0, scale);
  for (std::size_t step = 0; step < run.scales.size(); ++step) {
    if (run.scales[step] == scale) continue;
    add(step + 1, scale);
    add(step + 1, scale = run.scales[step]);
  }
  add(run.scales.size(), scale);
  const std::string colour = kRuleColours[number % kRuleColours.size()].text();
  std::string svg = fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{}><title>{}</title></polyline>\n",
      points, colour, svg_dashes(number), run.name);
  if (!run.deeds.empty() && run.deeds.back() == Transition::gives_up)
    svg += svg_text(axes.x(static_cast<double>(run.scales.size())), axes.y(scale) + 4, 12, "middle", "x", colour);
  const double y = kPlotTop + 16 + 20 * static_cast<double>(number);
  return svg +
         fmt::format("<path d=\"M{:.1f} {:.1f}h30\" stroke=\"{}\" stroke-width=\"2.5\"{}/>\n",
                     kPlotLeft + kPlotWidth + 12, y + 1, colour, svg_dashes(number)) +
         svg_text(kPlotLeft + kPlotWidth + 48, y + 5, 12, "start", run.name + " " + power_text(scale));
}

}  // namespace

std::string dialects_text(const DialectView& view) {
  std::string text = header_text(view) + table_text(view);
  if (view.partings.empty()) return text + "they do not part\n";
  text += fmt::format("they part in {}:\n", run::counted(view.partings.size(), "step"));
  for (std::size_t i = 0; i < std::min(view.partings.size(), kMostLines); ++i)
    text += "  " + parting_text(view, view.partings[i]) + '\n';
  if (view.partings.size() > kMostLines)
    text += fmt::format("  ... {} more; --format json has all\n", view.partings.size() - kMostLines);
  return text;
}

std::string dialects_json(const DialectView& view) {
  json dialects = json::array(), parts = json::array();
  for (const DialectRun& run : view.runs)
    dialects.push_back({{"name", run.name},
                        {"first_scale", run.first_scale},
                        {"last_scale", run.scales.empty() ? run.first_scale : run.scales.back()},
                        {"steps", run.scales.size()},
                        {"deeds", deeds_json(run)}});
  for (const Divergence& parting : view.partings) {
    json does = json::object();
    for (const DialectRun& run : view.runs)
      if (const auto step = static_cast<std::size_t>(parting.step - 1); step < run.deeds.size())
        does[run.name] = name_of(run.deeds[step]);
    parts.push_back({{"step", parting.step},
                     {"overflow", parting.found_inf},
                     {"clean_steps", parting.clean_steps},
                     {"does", std::move(does)}});
  }
  return json{{"steps", view.found_inf.size()},
              {"overflows", overflows_of(view)},
              {"dialects", std::move(dialects)},
              {"partings", std::move(parts)}}
             .dump() +
         '\n';
}

std::string dialects_csv(const DialectView& view) {
  std::string text = "step,overflow";
  for (const DialectRun& run : view.runs) text += ',' + run.name;
  text += "\n0,0";
  for (const DialectRun& run : view.runs) text += fmt::format(",{}", run.first_scale);
  for (std::size_t step = 0; step < view.found_inf.size(); ++step) {
    text += fmt::format("\n{},{}", step + 1, view.found_inf[step] ? 1 : 0);
    for (const DialectRun& run : view.runs)
      text += step < run.scales.size() ? fmt::format(",{}", run.scales[step]) : ",";
  }
  return text + '\n';
}

std::string dialects_svg(const DialectView& view) {
  const ScaleAxes axes = axes_of(view);
  std::string svg = svg_text(kPlotLeft, 24, 15, "start", "Loss scale by step") +
                    svg_text(kPlotLeft, 42, 12, "start", view.settings, "#555") + grid_svg(axes);
  for (const std::size_t step : overflows_of(view))
    svg += fmt::format(
        "<line class=\"overflow\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#c33\"/>\n",
        axes.x(static_cast<double>(step)), kPlotTop + kPlotHeight, kPlotTop + kPlotHeight + 10);
  for (std::size_t i = 0; i < view.runs.size(); ++i) svg += curve_svg(view.runs[i], axes, i, view.runs.size());
  svg += svg_text(kPlotLeft + kPlotWidth + 16, kPlotTop + kPlotHeight + 10, 12, "start", "overflow", "#c33");
  return svg_page(kPlotLeft + kPlotWidth + kPlotRight, kPlotTop + kPlotHeight + 50, svg,
                  fmt::format("Loss scales of {} in {}", run::counted(view.runs.size(), "dialect"),
                              run::counted(view.found_inf.size(), "step")));
}

}  // namespace plumbline::cli
