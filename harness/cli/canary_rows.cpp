#include "harness/cli/canary_rows.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/bench/reduction_order.hpp"
#include "harness/record/result.hpp"
#include "reference/support/quantile.hpp"

namespace plumbline::cli {
namespace {

std::string fault_of(const CanarySide& side) {
  if (!side.problem.empty()) return side.problem;
  return side.answer.wrong.empty() && !side.answer.ranks_are_equal ? "its ranks have different bits"
                                                                   : side.answer.wrong;
}

// Fewer pairs of launches say nothing about time.
constexpr std::int64_t kFewest = 3;

bool all_above(const std::vector<double>& ratios, double limit) {
  return std::ssize(ratios) >= kFewest && std::ranges::all_of(ratios, [limit](double ratio) { return ratio > limit; });
}
bool all_below(const std::vector<double>& ratios, double limit) {
  return std::ssize(ratios) >= kFewest && std::ranges::all_of(ratios, [limit](double ratio) { return ratio < limit; });
}

std::string bits_text(const bench::CanaryDifference& difference) {
  if (difference.differing == 0) return "equal";
  return fmt::format("{} of {} differ, <= {} ulp", difference.differing, difference.elements, difference.largest);
}

std::string ratio_text(const std::vector<double>& ratios) {
  if (ratios.empty()) return "";
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", quantile(ratios, 0.5), std::ranges::min(ratios),
                     std::ranges::max(ratios));
}

std::string error_text(const CanaryRow& row, const CanarySide& side) {
  return is_reduction(row.probe.operation) && side.problem.empty() ? fmt::format("{:.3g}", side.answer.error) : "";
}

std::string side_text(int ranks, const std::vector<std::string>& orders, bool changes) {
  if (orders.empty()) return "no answer";
  std::string text = bench::name_of_order(ranks, orders);
  constexpr std::size_t kMostShown = 2;
  if (orders.size() <= kMostShown && !orders.front().empty() && ranks > 2)
    text += fmt::format(", {}{}", orders.front(),
                        orders.size() == 1 ? "" : " and " + (orders[1].empty() ? "none recognized" : orders[1]));
  else if (orders.size() > 1)
    text += fmt::format(", {} different parts", orders.size());
  return text + (changes ? ", which changes from call to call" : "");
}

}  // namespace

bool is_time_too_noisy(const std::vector<double>& ratios, const CanaryLimits& limits) {
  constexpr double kWidest = 2;  // largest to smallest: further apart, neither "same" nor a difference is shown
  if (std::ssize(ratios) < kFewest || all_above(ratios, 1 + limits.slower) ||
      all_below(ratios, 1 / (1 + limits.slower)))
    return false;
  const auto [least, most] = std::ranges::minmax(ratios);
  return !(most <= kWidest * least);  // also of NaN
}

bool is_shown_too_noisy(const CanaryRow& row, const CanaryLimits& limits) {
  return !row.is_unclaimed && fault_of(row.a).empty() && fault_of(row.b).empty() &&
         is_time_too_noisy(row.ratios, limits);
}

std::string noise_text(const std::vector<CanaryRow>& rows, const CanaryLimits& limits) {
  const auto noisy = std::ranges::count_if(rows, [&](const CanaryRow& row) { return is_shown_too_noisy(row, limits); });
  const auto timed = std::ranges::count_if(rows, [](const CanaryRow& row) {
    return !row.is_unclaimed && fault_of(row.a).empty() && fault_of(row.b).empty() && std::ssize(row.ratios) >= kFewest;
  });
  if (noisy == 0) return "";
  return noisy == timed ? fmt::format("; time was not judged: too noisy in each of {}", timed)
                        : fmt::format("; time too noisy to judge in {}", noisy);
}

std::string verdict_of(const CanaryRow& row, const CanaryLimits& limits) {
  if (row.is_unclaimed) return "not claimed by both";
  for (const auto& [name, side] : {std::pair{"B", &row.b}, {"A", &row.a}})
    if (const std::string fault = fault_of(*side); !fault.empty()) return fmt::format("wrong: {}: {}", name, fault);
  std::string words = row.difference.differing > 0 ? "bits differ" : "";
  if (all_above(row.ratios, 1 + limits.slower)) words += words.empty() ? "slower" : ", slower";
  if (all_below(row.ratios, 1 / (1 + limits.slower))) words += words.empty() ? "faster" : ", faster";
  if (is_shown_too_noisy(row, limits)) words += words.empty() ? "time too noisy to judge" : ", time too noisy to judge";
  if (words.empty()) words = "same";
  return !row.ratios.empty() && std::ssize(row.ratios) < kFewest
             ? fmt::format("{}, time not judged (under {} launches)", words, kFewest)
             : words;
}

bool is_bad(const CanaryRow& row, const CanaryLimits& limits) {
  if (row.is_unclaimed) return false;
  return !fault_of(row.b).empty() || all_above(row.ratios, 1 + limits.slower) ||
         (limits.same_bits && row.difference.differing > 0);
}

std::string table_of(const std::vector<CanaryRow>& rows, const CanaryLimits& limits) {
  constexpr const char* kLine = "{:<14} {:<5} {:>5} {:>9}  {:<29} {:>8} {:>7}  {:<23} {}\n";
  std::string text = fmt::format(fmt::runtime(kLine), "operation", "dtype", "ranks", "bytes", "bits", "error A",
                                 "error B", "time B / A", "verdict");
  for (const CanaryRow& row : rows) {
    const bool both = row.a.problem.empty() && row.b.problem.empty();
    const auto bytes = row.probe.elements * static_cast<std::int64_t>(size_of(row.probe.dtype));
    text += fmt::format(fmt::runtime(kLine), name_of(row.probe.operation), name_of(row.probe.dtype), row.probe.ranks,
                        bytes, both ? bits_text(row.difference) : "", error_text(row, row.a), error_text(row, row.b),
                        ratio_text(row.ratios), verdict_of(row, limits));
  }
  return text;
}

std::string orders_text(const std::vector<CanaryOrder>& orders) {
  std::string text;
  for (const CanaryOrder& one : orders)
    text += fmt::format("order of all_reduce, {} ranks, {} bytes: A {}; B {}\n", one.ranks, 4 * one.elements,
                        side_text(one.ranks, one.a, one.a_changes), side_text(one.ranks, one.b, one.b_changes));
  return text;
}

nlohmann::json to_json(const std::vector<CanaryRow>& rows, const std::vector<CanaryOrder>& orders,
                       const CanaryLimits& limits) {
  nlohmann::json out{{"slower", limits.slower}, {"same_bits", limits.same_bits}};
  out["rows"] = nlohmann::json::array();
  const auto side = [](const CanarySide& one) {
    return nlohmann::json{{"fault", fault_of(one)}, {"error", record::number_or_word(one.answer.error)}};
  };
  for (const CanaryRow& row : rows)
    out["rows"].push_back({{"operation", name_of(row.probe.operation)},
                           {"dtype", name_of(row.probe.dtype)},
                           {"ranks", row.probe.ranks},
                           {"elements", row.probe.elements},
                           {"seed", row.probe.seed},
                           {"a", side(row.a)},
                           {"b", side(row.b)},
                           {"differing", row.difference.differing},
                           {"largest_difference_ulp", row.difference.largest},
                           {"time_ratios", row.ratios},
                           {"verdict", verdict_of(row, limits)}});
  out["orders"] = nlohmann::json::array();
  for (const CanaryOrder& one : orders)
    out["orders"].push_back(
        {{"ranks", one.ranks},
         {"elements", one.elements},
         {"a", {{"name", bench::name_of_order(one.ranks, one.a)}, {"orders", one.a}, {"changes", one.a_changes}}},
         {"b", {{"name", bench::name_of_order(one.ranks, one.b)}, {"orders", one.b}, {"changes", one.b_changes}}}});
  return out;
}

}  // namespace plumbline::cli
