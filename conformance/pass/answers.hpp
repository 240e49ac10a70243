// conformance/pass/answers.hpp: what the pass answers, as the checks look at it.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/suite/check.hpp"

namespace plumbline::conformance {

inline const char* const kPass = "bucketing.dp_pass";
inline const char* const kRaces = "bucketing.race_check";

/// The program of a stage, or the final one, that is told by an earlier one that is equal.
[[nodiscard]] nlohmann::json program_at(const nlohmann::json& args, const nlohmann::json& result,
                                        const std::string& stage);

[[nodiscard]] bool is_reduction(const nlohmann::json& op);
[[nodiscard]] bool is_scale(const nlohmann::json& op);
/// "" when the program after the pass has each op of the one before it that neither reduces, scales nor waits: one that
/// is empty has no race, and computes nothing wrong.
[[nodiscard]] std::string problem_of_lost_ops(const nlohmann::json& before, const nlohmann::json& after);
/// Whether the slot has just these names.
[[nodiscard]] bool has_names(const nlohmann::json& slots, const std::string& slot, const nlohmann::json& names);

/// A refusal with what only this operation tells.
struct PassRefusal {
  std::string kind, message, stage, exception;
};
/// Nothing where it is answered.
[[nodiscard]] std::optional<PassRefusal> refusal_of(suite::Adapter& adapter, const nlohmann::json& args);

}  // namespace plumbline::conformance
