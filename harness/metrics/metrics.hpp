// harness/metrics/metrics.hpp: a record as Prometheus metrics, for a text file that node_exporter or a push reads.
#pragma once

#include <string>

#include "harness/record/result.hpp"

namespace plumbline::metrics {

/// The text exposition format. Cases by verdict and component, requirements, durations, measurements with algbw and busbw,
/// training steps, and whether the run is complete. Empty where this was built without prometheus-cpp.
[[nodiscard]] std::string to_prometheus(const record::Run& run);

}  // namespace plumbline::metrics
