// The picture of `plumbline gossip`.
//
// Layout  A panel for each round until the graph repeats, with an arrow from each node to whom it sends; below them the
//         shares of the first round, a row for each receiver, and the distance to the mean by round, by tens.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "harness/cli/gossip_view.hpp"
#include "harness/cli/svg.hpp"
#include "harness/run/counted.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using gossip::Graph;

constexpr double kLeft = 40, kTop = 84, kPanel = 230, kGap = 20, kMatrix = 300, kBelow = 90;
constexpr int kPanelsInRow = 4, kMostPanels = 12;
constexpr Colour kBlue{47, 111, 190};
constexpr const char *kGrey = "#9aa2ad", *kPale = "#e3e6ea";

struct Point {
  double x = 0, y = 0;
};

std::string line(Point from, Point to, const char* stroke, const char* more = "") {
  return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\"{}/>\n", from.x, from.y, to.x, to.y, stroke,
                     more);
}

// ---- who sends to whom ----

class Panel {
 public:
  Panel(const Graph& graph, Point corner) : graph_(graph), corner_(corner) {
    const double chord = 2 * kRing * std::sin(std::numbers::pi / std::max(2, graph.nodes()));
    radius_ = std::clamp(chord * 0.38, 3.0, 11.0);
  }

  [[nodiscard]] std::string text(int round, const std::string& title) const {
    std::string svg = svg_text(corner_.x, corner_.y - 8, 12, "start", title);
    for (int node = 0; node < graph_.nodes(); ++node)
      for (const int peer : graph_.peers(node, round).out) svg += arrow(node, peer);
    for (int node = 0; node < graph_.nodes(); ++node) {
      const Point at = place(node);
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\" stroke=\"{}\"/>\n", at.x, at.y,
                         radius_, kBlue.lighter(0.8).text(), kBlue.text());
      if (radius_ > 5)
        svg += svg_text(at.x, at.y + radius_ * 0.35, radius_, "middle", std::to_string(node), kBlue.lighter(0.8).ink());
    }
    return svg;
  }

 private:
  static constexpr double kRing = kPanel * 0.42;

  [[nodiscard]] Point place(int node) const {
    const double angle = 2 * std::numbers::pi * node / graph_.nodes() - std::numbers::pi / 2;
    return {corner_.x + kPanel / 2 + kRing * std::cos(angle), corner_.y + kPanel / 2 + kRing * std::sin(angle)};
  }

  // From rim to rim, beside the line between the two, so that the one that comes back is another.
  [[nodiscard]] std::string arrow(int from, int to) const {
    const Point a = place(from), b = place(to);
    const double dx = b.x - a.x, dy = b.y - a.y;
    const double length = std::sqrt(dx * dx + dy * dy);  // hypot wants glibc 2.35 where it is compiled on a newer one
    if (length == 0) return "";
    const double ux = dx / length, uy = dy / length, aside = radius_ * 0.25;
    const auto along = [&](double distance) {
      return Point{a.x + ux * distance - uy * aside, a.y + uy * distance + ux * aside};
    };
    return line(along(radius_), along(length - radius_ - 2), kBlue.text().c_str(), " marker-end=\"url(#head)\"");
  }

  const Graph& graph_;
  Point corner_;
  double radius_;
};

// ---- shares ----

std::string matrix_of(const GossipView& view, Point corner) {
  const int nodes = view.graph.nodes();
  const double cell = kMatrix / nodes;
  const int step = nodes <= 16 ? 1 : nodes <= 32 ? 4 : 8;
  const std::vector<double> shares = gossip::mixing_matrix(view.graph, view.mixing, 0);
  std::string svg = svg_text(corner.x, corner.y - 24, 14, "start", "shares of round 0") +
                    svg_text(corner.x, corner.y - 8, 11, "start", "row: the node that receives; column: whose value");
  for (int to = 0; to < nodes; ++to)
    for (int from = 0; from < nodes; ++from) {
      const double share = shares[static_cast<std::size_t>(to * nodes + from)];
      if (share == 0) continue;
      const Colour colour = kBlue.lighter(1 - std::clamp(share, 0.08, 1.0));
      const Point at{corner.x + from * cell, corner.y + to * cell};
      svg += svg_rectangle(at.x, at.y, cell, cell, colour.text(),
                           fmt::format("node {} takes {:.3g} of node {}", to, share, from));
      if (nodes <= 10)
        svg += svg_text(at.x + cell / 2, at.y + cell / 2 + 4, 10, "middle", fmt::format("{:.2g}", share), colour.ink());
    }
  svg += svg_rectangle(corner.x, corner.y, kMatrix, kMatrix, "none", "", fmt::format(" stroke=\"{}\"", kGrey));
  for (int node = 0; node < nodes; node += step)
    svg += svg_text(corner.x - 6, corner.y + (node + 0.5) * cell + 4, 11, "end", std::to_string(node)) +
           svg_text(corner.x + (node + 0.5) * cell, corner.y + kMatrix + 15, 11, "middle", std::to_string(node));
  return svg;
}

// ---- distance to the mean ----

std::string curve_of(const GossipView& view, Point corner, double width) {
  constexpr double kFloor = -16;  // what rounding leaves
  std::vector<double> tens{0};
  for (const gossip::SimulatedRound& round : view.rounds)
    tens.push_back(round.error > 0 ? std::max(std::log10(round.error), kFloor) : kFloor);
  const double low = std::min(-1.0, std::floor(std::ranges::min(tens)));
  const double last = static_cast<double>(std::max<std::size_t>(view.rounds.size(), 1));
  const auto place = [&](double round, double ten) {
    return Point{corner.x + width * round / last, corner.y + kMatrix * ten / low};
  };
  std::string svg = svg_text(corner.x, corner.y - 24, 14, "start", "distance to the mean, of the initial one") +
                    svg_text(corner.x, corner.y - 8, 11, "start", "after a round, of random values");
  for (double ten = 0; ten >= low; ten -= low < -8 ? 2 : 1)
    svg += line(place(0, ten), place(last, ten), kPale) +
           svg_text(corner.x - 6, place(0, ten).y + 4, 11, "end", ten == 0 ? "1" : fmt::format("1e{:g}", ten));
  svg += svg_rectangle(corner.x, corner.y, width, kMatrix, "none", "", fmt::format(" stroke=\"{}\"", kGrey));
  const double step = std::max(1.0, std::ceil(last / 10));
  for (double round = 0; round <= last; round += step)
    svg += svg_text(place(round, 0).x, corner.y + kMatrix + 15, 11, "middle", fmt::format("{:g}", round));
  svg += svg_text(corner.x + width / 2, corner.y + kMatrix + 32, 11, "middle", "rounds");
  std::string points;
  for (std::size_t round = 0; round < tens.size(); ++round) {
    const Point at = place(static_cast<double>(round), tens[round]);
    points += fmt::format("{}{:.1f} {:.1f}", round == 0 ? "M" : "L", at.x, at.y);
    if (tens.size() <= 60)
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", at.x, at.y, kBlue.text());
  }
  return svg + fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", points, kBlue.text());
}

std::string subtitle_of(const GossipView& view) {
  const int peers = view.graph.peers_per_round();
  const std::string of_graph = fmt::format(
      "{} of {} mixing, {}", peers == 0 ? "all peers" : fmt::format("{} peer{}", peers, peers == 1 ? "" : "s"),
      name_of(view.mixing.kind), view.graph.is_dynamic() ? "dynamic" : "static");
  return view.spectrum ? fmt::format("{}; spectral gap {:.4g}", of_graph, view.spectrum->spectral_gap) : of_graph;
}

}  // namespace

std::string gossip_svg(const GossipView& view) {
  const Graph& graph = view.graph;
  if (graph.nodes() > kMostNodesShown)
    throw InvalidArgument(
        fmt::format("--format svg: {} nodes; a picture has {} at most", graph.nodes(), kMostNodesShown));
  const std::int64_t period = graph.is_dynamic() ? graph.period() : 1;
  const bool repeats = period > 0;  // random matchings do not
  const int panels = static_cast<int>(std::min<std::int64_t>(repeats ? period : kPanelsInRow, kMostPanels));
  const std::string title = fmt::format("{} of {}", view.name, run::counted(graph.nodes(), "node"));
  std::string svg = svg_text(kLeft, 30, 18, "start", title) + svg_text(kLeft, 50, 12, "start", subtitle_of(view));
  for (int round = 0; round < panels; ++round) {
    const Point corner{kLeft + round % kPanelsInRow * (kPanel + kGap),
                       kTop + round / kPanelsInRow * (kPanel + 2 * kGap)};
    const std::string name = graph.is_dynamic() ? fmt::format("round {}", round) : "every round";
    svg += Panel(graph, corner).text(round, name);
  }
  const double below = kTop + (panels + kPanelsInRow - 1) / kPanelsInRow * (kPanel + 2 * kGap);
  if (graph.is_dynamic())
    svg += svg_text(kLeft, below - 4, 12, "start",
                    !repeats ? "... and so on: it does not repeat"
                    : period > panels
                        ? fmt::format("... and {} more until it repeats", run::counted(period - panels, "round"))
                        : fmt::format("round {} is round 0 again", period));
  const double curve_left = kLeft + kMatrix + 90;
  const double width = kLeft + kPanelsInRow * (kPanel + kGap);
  svg += matrix_of(view, {kLeft, below + 50}) + curve_of(view, {curve_left, below + 50}, width - curve_left - kGap);
  return svg_page(width, below + kMatrix + kBelow, svg, title,
                  fmt::format("<marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
                              "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{}\"/></marker>",
                              kBlue.text()));
}

}  // namespace plumbline::cli
