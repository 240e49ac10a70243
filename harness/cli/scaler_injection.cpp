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

std::string injections_svg(const InjectionView& view) {
  constexpr double left = 290, top = 56, cell = 18;
  const auto rows = rows_of(view);
  std::size_t columns = 0;
  for (const InjectionRow& row : rows) columns = std::max(columns, row.second.size());
  std::string svg =
      svg_text(12, 24, 15, "start", world_text(view)) +
      svg_text(12, 42, 12, "start", "a cell for each rank and value: green where every rank skipped together", "#555");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = top + cell * static_cast<double>(i);
    svg += svg_text(12, y + 13, 12, "start", name_of(rows[i].first.first)) +
           svg_text(150, y + 13, 12, "start", name_of(rows[i].first.second));
    for (std::size_t k = 0; k < rows[i].second.size(); ++k) {
      const InjectionOutcome& one = *rows[i].second[k];
      svg += svg_rectangle(left + cell * static_cast<double>(k), y, cell - 2, cell - 2,
                           one.is_right() ? "#18744e" : "#d55e00", wrong_text(view, one));
    }
  }
  return svg_page(std::max(left + cell * static_cast<double>(columns) + 20, 560.0),
                  top + cell * static_cast<double>(rows.size()) + 20, svg, "Who skips, by moment and decision");
}

}  // namespace plumbline::cli
