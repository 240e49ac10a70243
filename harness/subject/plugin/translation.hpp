// harness/subject/plugin/translation.hpp: Plumbline's values as the numbers of plumbline_backend.h.
#pragma once

#include "harness/subject/plumbline_backend.h"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::plugin {

[[nodiscard]] std::int32_t number_of(comm::DType dtype);
[[nodiscard]] std::int32_t number_of(comm::Operation operation);
[[nodiscard]] std::int32_t number_of(comm::ReduceOp op);

/// A validated call of `rank` in a group of `ranks`. Buffers that the rank does not use are null.
[[nodiscard]] plumbline_call translated(const comm::Call& call, int rank, int ranks);

[[nodiscard]] plumbline_uneven_call translated(const comm::UnevenCall& call);

/// Of a view of `count` elements; without gaps, rows of 1 at stride 1.
[[nodiscard]] plumbline_rows translated(comm::Rows rows, std::int64_t count);

/// The limit in nanoseconds, 0 or more; PLUMBLINE_NO_LIMIT for none.
[[nodiscard]] std::int64_t nanoseconds_of(comm::Timeout timeout);

/// What a plugin claims: its masks, and what its functions imply.
[[nodiscard]] comm::Capabilities capabilities_of(const plumbline_backend& backend);

}  // namespace plumbline::subject::plugin
