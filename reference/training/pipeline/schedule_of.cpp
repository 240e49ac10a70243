#include "reference/training/pipeline/schedule_of.hpp"

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {

schedules::Schedule schedule_named(const std::string& name, const schedules::Shape& shape) {
  return schedules::without_idle(schedules::generate(schedules::schedule_kind_of(name), shape));
}

schedules::Schedule schedule_of(const job::RunSpec& spec, int micro_batches) {
  try {
    return schedule_named(
        spec.run.schedule,
        {.ranks = spec.parallel.pipeline, .micro_batches = micro_batches, .stages_per_rank = spec.run.chunks});
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("run.schedule = '{}' with parallel.pipeline = {}, run.micro_batches = {}: {}",
                                      spec.run.schedule, spec.parallel.pipeline, micro_batches, error.what()));
  }
}

}  // namespace plumbline::training
