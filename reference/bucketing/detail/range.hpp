// reference/bucketing/detail/range.hpp: values that are too large to be reduced.
#pragma once

#include <cstdint>
#include <optional>

#include "reference/comm/call.hpp"

namespace plumbline::bucketing {

/// The first value whose magnitude is above `largest`, or that is NaN. Throws Unsupported for integers.
[[nodiscard]] std::optional<std::int64_t> first_outside(comm::ConstBuffer values, double largest);

}  // namespace plumbline::bucketing
