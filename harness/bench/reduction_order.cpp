#include "harness/bench/reduction_order.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

namespace plumbline::bench {
namespace {

constexpr const char* kAtOnce = "all at once";

int size_of_pair(const SubtreeSizes& sizes, int left, int right) {
  const auto found = sizes.find(std::minmax(left, right));
  return found == sizes.end() ? 0 : found->second;
}

// The tree over these ranks, which are in order; nothing where the sizes contradict each other.
std::optional<std::string> tree_over(const std::vector<int>& ranks, const SubtreeSizes& sizes, bool is_outermost) {
  if (ranks.size() == 1) return std::to_string(ranks.front());
  const auto all = static_cast<int>(ranks.size());
  // One side: who meets the first rank below this addition.
  std::vector<int> left{ranks.front()}, right;
  for (std::size_t i = 1; i < ranks.size(); ++i)
    (size_of_pair(sizes, ranks.front(), ranks[i]) < all ? left : right).push_back(ranks[i]);
  for (const int one : left)
    for (const int other : right)
      if (size_of_pair(sizes, one, other) != all) return std::nullopt;
  if (right.empty()) return std::nullopt;
  if (right.size() > left.size()) std::swap(left, right);
  const auto first = tree_over(left, sizes, false), second = tree_over(right, sizes, false);
  if (!first || !second) return std::nullopt;
  const std::string sum = *first + "+" + *second;
  return is_outermost ? sum : "(" + sum + ")";
}

// The ranks of "((2+3)+0)+1" as they come; nothing for another shape.
std::optional<std::vector<int>> chain_of(const std::string& order) {
  std::vector<int> ranks;
  bool closes = false;
  for (std::size_t i = 0; i < order.size();) {
    if (order[i] == '(') {
      if (!ranks.empty()) return std::nullopt;  // something else than a rank is added
      ++i;
    } else if (order[i] == ')' || order[i] == '+') {
      closes = order[i] == ')';
      ++i;
    } else {
      std::size_t digits = 0;
      ranks.push_back(std::stoi(order.substr(i), &digits));
      i += digits;
    }
  }
  return closes && ranks.size() > 1 ? std::nullopt : std::optional(ranks);
}

// Whether every addition is of two equal sides.
bool is_balanced(const std::string& order) {
  int depth = 0;
  std::size_t middle = std::string::npos;
  for (std::size_t i = 0; i < order.size(); ++i) {
    depth += order[i] == '(' ? 1 : order[i] == ')' ? -1 : 0;
    if (depth == 0 && order[i] == '+') middle = i;
  }
  if (middle == std::string::npos) return order.find('+') == std::string::npos;
  const auto without_brackets = [](std::string side) {
    return side.starts_with('(') ? side.substr(1, side.size() - 2) : side;
  };
  const std::string left = without_brackets(order.substr(0, middle)),
                    right = without_brackets(order.substr(middle + 1));
  return std::ranges::count(left, '+') == std::ranges::count(right, '+') && is_balanced(left) && is_balanced(right);
}

// Whether the ranks follow one another around the ring, in either direction. The first two may be swapped: a sum of two
// has no order.
bool goes_around(std::vector<int> chain, int ranks) {
  const auto follows = [&](int step) {
    for (std::size_t i = 1; i < chain.size(); ++i)
      if (chain[i] != (chain[i - 1] + step + ranks) % ranks) return false;
    return true;
  };
  if (follows(1) || follows(-1)) return true;
  std::swap(chain[0], chain[1]);
  return follows(1) || follows(-1);
}

std::string name_of_one(int ranks, const std::string& order) {
  if (order.empty()) return "none";
  if (order == kAtOnce) return order;
  if (const auto chain = chain_of(order)) {
    if (std::ranges::is_sorted(*chain)) return "sequential";
    if (goes_around(*chain, ranks)) return "ring";
  }
  return is_balanced(order) ? "pairwise" : "tree";
}

}  // namespace

std::string order_of_additions(int ranks, const SubtreeSizes& sizes) {
  // Of two ranks there is one order, and it shows nothing.
  if (ranks > 2 && std::ranges::all_of(sizes, [](const auto& entry) { return entry.second == 2; })) return kAtOnce;
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return tree_over(all, sizes, true).value_or("");
}

std::string name_of_order(int ranks, std::span<const std::string> orders) {
  std::set<std::string> names;
  for (const std::string& order : orders) names.insert(name_of_one(ranks, order));
  if (names == std::set<std::string>{"ring", "sequential"}) return "ring";  // one of its parts begins at rank 0
  if (names.empty()) return "none";
  return names.size() == 1 ? *names.begin() : "mixed";
}

}  // namespace plumbline::bench
