// harness/cli/canary_rows.hpp: what `plumbline canary` found, as values: a row for each call, and a verdict.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/bench/canary_probe.hpp"

namespace plumbline::cli {

/// One side's answers to one call, or why it has none.
struct CanarySide {
  std::string problem;  // "hang: …"; empty: it answered
  bench::CanaryAnswer answer;
};

struct CanaryRow {
  bench::CanaryProbe probe;
  bool is_unclaimed = false;  // a side does not claim the dtype, or both reject the call: nothing is compared
  CanarySide a, b;
  bench::CanaryDifference difference;  // where both answered
  /// The time of B as a multiple of A's, of each pair of launches; empty: it was not measured.
  std::vector<double> ratios;
};

/// The order of all_reduce's additions at one size.
struct CanaryOrder {
  int ranks = 0;
  std::int64_t elements = 0;
  std::vector<std::string> a, b;              // distinct orders, in the order of the vector's parts; empty: no answer
  bool a_changes = false, b_changes = false;  // from one call to the next
};

struct CanaryLimits {
  double slower = 0.05;    // a share of A's time
  bool same_bits = false;  // different bits fail
};

/// Whether the times of B as multiples of A's show neither a difference nor that there is none: B is not slower, or
/// faster, in every pair of launches, and one multiple is more than twice another.
[[nodiscard]] bool is_time_too_noisy(const std::vector<double>& ratios, const CanaryLimits& limits);
/// "not claimed by both"; "same"; "bits differ"; "slower" or "faster", where every pair of launches says so by more
/// than the limit; "time too noisy to judge"; "wrong: A" or "wrong: B" with what no order of additions explains.
[[nodiscard]] std::string verdict_of(const CanaryRow& row, const CanaryLimits& limits);
/// Whether the verdict says so of the row: not of one with a fault, or that is not compared.
[[nodiscard]] bool is_shown_too_noisy(const CanaryRow& row, const CanaryLimits& limits);
/// "" where no row is too noisy; "; time too noisy to judge in 2"; "; time was not judged: too noisy in each of 4"
/// where all whose time was to be judged are.
[[nodiscard]] std::string noise_text(const std::vector<CanaryRow>& rows, const CanaryLimits& limits);
/// Whether the verdict is a reason not to upgrade from A to B: a fault of A alone is not.
[[nodiscard]] bool is_bad(const CanaryRow& row, const CanaryLimits& limits);

/// The table, a line a row, with its head.
[[nodiscard]] std::string table_of(const std::vector<CanaryRow>& rows, const CanaryLimits& limits);
/// A line for each size: the name of the order on both sides, and the orders where they are few.
[[nodiscard]] std::string orders_text(const std::vector<CanaryOrder>& orders);
[[nodiscard]] nlohmann::json to_json(const std::vector<CanaryRow>& rows, const std::vector<CanaryOrder>& orders,
                                     const CanaryLimits& limits);

}  // namespace plumbline::cli
