// harness/cli/pass_against.hpp: whether two programs train the same, by running both.
//
// Model   Both run on ranks that are threads, from the same made-up inputs (conformance/pass/oracles/interpreter.hpp).
//         Compared are the gradients that optimizers use, rescaled, the parameters that they write, and the variables
//         that persist. Without `exact` all floating types are float64, so that sums in another order are no
//         difference, and 1e-6 of the largest magnitude in a variable is allowed: what a factor in float32 rounds; and
//         1e-13 of the largest term of the op that made it, or of 1: where terms cancel, their rounding stays.
//         A side has one program, which every rank runs, or one for each. Before anything runs, the ranks take their
//         collectives one after the other: what two ranks of a ring do not agree on, or wait for, would hang.
// Cost    What the interpreter takes: a rank's variables in doubles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/program/program.hpp"

namespace plumbline::cli {

/// One program for all ranks, or one for each.
struct ProgramSide {
  std::vector<program::Program> programs;
  program::Rings rings;  // as one rank has them
  [[nodiscard]] const program::Program& of(int rank) const {
    return programs[programs.size() == 1 ? 0 : static_cast<std::size_t>(rank)];
  }
};

/// A value that the second side has otherwise.
struct ValueDifference {
  std::uint64_t seed = 0;  // of the inputs
  int rank = 0;
  std::string variable;
  bool is_gradient = false;  // that an optimizer uses; `variable` is then the parameter
  std::size_t index = 0;
  double expected = 0, got = 0;
  std::string problem;          // in place of a value: "'w' is not written any more"
  int before = -1, after = -1;  // the ops that made it, by position; -1: none
};

struct AgainstOptions {
  std::uint64_t seed = 1;  // of the first inputs
  int inputs = 3;
  bool exact = false;
};

struct AgainstReport {
  int ranks = 1;
  std::size_t compared = 0;                  // values by name and rank, of each inputs
  std::vector<ValueDifference> differences;  // one for each name and rank, in the order of the ops that made them
  std::string collectives;  // why the second side's collectives would hang, or do not fit; nothing is compared then
  std::string mixed;        // where its ranks reduce different variables of one size together
  [[nodiscard]] bool is_equal() const { return differences.empty() && collectives.empty(); }
};

/// Throws InvalidArgument for a first side whose collectives would hang, sides of other numbers of programs than there
/// are ranks, and more elements than a run takes; Unsupported for ops that the interpreter does not know.
[[nodiscard]] AgainstReport compare_programs(const ProgramSide& before, const ProgramSide& after,
                                             const AgainstOptions& options);

/// "" when the ranks come to their ends, else the first collective on which they do not agree: "ring 12, its collective
/// 1: rank 0 has all_reduce sum of 4 float32 (op 5), rank 1 all_reduce sum of 8 float32 (op 6)".
[[nodiscard]] std::string collectives_that_hang(const ProgramSide& side, int ranks);

}  // namespace plumbline::cli
