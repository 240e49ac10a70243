// conformance/support/claimed_type.hpp: cases that move elements of a type which their parameters do not name as dtype.
#pragma once

#include <algorithm>

#include <fmt/format.h>

#include "harness/suite/check.hpp"
#include "harness/suite/skipped.hpp"

namespace plumbline::conformance {

/// Throws Skipped where the subject does not claim the type; to be called by all ranks of a case.
inline void require_claimed(suite::Context& context, comm::DType dtype) {
  const auto& claimed = context.world().capabilities().dtypes;
  if (std::ranges::find(claimed, dtype) == claimed.end())
    throw suite::Skipped{fmt::format("the subject claims no dtype {}", comm::name_of(dtype))};
}

}  // namespace plumbline::conformance
