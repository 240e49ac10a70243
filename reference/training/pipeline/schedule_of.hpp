// reference/training/pipeline/schedule_of.hpp: the schedule of a run specification. Free of LibTorch.
#pragma once

#include <string>

#include "reference/record/run_spec.hpp"
#include "reference/schedules/generate.hpp"

namespace plumbline::training {

/// The computations that run.schedule names, for `micro_batches` micro-batches. Throws InvalidArgument, naming the
/// fields, for a shape that the schedule does not have.
[[nodiscard]] schedules::Schedule schedule_of(const job::RunSpec& spec, int micro_batches);

/// The computations of a schedule by any of its names. Throws NotFound for another name, InvalidArgument for
/// a shape that the schedule does not have.
[[nodiscard]] schedules::Schedule schedule_named(const std::string& name, const schedules::Shape& shape);

}  // namespace plumbline::training
