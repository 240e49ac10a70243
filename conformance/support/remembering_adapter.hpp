// conformance/support/remembering_adapter.hpp: an adapter that works out each answer once. Many checks of a component
// ask the same question, of which each judges another thing.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <variant>

#include <nlohmann/json.hpp>

#include "harness/subject/adapter/declared.hpp"
#include "harness/suite/adapter_error.hpp"
#include "harness/suite/check.hpp"
#include "reference/adapter/protocol.hpp"

namespace plumbline::conformance {

/// Of an adapter whose answers depend on the question alone, which must outlive it. Keeps all answers.
class RememberingAdapter final : public suite::Adapter {
 public:
  explicit RememberingAdapter(suite::Adapter& inner) : inner_(inner) {}
  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override {
    // Which costs the reference the reading of the whole question.
    if (std::ranges::count(subject::operation_table().row(op).conventions, adapter::convention_asked(args)) == 0)
      throw suite::AdapterError(op, "unsupported", "another convention");
    const std::string question = op + args.dump();
    auto found = answers_.find(question);
    if (found == answers_.end()) found = answers_.emplace(question, answer(op, args)).first;
    if (const auto* error = std::get_if<suite::AdapterError>(&found->second)) throw suite::AdapterError(*error);
    return std::get<nlohmann::json>(found->second);
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return inner_.operations(); }
  [[nodiscard]] std::optional<std::set<std::string>> conventions() const override { return inner_.conventions(); }
  [[nodiscard]] nlohmann::json claims() const override { return claims_; }

 private:
  using Answer = std::variant<nlohmann::json, suite::AdapterError>;
  Answer answer(const std::string& op, const nlohmann::json& args) {
    try {
      return inner_.ask(op, args);
    } catch (const suite::AdapterError& error) {
      return error;
    }
  }
  suite::Adapter& inner_;
  std::map<std::string, Answer> answers_;
  const nlohmann::json claims_ = inner_.claims();
};

}  // namespace plumbline::conformance
