#include "conformance/collectives/reduction_trials.hpp"

#include <fmt/format.h>

#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::Operation;

Reduced reduce(comm::Communicator& group, const Reduction& reduction, std::vector<std::byte> in,
               std::vector<std::byte> expected, std::optional<double> factor) {
  const GuardedInput given(reduction.dtype, std::move(in));
  Reduced reduced{expected.empty() ? GuardedOutput(reduction.dtype, reduction.count)
                                   : GuardedOutput(reduction.dtype, std::move(expected)),
                  {}};
  comm::Call call{.operation = reduction.operation, .op = reduction.op, .in = given.view(), .out = reduced.out.view()};
  if (reduction.operation == Operation::reduce) call.root = group.size() - 1;
  if (factor)
    group.run_scaled(call, *factor);
  else
    group.run(call);
  reduced.call = describe(call, group.size()) + (factor ? fmt::format(" with factor {}", *factor) : "");
  const std::string touched = reduced.out.touched();
  if (!reduction.reaches(group.rank(), group.size()) && !touched.empty()) report(reduced.call + ": " + touched);
  return reduced;
}

}  // namespace plumbline::conformance
