// harness/cli/op_diff.hpp: which ops of a program another one has not, and the other way round.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reference/program/program.hpp"

namespace plumbline::cli {

/// "all_reduce(w@GRAD) -> (w@GRAD) ring 12 sum on gradient_sync_stream scale=0.5": all that an op has, but for its
/// scope.
[[nodiscard]] std::string line_of(const program::Op& op);

struct OpChange {
  bool is_new = false;       // of the second program, else of the first
  std::size_t position = 0;  // in its program
  std::string line;
};

/// The fewest changes that make one list of ops of the other, in program order. Ops are the same that are in all
/// fields.
/// Method  Myers, An O(ND) Difference Algorithm, 1986: the time of the number of changes, not of the product of
///         lengths.
[[nodiscard]] std::vector<OpChange> changes_between(const std::vector<program::Op>& before,
                                                    const std::vector<program::Op>& after);

}  // namespace plumbline::cli
