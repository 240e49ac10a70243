// harness/cli/scaler_views.hpp: what `plumbline scaler` shows, worked out once and written in any form.
#pragma once

#include <string>
#include <vector>

#include "conformance/scaler/oracles/dialects.hpp"
#include "conformance/scaler/oracles/injection.hpp"

namespace plumbline::cli {

/// Rules side by side.
struct DialectView {
  std::string settings;  // in words
  std::vector<bool> found_inf;
  std::vector<scaler::DialectRun> runs;
  std::vector<scaler::Divergence> partings;
};
[[nodiscard]] std::string dialects_text(const DialectView& view);
[[nodiscard]] std::string dialects_json(const DialectView& view);
/// A line a step: the scale of each.
[[nodiscard]] std::string dialects_csv(const DialectView& view);
/// A curve each, over a logarithmic axis.
[[nodiscard]] std::string dialects_svg(const DialectView& view);

/// Who skipped, for each place, moment and decision.
struct InjectionView {
  scaler::InjectionWorld world;
  std::vector<scaler::InjectionOutcome> outcomes;
};
[[nodiscard]] std::string injections_text(const InjectionView& view);
[[nodiscard]] std::string injections_json(const InjectionView& view);
[[nodiscard]] std::string injections_csv(const InjectionView& view);
/// A cell for each place and value, a row for each moment and decision.
[[nodiscard]] std::string injections_svg(const InjectionView& view);

}  // namespace plumbline::cli
