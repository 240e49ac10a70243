// reference/comm/local/shape.hpp: a collective as this backend sees it, computed once from the call: what the members
// must agree on, and the sizes that follow.
#pragma once

#include <cstddef>
#include <optional>

#include "reference/comm/call.hpp"

namespace plumbline::comm::local {

struct Shape {
  Operation operation = Operation::barrier;
  ReduceOp op = ReduceOp::sum;  // of reductions, else sum
  DType dtype = DType::f16;     // of a barrier f16
  int root = kNoRoot;           // of rooted operations, else kNoRoot
  int ranks = 1;
  std::size_t elements = 0;               // c
  bool on_device = false;                 // in memory of a device
  Operation uneven = Operation::barrier;  // of a step of a collective of blocks of different lengths: which
  std::optional<DType> scaled{};          // of the products of a sum with factors: the dtype of the caller's values

  static Shape of(const Call& call, int ranks) {
    return {.operation = call.operation,
            .op = is_reduction(call.operation) ? call.op : ReduceOp::sum,
            .dtype = call.operation == Operation::barrier ? DType::f16 : call.dtype(),
            .root = is_rooted(call.operation) ? call.root : kNoRoot,
            .ranks = ranks,
            .elements = static_cast<std::size_t>(call.elements(ranks)),
            .on_device = call.device().kind != Device::Kind::cpu};
  }

  [[nodiscard]] bool is_uneven() const { return uneven != Operation::barrier; }
  [[nodiscard]] std::size_t bytes() const { return elements * size_of(dtype); }

  /// The most bytes that any member gives: the same on all.
  [[nodiscard]] std::size_t given_bytes() const {
    const bool all_blocks =
        operation == Operation::reduce_scatter || operation == Operation::all_to_all || operation == Operation::scatter;
    return bytes() * (all_blocks ? static_cast<std::size_t>(ranks) : 1);
  }
  [[nodiscard]] bool gives(int rank) const {
    const bool root_gives = operation == Operation::broadcast || operation == Operation::scatter;
    return !root_gives || rank == root;
  }
};

}  // namespace plumbline::comm::local
