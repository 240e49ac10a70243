#include "reference/bucketing/detail/range.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

template <class T, class ToFloat>
std::optional<std::int64_t> first_outside_of(comm::ConstBuffer values, double largest, const ToFloat& to_float) {
  const auto* const all = static_cast<const T*>(values.data);
  const auto* const end = all + values.count;
  const auto* const outside =
      std::find_if_not(all, end, [&](T one) { return std::abs(static_cast<double>(to_float(one))) <= largest; });
  return outside == end ? std::nullopt : std::optional<std::int64_t>(outside - all);
}

}  // namespace

std::optional<std::int64_t> first_outside(comm::ConstBuffer values, double largest) {
  const auto itself = [](auto value) { return value; };
  const auto widened = [](auto value) { return comm::to_float(value); };
  switch (values.dtype) {
    case comm::DType::f16:
      return first_outside_of<comm::Float16>(values, largest, widened);
    case comm::DType::bf16:
      return first_outside_of<comm::BFloat16>(values, largest, widened);
    case comm::DType::f32:
      return first_outside_of<float>(values, largest, itself);
    case comm::DType::f64:
      return first_outside_of<double>(values, largest, itself);
    default:
      throw Unsupported(
          fmt::format("numbers of {} are all finite: only floating ones are looked at", comm::name_of(values.dtype)));
  }
}

}  // namespace plumbline::bucketing
