#include "harness/cli/op_diff.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::cli {

using program::Op;

namespace {

std::string text_of_attribute(const program::Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>)
          return value ? "true" : "false";
        else if constexpr (std::is_same_v<Value, std::string> || std::is_arithmetic_v<Value>)
          return fmt::format("{}", value);
        else
          return fmt::format("[{}]", fmt::join(value, ","));
      },
      attribute);
}

}  // namespace

std::string line_of(const Op& op) {
  std::string line = fmt::format("{}({}) -> ({})", op.type, fmt::join(program::names_in(op.inputs), ", "),
                                 fmt::join(program::names_in(op.outputs), ", "));
  if (op.ring) line += fmt::format(" ring {}", *op.ring);
  if (op.reduction) line += fmt::format(" {}", comm::name_of(*op.reduction));
  if (op.on_calculation_stream) line += *op.on_calculation_stream ? " in order" : " off the calculation stream";
  if (!op.stream.empty()) line += " on " + op.stream;
  for (const auto& [name, value] : op.attributes) line += fmt::format(" {}={}", name, text_of_attribute(value));
  return line;
}

namespace {

/// How far one comes in the first list with a number of changes, by diagonal (position in the first less that in the
/// second).
class Furthest {
 public:
  explicit Furthest(std::ptrdiff_t most) : most_(most), at_(static_cast<std::size_t>(2 * most + 3)) {}
  std::ptrdiff_t& operator[](std::ptrdiff_t diagonal) { return at_[static_cast<std::size_t>(diagonal + most_ + 1)]; }

 private:
  std::ptrdiff_t most_;
  std::vector<std::ptrdiff_t> at_;
};

// Whether the way with `changes` changes that ends on a diagonal comes from the diagonal above: an op of the second is
// new.
bool comes_from_above(Furthest& furthest, std::ptrdiff_t diagonal, std::ptrdiff_t changes) {
  return diagonal == -changes || (diagonal != changes && furthest[diagonal - 1] < furthest[diagonal + 1]);
}

// Of each number of changes, how far one had come before it.
std::vector<Furthest> ways(const std::vector<Op>& before, const std::vector<Op>& after) {
  const auto first = static_cast<std::ptrdiff_t>(before.size()), second = static_cast<std::ptrdiff_t>(after.size());
  std::vector<Furthest> trace;
  Furthest furthest(0);
  for (std::ptrdiff_t changes = 0;; ++changes) {
    Furthest wider(changes + 1);
    for (std::ptrdiff_t k = -changes; k <= changes && changes > 0; ++k) wider[k] = furthest[k];
    furthest = std::move(wider);
    trace.push_back(furthest);
    for (std::ptrdiff_t k = -changes; k <= changes; k += 2) {
      std::ptrdiff_t x = comes_from_above(furthest, k, changes) ? furthest[k + 1] : furthest[k - 1] + 1;
      while (x < first && x - k < second &&
             before[static_cast<std::size_t>(x)] == after[static_cast<std::size_t>(x - k)])
        ++x;
      furthest[k] = x;
      if (x >= first && x - k >= second) return trace;
    }
  }
}

}  // namespace

std::vector<OpChange> changes_between(const std::vector<Op>& before, const std::vector<Op>& after) {
  std::vector<Furthest> trace = ways(before, after);
  std::vector<OpChange> changes;
  auto x = static_cast<std::ptrdiff_t>(before.size()), y = static_cast<std::ptrdiff_t>(after.size());
  for (auto count = static_cast<std::ptrdiff_t>(trace.size()) - 1; count > 0; --count) {
    Furthest& furthest = trace[static_cast<std::size_t>(count)];
    const std::ptrdiff_t diagonal = x - y;
    const bool is_new = comes_from_above(furthest, diagonal, count);
    const std::ptrdiff_t from = is_new ? diagonal + 1 : diagonal - 1;
    x = furthest[from], y = x - from;
    const auto at = static_cast<std::size_t>(is_new ? y : x);
    changes.push_back({.is_new = is_new, .position = at, .line = line_of(is_new ? after[at] : before[at])});
  }
  std::ranges::reverse(changes);
  return changes;
}

}  // namespace plumbline::cli
