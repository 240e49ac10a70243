// harness/run/case_rules.hpp: what is decided of a case before it runs, and what its requirements' levels make of its
// verdict.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/run/ranks.hpp"
#include "harness/suite/plan.hpp"

namespace plumbline::run {

/// What is known without a run: a skip, or the failure of a subject that does not claim what the profile demands.
/// Nothing: the case is run. `description` is what the subject said of itself when it was ready (suite::lacking), with
/// "one_host".
[[nodiscard]] std::optional<Word> word_without_run(const suite::Suite& suite, const suite::Profile& profile,
                                                   const suite::PlannedCase& planned, const nlohmann::json& description,
                                                   const std::string& device, std::uint64_t available_memory);

/// A failure or refusal of a case that verifies only what should be is a warning; a crash or a hang never is.
[[nodiscard]] record::Verdict verdict_at_level(record::Verdict verdict,
                                               std::span<const suite::Requirement* const> requirements);

/// What ended a rank of a training run from outside, or denied the program itself memory, shows nothing about the
/// subject: an error, with what would help. Memory that the subject asked for in vain (SubjectOutOfMemory) is the
/// subject's affair.
[[nodiscard]] Word excused_by_machine(Word word, std::span<const record::RankResult> ranks);

}  // namespace plumbline::run
