#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/adapter/operations.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/ring_sum.hpp"

namespace plumbline::adapter {
using comm::BFloat16;
using comm::Float16;
using nlohmann::json;

namespace {

enum class Operation { all_reduce, reduce };
using Rows = std::vector<std::vector<double>>;

// What comm.ring_sum is asked, checked.
struct RingSum {
  Convention convention;
  Rows inputs;  // of the group's ranks, in its order
};

std::vector<int> read_group(const Arguments& arguments, int world_size) {
  auto group = arguments.find<std::vector<int>>("group");
  if (!group) {
    group.emplace(static_cast<std::size_t>(world_size));
    std::ranges::generate(*group, [rank = 0]() mutable { return rank++; });
  }
  if (group->empty()) arguments.refuse("group is empty; it must have at least one rank, or be null for all");
  std::vector<bool> seen(static_cast<std::size_t>(world_size));
  for (const int rank : *group) {
    if (rank < 0 || rank >= world_size)
      throw OutOfRange(fmt::format("comm.ring_sum: group has rank {}, world_size is {}", rank, world_size));
    if (seen[static_cast<std::size_t>(rank)]) arguments.refuse(fmt::format("group has rank {} twice", rank));
    seen[static_cast<std::size_t>(rank)] = true;
  }
  return *std::move(group);
}

void check_destination(const Arguments& arguments, Operation op, const std::vector<int>& group) {
  const auto dst = arguments.find<int>("dst");
  if (op == Operation::all_reduce && dst)
    arguments.refuse(fmt::format("dst must be null for op all_reduce, got {}", *dst));
  if (op == Operation::reduce && !dst) arguments.refuse("dst is missing; op reduce needs the rank that gets the sum");
  if (dst && std::ranges::find(group, *dst) == group.end())
    throw OutOfRange(
        fmt::format("comm.ring_sum: dst must be a rank of the group [{}], got {}", fmt::join(group, ", "), *dst));
}

Rows read_inputs(const Arguments& arguments, int world_size, std::int64_t elements) {
  auto inputs = arguments.get<Rows>("inputs");
  if (inputs.size() != static_cast<std::size_t>(world_size))
    arguments.refuse(
        fmt::format("inputs must have a list for each of the {} ranks, got {}", world_size, inputs.size()));
  for (std::size_t rank = 0; rank < inputs.size(); ++rank)
    if (inputs[rank].size() != static_cast<std::size_t>(elements))
      arguments.refuse(fmt::format("inputs[{}] must have {} elements, got {}", rank, elements, inputs[rank].size()));
  return inputs;
}

RingSum read_request(const Arguments& arguments) {
  RingSum request{.convention = arguments.convention()};
  const auto world_size = static_cast<int>(arguments.integer_in("world_size", 1, 1 << 20));
  const auto elements = arguments.integer_in("elements", 0, std::numeric_limits<std::int64_t>::max());
  const auto op =
      arguments.choice<Operation>("op", {{"all_reduce", Operation::all_reduce}, {"reduce", Operation::reduce}});
  const auto group = read_group(arguments, world_size);
  check_destination(arguments, op, group);
  Rows inputs = read_inputs(arguments, world_size, elements);
  for (const int rank : group) request.inputs.push_back(std::move(inputs[static_cast<std::size_t>(rank)]));
  return request;
}

// The float beside `value` from which a shorter format rounds as it would from `value`: inexact ones are made
// odd.
float to_float_once(double value) {
  const auto nearest = static_cast<float>(value);
  if (nearest == value || std::isnan(value) || (std::bit_cast<std::uint32_t>(nearest) & 1u) != 0) return nearest;
  return std::nextafter(nearest, static_cast<double>(nearest) < value ? HUGE_VALF : -HUGE_VALF);
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, Float16>)
    return comm::to_float16(to_float_once(value));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return comm::to_bfloat16(to_float_once(value));
  else
    return static_cast<T>(value);
}

double to_double(Float16 value) { return comm::to_float(value); }
double to_double(BFloat16 value) { return comm::to_float(value); }
double to_double(double value) { return value; }

template <class T>
std::vector<T> convert(const std::vector<double>& row) {
  std::vector<T> elements;
  elements.reserve(row.size());
  for (const double value : row) {
    elements.push_back(from_double<T>(value));
    if (std::isfinite(value) && !std::isfinite(to_double(elements.back())))
      throw OutOfRange(
          fmt::format("comm.ring_sum: inputs has {}, too large for the dtype; write \"inf\" for infinity", value));
  }
  return elements;
}

template <class T>
json sum(const RingSum& request) {
  std::vector<std::vector<T>> columns;
  for (const auto& row : request.inputs) columns.push_back(convert<T>(row));
  const std::vector<std::span<const T>> views(columns.begin(), columns.end());
  const auto output =
      request.convention == Convention::gloo ? comm::ring_sum<T>(views) : comm::rank_order_sum<T>(views);
  json::array_t numbers;
  numbers.reserve(output.size());
  for (const T value : output) numbers.emplace_back(to_double(value));
  json result;
  result["output"] = std::move(numbers);
  return result;
}

json ring_sum(const Arguments& arguments) {
  using Sum = json (*)(const RingSum&);
  const auto sum_as = arguments.choice<Sum>(
      "dtype",
      {{"float16", sum<Float16>}, {"bfloat16", sum<BFloat16>}, {"float32", sum<float>}, {"float64", sum<double>}});
  const RingSum request = read_request(arguments);
  arguments.expect_no_others();
  return sum_as(request);
}

}  // namespace

void add_comm_operations(AdapterService& service) {
  service.add(
      {"comm.ring_sum",
       "sums lists in the order of additions of the convention, bit for bit",
       {"plumbline", "gloo"},
       {{"world_size", "integer", "number of ranks, 1 to 2^20"},
        {"elements", "integer", "elements of each rank's input"},
        {"dtype", "text", "element type", kRequired, {"float16", "bfloat16", "float32", "float64"}},
        {"op", "text", "all_reduce or reduce"},
        {"dst", "integer", "of reduce: the rank that receives the sum; null of all_reduce", kOptional},
        {"group", "list of integer", "ranks that take part, in group order; null: all", kOptional},
        {"inputs", "list of list of number [world_size][elements]", "input of each rank of the world"}},
       {{"output", "list of number [elements]", "the sum"}},
       R"({"world_size": 3, "elements": 2, "dtype": "float32", "op": "all_reduce", "inputs": [[1, 2], [3, 4], [5, 6]]})",
       {{"invalid_argument",
         "inputs does not have world_size lists of elements numbers, group is empty or repeats a rank, or dst "
         "does not suit op"},
        {"out_of_range", "a rank of group or dst does not exist, or an input is too large for dtype"}}},
      ring_sum);
}

}  // namespace plumbline::adapter
