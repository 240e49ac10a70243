// conformance/pass/recorded_programs.hpp: programs that Paddle's pass was recorded on, as questions.
//
// Form    Ops and variables are told by their number in a list that all programs of a file share.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace plumbline::conformance {

/// Files of those that Paddle answers. One more, "refused", has those that it refuses.
[[nodiscard]] const std::vector<std::string>& files_of_answered();

/// A program of a record with its ops and variables. One that is told by another stage stays as it is.
[[nodiscard]] nlohmann::json expanded_program(nlohmann::json program, const nlohmann::json& record);

/// The arguments of bucketing.dp_pass for a case of a record.
[[nodiscard]] nlohmann::json question_of_recorded(const nlohmann::json& one, const nlohmann::json& record,
                                                  const char* convention);

/// A stage of a pipeline without the loss is divided by another stage's program.
[[nodiscard]] bool is_computed_elsewhere(const nlohmann::json& program);

/// Whether a program cannot even be looked at, in any convention: a ring that there is not, say.
[[nodiscard]] bool is_refused_by_all(const nlohmann::json& one);

}  // namespace plumbline::conformance
