// harness/expectations/condition.hpp: when an expectation holds, as a small expression over names and values.
//
// Grammar   either     = both { "||" both }
//           both       = one { "&&" one }
//           one        = "!" one | "(" either ")" | comparison
//           comparison = operand ("==" | "!=" | "<" | "<=" | ">" | ">=") operand      one operand at least is a name
//           operand    = name | number | "text"
// Meaning   A number is compared as one. A text that is a version is compared version-wise with another
//           ("2.10" > "2.9"), any other letter by letter, and only with == and !=. A comparison with a name that has no
//           value here, or one that is not of the kind asked for, is false, != too.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace plumbline::expectations {

/// Names and their values: "world_size" -> "4".
using Facts = std::map<std::string, std::string>;

/// What is wrong with a condition, and at which of its bytes (from 0).
class ConditionError : public std::runtime_error {
 public:
  ConditionError(std::size_t at, const std::string& why) : std::runtime_error(why), at_(at) {}
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  std::size_t at_;
};

class Condition {
 public:
  struct Node;

  /// Throws ConditionError for what is no condition, and for a name that is none of `names`.
  Condition(std::string_view text, const std::set<std::string>& names);
  [[nodiscard]] bool holds(const Facts& facts) const;

 private:
  std::shared_ptr<const Node> root_;
};

}  // namespace plumbline::expectations
