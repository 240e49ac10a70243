// conformance/training/bounds.hpp: how far rounding can take a right result from the exact one.
//
// Source  N. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2: a sum of n numbers in any
//         order is off by at most gamma(n-1) times the sum of their magnitudes, gamma(k) = k u / (1 - k u).
#pragma once

#include <string_view>
#include <vector>

#include "reference/comm/dtype.hpp"

namespace plumbline::conformance {

/// Half the distance from 1 to the next number of the type: 2^-11, 2^-8, 2^-24, 2^-53. Throws Unsupported for
/// integers.
[[nodiscard]] double unit_roundoff(comm::DType dtype);
/// The type that a run specification calls float32, bfloat16 or float16.
[[nodiscard]] comm::DType compute_dtype(std::string_view name);

/// The least positive float: where results are subnormal, rounding is off by up to half of it, whatever their
/// size.
inline constexpr double kSmallestFloat = 0x1p-149;

/// How far the mean of `ranks` values, summed in any order in `accumulator`, divided once and rounded to
/// float32, is from the exact mean. `magnitudes` is the sum of the values' magnitudes.
[[nodiscard]] double mean_error(int ranks, comm::DType accumulator, double magnitudes);

/// The same of values that are rounded to a 16-bit type before they are summed in any order, in that type or a wider
/// one, and divided: each value, each sum, the quotient and what is taken off the wire may be rounded.
[[nodiscard]] double compressed_mean_error(int ranks, comm::DType wire, double magnitudes);

/// The same of values that travel as bytes, given the largest magnitude of each rank's bucket, or more: half of each
/// rank's scale, which is a 255th of the distance of its numbers, or 2^-23, and what the arithmetic rounds.
[[nodiscard]] double quantised_mean_error(const std::vector<double>& largest_of_ranks);

/// The largest magnitude; 0 of none.
[[nodiscard]] double largest_of(const std::vector<double>& values);
/// The largest difference of two lists of one length. Infinite where one is not finite: a computation that overflows
/// has no bound.
[[nodiscard]] double distance(const std::vector<double>& a, const std::vector<double>& b);
/// How far a right computation whose order of operations is not known may be from float64, `d` being the distance of a
/// plain one from it, and `largest` the size of what it is made of: max(8 d, 64 u largest), the second for where the
/// plain one happens to be exact.
[[nodiscard]] double bound_beside(double d, double largest, double unit_roundoff);

}  // namespace plumbline::conformance
