// harness/expectations/facts.hpp: what conditions can ask about, and where it comes from.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/expectations/condition.hpp"
#include "harness/record/result.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::expectations {

/// Every name that a condition may use: those of the run and the case, and the parameters of any case of the suite.
[[nodiscard]] std::set<std::string> names_of(const suite::Suite& suite);

/// os, kernel, cpu, cores, gpus, compiler, of record::capture_environment().
[[nodiscard]] Facts facts_of_environment(const nlohmann::json& environment);

/// What a subject says of itself when it is ready ({"capabilities", …}): name and version. An adapter and a job, which
/// have no backend, go by `facts`' word for them: their command.
[[nodiscard]] suite::Identity identity_of(const nlohmann::json& description, const Facts& facts);

/// Those of a run that was read back: its header's, its environment's, and what the subject said.
[[nodiscard]] Facts facts_of(const record::Run& run);

/// The run's, and those of a case: its parameters, world_size, check, component, arm and seed.
[[nodiscard]] Facts facts_of(const Facts& run, const record::Result& one);

/// A result of the case before it has one: ids, requirements and parameters.
[[nodiscard]] record::Result blank_result(const suite::Suite& suite, const suite::Case& one);

}  // namespace plumbline::expectations
