#include <functional>

#include <fmt/format.h>

#include "reference/device/scaled_copies.hpp"

namespace plumbline::device {
namespace {

// Where threads would overwrite what others have not read.
bool overlaps_badly(comm::ConstBuffer from, comm::ConstBuffer to) {
  const auto* a = static_cast<const std::byte*>(from.data);
  const auto* b = static_cast<const std::byte*>(to.data);
  if (a == b && comm::size_of(from.dtype) == comm::size_of(to.dtype)) return false;
  return std::less<>()(a, b + to.bytes()) && std::less<>()(b, a + from.bytes());
}

}  // namespace

std::vector<ScaledCopyWork> scaled_copy_work(std::span<const ScaledCopy> copies, Scaling scaling, comm::Device device) {
  TensorTables<2> tables;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const auto& [from, to] = copies[i];
    require_together(fmt::format("copy {}", i), {from, to}, device);
    const bool plain = from.dtype == to.dtype && scaling.number == 1;
    if (!plain && !(comm::is_floating(from.dtype) && comm::is_floating(to.dtype)))
      throw Unsupported(
          fmt::format("copy {} of {} {} {} to {}: only floating elements are scaled and change their type", i,
                      comm::name_of(from.dtype), scaling.divides ? "divided by" : "times", scaling.number,
                      comm::name_of(to.dtype)));
    if (overlaps_badly(from, to))
      throw InvalidArgument(fmt::format("copy {} of {} {} to {} in memory that overlaps", i, from.count,
                                        comm::name_of(from.dtype), comm::name_of(to.dtype)));
    if (plain && from.data == to.data) continue;
    const auto types = static_cast<std::int32_t>(from.dtype) * 4 + static_cast<std::int32_t>(to.dtype);
    tables.add({.address = {const_cast<void*>(from.data), to.data},
                .count = plain ? static_cast<std::int64_t>(from.bytes()) : from.count,
                .types = plain ? ScaledCopyWork::kBytes : types});
  }
  std::vector<ScaledCopyWork> work;
  for (const auto& table : tables.all()) work.push_back({table, scaling.number, scaling.divides});
  return work;
}

}  // namespace plumbline::device
