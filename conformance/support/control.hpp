// conformance/support/control.hpp: a question that must have an answer, asked beside one that must be refused.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "harness/suite/check.hpp"

namespace plumbline::conformance {

/// "" when the question that controls.json has for the operation and convention of a question is answered as it says
/// there: who refuses everything, or answers everything with the same, refuses nothing on purpose. Of several it is the
/// one with which the question shares the most arguments, so that both are about the same graph or schedule.
[[nodiscard]] std::string problem_of_control(suite::Adapter& adapter, const std::string& op,
                                             const nlohmann::json& args);

}  // namespace plumbline::conformance
