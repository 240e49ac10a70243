// reference/adapter/refusal.hpp: an error reply that says more than kind and message.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "reference/comm/errors.hpp"

namespace plumbline::adapter {

/// An operation throws it in place of an error; the reply's "error" has the fields beside kind and message.
class Refusal : public Error {
 public:
  Refusal(const Error& error, std::map<std::string, std::string> fields)
      : Error(error.what()), kind_(error.kind()), fields_(std::move(fields)) {}
  [[nodiscard]] std::string_view kind() const noexcept override { return kind_; }
  [[nodiscard]] const std::map<std::string, std::string>& fields() const noexcept { return fields_; }

 private:
  std::string kind_;
  std::map<std::string, std::string> fields_;
};

}  // namespace plumbline::adapter
