#include <cmath>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "reference/bucketing/detail/agreement.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

template <class T, class ToFloat>
std::optional<std::int64_t> first_outside_of(comm::ConstBuffer values, double largest, const ToFloat& to_float) {
  const auto* const all = static_cast<const T*>(values.data);
  for (std::int64_t i = 0; i < values.count; ++i)
    if (!(std::abs(static_cast<double>(to_float(all[i]))) <= largest)) return i;
  return std::nullopt;
}

}  // namespace

comm::Buffer equal_part(comm::Buffer whole, int part, int parts) {
  whole.count /= parts;
  whole.data = static_cast<std::byte*>(whole.data) + static_cast<std::size_t>(part) * whole.bytes();
  return whole;
}

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

Divisors divisors_of(const Scaling& scaling) {
  if (!scaling.average || scaling.is_integer) return {.op = comm::ReduceOp::sum};
  if (scaling.split)
    return {.op = comm::ReduceOp::sum,
            .before = static_cast<double>(scaling.split->before),
            .after = static_cast<double>(scaling.split->after)};
  if (scaling.present > 0) return {.op = comm::ReduceOp::sum, .after = static_cast<double>(scaling.present)};
  return {.op = comm::ReduceOp::avg};
}

std::int64_t place_of(const Plan& plan, const Bucket& bucket, int member) {
  return plan.members_of(bucket)[static_cast<std::size_t>(member)].begin;
}

std::vector<int> order_of(const Plan& plan, const comm::Communicator&) {
  std::vector<int> order(plan.buckets.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void take_order_of_rank_0(comm::Communicator& group, std::span<std::int64_t> order, comm::Timeout timeout) {
  group.broadcast({order.data(), static_cast<std::int64_t>(order.size()), comm::DType::i64}, 0, timeout);
}

ReducerSteps::ReducerSteps()
    : mark_unused([](BucketMemory& memory, comm::Buffer place) { memory.fill_zeros(place); }),
      start_sharded([](comm::Communicator& group, comm::Buffer values, comm::ReduceOp op) {
        return group.start(comm::Call{.operation = comm::Operation::reduce_scatter,
                                      .op = op,
                                      .in = values,
                                      .out = equal_part(values, group.rank(), group.size())});
      }),
      outside(first_outside),
      start([](comm::Communicator& group, comm::Buffer values, comm::ReduceOp op) {
        return group.start(comm::Call{.operation = comm::Operation::all_reduce, .op = op, .in = values, .out = values});
      }),
      agree([](comm::Communicator& group, const Plan& plan, std::span<const Gradient> gradients,
               std::span<const std::string> names,
               comm::Timeout timeout) { verify_agreement(group, plan, gradients, names, {}, timeout); }) {}

}  // namespace plumbline::bucketing
