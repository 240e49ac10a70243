#include "conformance/support/rank_grid.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plumbline::conformance {

std::vector<int> all_ranks(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int> three_sizes(int ranks) {
  std::vector<int> primes, sizes(3, 1);
  for (int factor = 2; ranks > 1; ++factor)
    for (; ranks % factor == 0; ranks /= factor) primes.push_back(factor);
  for (auto prime = primes.rbegin(); prime != primes.rend(); ++prime) *std::ranges::min_element(sizes) *= *prime;
  return sizes;
}

RankGrid::RankGrid(std::vector<int> sizes, Fastest fastest) : sizes_(std::move(sizes)), strides_(sizes_.size(), 1) {
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const std::size_t axis = fastest == Fastest::last ? sizes_.size() - 1 - i : i;
    strides_[axis] = ranks_;
    ranks_ *= sizes_[axis];
  }
}

RankGrid::Ranks RankGrid::position(int rank) const {
  Ranks all;
  for (std::size_t axis = 0; axis < sizes_.size(); ++axis) all.push_back(at(rank, axis));
  return all;
}

RankGrid::Ranks RankGrid::group(int rank, std::size_t axis) const {
  Ranks members;
  for (int to = 0; to < size(axis); ++to) members.push_back(moved(rank, axis, to));
  return members;
}

std::vector<RankGrid::Ranks> RankGrid::groups(std::size_t axis) const {
  std::vector<Ranks> lists;
  for (int rank = 0; rank < ranks_; ++rank)
    if (at(rank, axis) == 0) lists.push_back(group(rank, axis));
  return lists;
}

int RankGrid::number(int rank, std::size_t axis) const {
  const int first = moved(rank, axis, 0), stride = strides_[axis];
  return first / (stride * size(axis)) * stride + first % stride;
}

std::vector<RankGrid::Ranks> RankGrid::groups_beside(std::size_t axis) const {
  std::vector<Ranks> lists(static_cast<std::size_t>(size(axis)));
  for (int rank = 0; rank < ranks_; ++rank) lists[static_cast<std::size_t>(at(rank, axis))].push_back(rank);
  return lists;
}

}  // namespace plumbline::conformance
