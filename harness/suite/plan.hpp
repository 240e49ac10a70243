// harness/suite/plan.hpp: which cases a run consists of. Pure: from a suite and a selection to a list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/suite/suite.hpp"

namespace plumbline::suite {

struct Selection {
  Door door = Door::backend;
  std::string profile = "collectives";
  /// Any of these must match, where there are any: a case or check id, a requirement id, component:X, tag:X or source:X;
  /// * and ? stand for any text and any character.
  std::vector<std::string> filters;
  std::vector<int> worlds;  // only these, where there are any
  int largest_world = 0;    // 0: no limit
  std::uint64_t seed = 1;
  int repeat = 1;
  std::optional<std::uint64_t> shuffle;  // a seed
};

struct PlannedCase {
  const Case* one = nullptr;
  std::uint64_t seed = 0;
  int repetition = 0;
};

/// Whether `pattern` with * and ? matches all of `text`.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text);

/// The selected cases: by component, world size and number, or shuffled within each component and world size. Throws
/// NotFound when the profile is unknown, or when a filter or the whole selection matches nothing.
[[nodiscard]] std::vector<PlannedCase> make_plan(const Suite& suite, const Selection& selection);

/// Sixteen hexadecimal digits that change when anything of the plan does.
[[nodiscard]] std::string plan_hash(std::string_view subject, std::string_view version,
                                    const std::vector<PlannedCase>& plan);

}  // namespace plumbline::suite
