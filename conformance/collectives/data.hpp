// conformance/collectives/data.hpp: what the ranks give, and what must come out of it.
//
// Model   All data depend on rank and position, since a constant fill hides what is moved to the wrong place.
//           random bits     for what copies: any pattern, NaNs among them;
//           exact numbers   for reductions: every intermediate result is representable in every dtype, so any order of
//                           additions, in any accumulator, gives the same bits;
//           numbers that round, for the bounds.
//         Results are stated from the definition of the operation, in integers or long double.
// Source  The exact set is that of nccl-tests' verifiable.h in spirit: small integers, powers of two for products.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/comm/dtype.hpp"

namespace plumbline::conformance {

/// 64 well-mixed bits of three numbers.
[[nodiscard]] std::uint64_t mixed(std::uint64_t seed, std::uint64_t rank, std::uint64_t index);

/// Elements [first, first + n) of the random bits of `rank`, of bool 0 or 1, where n elements fit `to`.
void fill_with_bits(std::uint64_t seed, int rank, comm::DType dtype, std::int64_t first, std::span<std::byte> to);

/// The same of bit patterns of a floating dtype that a conversion would change: signalling and quiet NaNs of both signs
/// with payloads, infinities, zeros, subnormals, the extremes; of a format of 8 bits, all 256.
void fill_with_special_bits(int rank, comm::DType dtype, std::int64_t first, std::span<std::byte> to);

/// Elements [first, first + n) of what repeats `period`, n elements of so many bytes fitting `to`.
void tile(std::span<const std::byte> period, std::size_t element, std::int64_t first, std::span<std::byte> to);

/// Set 1. Exact in any order for up to 12 ranks. Elements repeat with a period that no power of two divides.
class ExactNumbers {
 public:
  ExactNumbers(comm::DType dtype, comm::ReduceOp op, int ranks, std::uint64_t seed);
  /// Elements [first, first + n) of what `rank` gives, where n elements fit `to`.
  void give(int rank, std::int64_t first, std::span<std::byte> to) const {
    tile(given_[static_cast<std::size_t>(rank)], element_, parts_ * first, to);
  }
  /// Elements [first, first + n) of the reduction.
  void result(std::int64_t first, std::span<std::byte> to) const { tile(result_, element_, parts_ * first, to); }

 private:
  void make_parts(comm::DType dtype, comm::ReduceOp op, int ranks, std::uint64_t seed);
  void make_complex_factors(comm::DType part, int ranks, std::uint64_t seed);

  std::size_t element_;  // bytes of one, of a complex number of its part
  std::int64_t parts_;
  std::vector<std::vector<std::byte>> given_;  // one period a rank
  std::vector<std::byte> result_;
};

/// The reduction of one element's contributions, given as bits in rank order: integers modulo two to the number of
/// bits, floating ones in long double (NaN wins; -0 is less than +0), not yet rounded to the dtype.
[[nodiscard]] std::uint64_t reduce_integers(comm::DType dtype, comm::ReduceOp op, std::span<const std::uint64_t> given);
[[nodiscard]] long double reduce_numbers(comm::ReduceOp op, std::span<const long double> given);

/// Set 2. Floating elements with random fractions: magnitudes from 1/4 to 8, for products from 1/2 to 2.
[[nodiscard]] std::uint64_t rounding_bits(comm::DType dtype, comm::ReduceOp op, std::uint64_t seed, int rank,
                                          std::int64_t index);

/// What the bound of set 2 is made of.
struct Bounded {
  long double expected;
  long double bound;
};
/// The exact reduction and the largest error that n-1 operations in `accumulator`, a division for avg, and the rounding
/// to `dtype` may make (Higham, section 4.2; of sums, Jeannerod and
/// Rump, Improved error bounds for inner products in floating-point arithmetic, 2013).
[[nodiscard]] Bounded bounded_result(comm::DType dtype, comm::DType accumulator, comm::ReduceOp op,
                                     std::span<const long double> given);

/// The same of a format of 8 bits, given as bits. A result below the normal numbers is rounded by up to half a
/// subnormal, at each step at worst.
[[nodiscard]] Bounded float8_result(comm::DType dtype, comm::DType accumulator, comm::ReduceOp op,
                                    std::span<const std::uint64_t> given);

}  // namespace plumbline::conformance
