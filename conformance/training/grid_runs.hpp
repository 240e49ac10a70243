// conformance/training/grid_runs.hpp: short runs over grids of ranks, chosen by a case's parameters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "harness/suite/suite.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::conformance {

struct GridRun {
  std::string_view model;  // of training::kDigitsModels
  int tensor, pipeline, data, micro_batches, accumulation;
  int expert = 1;          // expert ranks, of the data ranks
  std::int64_t rows = 12;  // of a batch, for each data rank
};

/// The run whose world, grid ("2x1x3": tensor x pipeline x data), micro_batches and accumulation a case has, and whose
/// model, where the case has layers, and expert ranks, where it has expert_ranks; null where there is none.
[[nodiscard]] const GridRun* planned_run(std::span<const GridRun> runs, const suite::Parameters& parameters);

/// Writes three steps of the run that the context's case plans into a folder. Throws as training::write_digits_run().
[[nodiscard]] job::RunSpec write_planned_run(std::span<const GridRun> runs, suite::Context& context, std::uint64_t seed,
                                             const std::filesystem::path& folder);

}  // namespace plumbline::conformance
