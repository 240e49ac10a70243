// harness/metrics/metrics.hpp: a record as Prometheus metrics, for a text file that node_exporter or a push reads.
#pragma once

#include <string>

#include "harness/record/result.hpp"

namespace plumbline::metrics {

/// The text exposition format, with names by Prometheus' conventions: cases by verdict, component, execution mode and
/// world; requirements; measurements with algbw and busbw; training steps; when the run began, how long it took, and
/// whether it is complete. Every series has the labels that keep runs apart: the subject's name, the command, the
/// profile, and where they are known backend, device, mutant, filter, world and shard, and the run's own (--label).
/// Empty where this was built without prometheus-cpp.
[[nodiscard]] std::string to_prometheus(const record::Run& run);

}  // namespace plumbline::metrics
