// `plumbline topology --format svg`: the grid, once for each axis, in the colours of the groups along it.
//
// Layout  Ranks keep their place in every panel. Axes run along x or y, inner ones inside outer ones, in whichever way
//         gives the picture the best shape; an axis that is too long for a line is folded. Lines between cells that are
//         on different nodes are borders of nodes.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "harness/cli/svg.hpp"
#include "harness/cli/topology_view.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using topology::Axis;

constexpr int kLongestLine = 16;  // cells of one axis side by side
constexpr double kGap = 4, kBlockGap = 16, kFrame = 8;
constexpr double kHeader = 17;  // height of a row of axis labels
constexpr double kPageWidth = 1400, kPageMargin = 24, kPanelGap = 44;
constexpr double kBestShape = 1.4;  // width to height of a panel

// Hue as a share of the circle of colours, the rest from 0 to 1.
Colour from_hue(double hue, double saturation, double lightness) {
  const auto channel = [&](double n) {
    const double k = std::fmod(n + hue * 12, 12);
    const double a = saturation * std::min(lightness, 1 - lightness);
    return static_cast<int>(std::lround(255 * (lightness - a * std::max(-1.0, std::min({k - 3, 9 - k, 1.0})))));
  };
  return {channel(0), channel(8), channel(4)};
}

// Few groups: colours that colour-blind readers tell apart (Okabe and Ito). Many: golden steps round the circle of
// hues, so that neighbours differ most.
Colour colour_of(int group, int groups) {
  constexpr std::array<Colour, 8> kFew{{{86, 180, 233},
                                        {230, 159, 0},
                                        {0, 158, 115},
                                        {204, 121, 167},
                                        {0, 114, 178},
                                        {240, 228, 66},
                                        {213, 94, 0},
                                        {150, 150, 150}}};
  if (groups <= static_cast<int>(kFew.size())) return kFew[static_cast<std::size_t>(group)];
  constexpr std::array<double, 3> kLightness{0.68, 0.48, 0.80};
  return from_hue(std::fmod(group * 0.381966, 1.0), 0.62, kLightness[static_cast<std::size_t>(group) % 3]);
}

// An axis, or a fold of it: `count` positions, `step` apart on the axis.
struct Piece {
  std::size_t axis = 0;
  int count = 1;
  int step = 1;
};

std::vector<Piece> pieces_of(const std::vector<Axis>& axes) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].size <= kLongestLine) {
      pieces.push_back({i, axes[i].size, 1});
      continue;
    }
    const int lines = (axes[i].size + kLongestLine - 1) / kLongestLine;
    const int length = (axes[i].size + lines - 1) / lines;
    pieces.push_back({i, lines, length});
    pieces.push_back({i, length, 1});
  }
  return pieces;
}

// Pieces along one direction, the outermost first: where their cells are.
struct Line {
  std::vector<Piece> pieces;
  double cell = 44;

  [[nodiscard]] int cells() const { return cells_inside(0); }
  // Cells that one position of the piece before `level` holds.
  [[nodiscard]] int cells_inside(std::size_t level) const {
    int cells = 1;
    for (std::size_t i = level; i < pieces.size(); ++i) cells *= pieces[i].count;
    return cells;
  }
  [[nodiscard]] double begin(int index) const {
    double at = index * (cell + kGap);
    for (std::size_t level = 1; level < pieces.size(); ++level) at += index / cells_inside(level) * (kBlockGap - kGap);
    return at;
  }
  [[nodiscard]] double end(int index) const { return begin(index) + cell; }
  [[nodiscard]] double length() const { return end(cells() - 1); }
  // Half-way between the cells index - 1 and index.
  [[nodiscard]] double border(int index) const {
    if (index == 0) return -kFrame;
    if (index == cells()) return length() + kFrame;
    return (end(index - 1) + begin(index)) / 2;
  }
};

struct Layout {
  Line x, y;
  double cell = 44;
};

double cell_of(int world) { return world <= 64 ? 44 : world <= 128 ? 36 : 30; }

// Each piece along x or y, so that the shape is best; the last one along x where both are as good.
Layout layout_of(const topology::Topology& topology) {
  const std::vector<Piece> pieces = pieces_of(topology.axes());
  const double cell = cell_of(topology.world_size());
  Layout best;
  double best_score = 0;
  for (std::uint32_t along_y = 0; along_y < 1U << pieces.size(); ++along_y) {
    Layout layout{.x = {.pieces = {}, .cell = cell}, .y = {.pieces = {}, .cell = cell}, .cell = cell};
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const bool is_y = (along_y >> (pieces.size() - 1 - i) & 1U) != 0;
      (is_y ? layout.y : layout.x).pieces.push_back(pieces[i]);
    }
    // More labels than two a side are hard to read.
    const double score = std::abs(std::log(layout.x.length() / layout.y.length() / kBestShape)) + 0.1 * (along_y & 1U);
    if (along_y == 0 || score < best_score - 1e-9) {
      best = layout;
      best_score = score;
    }
  }
  return best;
}

class Picture {
 public:
  Picture(const TopologyView& view, std::optional<int> rank)
      : view_(view), rank_(rank), axes_(view.topology.axes()), layout_(layout_of(view.topology)) {
    place_ranks();
  }

  [[nodiscard]] std::string text() const {
    const double width = panel_width(), height = panel_height();
    const int across = std::clamp(static_cast<int>((kPageWidth + kPanelGap) / (width + kPanelGap)), 1,
                                  static_cast<int>(view_.along.size()));
    const int down = (static_cast<int>(view_.along.size()) + across - 1) / across;
    const double top = 64, page_width = std::max(across * (width + kPanelGap) - kPanelGap, 820.0) + 2 * kPageMargin;
    const double legend = top + down * (height + kPanelGap);
    std::string svg = svg_text(kPageMargin, 38, 17, "start", title_of(view_), "#111", true);
    for (std::size_t i = 0; i < view_.along.size(); ++i) {
      const int index = static_cast<int>(i);
      svg +=
          fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n",
                      kPageMargin + index % across * (width + kPanelGap), top + index / across * (height + kPanelGap));
      svg += panel(i) + "</g>\n";
    }
    return svg_page(page_width, legend + 62, svg + legend_text(legend), title_of(view_));
  }

 private:
  [[nodiscard]] int columns() const { return layout_.x.cells(); }
  [[nodiscard]] int rows() const { return layout_.y.cells(); }
  [[nodiscard]] int& rank_at(int column, int row) {
    return ranks_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns()) +
                  static_cast<std::size_t>(column)];
  }
  // -1 where a folded axis ends before its line does, and off the grid.
  [[nodiscard]] int rank_at(int column, int row) const {
    if (column < 0 || row < 0 || column >= columns() || row >= rows()) return -1;
    return ranks_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns()) +
                  static_cast<std::size_t>(column)];
  }
  [[nodiscard]] int node_at(int column, int row) const {
    const int rank = rank_at(column, row);
    return rank < 0 ? -1 : node_of(view_, rank);
  }

  void place_ranks() {
    ranks_.assign(static_cast<std::size_t>(columns()) * static_cast<std::size_t>(rows()), -1);
    for (int row = 0; row < rows(); ++row)
      for (int column = 0; column < columns(); ++column) {
        topology::Coordinate at(axes_.size());
        add_positions(layout_.x, column, at);
        add_positions(layout_.y, row, at);
        bool there = true;
        int rank = view_.topology.offset();
        for (std::size_t i = 0; i < axes_.size(); ++i) {
          there = there && at[i] < axes_[i].size;
          rank += at[i] * axes_[i].stride;
        }
        if (there) rank_at(column, row) = rank;
      }
  }
  static void add_positions(const Line& line, int index, topology::Coordinate& at) {
    for (std::size_t level = line.pieces.size(); level-- > 0;) {
      at[line.pieces[level].axis] += index % line.pieces[level].count * line.pieces[level].step;
      index /= line.pieces[level].count;
    }
  }

  // Room for the labels of rows, each as wide as its axis' name.
  [[nodiscard]] double label_width(std::size_t axis) const {
    return std::max(30.0, 8.0 * static_cast<double>(axes_[axis].name.size()) + 8);
  }
  [[nodiscard]] double left() const {
    double rows = 0, columns = 0;
    for (const Piece& piece : layout_.y.pieces) rows += label_width(piece.axis);
    for (const Piece& piece : layout_.x.pieces) columns = std::max(columns, label_width(piece.axis));
    return std::max(rows, columns) + kFrame;
  }
  [[nodiscard]] double above() const {
    return 30 + kHeader * static_cast<double>(layout_.x.pieces.size() + (layout_.y.pieces.empty() ? 0 : 1)) + kFrame;
  }
  [[nodiscard]] double panel_width() const {
    double title = 0;
    for (std::size_t i = 0; i < view_.along.size(); ++i)
      title = std::max(title, 8.6 * static_cast<double>(panel_title(i).size()));
    return std::max(title, left() + layout_.x.length() + kFrame);
  }
  [[nodiscard]] double panel_height() const { return above() + layout_.y.length() + kFrame; }

  [[nodiscard]] int crossing(std::size_t axis) const { return crossing_groups(view_, view_.along[axis]); }
  // Where some groups cross nodes and some do not, those that do are marked.
  [[nodiscard]] bool is_mixed(std::size_t axis) const {
    return view_.nodes && crossing(axis) > 0 && crossing(axis) < view_.along[axis].groups.size();
  }
  [[nodiscard]] bool has_star(std::size_t axis, int rank) const {
    return is_mixed(axis) && crosses_nodes(view_, view_.topology.group_of(rank, axes_[axis].name));
  }

  [[nodiscard]] std::string panel_title(std::size_t axis) const {
    const GroupKind& kind = view_.along[axis];
    const int count = kind.groups.size();
    std::string text =
        fmt::format("along {}: {} group{} of {}", kind.title(), count, count == 1 ? "" : "s", kind.groups.group_size());
    if (!view_.nodes) return text;
    if (crossing(axis) == 0) return text + ", none crosses nodes";
    if (is_mixed(axis)) return text + fmt::format(", {} cross nodes (*)", crossing(axis));
    return text + (count == 1 ? ", it crosses nodes" : ", all cross nodes");
  }

  [[nodiscard]] std::string panel(std::size_t axis) const {
    std::string svg = svg_text(0, 14, 14, "start", panel_title(axis), "#111", true);
    svg += fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n", left(), above());
    if (view_.nodes) svg += territories();
    svg += column_labels(axis) + row_labels(axis) + links(axis) + cells(axis);
    if (view_.nodes) svg += borders() + node_numbers();
    return svg + "</g>\n";
  }

  [[nodiscard]] std::string label(double x, double y, const std::string& text, const char* anchor, bool strong) const {
    return svg_text(x, y, 12, anchor, text, strong ? "#111" : "#666", strong);
  }
  // "3"; for folds of an axis the first position of a line, and how far along it.
  [[nodiscard]] std::string position_text(const Piece& piece, int index) const {
    const bool inside_fold = piece.step == 1 && piece.count < axes_[piece.axis].size;
    return (inside_fold ? "+" : "") + std::to_string(index * piece.step);
  }
  [[nodiscard]] std::string column_labels(std::size_t axis) const {
    std::string svg;
    const std::size_t levels = layout_.x.pieces.size();
    for (std::size_t level = 0; level < levels; ++level) {
      const Piece& piece = layout_.x.pieces[level];
      const double y =
          -kFrame - 5 - kHeader * static_cast<double>(levels - 1 - level + (layout_.y.pieces.empty() ? 0 : 1));
      const bool strong = piece.axis == axis;
      svg += label(-kFrame - 6, y, axes_[piece.axis].name, "end", strong);
      const int span = layout_.x.cells_inside(level + 1);
      for (int first = 0; first < columns(); first += span)
        svg += label((layout_.x.begin(first) + layout_.x.end(first + span - 1)) / 2, y,
                     position_text(piece, first / span % piece.count), "middle", strong);
    }
    return svg;
  }
  [[nodiscard]] std::string row_labels(std::size_t axis) const {
    std::string svg;
    double right = -kFrame - 6;
    for (std::size_t level = layout_.y.pieces.size(); level-- > 0;) {
      const Piece& piece = layout_.y.pieces[level];
      const bool strong = piece.axis == axis;
      svg += label(right, -kFrame - 5, axes_[piece.axis].name, "end", strong);
      const int span = layout_.y.cells_inside(level + 1);
      for (int first = 0; first < rows(); first += span)
        svg += label(right, (layout_.y.begin(first) + layout_.y.end(first + span - 1)) / 2 + 4,
                     position_text(piece, first / span % piece.count), "end", strong);
      right -= label_width(piece.axis);
    }
    return svg;
  }

  [[nodiscard]] bool is_shown(std::size_t axis, int rank) const {
    const std::string& name = axes_[axis].name;
    return !rank_ || view_.topology.group_index(rank, name) == view_.topology.group_index(*rank_, name);
  }
  [[nodiscard]] Colour colour(std::size_t axis, int rank) const {
    return colour_of(view_.topology.group_index(rank, axes_[axis].name), view_.along[axis].groups.size());
  }

  // Bars that join cells of a group that lie side by side.
  [[nodiscard]] std::string links(std::size_t axis) const {
    std::string svg;
    const double inset = layout_.cell * 0.24, bar = layout_.cell - 2 * inset;
    const auto joined = [&](int one, int other) {
      const std::string& name = axes_[axis].name;
      return one >= 0 && other >= 0 && is_shown(axis, one) &&
             view_.topology.group_index(one, name) == view_.topology.group_index(other, name);
    };
    for (int row = 0; row < rows(); ++row)
      for (int column = 0; column < columns(); ++column) {
        const int rank = rank_at(column, row);
        if (joined(rank, rank_at(column + 1, row)))
          svg +=
              svg_rectangle(layout_.x.end(column) - 6, layout_.y.begin(row) + inset,
                            layout_.x.begin(column + 1) - layout_.x.end(column) + 12, bar, colour(axis, rank).text());
        if (joined(rank, rank_at(column, row + 1)))
          svg += svg_rectangle(layout_.x.begin(column) + inset, layout_.y.end(row) - 6, bar,
                               layout_.y.begin(row + 1) - layout_.y.end(row) + 12, colour(axis, rank).text());
      }
    return svg;
  }

  [[nodiscard]] std::string cells(std::size_t axis) const {
    std::string svg;
    for (int row = 0; row < rows(); ++row)
      for (int column = 0; column < columns(); ++column)
        if (const int rank = rank_at(column, row); rank >= 0)
          svg += cell(axis, rank, layout_.x.begin(column), layout_.y.begin(row));
    return svg;
  }
  [[nodiscard]] std::string cell(std::size_t axis, int rank, double x, double y) const {
    const bool shown = is_shown(axis, rank);
    const std::string fill = shown ? colour(axis, rank).text() : "#e9e9e9";
    const char* ink = shown ? colour(axis, rank).ink() : "#777";
    const double size = layout_.cell;
    std::string svg = fmt::format(
        "<g class=\"rank\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{}\"{}/>", x, y,
        size, size, fill,
        std::string(shown ? "" : kPaper) + (rank_ == rank ? " stroke=\"#d00000\" stroke-width=\"4\"" : ""));
    const auto add = [&](double across, double down, double font, const char* anchor, const std::string& weight,
                         const std::string& text) {
      svg +=
          fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>",
                      x + across, y + down, font, anchor, ink, weight, text);
    };
    add(size / 2, size * 0.58, size * 0.36, "middle", " font-weight=\"bold\"", std::to_string(rank));
    add(size / 2, size * 0.87, std::max(8.0, size * 0.22), "middle", "",
        fmt::format("g{}{}", view_.topology.group_index(rank, axes_[axis].name), has_star(axis, rank) ? "*" : ""));
    return svg + "</g>\n";
  }

  // The ground of each node, two greys in turn.
  [[nodiscard]] std::string territories() const {
    std::string svg;
    for (int row = 0; row < rows(); ++row)
      for (int column = 0; column < columns(); ++column)
        if (const int node = node_at(column, row); node >= 0) {
          const double x = layout_.x.border(column), y = layout_.y.border(row);
          svg += svg_rectangle(x, y, layout_.x.border(column + 1) - x, layout_.y.border(row + 1) - y,
                               node % 2 == 0 ? "#f3f4f6" : "#d9dee6", "", kPaper);
        }
    return svg;
  }
  // In the upper left corner of each part of a node.
  [[nodiscard]] std::string node_numbers() const {
    std::string svg;
    for (int row = 0; row < rows(); ++row)
      for (int column = 0; column < columns(); ++column) {
        const int node = node_at(column, row);
        if (node < 0 || node_at(column - 1, row) == node || node_at(column, row - 1) == node) continue;
        const std::string text = fmt::format("n{}", node);
        const double x = layout_.x.border(column), y = layout_.y.border(row);
        svg += svg_rectangle(x, y, 5.2 * static_cast<double>(text.size()) + 3, 9.5, "#000");
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"8\" fill=\"#fff\">{}</text>\n", x + 2, y + 7.5,
                           text);
      }
    return svg;
  }
  // A line wherever the two sides are on different nodes.
  [[nodiscard]] std::string borders() const {
    std::string path;
    for (int row = 0; row <= rows(); ++row)
      for (int column = 0; column <= columns(); ++column) {
        const double x = layout_.x.border(column), y = layout_.y.border(row);
        if (row < rows() && node_at(column - 1, row) != node_at(column, row))
          path += fmt::format("M{:.1f} {:.1f}V{:.1f}", x, y, layout_.y.border(row + 1));
        if (column < columns() && node_at(column, row - 1) != node_at(column, row))
          path += fmt::format("M{:.1f} {:.1f}H{:.1f}", x, y, layout_.x.border(column + 1));
      }
    return fmt::format(
        "<path class=\"nodes\" d=\"{}\" fill=\"none\" stroke=\"#000\" stroke-width=\"2.5\" "
        "stroke-linecap=\"square\"/>\n",
        path);
  }

  [[nodiscard]] std::string legend_text(double y) const {
    std::string svg = fmt::format("<g transform=\"translate({} {:.1f})\">\n", kPageMargin, y);
    svg +=
        "<rect width=\"34\" height=\"34\" rx=\"4\" fill=\"#56b4e9\"/><text x=\"17\" y=\"19\" font-size=\"12\" "
        "font-weight=\"bold\" text-anchor=\"middle\" fill=\"#000\">5</text><text x=\"17\" y=\"30\" font-size=\"8\" "
        "text-anchor=\"middle\" fill=\"#000\">g1</text>\n";
    svg += svg_text(44, 14, 12, "start", "rank 5, in group 1 of the axis") +
           svg_text(44, 30, 12, "start", "same colour and number: one group");
    if (view_.nodes)
      svg += fmt::format(
          "<rect x=\"302\" y=\"2\" width=\"30\" height=\"30\" class=\"paper\" fill=\"#d9dee6\" stroke=\"#000\" "
          "stroke-width=\"2.5\"/><text x=\"342\" y=\"14\" font-size=\"12\" fill=\"#333\">border of a node "
          "of {} consecutive ranks</text><text x=\"342\" y=\"30\" font-size=\"12\" fill=\"#333\">with its "
          "number</text>\n",
          view_.ranks_per_node);
    if (rank_)
      svg += fmt::format(
          "<rect x=\"622\" y=\"2\" width=\"30\" height=\"30\" rx=\"4\" fill=\"none\" stroke=\"#d00000\" "
          "stroke-width=\"4\"/><text x=\"662\" y=\"22\" font-size=\"12\" fill=\"#333\">rank {}; its groups "
          "are in colour</text>\n",
          *rank_);
    return svg + "</g>\n";
  }

  const TopologyView& view_;
  std::optional<int> rank_;
  const std::vector<Axis>& axes_;
  Layout layout_;
  std::vector<int> ranks_;  // row by row
};

}  // namespace

std::string topology_svg(const TopologyView& view, std::optional<int> rank) {
  if (view.topology.world_size() > kMostPicturedRanks)
    throw InvalidArgument(fmt::format("--format svg: {} ranks; a picture of more than {} is not readable: text sums up",
                                      view.topology.world_size(), kMostPicturedRanks));
  return Picture(view, rank).text();
}

}  // namespace plumbline::cli
