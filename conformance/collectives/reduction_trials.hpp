// conformance/collectives/reduction_trials.hpp: the three reductions made alike, on data that a check chooses.
//
// Model   What a member gives is stated for an index of the whole: reduce_scatter has as many blocks of `count` elements as
//         members, the others have one. A member judges the part that it gets.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::conformance {

inline constexpr std::array kReductions{comm::Operation::all_reduce, comm::Operation::reduce,
                                        comm::Operation::reduce_scatter};

struct Reduction {
  comm::Operation operation = comm::Operation::all_reduce;
  comm::DType dtype = comm::DType::f32;
  comm::ReduceOp op = comm::ReduceOp::sum;
  std::int64_t count = 0;  // of elements that a member gets

  /// How many elements a member gives.
  [[nodiscard]] std::int64_t given(int ranks) const {
    return operation == comm::Operation::reduce_scatter ? count * ranks : count;
  }
};

/// What a member got: elements [first, first + count) of the result, or nothing beside the root, the last member.
struct Reduced {
  bool any = true;
  std::int64_t first = 0;
  std::vector<std::byte> out;
  std::string call;  // in words
};

/// Makes the call with `in`, which has given() elements.
[[nodiscard]] Reduced reduce(comm::Communicator& group, const Reduction& reduction, const std::vector<std::byte>& in);

}  // namespace plumbline::conformance
