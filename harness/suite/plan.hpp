// harness/suite/plan.hpp: which cases a run consists of. Pure: from a suite and a selection to a list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/suite/execution_mode.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::suite {

/// One of several runs that together make a whole one.
struct Shard {
  int index = 1;  // from 1
  int count = 1;
  /// "2/3". Throws InvalidArgument for another text, or an index that is not from 1 to count.
  [[nodiscard]] static Shard parse(const std::string& text);
  [[nodiscard]] std::string name() const;
};

struct Selection {
  Door door = Door::backend;
  std::string profile = "collectives";
  /// Any of these must match, where there are any: a case, check or requirement id, component:X, operation:X, tag:X or
  /// source:X;
  /// * and ? stand for any text and any character. A check whose requirements are all tagged "huge" is in no profile's
  ///   plan: it
  /// runs only where a filter is tag:huge, or names the check or its requirement in full.
  std::vector<std::string> filters;
  std::vector<int> worlds;  // only these, where there are any
  int largest_world = 0;    // 0: no limit
  std::uint64_t seed = 1;
  int repeat = 1;
  std::vector<std::uint64_t> seeds;      // the plan once with each, where there are any, instead of `seed` and `repeat`
  std::optional<std::uint64_t> shuffle;  // a seed
  /// Every case runs in each of these; in none: each in its own, plain, and beside it the others where it may deadlock.
  std::vector<ExecutionMode> modes;
  bool every_arm = false;  // each case in all of them, with its seed, whether or not it may deadlock
  Shard shard = {};
};

struct PlannedCase {
  const Case* one = nullptr;
  std::uint64_t seed = 0;
  int repetition = 0;
  ExecutionMode mode = {};
  bool canary = false;  // the first of its component, which every shard runs: what they say must agree
};

/// Whether `pattern` with * and ? matches all of `text`.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text);
/// The same without regard to upper and lower case, as ids are asked for: no two differ in that alone.
[[nodiscard]] bool matches_id(std::string_view pattern, std::string_view id);

/// Whether a pattern with * and ? names the case: its own id, its check's, or that of a requirement that it verifies;
/// or, as "COLL-031/PATTERN", both such a requirement and its own or its check's id.
[[nodiscard]] bool names_case(std::string_view pattern, std::string_view check, std::string_view case_id,
                              const std::vector<std::string>& requirements);

/// The selected cases: by component, world size and number, or shuffled within each component and world size; of a
/// shard its part. Throws NotFound when the profile is unknown, or when a filter or the whole selection matches
/// nothing.
[[nodiscard]] std::vector<PlannedCase> make_plan(const Suite& suite, const Selection& selection);

/// Sixteen hexadecimal digits that change when anything of the plan does.
[[nodiscard]] std::string plan_hash(std::string_view subject, std::string_view version,
                                    const std::vector<PlannedCase>& plan);

}  // namespace plumbline::suite
