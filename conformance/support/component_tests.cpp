#include "conformance/support/component_tests.hpp"

#include <algorithm>
#include <functional>
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

namespace {

// Fields, and those of objects inside them, that have no row or another type. A field that is null is left out.
template <class Row>
void expect_of_rows(adapter::RowsOfPaths<Row>& rows, const nlohmann::json& value, const std::string& path, bool nulls,
                    const std::function<void(const std::string&)>& wrong) {
  if (value.is_array())
    for (const auto& item : value) expect_of_rows(rows, item, path, nulls, wrong);
  if (!value.is_object() || !rows.at(path).names_fields) return;
  for (const auto& [name, field] : value.items()) {
    std::string inside = path.empty() ? name : path + "." + name;
    std::replace(inside.end() - static_cast<std::ptrdiff_t>(name.size()), inside.end(), '.', '_');  // of a map
    const auto [row, names_fields] = rows.at(inside);
    if (row == nullptr && !names_fields) wrong("there is no " + inside);
    if (row != nullptr && !(nulls && field.is_null()) && !adapter::is_of_type(field, row->type))
      wrong(fmt::format("{} is no {}: {}", inside, row->type, field.dump().substr(0, 80)));
    expect_of_rows(rows, field, inside, nulls, wrong);
  }
}

}  // namespace

void expect_of_row(const adapter::OperationRow& row, const nlohmann::json& args, const nlohmann::json& result) {
  const auto in = [&](const char* what) {
    return [&row, what](const std::string& words) {
      throw std::logic_error(fmt::format("{} is not as its row has it: {}: {}", row.name, what, words));
    };
  };
  nlohmann::json asked = args;
  asked.erase("convention");
  adapter::RowsOfPaths<adapter::ArgumentRow> arguments(row.arguments);
  expect_of_rows(arguments, asked, "", true, in("arguments"));
  adapter::RowsOfPaths<adapter::ResultRow> results(row.results);
  expect_of_rows(results, result, "", false, in("result"));
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
