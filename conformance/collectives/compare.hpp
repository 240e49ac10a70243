// conformance/collectives/compare.hpp: two arrays compared, the difference told in one line.
//
// Model   Each function returns nothing ("") when all is right, else one line: the first index that differs, what was
//         expected, what was there, how far apart in steps of the dtype (ULP), and how many elements differ.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reference/comm/dtype.hpp"

namespace plumbline::conformance {

/// Bit by bit. The spans have the same length, a multiple of the element's size.
[[nodiscard]] std::string first_difference(comm::DType dtype, std::span<const std::byte> expected,
                                           std::span<const std::byte> got);

/// As first_difference, but any NaN stands for any other: arithmetic may choose its payload.
[[nodiscard]] std::string first_difference_but_nan(comm::DType dtype, std::span<const std::byte> expected,
                                                   std::span<const std::byte> got);

/// The elements that are further than `bound[i]` from `expected[i]`; a NaN always is.
[[nodiscard]] std::string first_excess(comm::DType dtype, std::span<const long double> expected,
                                       std::span<const long double> bound, std::span<const std::byte> got);

/// An adapter's array and the recorded one: numbers as JSON compares them, zeros by their sign too.
[[nodiscard]] std::string first_difference(const nlohmann::json& expected, const nlohmann::json& got);

}  // namespace plumbline::conformance
