// conformance/support/rank_grid.hpp: ranks on axes, by division: for worlds that are too large to count through.
#pragma once

#include <cstddef>
#include <vector>

namespace plumbline::conformance {

/// 0, 1, … of so many ranks.
[[nodiscard]] std::vector<int> all_ranks(int ranks);
/// Sizes of three axes, about the same, that multiply to it.
[[nodiscard]] std::vector<int> three_sizes(int ranks);

class RankGrid {
 public:
  using Ranks = std::vector<int>;
  enum class Fastest { last, first };

  explicit RankGrid(std::vector<int> sizes, Fastest fastest = Fastest::last);
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int size(std::size_t axis) const { return sizes_[axis]; }
  [[nodiscard]] int at(int rank, std::size_t axis) const { return rank / strides_[axis] % sizes_[axis]; }
  /// The rank at another position of one axis.
  [[nodiscard]] int moved(int rank, std::size_t axis, int to) const {
    return rank + (to - at(rank, axis)) * strides_[axis];
  }
  [[nodiscard]] Ranks position(int rank) const;
  /// Along an axis, that of a rank; and all of them, by their first ranks, with the number of a rank's among them.
  [[nodiscard]] Ranks group(int rank, std::size_t axis) const;
  [[nodiscard]] std::vector<Ranks> groups(std::size_t axis) const;
  [[nodiscard]] int number(int rank, std::size_t axis) const;
  /// Along all other axes: a list for each position on this one.
  [[nodiscard]] std::vector<Ranks> groups_beside(std::size_t axis) const;

 private:
  std::vector<int> sizes_, strides_;
  int ranks_ = 1;
};

}  // namespace plumbline::conformance
