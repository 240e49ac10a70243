#include "reference/bucketing/detail/torch_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <unordered_set>

namespace plumbline::bucketing {
namespace {

// c10::ScalarType, of numbers and of pairs of them.
std::uint64_t number_of_type(const Gradient& gradient) {
  constexpr std::array<std::uint64_t, 7> plain{5, 15, 6, 7, 3, 4, 0};  // f16 bf16 f32 f64 i32 i64 u8
  constexpr std::array<std::uint64_t, 7> pairs{8, 0, 9, 10};           // it has those of f16, f32 and f64
  return (gradient.components_per_element == 1 ? plain : pairs)[static_cast<std::size_t>(gradient.dtype)];
}

// A kind and an index, 255 without an index.
std::uint64_t number_of_device(comm::Device device) {
  constexpr std::uint64_t none = 255, cuda = 1;
  if (device.kind == comm::Device::Kind::cpu) return none;
  const auto index = static_cast<std::int64_t>(device.index);
  return index < 0 ? static_cast<std::uint64_t>(-index) << 16 | none : cuda << 16 | static_cast<std::uint64_t>(index);
}

std::uint64_t hash_of(const Gradient& gradient) {
  const std::uint64_t device = number_of_device(gradient.device);
  return device ^ (number_of_type(gradient) + 0x9e3779b9 + (device << 6) + (device >> 2));
}

}  // namespace

std::vector<int> torch_table_order(const std::vector<Gradient>& entered) {
  const auto hash_at = [&](int position) { return hash_of(entered[static_cast<std::size_t>(position)]); };
  std::unordered_set<int, decltype(hash_at)> table(0, hash_at);
  for (int position = 0; position < std::ssize(entered); ++position) table.insert(position);
  return {table.begin(), table.end()};
}

}  // namespace plumbline::bucketing
