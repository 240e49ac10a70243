#include "conformance/collectives/reduction_trials.hpp"

namespace plumbline::conformance {

using comm::Operation;

Reduced reduce(comm::Communicator& group, const Reduction& reduction, const std::vector<std::byte>& in) {
  const int last = group.size() - 1;
  Reduced reduced;
  reduced.out.resize(static_cast<std::size_t>(reduction.count) * size_of(reduction.dtype));
  comm::Call call{.operation = reduction.operation,
                  .op = reduction.op,
                  .in = {in.data(), reduction.given(group.size()), reduction.dtype},
                  .out = {reduced.out.data(), reduction.count, reduction.dtype}};
  if (reduction.operation == Operation::reduce) call.root = last;
  group.run(call);
  reduced.any = reduction.operation != Operation::reduce || group.rank() == last;
  if (reduction.operation == Operation::reduce_scatter) reduced.first = group.rank() * reduction.count;
  reduced.call = describe(call, group.size());
  return reduced;
}

}  // namespace plumbline::conformance
