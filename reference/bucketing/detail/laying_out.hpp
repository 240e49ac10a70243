// reference/bucketing/detail/laying_out.hpp: from buckets that gradients were assigned to, to a plan: members one after
// the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/plan_json.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {

/// What tells buckets apart, as one number: type, device and group.
[[nodiscard]] constexpr std::uint64_t key_of(const Gradient& gradient) {
  return static_cast<std::uint64_t>(gradient.dtype) << 1 |
         static_cast<std::uint64_t>(gradient.components_per_element - 1) |
         static_cast<std::uint64_t>(gradient.device.kind) << 8 |
         static_cast<std::uint64_t>(static_cast<std::uint16_t>(gradient.device.index)) << 16 |
         static_cast<std::uint64_t>(gradient.group) << 32;
}

/// "f32", or "2 x f32": of any type, also one that there is not.
[[nodiscard]] std::string type_words(comm::DType dtype, std::int8_t components_per_element);

/// A bucket of no members yet, of the gradient's type, device and group.
[[nodiscard]] inline Bucket bucket_for(const Gradient& gradient) {
  return {.elements = 0,
          .limit_bytes = 0,
          .first_member = 0,
          .members = 0,
          .dtype = gradient.dtype,
          .components_per_element = gradient.components_per_element,
          .sparse = gradient.sparse,
          .device = gradient.device,
          .group = gradient.group};
}

/// Throws InvalidArgument unless `order` has each of `gradients` indices once.
void require_order(std::span<const int> order, std::size_t gradients, std::string_view name = "the order");

/// The plan of buckets that know how many members they have. `bucket_of` says of each position of the order (empty: of
/// each gradient) which bucket, by its place in `buckets`.
[[nodiscard]] Plan lay_out(std::span<const Gradient> gradients, std::span<const int> order,
                           std::span<const int> bucket_of, std::vector<Bucket> buckets);

}  // namespace plumbline::bucketing
