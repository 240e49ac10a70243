#include "reference/training/pipeline/schedule_of.hpp"

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {
namespace {

// Job specifications have names of their own for two of them.
schedules::Family family_named(const std::string& name) {
  if (name == "interleaved-1f1b") return schedules::Family::interleaved;
  if (name == "interleaved-zb") return schedules::Family::interleaved_zero_bubble;
  return schedules::family_of(name);
}

}  // namespace

schedules::Schedule schedule_named(const std::string& name, const schedules::Shape& shape) {
  return schedules::without_idle(schedules::generate(family_named(name), shape));
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
