// reference/bucketing/device_memory.hpp: buckets in a device's memory.
#pragma once

#include <memory>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/device/place.hpp"

namespace plumbline::bucketing {

/// The memory of the place, all in the order of its stream: that in which the groups' calls are made. What it gives out is
/// waited for before it is given back. Of the host: host_memory().
[[nodiscard]] std::shared_ptr<BucketMemory> memory_of(const device::Place& place);

}  // namespace plumbline::bucketing
