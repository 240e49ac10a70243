#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/kernels.hpp"

namespace plumbline::bucketing {

void copy_divided(comm::ConstBuffer from, comm::Buffer to, double divisor) {
  if (from.count != to.count)
    throw InvalidArgument(fmt::format("a copy of {} elements to {} elements", from.count, to.count));
  if (from.dtype == to.dtype && divisor == 1) {
    if (from.data != to.data)
      std::copy_n(static_cast<const std::byte*>(from.data), from.bytes(), static_cast<std::byte*>(to.data));
    return;
  }
  const auto convert = comm::local::kernels().conversion(from.dtype, to.dtype);
  if (convert == nullptr)
    throw Unsupported(
        fmt::format("{} elements divided by {} to {}: only floating ones are divided and change their type",
                    comm::name_of(from.dtype), divisor, comm::name_of(to.dtype)));
  convert(static_cast<std::byte*>(to.data), static_cast<const std::byte*>(from.data),
          static_cast<std::size_t>(from.count), divisor);
}

void fill_zeros(comm::Buffer buffer) {
  std::fill_n(static_cast<std::byte*>(buffer.data), buffer.bytes(), std::byte{0});
}

}  // namespace plumbline::bucketing
