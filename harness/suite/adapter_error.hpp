// harness/suite/adapter_error.hpp: an adapter's error reply, as an exception that a check can catch.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "reference/comm/errors.hpp"

namespace plumbline::suite {

/// The adapter answered, and its answer is an error. kind() is the adapter's; what() has operation, kind and
/// message.
class AdapterError : public Error {
 public:
  AdapterError(const std::string& operation, std::string kind, std::string message,
               std::map<std::string, std::string> fields = {})
      : Error(operation + ": " + kind + ": " + message),
        kind_(std::move(kind)),
        message_(std::move(message)),
        fields_(std::move(fields)) {}
  [[nodiscard]] std::string_view kind() const noexcept override { return kind_; }
  /// The adapter's words alone.
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  /// What the error has beside kind and message, by name; what is no text as JSON.
  [[nodiscard]] const std::map<std::string, std::string>& fields() const noexcept { return fields_; }

 private:
  std::string kind_;
  std::string message_;
  std::map<std::string, std::string> fields_;
};

/// The adapter answered, and not in the form that the operation's row says: no check reads it.
class AnswerInAnotherForm : public Error {
 public:
  using Error::Error;
};

/// Questions that are not put to the subject. They end the case; no check catches them, for they are no std::exception.
/// A check asks what it does not declare: a fault of the suite, whatever the subject is.
struct UndeclaredQuestion {
  std::string what;
};
/// A case ended without having asked all that its check declares: nothing is known of the rest.
struct UnaskedQuestion {
  std::string what;
};
/// The subject does not claim the value of an option that is asked for: the case is skipped.
struct UnclaimedQuestion {
  std::string what;
};

}  // namespace plumbline::suite
