#include "conformance/training/grid_runs.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

const GridRun* planned_run(std::span<const GridRun> runs, const suite::Parameters& parameters) {
  const auto found = std::ranges::find_if(runs, [&](const GridRun& run) {
    return parameters.world() == run.tensor * run.pipeline * run.data &&
           parameters.text("grid") == fmt::format("{}x{}x{}", run.tensor, run.pipeline, run.data) &&
           parameters.number("micro_batches") == run.micro_batches &&
           parameters.number("accumulation") == run.accumulation &&
           (!parameters.has("layers") || parameters.text("layers") == run.model) &&
           (!parameters.has("expert_ranks") || parameters.number("expert_ranks") == run.expert);
  });
  return found == runs.end() ? nullptr : &*found;
}

job::RunSpec write_planned_run(std::span<const GridRun> runs, suite::Context& context, std::uint64_t seed,
                               const std::filesystem::path& folder) {
  const GridRun& run = *planned_run(runs, context.parameters());
  return training::write_digits_run({.model = std::string(run.model),
                                     .data = run.data,
                                     .steps = 3,
                                     .global_batch = run.rows * run.data,
                                     .micro_batches = run.micro_batches,
                                     .accumulation = run.accumulation,
                                     .seed = seed & INT64_MAX,  // a specification's seed has 63 bits
                                     .device = context.device(),
                                     .pipeline = run.pipeline,
                                     .tensor = run.tensor,
                                     .expert = run.expert},
                                    training::digits(), folder);
}

}  // namespace plumbline::conformance
