#include "harness/suite/check.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "harness/suite/rank_ended.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::suite {

std::string_view name_of(Door door) {
  switch (door) {
    case Door::backend:
      return "backend";
    case Door::adapter:
      return "adapter";
    case Door::job:
      return "job";
  }
  return "";
}

const DeviceSeat& Context::device_seat() { throw StateError("only a check on a device has one"); }

void Context::end_rank() { throw RankEnded{}; }

Job& Context::job() { throw StateError("only a check of the job door has a job"); }

bool Parameters::has(std::string_view name) const {
  return std::ranges::any_of(values_, [&](const auto& entry) { return entry.first == name; });
}

const std::string& Parameters::text(std::string_view name) const {
  for (const auto& [key, value] : values_)
    if (key == name) return value;
  throw NotFound(fmt::format("the case has no parameter '{}'", name));
}

std::int64_t Parameters::number(std::string_view name) const {
  const std::string& value = text(name);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size())
    throw InvalidArgument(fmt::format("parameter '{}' is '{}', not a number", name, value));
  return number;
}

comm::DType Parameters::dtype() const { return comm::parse_dtype(text("dtype")).value(); }
comm::ReduceOp Parameters::op() const { return comm::parse_reduce_op(text("op")).value(); }

std::string Parameters::suffix() const {
  std::string list;
  for (const auto& [name, value] : values_) list += fmt::format("{}{}={}", list.empty() ? "" : ",", name, value);
  return list.empty() ? list : "[" + list + "]";
}

Axis dtypes() {
  Axis axis{"dtype", {}};
  for (const comm::DType dtype : comm::kAllDTypes) axis.values.emplace_back(name_of(dtype));
  return axis;
}

Axis half_dtypes() { return {"dtype", {"f16", "bf16"}}; }

Axis floating_dtypes() { return {"dtype", {"f16", "bf16", "f32", "f64"}}; }

Axis ops() {
  Axis axis{"op", {}};
  for (const comm::ReduceOp op : comm::kAllReduceOps) axis.values.emplace_back(name_of(op));
  return axis;
}

Axis worlds(std::vector<int> sizes) {
  Axis axis{"world", {}};
  for (const int size : sizes) axis.values.push_back(std::to_string(size));
  return axis;
}

Axis fewer_worlds() { return worlds({1, 2, 3, 4, 5, 6, 8}); }

std::vector<std::string> Case::operations() const {
  std::vector<std::string> asked = check->operations;
  if (check->asks) std::erase_if(asked, [&](const std::string& each) { return !check->asks(parameters, each); });
  return asked;
}

std::vector<Case> cases_of(const Check& check) {
  std::size_t total = 1;
  for (const Axis& axis : check.axes) total *= axis.values.size();
  std::vector<Case> cases;
  for (std::size_t position = 0; position < total; ++position) {
    Case one{.check = &check};
    std::size_t rest = position;
    std::size_t stride = total;
    for (const Axis& axis : check.axes) {
      stride /= axis.values.size();
      one.parameters.set(axis.name, axis.values[rest / stride]);
      rest %= stride;
    }
    if (!check.applies || check.applies(one.parameters)) cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace plumbline::suite
