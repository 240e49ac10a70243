// harness/bench/canary_probe.hpp: what `plumbline canary` gives two backends to compute, and how their answers compare.
//
// Model   Every rank's inputs follow from a seed, its rank and the place of an element, so that whoever judges the
//         answers needs no answer of a backend to know them: sums are held to exact ones, moves to the bits that were
//         given. Inputs are of both signs and of 2^-4 to 2^4: sums round, and some cancel.
// Units   An error is a share of the bound (n - 1) u sum|x|, with u the unit roundoff of the type, and half a unit in
//         the last place for the type's own rounding: above 1 no order of additions explains it.
// Source  The bound: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 4.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/call.hpp"

namespace plumbline::bench {

struct CanaryProbe {
  comm::Operation operation = comm::Operation::all_reduce;  // of sums; rooted ones at rank 0
  comm::DType dtype = comm::DType::f32;                     // f16, bf16, f32 or f64
  int ranks = 2;
  std::int64_t elements = 1;  // that one rank contributes to each other: the count that all ranks agree on
  std::uint64_t seed = 1;
};

/// The operations that can be compared.
[[nodiscard]] std::span<const comm::Operation> canary_operations();

/// How many elements a rank gives and gets; 0 where it does not.
[[nodiscard]] std::int64_t elements_in(const CanaryProbe& probe, int rank);
[[nodiscard]] std::int64_t elements_out(const CanaryProbe& probe, int rank);

/// The bytes of a rank's inputs.
[[nodiscard]] std::vector<std::byte> canary_inputs(const CanaryProbe& probe, int rank);

/// What a backend's answers are worth: those of all ranks, by rank.
struct CanaryAnswer {
  double error = 0;             // the largest, of a reduction
  std::string wrong;            // what is wrong whatever the order; empty: nothing
  bool ranks_are_equal = true;  // of all_reduce, whose ranks must have the same bits
};
[[nodiscard]] CanaryAnswer judge_canary(const CanaryProbe& probe, std::span<const std::vector<std::byte>> outs);

/// How two backends' answers differ.
struct CanaryDifference {
  std::int64_t elements = 0, differing = 0;
  std::uint64_t largest = 0;  // in units in the last place: numbers of the type that lie between, and one
};
[[nodiscard]] CanaryDifference compare_canary(const CanaryProbe& probe, std::span<const std::vector<std::byte>> left,
                                              std::span<const std::vector<std::byte>> right);

}  // namespace plumbline::bench
