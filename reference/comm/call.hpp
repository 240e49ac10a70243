// reference/comm/call.hpp: one communication call as a plain value: print it, compare it, record it, replay it.
//
// Model   n ranks. Shapes in elements, c being the count that all ranks agree on (`elements()`):
//           all_reduce      in [c]    out [c]      reduce        in [c]    out [c] at root
//           reduce_scatter  in [n*c]  out [c]      broadcast     out [c], sent from root's out
//           all_gather      in [c]    out [n*c]    gather        in [c]    out [n*c] at root
//           all_to_all      in [n*c]  out [n*c]    scatter       in [n*c] at root   out [c]
//           barrier         nothing                send, recv    in [c], out [c]; root is the peer
//         In place: `out` starts where `in` starts (all_reduce, reduce, all_to_all), or the rank's own block of the
//         larger buffer is the smaller one (all_gather, reduce_scatter; gather and scatter at the root). Any other
//         overlap of in and out is an error.
// Source  The shapes are NCCL's and torch.distributed's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "reference/comm/dtype.hpp"

namespace plumbline::comm {

struct Device {
  /// `emulated` stands for a device on machines without one: its memory is apart from the host's, which it lies in, and
  /// its streams are threads (reference/device).
  enum class Kind : std::uint8_t { cpu, cuda, emulated };
  Kind kind = Kind::cpu;
  std::int16_t index = 0;
  friend constexpr bool operator==(Device, Device) = default;
};

/// "cpu", "cuda", "emulated".
[[nodiscard]] std::string_view name_of(Device::Kind kind);
/// "cpu", "cuda:1", "emulated:0".
[[nodiscard]] std::string name_of(Device device);
/// The device of such a name; without a number, the first of its kind. Nothing for another text.
[[nodiscard]] std::optional<Device> parse_device(std::string_view name);

/// A view of `count` elements that a call reads. Owns nothing; must stay valid until the call is complete.
struct ConstBuffer {
  const void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::f32;
  Device device{};

  constexpr ConstBuffer() = default;
  constexpr ConstBuffer(const void* data, std::int64_t count, DType dtype, Device device = {})
      : data(data), count(count), dtype(dtype), device(device) {}
  /// Of the host's memory: a span, or a vector or array that outlives the buffer.
  template <class Range>
    requires std::is_lvalue_reference_v<Range&&> || std::ranges::borrowed_range<Range>
  [[nodiscard]] static constexpr ConstBuffer of(Range&& elements) {
    const std::span span(elements);
    return {span.data(), std::ssize(span), kDTypeOf<typename decltype(span)::value_type>};
  }
  [[nodiscard]] constexpr std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(dtype); }
};

/// A view of `count` elements that a call writes.
struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::f32;
  Device device{};

  constexpr Buffer() = default;
  constexpr Buffer(void* data, std::int64_t count, DType dtype, Device device = {})
      : data(data), count(count), dtype(dtype), device(device) {}
  /// Of the host's memory: a span, or a vector or array that outlives the buffer.
  template <class Range>
    requires std::is_lvalue_reference_v<Range&&> || std::ranges::borrowed_range<Range>
  [[nodiscard]] static constexpr Buffer of(Range&& elements) {
    const std::span span(elements);
    return {span.data(), std::ssize(span), kDTypeOf<typename decltype(span)::value_type>};
  }
  [[nodiscard]] constexpr std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(dtype); }
  constexpr operator ConstBuffer() const { return {data, count, dtype, device}; }  // NOLINT: a view of a view
};

enum class Operation : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  reduce_scatter,
  all_gather,
  all_to_all,
  gather,
  scatter,
  barrier,
  send,
  recv,
};
inline constexpr int kOperationCount = 11;

/// "all_reduce", "reduce", …
[[nodiscard]] std::string_view name_of(Operation operation);

[[nodiscard]] constexpr bool is_point_to_point(Operation operation) { return operation >= Operation::send; }
[[nodiscard]] constexpr bool is_reduction(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce || operation == Operation::reduce_scatter;
}
/// Whether the call has a root: reduce, broadcast, gather, scatter.
[[nodiscard]] constexpr bool is_rooted(Operation operation) {
  return operation == Operation::reduce || operation == Operation::broadcast || operation == Operation::gather ||
         operation == Operation::scatter;
}

inline constexpr int kNoRoot = -1;

struct Call {
  Operation operation = Operation::barrier;
  ReduceOp op = ReduceOp::sum;  // of reductions
  int root = kNoRoot;           // rank in the group: the root of a rooted operation, the peer of a send or receive
  int tag = 0;                  // of sends and receives, 0 or more
  ConstBuffer in{};
  Buffer out{};

  /// The type that all members agree on; of a barrier, anything.
  [[nodiscard]] constexpr DType dtype() const {
    const bool by_out =
        operation == Operation::broadcast || operation == Operation::scatter || operation == Operation::recv;
    return by_out ? out.dtype : in.dtype;
  }
  /// Where the memory is that all members use; of a barrier, the host.
  [[nodiscard]] constexpr Device device() const {
    if (operation == Operation::barrier) return {};
    const bool by_out =
        operation == Operation::broadcast || operation == Operation::scatter || operation == Operation::recv;
    return by_out ? out.device : in.device;
  }
  /// Whether `rank`, which makes the call, gives `in`, and whether it gets `out`. The root of a broadcast gives its
  /// out.
  [[nodiscard]] constexpr bool uses_in(int rank) const {
    return operation != Operation::barrier && operation != Operation::broadcast && operation != Operation::recv &&
           (operation != Operation::scatter || rank == root);
  }
  [[nodiscard]] constexpr bool uses_out(int rank) const {
    const bool only_root = operation == Operation::reduce || operation == Operation::gather;
    return operation != Operation::barrier && operation != Operation::send && (!only_root || rank == root);
  }
  /// The count c that all members agree on (see the table above), in elements; `ranks` is the size of the group.
  [[nodiscard]] constexpr std::int64_t elements(int ranks) const {
    switch (operation) {
      case Operation::broadcast:
      case Operation::reduce_scatter:
      case Operation::scatter:
      case Operation::recv:
        return out.count;
      case Operation::all_to_all:
        return in.count / ranks;
      case Operation::barrier:
        return 0;
      default:
        return in.count;
    }
  }
  /// Bytes of c elements.
  [[nodiscard]] constexpr std::size_t bytes(int ranks) const {
    return static_cast<std::size_t>(elements(ranks)) * size_of(dtype());
  }
};

/// "all_reduce(f32 x 5, sum)", "broadcast(u8 x 3, root 2)", "send(f32 x 4 to 1, tag 7)".
[[nodiscard]] std::string describe(const Call& call, int ranks);

/// Throws InvalidArgument unless `call` can be made by `rank` of a group of `ranks`: counts and shapes, null pointers
/// with a count, root and peer in range, tag not negative, equal dtypes and devices, no overlap but the in-place form.
/// Throws Unsupported for an average of integers. The message names operation and values.
void validate(const Call& call, int rank, int ranks);

// ---- Collectives whose blocks differ in length.

/// An all_gather, reduce_scatter or all_to_all of blocks of any lengths, 0 included, that lie one after another in the
/// order of the ranks. Shapes in elements, of rank r:
///   all_gather      in [c_r]              out [sum of c]           out_counts is c, the same on all ranks
///   reduce_scatter  in [sum of c]         out [c_r]                in_counts is c, the same on all ranks
///   all_to_all      in [sum of in_counts] out [sum of out_counts]  in_counts[p] of r is out_counts[r] of p
/// In place: the rank's own block of the larger buffer is the smaller one; an all_to_all has no such form.
/// Source: MPI-3.1 sections 5.7.1 (MPI_Allgatherv), 5.8 (MPI_Alltoallv), 5.10.2 (MPI_Reduce_scatter).
struct UnevenCall {
  Operation operation = Operation::all_gather;
  ReduceOp op = ReduceOp::sum;  // of a reduce_scatter
  ConstBuffer in{};
  Buffer out{};
  // A count for each rank. The caller's, like the buffers; empty where the operation has none.
  std::span<const std::int64_t> in_counts{};
  std::span<const std::int64_t> out_counts{};
};

/// "all_gather_v(f32 x [3 0 5])", "reduce_scatter_v(f32 x [3 0 5], sum)", "all_to_all_v(f32 x [1 0] to, [1 2] from)".
[[nodiscard]] std::string describe(const UnevenCall& call);

/// Throws as for a Call: counts for each rank, none negative, whose sum a buffer has; null pointers with a count, equal
/// dtypes and devices, no overlap but the in-place form, an operation that has blocks, no average of integers.
void validate(const UnevenCall& call, int rank, int ranks);

/// Where the block of `rank` begins, in elements.
[[nodiscard]] std::int64_t begin_of_block(std::span<const std::int64_t> counts, int rank);

// ---- Sums whose inputs are multiplied by a factor.

/// Such a sum as a plain one of products, for backends that have no other. Each member multiplies its own input; the
/// result is rounded to the dtype: products and sum of f16 and bf16 are f32, of f32 and f64 they are their own. Costs a
/// copy of the input, and of f16 and bf16 one of the result; NCCL, whose kernels multiply as they read
/// (ncclRedOpCreatePreMulSum), needs neither. Holds what the plain sum reads and writes: it stays until that is over.
class ScaledSum {
 public:
  /// Multiplies the input of `rank`: `call` is a sum of f16, bf16, f32 or f64 in the host's memory.
  ScaledSum(const Call& call, double factor, int rank);
  ScaledSum(const ScaledSum&) = delete;
  ScaledSum& operator=(const ScaledSum&) = delete;

  /// The sum to be made in its place.
  [[nodiscard]] const Call& plain() const { return plain_; }
  /// After that: rounds its result into the caller's.
  void finish() const;

 private:
  Call call_;
  Call plain_;
  bool is_rounded_ = false;  // the result, which this rank gets, is of another type
  std::vector<double> wide_;
  std::vector<float> products_;
  std::vector<float> sums_;
};

// ---- Calls on rows with gaps between them.

/// Where the elements of a buffer lie: rows of `columns`, whose first elements are `stride` elements apart. Element i
/// is at i / columns * stride + i % columns. Both 0: the elements lie one after another.
/// Source: MPI-3.1 section 4.1.2 (MPI_Type_vector); a slice x[:, :k] of a matrix.
struct Rows {
  std::int64_t columns = 0;
  std::int64_t stride = 0;
};

/// A call whose buffers have such rows. Counts, shapes and blocks are those of the call on packed copies of them:
/// `count` is that of a view's elements, a multiple of its columns. What lies between the rows is no part of the call.
/// In place: each element of the result lies where that element of the input does.
struct StridedCall {
  Call call{};
  Rows in{};
  Rows out{};
};

/// "all_reduce(f32 x 6, sum), in rows of 2 at stride 5, out rows of 3 at stride 4".
[[nodiscard]] std::string describe(const StridedCall& call, int ranks);

/// Throws as for a Call; InvalidArgument also for a barrier, for a negative column count, a stride that is smaller than
/// the columns, a count that is no multiple of them, and for views that share an element but in place.
void validate(const StridedCall& call, int rank, int ranks);

/// The address of element `index` of a view.
[[nodiscard]] inline const std::byte* address_of(const ConstBuffer& view, Rows rows, std::int64_t index) {
  const std::int64_t at = rows.columns == 0 ? index : index / rows.columns * rows.stride + index % rows.columns;
  return static_cast<const std::byte*>(view.data) + at * static_cast<std::int64_t>(size_of(view.dtype));
}
/// Whether `count` elements of a view lie one after another.
[[nodiscard]] constexpr bool is_contiguous(Rows rows, std::int64_t count) {
  return rows.columns == rows.stride || count <= rows.columns;
}

/// Such a call as one on packed copies, for backends that have no other. Costs a copy of each view with gaps, in the
/// host's memory. Holds what the plain call reads and writes: it stays until that is over.
class PackedCall {
 public:
  /// Packs what `rank` gives.
  PackedCall(const StridedCall& call, int rank);
  PackedCall(const PackedCall&) = delete;
  PackedCall& operator=(const PackedCall&) = delete;

  /// The call to be made in its place.
  [[nodiscard]] const Call& plain() const { return plain_; }
  /// After that: puts the result into the caller's rows.
  void finish() const;

 private:
  StridedCall call_;
  Call plain_;
  bool is_unpacked_ = false;  // the result, which this rank gets
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
};

// ---- Some elements of a buffer.

/// The elements [begin, begin + count); of a buffer without memory one without memory.
[[nodiscard]] inline Buffer part_of(Buffer whole, std::int64_t begin, std::int64_t count) {
  if (whole.data != nullptr)
    whole.data = static_cast<std::byte*>(whole.data) + static_cast<std::size_t>(begin) * size_of(whole.dtype);
  whole.count = count;
  return whole;
}

// ---- Which device each rank has, as a user says it.

/// "cpu"; "cuda" and "emulated", device `rank` modulo their number for each rank; "cuda:1", "emulated:0", that one
/// for all.
struct DeviceChoice {
  Device::Kind kind = Device::Kind::cpu;
  int index = -1;  // -1: a rank's

  /// Throws InvalidArgument for another text.
  [[nodiscard]] static DeviceChoice parse(const std::string& name);
  /// The device of `rank`, of `count` devices. Does not check that a numbered one exists.
  [[nodiscard]] Device of_rank(int rank, int count) const;
};

}  // namespace plumbline::comm
