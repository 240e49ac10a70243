// conformance/collectives/reduction_trials.hpp: the three reductions made alike, on data that a check chooses.
//
// Model   What a member gives is stated for an index of the whole: reduce_scatter has as many blocks of `count`
//         elements as members, the others have one. A member judges the part that it gets.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "conformance/collectives/guarded.hpp"
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
  /// Whether that member gets something: of a reduce, the root alone, which is the last member.
  [[nodiscard]] bool reaches(int rank, int ranks) const {
    return operation != comm::Operation::reduce || rank == ranks - 1;
  }
  /// The first element of the result that it gets.
  [[nodiscard]] std::int64_t first(int rank) const {
    return operation == comm::Operation::reduce_scatter ? rank * count : 0;
  }
};

/// What a member got: nothing where the reduction does not reach it, which is reported if something came.
struct Reduced {
  GuardedOutput out;
  std::string call;  // in words
};

/// Makes the call with `in`, which has given() elements. `expected` is what this member must get, where that is known;
/// otherwise the right result is finite. With a factor it is a sum that is made by run_scaled().
[[nodiscard]] Reduced reduce(comm::Communicator& group, const Reduction& reduction, std::vector<std::byte> in,
                             std::vector<std::byte> expected = {}, std::optional<double> factor = {});

}  // namespace plumbline::conformance
