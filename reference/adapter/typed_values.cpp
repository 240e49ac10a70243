#include <bit>
#include <cmath>
#include <cstring>

#include "reference/adapter/arguments.hpp"
#include "reference/comm/dtype.hpp"

namespace plumbline::adapter {

using comm::DType;

namespace {

// The float beside `value` from which a shorter format rounds as it would from `value`: inexact ones are made odd.
float to_float_once(double value) {
  const auto nearest = static_cast<float>(value);
  if (nearest == value || std::isnan(value) || (std::bit_cast<std::uint32_t>(nearest) & 1u) != 0) return nearest;
  return std::nextafter(nearest, static_cast<double>(nearest) < value ? HUGE_VALF : -HUGE_VALF);
}

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

TypedValues::TypedValues(DType dtype, const std::vector<double>& values)
    : dtype_(dtype), bytes_(values.size() * comm::size_of(dtype)) {
  for (std::size_t i = 0; i < values.size(); ++i) set(i, values[i]);
}

comm::Buffer TypedValues::buffer() { return {bytes_.data(), static_cast<std::int64_t>(size()), dtype_}; }

double TypedValues::at(std::size_t index) const {
  const std::byte* from = bytes_.data() + index * comm::size_of(dtype_);
  switch (dtype_) {
    case DType::f16:
      return static_cast<double>(comm::to_float(get<comm::Float16>(from)));
    case DType::bf16:
      return static_cast<double>(comm::to_float(get<comm::BFloat16>(from)));
    case DType::f32:
      return static_cast<double>(get<float>(from));
    case DType::u8:
      return get<std::uint8_t>(from);
    case DType::i32:
      return get<std::int32_t>(from);
    case DType::i64:
      return static_cast<double>(get<std::int64_t>(from));
    default:
      return get<double>(from);
  }
}

void TypedValues::set(std::size_t index, double value) {
  std::byte* to = bytes_.data() + index * comm::size_of(dtype_);
  switch (dtype_) {
    case DType::f16:
      return put(to, comm::to_float16(to_float_once(value)));
    case DType::bf16:
      return put(to, comm::to_bfloat16(to_float_once(value)));
    case DType::f32:
      return put(to, static_cast<float>(value));
    case DType::u8:
      return put(to, static_cast<std::uint8_t>(value));
    case DType::i32:
      return put(to, static_cast<std::int32_t>(value));
    case DType::i64:
      return put(to, static_cast<std::int64_t>(value));
    default:
      return put(to, value);
  }
}

std::vector<double> TypedValues::values() const {
  std::vector<double> values(size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = at(i);
  return values;
}

std::vector<comm::Buffer> buffers_of(std::vector<TypedValues>& lists) {
  std::vector<comm::Buffer> buffers;
  for (TypedValues& list : lists) buffers.push_back(list.buffer());
  return buffers;
}

nlohmann::json lists_of(const std::vector<TypedValues>& lists) {
  nlohmann::json all = nlohmann::json::array();
  for (const TypedValues& list : lists) all.push_back(list.values());
  return all;
}

DType floating_dtype(const Arguments& arguments, DType otherwise) {
  return arguments.choice<DType>(
      "dtype", {{"float16", DType::f16}, {"bfloat16", DType::bf16}, {"float32", DType::f32}, {"float64", DType::f64}},
      otherwise);
}

}  // namespace plumbline::adapter
