// harness/subject/adapter/declared.hpp: holds the questions of a case to what its check declares and what the subject
// claims.
#pragma once

#include <set>
#include <string>

#include "harness/suite/adapter_decorator.hpp"
#include "reference/adapter/service.hpp"

namespace plumbline::subject {

/// Passes the questions of one case on.
class DeclaredAdapter final : public suite::AdapterDecorator {
 public:
  /// `inner` and `one` must outlive it.
  DeclaredAdapter(suite::Adapter& inner, const suite::Case& one);

  /// Throws suite::UndeclaredQuestion for an operation, a convention or a value of an option that the check does not
  /// declare, suite::UnclaimedQuestion for a value of an option that the subject does not claim; those are not asked.
  /// The latter also where a subject that says nothing of options answers `unsupported`. suite::AnswerInAnotherForm
  /// where the operation's row has an integer in place of a number. Else as `inner`.
  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override;

  /// The operation and the arguments of the question asked last, shortened; "" before the first.
  [[nodiscard]] const std::string& last_question() const { return last_question_; }

  /// Throws suite::UnaskedQuestion where the check declares an operation or an option that the case has not asked so
  /// far. A case that draws its questions may not come to every value.
  enum class Values { some, all };
  void expect_all_asked(Values values = Values::some) const;

 private:
  const suite::Case& one_;
  std::set<std::string> operations_;  // declared
  suite::OptionValues options_;       // declared
  suite::OptionValues claimed_;
  bool names_options_;
  std::set<std::string> asked_operations_;
  suite::OptionValues asked_options_;
  std::string last_question_;
};

/// The rows of the reference's operations, by which questions are read.
[[nodiscard]] const adapter::AdapterService& operation_table();

}  // namespace plumbline::subject
