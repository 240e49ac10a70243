// benchmarks/mann_whitney.hpp: are numbers of one kind larger than those of another?
//
// Model   Mann and Whitney's U: of all pairs, a number of each kind, those in which the first is larger, and half of
//         those that are equal. If both kinds were equal, every choice of the first kind's numbers among all would be
//         equally likely: so the chance of a U is counted, not assumed, equal numbers included. Of more than
//         kMostCounted numbers it is that of a normal distribution of the same mean and variance, half a pair nearer to
//         the mean.
// Cost    Counted: up to numbers^3 x numbers of the first kind / 3 additions. Else: sorting.
// Source  H. Mann and D. Whitney, Annals of Mathematical Statistics 18, 1947; E. Lehmann, Nonparametrics, 1975 (equal
//         numbers).
#pragma once

#include <cstddef>
#include <span>

namespace plumbline::cli {

/// Numbers of both kinds together.
inline constexpr std::size_t kMostCounted = 60;

/// The chance of a U as large as this, or larger. Throws InvalidArgument where a kind has no numbers, or one that is
/// none.
[[nodiscard]] double chance_of_larger(std::span<const double> first, std::span<const double> second);

}  // namespace plumbline::cli
