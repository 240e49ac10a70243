#include "conformance/support/asking.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/support/control.hpp"
#include "harness/suite/adapter_error.hpp"
#include "harness/suite/library_words.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;

namespace {

std::string shortened(const json& value) { return value.dump().substr(0, 160); }

std::string difference_of_lists(const json& expected, const json& got, const std::string& where) {
  const std::size_t common = std::min(expected.size(), got.size());
  std::string words;
  for (std::size_t i = 0; i < common && words.empty(); ++i)
    words = first_difference(expected[i], got[i], fmt::format("{}[{}]", where, i));
  if (expected.size() == got.size()) return words;
  if (words.empty())  // all that both have are equal
    words = common < expected.size()
                ? fmt::format("{}[{}]: expected {}, got nothing", where, common, shortened(expected[common]))
                : fmt::format("{}[{}]: expected nothing, got {}", where, common, shortened(got[common]));
  return fmt::format("{}: expected {} items, got {}; {}", where, expected.size(), got.size(), words);
}

std::string difference_of_objects(const json& expected, const json& got, const std::string& where) {
  for (const auto& [name, value] : expected.items()) {
    const std::string place = where + "." + name;
    if (!got.contains(name)) return fmt::format("{}: expected {}, got nothing", place, shortened(value));
    if (std::string words = first_difference(value, got[name], place); !words.empty()) return words;
  }
  return {};
}

}  // namespace

Answer answer_to(suite::Adapter& adapter, const std::string& op, const json& args) {
  try {
    return {.result = adapter.ask(op, args), .kind = {}, .message = {}};
  } catch (const suite::AdapterError& error) {
    return {.result = {}, .kind = std::string(error.kind()), .message = error.message()};
  }
}

std::string first_difference(const json& expected, const json& got, const std::string& where) {
  if (expected == got) return {};
  if (expected.is_array() && got.is_array()) return difference_of_lists(expected, got, where);
  if (expected.is_object() && got.is_object()) return difference_of_objects(expected, got, where);
  return fmt::format("{}: expected {}, got {}", where, shortened(expected), shortened(got));
}

bool refuses_bad_value(const Answer& answer, const json& args) {
  const auto convention = args.find("convention");
  if (convention == args.end() || convention->is_null() || *convention == "plumbline")
    return answer.kind == "invalid_argument" || answer.kind == "out_of_range" || answer.kind == "not_found";
  return answer.is_refused() && answer.kind != "unsupported";
}

std::string problem_of_refusal(suite::Adapter& adapter, const std::string& op, const json& args) {
  std::string words = problem_of_control(adapter, op, args);
  return words.empty() ? problem_of_refusal_beside_answers(adapter, op, args) : words;
}

std::string problem_of_refusal_beside_answers(suite::Adapter& adapter, const std::string& op, const json& args) {
  const Answer answer = answer_to(adapter, op, args);
  if (!answer.is_refused()) return fmt::format("{} {} is answered: {}", op, args.dump(), answer.result.dump());
  if (!refuses_bad_value(answer, args))
    return fmt::format("{} {} is refused as '{}': {}", op, args.dump(), answer.kind, answer.message);
  return {};
}

std::string problem_of_bad_question(suite::Context& context, const std::vector<BadQuestion>& questions) {
  const std::string& fault = context.parameters().text("fault");
  const auto one = std::ranges::find(questions, fault, &BadQuestion::fault);
  if (one == questions.end()) return fmt::format("there is no question with fault '{}'", fault);
  return problem_of_refusal(context.adapter(), one->op, one->args);
}

suite::Axis faults_of(const std::vector<BadQuestion>& questions, const std::vector<std::string>& operations) {
  suite::Axis axis{"fault", {}};
  for (const BadQuestion& one : questions)
    if (std::ranges::find(operations, one.op) != operations.end()) axis.values.push_back(one.fault);
  return axis;
}

OptionsOfCase options_of(std::vector<AskedOption> asked) {
  return [asked = std::move(asked)](const suite::Parameters& parameters) {
    suite::OptionValues options;
    for (const AskedOption& one : asked) {
      std::vector<std::string> values = one.values;
      if (!one.by.empty()) {
        if (const auto found = one.by.find(parameters.text(one.parameter)); found != one.by.end())
          values = found->second;
      } else if (!one.parameter.empty()) {
        values = {parameters.text(one.parameter)};
      }
      if (!values.empty()) options[one.operation][one.argument].insert(values.begin(), values.end());
    }
    return options;
  };
}

OperationsOfCase operations_by(std::string parameter, std::map<std::string, std::vector<std::string>> by) {
  return [parameter = std::move(parameter), by = std::move(by)](const suite::Parameters& parameters,
                                                                std::string_view operation) {
    const auto found = by.find(parameters.text(parameter));
    return found == by.end() || std::ranges::find(found->second, operation) != found->second.end();
  };
}

OperationsOfCase operation_of_fault(const std::vector<BadQuestion>& questions) {
  std::map<std::string, std::vector<std::string>> by;
  for (const BadQuestion& one : questions) by[one.fault] = {one.op};
  return operations_by("fault", std::move(by));
}

void report_words(const std::string& problem, std::source_location where) {
  if (!problem.empty()) ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << problem;
}

namespace {

// The answer is asked for once, and judged by as many as there are.
std::string problem_of_answer(const std::string& op, const Answer& answer, const JudgeResult& judge) {
  if (answer.is_refused()) return fmt::format("{} is refused: {}: {}", op, answer.kind, answer.message);
  try {
    return judge(answer.result);
  } catch (const json::exception& error) {
    return fmt::format("{} answers in another form: {}: {}", op, suite::words_without_library(error.what()),
                       shortened(answer.result));
  } catch (const InvalidArgument& error) {  // by a reader of what was answered
    return fmt::format("{} answers in another form: {}: {}", op, error.what(), shortened(answer.result));
  } catch (const std::out_of_range&) {
    return fmt::format("{} names what is not there: {}", op, shortened(answer.result));
  }
}

}  // namespace

namespace {

// The problem with what was asked: a reader repeats it with an adapter of his own.
std::string with_question(const std::string& problem, const std::string& op, const json& args) {
  constexpr std::size_t kMost = 400;
  if (problem.empty()) return {};
  const std::string asked = args.dump(-1, ' ', true, json::error_handler_t::replace);
  if (problem.find(asked) != problem.npos) return problem;
  return fmt::format(
      "{}; asked: {} {}", problem, op,
      asked.size() <= kMost ? asked : asked.substr(0, kMost) + fmt::format("... ({} bytes)", asked.size()));
}

}  // namespace

std::string problem_of(suite::Adapter& adapter, const std::string& op, const json& args, const JudgeResult& judge) {
  try {
    return with_question(problem_of_answer(op, answer_to(adapter, op, args), judge), op, args);
  } catch (const suite::AnswerInAnotherForm& error) {
    return with_question(error.what(), op, args);
  }
}

void report_problems(suite::Adapter& adapter, const std::string& op, const json& args,
                     const JudgesByRequirement& judges, std::source_location where) {
  std::map<std::string, std::string> problems;
  try {
    const Answer answer = answer_to(adapter, op, args);
    for (const auto& [requirement, judge] : judges) problems[requirement] = problem_of_answer(op, answer, judge);
  } catch (const suite::AnswerInAnotherForm& error) {
    for (const auto& [requirement, judge] : judges) problems[requirement] = error.what();
  }
  for (const auto& [requirement, problem] : problems)
    if (!problem.empty()) report_words(fmt::format("{}: {}", requirement, with_question(problem, op, args)), where);
}

}  // namespace plumbline::conformance
