#include "conformance/support/component_tests.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/subject/adapter/client.hpp"
#include "harness/subject/adapter/declared.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

suite::Suite suite_of(void (*add)(suite::Suite&)) {
  suite::Suite made;
  add(made);
  return made;
}

const suite::Case& case_named(const suite::Suite& suite, const std::string& id) {
  const auto found = std::ranges::find(suite.cases(), id, &suite::Case::id);
  if (found == suite.cases().end()) throw NotFound("no case " + id);
  return *found;
}

namespace {

bool is_sized(const suite::Check& check) { return check.id.find(".sizes.") != std::string::npos; }

}  // namespace

bool is_large(const suite::Case& one) {
  return is_sized(*one.check) && one.parameters.text("size") != one.check->axes.front().values.front();
}

bool is_largest(const suite::Case& one) {
  return is_sized(*one.check) && one.parameters.text("size") == one.check->axes.front().values.back();
}

void expect_of_row(const subject::OperationRow& row, const nlohmann::json& args, const nlohmann::json& result) {
  const auto wrong = [&](const std::string& what) {
    throw std::logic_error(fmt::format("{} is not as its row has it: {}", row.name, what));
  };
  for (const auto& [name, value] : args.items())
    if (const subject::ArgumentRow* argument = row.find(name); argument != nullptr && !value.is_null())
      if (!subject::is_of_type(value, argument->type)) wrong(fmt::format("argument {} is no {}", name, argument->type));
  for (const auto& [name, value] : result.items()) {
    const auto field = std::ranges::find(row.results, name, &subject::ResultRow::name);
    if (field == row.results.end()) {
      wrong("it answers " + name);
    } else if (!subject::is_of_type(value, field->type)) {
      wrong(fmt::format("answer {} is no {}: {}", name, field->type, value.dump().substr(0, 80)));
    }
  }
}

namespace {

class HeldToRows final : public suite::Adapter {
 public:
  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override {
    nlohmann::json result = reference_->ask(op, args);
    expect_of_row(subject::operation_table().row(op), args, result);
    return result;
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return reference_->operations(); }
  [[nodiscard]] std::optional<std::set<std::string>> conventions() const override { return reference_->conventions(); }
  [[nodiscard]] nlohmann::json claims() const override { return reference_->claims(); }

 private:
  const std::unique_ptr<suite::Adapter> reference_ = subject::open_adapter("reference");
};

}  // namespace

suite::Adapter& reference_adapter() {
  static HeldToRows adapter;
  return adapter;
}

}  // namespace plumbline::conformance
