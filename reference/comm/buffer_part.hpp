// reference/comm/buffer_part.hpp: some elements of a buffer.
#pragma once

#include <cstddef>

#include "reference/comm/call.hpp"

namespace plumbline::comm {

/// The elements [begin, begin + count); of a buffer without memory one without memory.
[[nodiscard]] inline Buffer part_of(Buffer whole, std::int64_t begin, std::int64_t count) {
  if (whole.data != nullptr)
    whole.data = static_cast<std::byte*>(whole.data) + static_cast<std::size_t>(begin) * size_of(whole.dtype);
  whole.count = count;
  return whole;
}

}  // namespace plumbline::comm
