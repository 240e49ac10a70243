#include "harness/expectations/condition.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/suite/version.hpp"

namespace plumbline::expectations {

struct Condition::Node {
  enum class Kind { either, both, negation, comparison };
  struct Operand {
    enum class Kind { name, number, text };
    Kind kind = Kind::text;
    std::string text;
    std::size_t at = 0;
  };
  Kind kind = Kind::comparison;
  std::vector<std::shared_ptr<const Node>> parts;
  std::string comparison;
  Operand left, right;
};

namespace {

using Node = Condition::Node;
using Operand = Node::Operand;

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// ---- reading ----

class Parser {
 public:
  Parser(std::string_view text, const std::set<std::string>& names) : text_(text), names_(names) {}

  std::shared_ptr<const Node> whole() {
    auto root = either();
    if (next_ != text_.size()) refuse(fmt::format("'{}' is too much", text_.substr(next_)));
    return root;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw ConditionError(next_, why); }

  bool take(std::string_view token) {
    if (!text_.substr(next_).starts_with(token)) return false;
    next_ += token.size();
    skip_blanks();
    return true;
  }
  void skip_blanks() {
    while (next_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[next_]))) ++next_;
  }

  std::shared_ptr<const Node> either() { return chain(Node::Kind::either, "||", &Parser::both); }
  std::shared_ptr<const Node> both() { return chain(Node::Kind::both, "&&", &Parser::one); }

  std::shared_ptr<const Node> chain(Node::Kind kind, std::string_view token,
                                    std::shared_ptr<const Node> (Parser::*part)()) {
    auto node = std::make_shared<Node>(Node{.kind = kind});
    do node->parts.push_back((this->*part)());
    while (take(token));
    return node->parts.size() == 1 ? node->parts.front() : node;
  }

  std::shared_ptr<const Node> one() {
    skip_blanks();
    const Nesting nesting(*this);
    if (take("!")) {
      auto node = std::make_shared<Node>(Node{.kind = Node::Kind::negation});
      node->parts.push_back(one());
      return node;
    }
    if (!take("(")) return comparison();
    auto inside = either();
    if (!take(")")) refuse("a ) is missing");
    return inside;
  }

  // Nobody nests so deep; the stack would end.
  struct Nesting {
    explicit Nesting(Parser& parser) : parser(parser) {
      if (++parser.depth_ > 100) parser.refuse("more than 100 parentheses and ! inside each other");
    }
    ~Nesting() { --parser.depth_; }
    Parser& parser;
  };

  std::shared_ptr<const Node> comparison() {
    const std::size_t begin = next_;
    auto node = std::make_shared<Node>();
    node->left = operand();
    node->comparison = comparison_sign();
    node->right = operand();
    if (node->left.kind != Operand::Kind::name && node->right.kind != Operand::Kind::name)
      throw ConditionError(begin, "a comparison needs a name, as in world_size > 4");
    if (node->comparison != "==" && node->comparison != "!=")
      for (const Operand& side : {node->left, node->right})
        if (side.kind == Operand::Kind::text && !suite::is_version(side.text))
          throw ConditionError(side.at,
                               fmt::format("{} needs a number or a version, not \"{}\"", node->comparison, side.text));
    return node;
  }

  std::string comparison_sign() {
    constexpr std::array<std::string_view, 6> signs{"==", "!=", "<=", ">=", "<", ">"};
    for (const std::string_view sign : signs)
      if (take(sign)) return std::string(sign);
    refuse(fmt::format("one of {} must stand here", fmt::join(signs, " ")));
  }

  Operand operand() {
    if (next_ == text_.size()) refuse("a name, a number or a \"text\" is missing");
    const char c = text_[next_];
    Operand operand{.at = next_};
    if (c == '"') {
      const std::size_t end = text_.find('"', next_ + 1);
      if (end == std::string_view::npos) refuse("a text without its closing \"");
      operand.text = text_.substr(next_ + 1, end - next_ - 1);
      next_ = end + 1;
    } else if (std::isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.') {
      operand.kind = Operand::Kind::number;
      operand.text = word("+-.");
      if (!number_of(operand.text))
        throw ConditionError(operand.at, fmt::format("'{}' is no number; a version or other text needs quotes: \"{}\"",
                                                     operand.text, operand.text));
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      operand.kind = Operand::Kind::name;
      operand.text = word("");
      if (!names_.contains(operand.text))
        throw ConditionError(operand.at, fmt::format("unknown name '{}'; a text needs quotes, and the names are {}",
                                                     operand.text, fmt::join(names_, ", ")));
    } else {
      refuse(fmt::format("'{}' begins no name, number or \"text\"", c));
    }
    skip_blanks();
    return operand;
  }

  std::string word(std::string_view also) {
    const std::size_t begin = next_;
    while (next_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[next_])) || text_[next_] == '_' ||
                                    also.find(text_[next_]) != std::string_view::npos))
      ++next_;
    return std::string(text_.substr(begin, next_ - begin));
  }

  std::string_view text_;
  const std::set<std::string>& names_;
  std::size_t next_ = 0;
  int depth_ = 0;
};

// ---- meaning ----

bool compare(const std::string& left, const std::string& right, const std::string& comparison, bool as_numbers) {
  if (as_numbers) {
    const auto a = number_of(left), b = number_of(right);
    return a && b && suite::satisfies(*a <=> *b, comparison);
  }
  if (suite::is_version(left) && suite::is_version(right))
    return suite::satisfies(suite::compare_versions(left, right), comparison);
  if (comparison == "==") return left == right;
  return comparison == "!=" && left != right;
}

bool holds(const Node& node, const Facts& facts) {
  using Kind = Node::Kind;
  const auto part_holds = [&](const auto& part) { return holds(*part, facts); };
  if (node.kind == Kind::either) return std::ranges::any_of(node.parts, part_holds);
  if (node.kind == Kind::both) return std::ranges::all_of(node.parts, part_holds);
  if (node.kind == Kind::negation) return !part_holds(node.parts.front());
  std::array<std::string, 2> values;
  const std::array<const Operand*, 2> operands{&node.left, &node.right};
  for (std::size_t i = 0; i < 2; ++i) {
    values[i] = operands[i]->text;
    if (operands[i]->kind != Operand::Kind::name) continue;
    const auto found = facts.find(operands[i]->text);
    if (found == facts.end()) return false;
    values[i] = found->second;
  }
  const auto is_number = [](const Operand& operand) { return operand.kind == Operand::Kind::number; };
  return compare(values[0], values[1], node.comparison, is_number(node.left) || is_number(node.right));
}

}  // namespace

Condition::Condition(std::string_view text, const std::set<std::string>& names) : root_(Parser(text, names).whole()) {}

bool Condition::holds(const Facts& facts) const { return expectations::holds(*root_, facts); }

}  // namespace plumbline::expectations
