// harness/suite/adapter_decorator.hpp: an adapter around another, which is asked for all that it does not change.
#pragma once

#include "harness/suite/check.hpp"

namespace plumbline::suite {

class AdapterDecorator : public Adapter {
 public:
  /// `inner` must outlive it.
  explicit AdapterDecorator(Adapter& inner) : inner_(inner) {}

  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override { return inner_.ask(op, args); }
  [[nodiscard]] const std::set<std::string>& operations() const override { return inner_.operations(); }
  [[nodiscard]] std::optional<std::set<std::string>> conventions() const override { return inner_.conventions(); }
  [[nodiscard]] nlohmann::json claims() const override { return inner_.claims(); }
  void answer_by(std::chrono::steady_clock::time_point deadline) override { inner_.answer_by(deadline); }

 protected:
  Adapter& inner_;
};

}  // namespace plumbline::suite
