// reference/bucketing/gradients.hpp: the list of gradients that a plan is made of: their sizes, and the names of their types.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

/// Bytes of so many elements of a gradient's type. Throws OutOfRange where 64 bits do not hold them.
[[nodiscard]] std::int64_t bytes_of(std::int64_t elements, comm::DType dtype, int numbers);
[[nodiscard]] inline std::int64_t bytes_of(const Gradient& gradient) {
  return bytes_of(gradient.elements, gradient.dtype, gradient.numbers);
}

/// Throws InvalidArgument, naming the gradient by its index, for fewer than no elements, elements of other than one or two
/// numbers, or a group below 0; OutOfRange where the bytes of one, or of all together, are more than 64 bits hold, or where there are
/// more gradients than an int counts.
void require_gradients(std::span<const Gradient> gradients);

/// Whether two gradients may lie in one bucket: of one type, device and group. Sparse ones lie alone.
[[nodiscard]] bool mix(const Gradient& a, const Gradient& b);

/// What an element is: a number type, or a complex one of two numbers.
struct ElementType {
  comm::DType dtype = comm::DType::f32;
  std::int8_t numbers = 1;
  friend bool operator==(const ElementType&, const ElementType&) = default;
};

/// "f32", …; "c32", "c64" and "c128" for two f16, f32 and f64. Throws InvalidArgument for two of another type.
[[nodiscard]] std::string_view name_of(ElementType type);
[[nodiscard]] std::optional<ElementType> parse_element_type(std::string_view name);

/// The device of "cpu", "cuda", "cuda:1", or nothing.
[[nodiscard]] std::optional<comm::Device> parse_device(std::string_view name);

}  // namespace plumbline::bucketing
