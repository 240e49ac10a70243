// conformance/pipeline/pipeline_cases.hpp: what the cases of component "pipeline" ask for, and the checks in their two
// files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "harness/suite/suite.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::conformance {

inline constexpr int kJudge = 0;  // the rank that prepares and judges

/// "PIPE-001" of "PIPE-001@a426".
[[nodiscard]] std::string id_of(std::string_view citation);
[[nodiscard]] std::filesystem::path folder_of(suite::Context& context, const char* name);

[[nodiscard]] int number_or(const suite::Parameters& parameters, const char* name, int otherwise);
[[nodiscard]] std::string text_or(const suite::Parameters& parameters, const char* name, const char* otherwise);
/// The data ranks and the pipeline ranks of a case.
[[nodiscard]] int data_of(const suite::Parameters& parameters);
[[nodiscard]] int pipeline_of(const suite::Parameters& parameters);
/// Axis "micro_batches": "1", "p-1", "p", "p+1", or twice the pipeline's ranks.
[[nodiscard]] int micro_batches_of(const suite::Parameters& parameters);
/// Axis "chunks", or what the schedule must have, at least two where it can have several.
[[nodiscard]] int chunks_of(const suite::Parameters& parameters);

/// The run that a case's axes describe: by plain SGD unless they say otherwise, so that a wrong scale of the gradient
/// shows in the values.
[[nodiscard]] training::DigitsRun settings_of(suite::Context& context);
/// Writes it.
job::RunSpec written(suite::Context& context, const training::DigitsRun& settings, const std::filesystem::path& folder);
/// Writes it on one rank and reads it on all.
[[nodiscard]] job::RunSpec prepared(suite::Context& context, const training::DigitsRun& settings);

[[nodiscard]] suite::Axis schedules_axis(std::vector<std::string> names);

/// Batches that no specification has, lists of tensors, and parameters that are shared by themselves.
void add_session_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
