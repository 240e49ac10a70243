// conformance/support/made_up_adapters.hpp: adapters that answer what a test makes up.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "conformance/support/component_tests.hpp"
#include "conformance/support/remembering_adapter.hpp"
#include "harness/suite/check.hpp"

namespace plumbline::conformance {

/// Answers every question alike.
class OneAnswer final : public suite::Adapter {
 public:
  explicit OneAnswer(nlohmann::json answer) : answer_(std::move(answer)) {}
  nlohmann::json ask(const std::string&, const nlohmann::json&) override { return answer_; }
  [[nodiscard]] const std::set<std::string>& operations() const override { return reference_adapter().operations(); }

 private:
  nlohmann::json answer_;
};

/// The reference's answers, changed; what it refuses is refused.
class OtherAnswers final : public suite::Adapter {
 public:
  using Change = std::function<nlohmann::json(nlohmann::json right)>;
  explicit OtherAnswers(Change change) : change_(std::move(change)) {}
  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override {
    static RememberingAdapter reference(reference_adapter());  // all changes are asked the same
    nlohmann::json right = reference.ask(op, args);
    ++changed;
    return change_(std::move(right));
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return reference_adapter().operations(); }
  int changed = 0;

 private:
  Change change_;
};

}  // namespace plumbline::conformance
