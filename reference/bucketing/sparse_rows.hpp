// reference/bucketing/sparse_rows.hpp: gradients of which only some rows are there, added over ranks.
//
// Model   A gradient of rows of equally many numbers is a list of rows by index; others are zero. An index may come several
//         times: its rows are added. Ranks may have other indices, other numbers of rows, and none. Each rank adds up its own
//         rows of an index, in their order; then all gather everybody's, padded to as many as the longest list has, and add
//         them in rank order, divide once, and have each index once, in ascending order. So the sum is the dense gradients',
//         bit for bit where those are added in rank order, but for the sign of zero.
// Types   f32 and f64, in which they are added.
// Source  PyTorch: torch.nn.Embedding(sparse=True) under DistributedDataParallel, whose sums are coalesced likewise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::bucketing {

struct SparseRows {
  std::span<const std::int64_t> indices{};  // of the rows
  comm::ConstBuffer values{};               // [indices][numbers of a row]
};

/// What decides the sums, as functions that a wrong one replaces.
struct SparseSteps {
  /// The rows that a rank is taken to have sent, given how many it has and how many this one has.
  std::function<std::int64_t(std::int64_t senders, std::int64_t own)> rows_of = [](std::int64_t senders, std::int64_t) {
    return senders;
  };
  /// Whether a row is added to one of the same index and rank; else it takes its place.
  std::function<bool()> adds_duplicates = [] { return true; };
  /// To how many rows the lists are padded, given those of the longest.
  std::function<std::int64_t(std::int64_t most)> padded = [](std::int64_t most) { return most; };
  /// Whether a row is taken, given whether the gradient has one of its index.
  std::function<bool(bool is_there)> takes = [](bool is_there) { return is_there; };
  /// By what the sum is divided.
  std::function<double(double ranks)> divisor = [](double ranks) { return ranks; };
};

/// The sum of one gradient. Serves one step after the other.
class SparseSum {
 public:
  /// Of `elements` numbers. Throws Unsupported for other types than f32 and f64.
  SparseSum(std::int64_t elements, comm::DType dtype, SparseSteps steps = {});
  ~SparseSum();
  SparseSum(SparseSum&&) noexcept;
  SparseSum& operator=(SparseSum&&) noexcept;

  /// This rank's rows, which are copied; none unless it is called. Throws InvalidArgument for another type, numbers that are not
  /// equally many a row or do not divide the gradient's, and an index below 0 or beyond the last row.
  void take(const SparseRows& rows);
  /// Tells the ranks how many rows there are. Collective, with finish().
  [[nodiscard]] comm::Work start(comm::Communicator& group);
  /// Gathers them when that is complete, and adds: each rank's divided by `before`, the sum by `after`. Throws MismatchError,
  /// naming the ranks, where rows are not of equally many numbers.
  void finish(comm::Communicator& group, double before, double after, comm::Timeout timeout = {});
  /// The sum, until clear(); after take() and before finish(), this rank's rows, each index once.
  [[nodiscard]] SparseRows rows() const;
  /// No rank has any.
  void clear();

 private:
  class Impl;
  template <class T>
  class Of;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline::bucketing
