// harness/run/tries.hpp: which cases run once more, how often, and what several tries of one come to.
//
// Model   What crashed or hung runs once more, alone: whether what ran before it is to blame shows then. What its owner
//         expects to be a flake runs until it passes. Tries of one case come to one result, whose verdict is theirs
//         together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/record/result.hpp"

namespace plumbline::run {

/// So often an expected flake is tried until it passes.
inline constexpr int kMostTries = 3;
/// Of more cases than this only the first run again: what fails so often needs no second opinion.
inline constexpr std::size_t kMostRunAgain = 50;
/// Of cases that hung, each of which takes its whole time limit once more.
inline constexpr std::size_t kMostHangsRunAgain = 5;

/// Whether the processes went, or would not come to an end: crash or hang.
[[nodiscard]] bool died(record::Verdict verdict);

/// How the tries of a result ended: a result that ran once has one.
[[nodiscard]] std::vector<record::Verdict> tries_of(const record::Result& result);

/// Whether the case is owed another try by a run with these options: an expected flake that failed until now, and a
/// first crash or hang that is bad (is_bad).
[[nodiscard]] bool wants_another_try(const record::Result& result, const record::Header& header);

/// Of tries that ended in the same way: that. `flake` when some passed and some failed. When all failed in different
/// ways the worst, for it never passed. `missing` without any.
[[nodiscard]] record::Verdict verdict_of(std::span<const record::Verdict> tries);

/// The result after another try: verdict_of() all of them. A verdict comes with its own reason and evidence; a flake
/// with those of the try that failed.
[[nodiscard]] record::Result after_another_try(const record::Result& before, record::Result latest);

/// Which of the results that are owed another try get one, in their order.
struct SecondTries {
  std::vector<const record::Result*> again;
  std::vector<const record::Result*> given_up;
  std::vector<std::string> notes;  // why some are given up
};
[[nodiscard]] SecondTries choose_second_tries(const std::vector<const record::Result*>& owed);

}  // namespace plumbline::run
