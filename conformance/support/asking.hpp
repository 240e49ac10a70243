// conformance/support/asking.hpp: what the bodies of checks of adapters have in common: questions and comparisons.
#pragma once

#include <functional>
#include <map>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/suite/check.hpp"

namespace plumbline::conformance {

/// What came for a question: a result, or the kind and message of an error.
struct Answer {
  nlohmann::json result;
  std::string kind, message;
  [[nodiscard]] bool is_refused() const { return !kind.empty(); }
};
/// Throws what the adapter throws when it is gone.
[[nodiscard]] Answer answer_to(suite::Adapter& adapter, const std::string& op, const nlohmann::json& args);

/// Whether an answer refuses a bad value as the convention of the question does: plumbline as the caller's fault,
/// invalid_argument, out_of_range or not_found; another system by any kind, for its assertions and runtime errors come
/// as several. `unsupported` says that there is no such operation, convention or option, and nothing of the value.
[[nodiscard]] bool refuses_bad_value(const Answer& answer, const nlohmann::json& args);

/// "" when both are the same value, else where they first differ: "groups.pipe[1]: expected [1,4], got [2,5]". Fields
/// that only `got` has are not looked at.
[[nodiscard]] std::string first_difference(const nlohmann::json& expected, const nlohmann::json& got,
                                           const std::string& where = "result");

/// "" when the control question (control.hpp) is answered, and then one that cannot be answered is refused as a bad
/// value; else what came.
[[nodiscard]] std::string problem_of_refusal(suite::Adapter& adapter, const std::string& op,
                                             const nlohmann::json& args);

/// The same without the control question: of a case that asks the operation what must be answered, too.
[[nodiscard]] std::string problem_of_refusal_beside_answers(suite::Adapter& adapter, const std::string& op,
                                                            const nlohmann::json& args);

/// A question that has to be refused, by the name of what is wrong with it.
struct BadQuestion {
  std::string fault, op;
  nlohmann::json args;
};
/// Asks the one that parameter "fault" names; "" when it is refused.
[[nodiscard]] std::string problem_of_bad_question(suite::Context& context, const std::vector<BadQuestion>& questions);
/// The faults of questions to these operations.
[[nodiscard]] suite::Axis faults_of(const std::vector<BadQuestion>& questions,
                                    const std::vector<std::string>& operations);

/// The values of an option that the cases of a check ask for: `values`; or the case's parameter of that name; or `by`
/// its value.
struct AskedOption {
  std::string operation, argument;
  std::vector<std::string> values = {};
  std::string parameter = {};
  std::map<std::string, std::vector<std::string>> by = {};
};
using OptionsOfCase = std::function<suite::OptionValues(const suite::Parameters&)>;
[[nodiscard]] OptionsOfCase options_of(std::vector<AskedOption> asked);

/// Of a check of several operations: a case asks the one whose name `by` has for its parameter of that name.
using OperationsOfCase = std::function<bool(const suite::Parameters&, std::string_view operation)>;
[[nodiscard]] OperationsOfCase operations_by(std::string parameter, std::map<std::string, std::vector<std::string>> by);
/// A case asks the question that its parameter "fault" names.
[[nodiscard]] OperationsOfCase operation_of_fault(const std::vector<BadQuestion>& questions);

/// A failure of the check with those words, unless they are empty.
void report_words(const std::string& problem, std::source_location where = std::source_location::current());

/// Judges a result; not asked where the question was refused, which is a problem of its own. A result of another form
/// (a missing field, a text for a number) is one, too, and so is a rank or axis that is not there, for which the judge
/// may throw std::out_of_range, and what a reader of programs or plans refuses with InvalidArgument.
using JudgeResult = std::function<std::string(const nlohmann::json& result)>;
[[nodiscard]] std::string problem_of(suite::Adapter& adapter, const std::string& op, const nlohmann::json& args,
                                     const JudgeResult& judge);

/// Failures of a check of several requirements: each begins with the id of the requirement that its judge is of. An
/// answer that none of them can read is a problem of each.
using JudgesByRequirement = std::map<std::string, JudgeResult>;
void report_problems(suite::Adapter& adapter, const std::string& op, const nlohmann::json& args,
                     const JudgesByRequirement& judges, std::source_location where = std::source_location::current());

}  // namespace plumbline::conformance
