#include "conformance/support/sizes.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "conformance/support/asking.hpp"
#include "harness/suite/adapter_error.hpp"

namespace plumbline::conformance {

namespace {

// An adapter that names no options may have no room for a size: it says so by out_of_range, and the case is skipped.
// The smallest size is asked of every adapter.
class Roomy final : public suite::Adapter {
 public:
  explicit Roomy(suite::Adapter& inner) : inner_(inner) {}
  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override {
    try {
      return inner_.ask(op, args);
    } catch (const suite::AdapterError& error) {
      if (error.kind() != "out_of_range" || inner_.claims().value("names_options", true)) throw;
      throw suite::UnclaimedQuestion{fmt::format("{} has no room for this size: {}", op, error.message())};
    }
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return inner_.operations(); }
  [[nodiscard]] nlohmann::json claims() const override { return inner_.claims(); }

 private:
  suite::Adapter& inner_;
};

}  // namespace

SizedCheck asking(suite::OptionValues::mapped_type values, SizedCheck one) {
  one.options[one.operation] = std::move(values);
  return one;
}

std::string id_of(const std::string& component, const SizedCheck& one) {
  const std::string operation = one.operation;
  std::string name = operation.substr(operation.find('.') + 1), convention = one.convention;
  std::ranges::replace_if(convention, [](char letter) { return letter == '-' || letter == '.'; }, '_');
  if (*one.part != '\0') name += std::string("_") + one.part;
  if (convention != "plumbline") name += "_" + convention;
  return component + ".sizes." + name;
}

void add_sized_check(suite::Suite& suite, const std::string& component, SizedCheck one,
                     const std::source_location& where) {
  suite::Axis sizes{"size", {}};
  for (const int size : one.sizes) sizes.values.push_back(std::to_string(size));
  const int smallest = *std::ranges::min_element(one.sizes);
  std::vector<suite::Axis> axes{std::move(sizes)};
  std::map<std::string, JudgeSize> problems{{"", std::move(one.problem)}};
  if (!one.choice.values.empty()) {
    suite::Axis& values = axes.emplace_back(suite::Axis{one.choice.argument, {}});
    for (const auto& [value, problem] : one.choice.values) {
      values.values.push_back(value);
      problems[value] = problem;
    }
  }
  const auto chosen = [argument = std::string(one.choice.argument)](const suite::Parameters& parameters) {
    return argument.empty() ? argument : parameters.text(argument);
  };
  const auto options = [chosen, always = std::move(one.options), operation = std::string(one.operation),
                        argument = std::string(one.choice.argument)](const suite::Parameters& parameters) {
    suite::OptionValues all = always;
    if (const std::string value = chosen(parameters); !value.empty()) all[operation][argument].insert(value);
    return all;
  };
  std::vector<std::string> operations{one.operation};
  operations.insert(operations.end(), one.others.begin(), one.others.end());
  suite.add({.id = id_of(component, one),
             .verifies = {one.requirement},
             .door = suite::Door::adapter,
             .axes = std::move(axes),
             .operations = std::move(operations),
             .convention = one.convention,
             .options = options,
             .limit = std::chrono::seconds(60),  // of adapters in any language, with megabytes to read
             .body =
                 [problems = std::move(problems), chosen, smallest](suite::Context& context) {
                   const auto size = static_cast<int>(context.parameters().number("size"));
                   Roomy roomy(context.adapter());
                   suite::Adapter& adapter = size == smallest ? context.adapter() : roomy;
                   report_words(problems.at(chosen(context.parameters()))(adapter, size));
                 }},
            where);
}

}  // namespace plumbline::conformance
