// reference/comm/local/parts.hpp: what there is to do in a collective, and who does which piece of it.
//
// Model   n ranks, c elements. Small calls: pull() computes one rank's whole result from everybody's posted data.
//         Large calls are cut into one part per rank, a part into blocks; any rank may do any block, each block writes
//         what no other block touches:
//           all_reduce, reduce              part r = the r-th piece of the result, for all who get one
//           all_gather, reduce_scatter,
//           broadcast, gather, scatter      part r = the result of rank r
//           all_to_all                      part r = the exchanges of rank r with ranks r, r+1, …, r+n/2 (mod n)
// Cost    Every input element is read and every output element written once, in and out of place.
#pragma once

#include <cstddef>
#include <span>

#include "reference/comm/local/shape.hpp"

namespace plumbline::comm::local {

/// What the members posted, by rank.
struct Addresses {
  std::span<const std::byte* const> in;  // a rank that gives nothing: null
  std::span<std::byte* const> out;       // a rank that gets nothing: null
  bool streaming = false;                // results are large and no inputs: write them around the cache
};

/// Computes `rank`'s whole result into `out` from what all have posted.
void pull(const Shape& shape, std::span<const std::byte* const> in, int rank, std::byte* out);

/// Length of a part, in elements.
[[nodiscard]] std::size_t part_length(const Shape& shape, int part);
/// Elements [begin, begin + count) of a part.
void work_on_part(const Shape& shape, const Addresses& at, int part, std::size_t begin, std::size_t count);

}  // namespace plumbline::comm::local
