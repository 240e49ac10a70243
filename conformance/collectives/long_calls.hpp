// conformance/collectives/long_calls.hpp: an operation at one length after the other in the same buffers, some of them
// long.
//
// Model   As of an Exercise, but for what costs time where calls are long: the buffers are made once, what a rank gives
//         at an index is the same at all lengths, and data repeat after a prime number of elements, so that they come
//         at the speed of copies, and whatever is moved to the wrong place still shows. What must come is compared in
//         pieces.
#pragma once

#include <string>
#include <vector>

#include "conformance/collectives/data.hpp"
#include "conformance/collectives/guarded_buffer.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::conformance {

class LongCalls {
 public:
  /// Calls of up to `longest` elements, c of call.hpp.
  LongCalls(comm::Communicator& group, comm::Operation operation, comm::DType dtype, std::int64_t longest,
            std::uint64_t seed);
  /// Makes the call, and says what is wrong in a line; "" when nothing.
  [[nodiscard]] std::string problem_at(std::int64_t elements, int root);

 private:
  /// Elements [first, first + n) of what `from` gives or, of reductions, of what comes; kNobody: nothing comes.
  void fill(int from, std::int64_t first, std::span<std::byte> to) const;
  [[nodiscard]] std::string difference(std::span<const std::byte> got, int from, std::int64_t first) const;
  [[nodiscard]] std::string wrong_block(std::int64_t elements, int root);

  comm::Communicator& group_;
  comm::Operation operation_;
  comm::DType dtype_;
  ExactNumbers numbers_;
  std::vector<std::vector<std::byte>> periods_;  // of each rank, of operations that copy
  GuardedBuffer in_, out_;
};

}  // namespace plumbline::conformance
