#include "reference/bucketing/reducer_steps.hpp"

#include <numeric>

#include "reference/bucketing/agreement.hpp"
#include "reference/bucketing/scaled_copy.hpp"

namespace plumbline::bucketing {

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
    : lack(fill_zeros),
      start([](comm::Communicator& group, comm::Buffer values, comm::ReduceOp op) {
        return group.start(comm::Call{.operation = comm::Operation::all_reduce, .op = op, .in = values, .out = values});
      }),
      agree([](comm::Communicator& group, const Plan& plan, std::span<const Gradient> gradients,
               std::span<const std::string> names,
               comm::Timeout timeout) { verify_agreement(group, plan, gradients, names, {}, timeout); }) {}

}  // namespace plumbline::bucketing
