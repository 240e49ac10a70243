// conformance/scaler/oracles/dialects.hpp: one sequence of overflows through the rules of several systems, side by
// side.
//
// Model   A dialect is a name and a scale that follows its system's rule. All are given the same steps; what a step did
//         to each is told, and where two of them do something else they part. A constant scale never parts from
//         anybody.
// Steps   Are counted from 1. A rule that gives up takes no further step.
// Sources As loss_scale.hpp says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/scaler/loss_scale.hpp"

namespace plumbline::scaler {

struct Dialect {
  std::string name;  // "torch", "colossalai-constant", "colossalai", "megatron", "deepspeed", "deepspeed-consecutive"
  LossScale scale;
};

/// What every dialect is given, where its rule has such a thing.
struct DialectSettings {
  double scale = 65536;
  std::int64_t growth_interval = 1000;
  std::int64_t hysteresis = 2;
  double min_scale = 1;
  std::optional<double> max_scale{};
  bool raise_at_minimum = true;
};
/// All of them with the same settings: they part by their rules alone. Throws InvalidArgument for settings that make no
/// sense.
[[nodiscard]] std::vector<Dialect> dialects(const DialectSettings& settings);
/// All of them as their systems set them.
[[nodiscard]] std::vector<Dialect> dialects_as_published();

/// What a step did.
enum class Transition {
  counts,      // a clean step, and nothing else
  grows,       // multiplies by the growth factor
  stays,       // an interval is over, and a bound stops the growth
  refills,     // gets chances back without growing
  spends,      // an overflow that costs a chance
  backs_off,   // multiplies by the backoff factor
  holds,       // an overflow at the lowest scale
  gives_up,    // an overflow at the lowest scale, which ends the run
  is_constant  // nothing ever happens
};
/// "counts", "grows", "stays at its bound", "gets its chances back", "spends a chance", "backs off", "holds its
/// minimum", "gives up", "is constant".
[[nodiscard]] std::string_view name_of(Transition deed);

/// One step of a scale, which is changed by it. What gives up stays as it was.
Transition take(LossScale& scale, bool found_inf);

/// A dialect's run: after each step the scale and what the step did. Shorter than the steps where it gave up.
struct DialectRun {
  std::string name;
  double first_scale = 0;
  std::vector<double> scales;
  std::vector<Transition> deeds;
};
[[nodiscard]] DialectRun run_through(Dialect dialect, const std::vector<bool>& found_inf);

/// A step in which dialects that are not constant and have not given up before do not do the same.
struct Divergence {
  std::int64_t step = 0;  // from 1 on
  bool found_inf = false;
  std::int64_t clean_steps = 0;  // in a row, this one included
};
[[nodiscard]] std::vector<Divergence> partings(const std::vector<DialectRun>& runs, const std::vector<bool>& found_inf);

}  // namespace plumbline::scaler
