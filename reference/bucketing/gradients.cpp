#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "reference/bucketing/plan_json.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

using comm::DType;
constexpr std::array<std::pair<std::string_view, ElementType>, 3> kComplex{
    {{"c32", {DType::f16, 2}}, {"c64", {DType::f32, 2}}, {"c128", {DType::f64, 2}}}};

// PyTorch's names beside ours.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kFrameworkNames{{{"float16", "f16"},
                                                                                         {"bfloat16", "bf16"},
                                                                                         {"float32", "f32"},
                                                                                         {"float64", "f64"},
                                                                                         {"int32", "i32"},
                                                                                         {"int64", "i64"},
                                                                                         {"uint8", "u8"},
                                                                                         {"complex32", "c32"},
                                                                                         {"complex64", "c64"},
                                                                                         {"complex128", "c128"}}};

void require_gradient(const Gradient& gradient, std::size_t index) {
  if (gradient.elements < 0)
    throw InvalidArgument(
        fmt::format("gradient {} has {} elements; it cannot have fewer than 0", index, gradient.elements));
  if (gradient.components_per_element != 1 && gradient.components_per_element != 2)
    throw InvalidArgument(fmt::format("gradient {} has elements of {} numbers; they are of one, or of two", index,
                                      int{gradient.components_per_element}));
  if (gradient.group < 0)
    throw InvalidArgument(fmt::format("gradient {} is of group {}; groups count from 0", index, gradient.group));
}

}  // namespace

std::int64_t bytes_of(std::int64_t elements, DType dtype, int components_per_element) {
  const auto each = static_cast<std::int64_t>(comm::size_of(dtype)) * components_per_element;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, each, &bytes))
    throw OutOfRange(fmt::format("{} elements of {} bytes are more bytes than 64 bits hold", elements, each));
  return bytes;
}

void require_gradients(std::span<const Gradient> gradients) {
  std::int64_t sum = 0;
  for (std::size_t index = 0; index < gradients.size(); ++index) {
    require_gradient(gradients[index], index);
    const std::int64_t bytes = bytes_of(gradients[index]);
    if (bytes > kMostBytes - sum)
      throw OutOfRange(fmt::format("the elements of the first {} gradients are more bytes than 64 bits hold: {} + {}",
                                   index + 1, sum, bytes));
    sum += bytes;
  }
}

bool mix(const Gradient& a, const Gradient& b) {
  return a.dtype == b.dtype && a.components_per_element == b.components_per_element && a.device == b.device &&
         a.group == b.group;
}

std::string_view name_of(ElementType type) {
  if (type.components_per_element == 1) return comm::name_of(type.dtype);
  for (const auto& [name, complex] : kComplex)
    if (complex == type) return name;
  throw InvalidArgument(
      fmt::format("there is no type of {} {}", int{type.components_per_element}, comm::name_of(type.dtype)));
}

std::optional<ElementType> parse_element_type(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (const auto& [alias, ours] : kFrameworkNames)
    if (name == alias) name = ours;
  for (const auto& [known, complex] : kComplex)
    if (name == known) return complex;
  for (const comm::DType dtype : comm::kAllDTypes)  // no gradient is of another
    if (name == comm::name_of(dtype)) return ElementType{dtype, 1};
  return std::nullopt;
}

std::optional<comm::Device> parse_device(std::string_view name) {
  const auto device = comm::parse_device(name);
  if (device && device->kind == comm::Device::Kind::emulated) return std::nullopt;  // no rule knows it
  return device;
}

}  // namespace plumbline::bucketing
