// Who skipped a step, for an infinity or NaN at each place and moment, as text, JSON, CSV and a picture.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/cli/scaler_views.hpp"
#include "harness/cli/svg.hpp"

namespace plumbline::cli {
namespace {

using nlohmann::json;
using scaler::Deciding;
using scaler::InjectionOutcome;
using scaler::Moment;

std::string value_text(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

struct RankPlace {
  int stage, tensor, data;
};
RankPlace rank_place(const scaler::InjectionWorld& world, int rank) {
  return {rank / world.tensor % world.pipeline, rank % world.tensor, rank / (world.tensor * world.pipeline)};
}

bool has_equal_scales(const InjectionOutcome& one) {
  return std::ranges::adjacent_find(one.scales, std::ranges::not_equal_to()) == one.scales.end();
}

// "inf on rank 1 (stage 0, tensor 1, data 0): 0 1 skipped; ...".
std::string wrong_text(const InjectionView& view, const InjectionOutcome& one) {
  const RankPlace place = rank_place(view.world, one.injection.rank);
  std::string text = fmt::format("{} on rank {} (stage {}, tensor {}, data {}): ", value_text(one.injection.value),
                                 one.injection.rank, place.stage, place.tensor, place.data);
  text += one.skipped.empty() ? "no rank skipped" : fmt::format("{} skipped", fmt::join(one.skipped, " "));
  if (!has_equal_scales(one)) text += ", scales part";
  if (!one.has_equal_replicas) text += ", replicas part";
  if (!one.not_finite.empty())
    text += fmt::format(", master weights of {} are not finite", fmt::join(one.not_finite, " "));
  return text;
}

// Outcomes of a moment and a decision, in the order in which they were made.
using InjectionRow = std::pair<std::pair<Moment, Deciding>, std::vector<const InjectionOutcome*>>;
std::vector<InjectionRow> rows_of(const InjectionView& view) {
  std::vector<InjectionRow> rows;
  for (const InjectionOutcome& one : view.outcomes) {
    const std::pair key(one.injection.moment, one.injection.deciding);
    auto at = std::ranges::find(rows, key, &InjectionRow::first);
    if (at == rows.end()) at = rows.insert(at, {key, {}});
    at->second.push_back(&one);
  }
  return rows;
}

bool is_right_row(const InjectionRow& row) { return std::ranges::all_of(row.second, &InjectionOutcome::is_right); }

std::string world_text(const InjectionView& view) {
  return fmt::format("{} tensor x {} pipeline x {} data: {} ranks of backend local", view.world.tensor,
                     view.world.pipeline, view.world.data, view.world.size());
}

}  // namespace

std::string injections_text(const InjectionView& view) {
  std::string text =
      fmt::format("{}; every rank must skip the step, and the next one is clean\n{:<17} {:<21} {:>10}  {}\n",
                  world_text(view), "moment", "decided over", "right", "the first that is not");
  std::map<Moment, std::vector<std::string_view>> right;
  for (const InjectionRow& row : rows_of(view)) {
    const auto wrong = std::ranges::find_if_not(row.second, &InjectionOutcome::is_right);
    text += fmt::format(
        "{:<17} {:<21} {:>10}  {}\n", name_of(row.first.first), name_of(row.first.second),
        fmt::format("{} of {}", std::ranges::count_if(row.second, &InjectionOutcome::is_right), row.second.size()),
        wrong == row.second.end() ? "" : wrong_text(view, **wrong));
    auto& names = right[row.first.first];
    if (is_right_row(row)) names.push_back(name_of(row.first.second));
  }
  for (const auto& [moment, names] : right)
    text += fmt::format("{}: right over {}\n", name_of(moment),
                        names.empty() ? "none of these" : fmt::format("{}", fmt::join(names, ", ")));
  return text;
}

std::string injections_json(const InjectionView& view) {
  std::vector<int> all(static_cast<std::size_t>(view.world.size()));
  for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] = static_cast<int>(rank);
  json rows = json::array();
  for (const InjectionOutcome& one : view.outcomes) {
    const RankPlace place = rank_place(view.world, one.injection.rank);
    rows.push_back({{"moment", name_of(one.injection.moment)},
                    {"decided_over", name_of(one.injection.deciding)},
                    {"value", value_text(one.injection.value)},
                    {"rank", one.injection.rank},
                    {"stage", place.stage},
                    {"tensor", place.tensor},
                    {"data", place.data},
                    {"must_skip", all},
                    {"skipped", one.skipped},
                    {"scales", one.scales},
                    {"touched", one.touched},
                    {"not_finite", one.not_finite},
                    {"skipped_next", one.not_clean},
                    {"equal_replicas", one.has_equal_replicas},
                    {"right", one.is_right()}});
  }
  return json{{"tensor", view.world.tensor},
              {"pipeline", view.world.pipeline},
              {"data", view.world.data},
              {"injections", std::move(rows)}}
             .dump() +
         '\n';
}

std::string injections_csv(const InjectionView& view) {
  std::string text =
      "moment,decided_over,value,rank,stage,tensor,data,skipped,equal_scales,equal_replicas,not_finite,skipped_next,"
      "right\n";
  for (const InjectionOutcome& one : view.outcomes) {
    const RankPlace place = rank_place(view.world, one.injection.rank);
    text += fmt::format("{},{},{},{},{},{},{},{},{:d},{:d},{},{},{:d}\n", name_of(one.injection.moment),
                        name_of(one.injection.deciding), value_text(one.injection.value), one.injection.rank,
                        place.stage, place.tensor, place.data, fmt::join(one.skipped, " "), has_equal_scales(one),
                        one.has_equal_replicas, fmt::join(one.not_finite, " "), fmt::join(one.not_clean, " "),
                        one.is_right());
  }
  return text;
}

namespace {

constexpr double kCell = 18, kFirstRow = 118, kFirstCell = 300, kBetweenValues = 12, kRightOfCells = 66;
constexpr const char *kRight = "#18744e", *kWrong = "#d55e00";

// A column for each rank under each value, in the order of their injections: rows that have some ranks alone keep them
// below their numbers.
class InjectionPicture {
 public:
  explicit InjectionPicture(const InjectionView& view) : view_(view), rows_(rows_of(view)) {
    for (const InjectionOutcome& one : view.outcomes)
      if (const std::string value = value_text(one.injection.value); std::ranges::count(values_, value) == 0)
        values_.push_back(value);
  }

  [[nodiscard]] std::string text() const {
    const double right = x_of(values_.size() - 1, view_.world.size()) + kRightOfCells;
    return svg_page(std::max(right, 600.0), kFirstRow + kCell * static_cast<double>(rows_.size()) + 20,
                    head() + columns() + cells(), "Who skips, by moment and decision");
  }

 private:
  [[nodiscard]] double x_of(std::size_t value, int rank) const {
    const double of_value = kCell * view_.world.size() + kBetweenValues;
    return kFirstCell + of_value * static_cast<double>(value) + kCell * rank;
  }
  [[nodiscard]] double x_of(const scaler::Injection& one) const {
    const auto value = std::ranges::find(values_, value_text(one.value)) - values_.begin();
    return x_of(static_cast<std::size_t>(value), one.rank);
  }

  [[nodiscard]] std::string head() const {
    return svg_text(12, 26, 17, "start", "Who skips a step for a value that is not finite", "#111", true) +
           svg_text(12, 46, 12, "start", world_text(view_), "#555") +
           svg_rectangle(12, 58, kCell - 4, kCell - 4, kRight) +
           svg_text(32, 70, 12, "start", "every rank skips, and the next step is clean") +
           svg_rectangle(kFirstCell, 58, kCell - 4, kCell - 4, kWrong) +
           svg_text(kFirstCell + 20, 70, 12, "start", "ranks part");
  }

  [[nodiscard]] std::string columns() const {
    std::string svg = svg_text(12, kFirstRow - 8, 12, "start", "moment", "#111", true) +
                      svg_text(150, kFirstRow - 8, 12, "start", "decided over", "#111", true);
    for (std::size_t value = 0; value < values_.size(); ++value) {
      svg += svg_text(x_of(value, 0), kFirstRow - 24, 12, "start", values_[value] + " on rank", "#111", true);
      for (int rank = 0; rank < view_.world.size(); ++rank)
        svg += svg_text(x_of(value, rank) + (kCell - 2) / 2, kFirstRow - 8, 10, "middle", std::to_string(rank));
    }
    return svg + svg_text(x_of(values_.size() - 1, view_.world.size()) + 6, kFirstRow - 8, 12, "start", "right", "#111",
                          true);
  }

  [[nodiscard]] std::string cells() const {
    std::string svg;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto& [key, outcomes] = rows_[i];
      const double y = kFirstRow + kCell * static_cast<double>(i);
      svg += svg_text(12, y + 13, 12, "start", name_of(key.first)) +
             svg_text(150, y + 13, 12, "start", name_of(key.second));
      for (const InjectionOutcome* one : outcomes)
        svg += svg_rectangle(x_of(one->injection), y, kCell - 2, kCell - 2, one->is_right() ? kRight : kWrong,
                             wrong_text(view_, *one));
      svg += svg_text(
          x_of(values_.size() - 1, view_.world.size()) + 6, y + 13, 12, "start",
          fmt::format("{} of {}", std::ranges::count_if(outcomes, &InjectionOutcome::is_right), outcomes.size()));
    }
    return svg;
  }

  const InjectionView& view_;
  std::vector<InjectionRow> rows_;
  std::vector<std::string> values_;
};

}  // namespace

std::string injections_svg(const InjectionView& view) { return InjectionPicture(view).text(); }

}  // namespace plumbline::cli
