#include "harness/subject/adapter/declared.hpp"

#include <fmt/format.h>

#include "harness/suite/adapter_error.hpp"
#include "harness/suite/eligibility.hpp"
#include "reference/adapter/reference_service.hpp"

namespace plumbline::subject {

using nlohmann::json;
using suite::OptionValues;

namespace {

// The values of an option; nothing where it is not named.
const std::set<std::string>* values_of(const OptionValues& options, const std::string& op,
                                       const std::string& argument) {
  const auto of_operation = options.find(op);
  if (of_operation == options.end()) return nullptr;
  const auto of_argument = of_operation->second.find(argument);
  return of_argument == of_operation->second.end() ? nullptr : &of_argument->second;
}

// The value as JSON, until the text is that long: questions have megabytes, and each is written down.
void add_text(const json& value, std::string& text, std::size_t most) {
  const char* separator = "";
  if (value.is_array()) {
    text += '[';
    for (auto item = value.begin(); item != value.end() && text.size() < most; ++item, separator = ",")
      add_text(*item, text += separator, most);
    text += ']';
  } else if (value.is_object()) {
    text += '{';
    for (auto field = value.begin(); field != value.end() && text.size() < most; ++field, separator = ",")
      add_text(*field, text += separator + json(field.key()).dump(-1, ' ', true, json::error_handler_t::replace) + ":",
               most);
    text += '}';
  } else {
    text += value.dump(-1, ' ', true, json::error_handler_t::replace);
  }
}

std::string shortened_question(const std::string& op, const json& args) {
  constexpr std::size_t kMost = 400;
  std::string text = op + " ";
  add_text(args, text, kMost);
  return text.size() < kMost ? text : text.substr(0, kMost) + "...";
}

}  // namespace

const adapter::AdapterService& operation_table() {
  static const adapter::AdapterService table = adapter::reference_service();
  return table;
}

DeclaredAdapter::DeclaredAdapter(suite::Adapter& inner, const suite::Case& one)
    : AdapterDecorator(inner),
      one_(one),
      options_(one.options()),
      claimed_(inner.claims().value("options", OptionValues())),
      names_options_(inner.claims().value("names_options", true)) {
  for (const std::string& operation : one.operations()) operations_.insert(operation);
}

json DeclaredAdapter::ask(const std::string& op, const json& args) {
  const auto undeclared = [&](const std::string& what) {
    throw suite::UndeclaredQuestion{
        fmt::format("{} asks {}, which check {} does not declare", one_.id(), what, one_.check->id)};
  };
  if (!operations_.contains(op)) undeclared("operation " + op);
  if (const std::string convention = adapter::convention_asked(args); convention != one_.check->convention)
    undeclared(fmt::format("{} in convention {}", op, convention));
  for (const auto& [argument, values] : operation_table().row(op).options_asked(args))
    for (const std::string& value : values) {
      const std::string what = fmt::format("{} {} of {}", argument, value, op);
      if (const auto* claimed = values_of(claimed_, op, argument); claimed && !suite::claims_value(*claimed, value))
        throw suite::UnclaimedQuestion{fmt::format("needs {}, which the subject does not claim", what)};
      if (const auto* declared = values_of(options_, op, argument); !declared || !declared->contains(value))
        undeclared(what);
      asked_options_[op][argument].insert(value);
    }
  asked_operations_.insert(op);
  last_question_ = shortened_question(op, args);
  try {
    json result = inner_.ask(op, args);
    if (const auto wrong = adapter::wrong_integer(operation_table().row(op), result))
      throw suite::AnswerInAnotherForm(fmt::format("{} answers in another form: {}", op, *wrong));
    return result;
  } catch (const suite::AdapterError& error) {
    if (names_options_ || error.kind() != "unsupported") throw;
    throw suite::UnclaimedQuestion{
        fmt::format("{} is unsupported: {} (the greeting names no options)", op, error.message())};
  }
}

void DeclaredAdapter::expect_all_asked(Values expected) const {
  const auto unasked = [&](const std::string& what) {
    throw suite::UnaskedQuestion{fmt::format("{} ended without having asked {}", one_.id(), what)};
  };
  for (const std::string& operation : operations_)
    if (!asked_operations_.contains(operation)) unasked("operation " + operation);
  for (const auto& [operation, arguments] : options_)
    for (const auto& [argument, values] : arguments) {
      const auto* asked = values_of(asked_options_, operation, argument);
      if (asked == nullptr) unasked(fmt::format("{} of {}", argument, operation));
      for (const std::string& value : values)
        if (expected == Values::all && !asked->contains(value))
          unasked(fmt::format("{} {} of {}", argument, value, operation));
    }
}

}  // namespace plumbline::subject
