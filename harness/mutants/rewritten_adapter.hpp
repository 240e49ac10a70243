// harness/mutants/rewritten_adapter.hpp: an adapter whose answers are changed on their way to the check.
#pragma once

#include "harness/mutants/mutants.hpp"
#include "harness/suite/check.hpp"

namespace plumbline::mutants {

/// Where the adapter answers with an error, so does this one, unless `rewrite` makes a result of it.
class RewrittenAdapter final : public suite::Adapter {
 public:
  /// `inner` must outlive it.
  RewrittenAdapter(suite::Adapter& inner, RewriteAnswer rewrite) : inner_(inner), rewrite_(std::move(rewrite)) {}

  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override;
  [[nodiscard]] const std::set<std::string>& operations() const override { return inner_.operations(); }
  [[nodiscard]] std::optional<std::set<std::string>> conventions() const override { return inner_.conventions(); }
  [[nodiscard]] nlohmann::json claims() const override { return inner_.claims(); }
  void answer_by(std::chrono::steady_clock::time_point deadline) override { inner_.answer_by(deadline); }

 private:
  nlohmann::json reply_to(const std::string& op, const nlohmann::json& args);
  suite::Adapter& inner_;
  RewriteAnswer rewrite_;
};

/// The reference's adapter in this process, with the edit that was chosen (choose_woven) while it answers: what judges
/// is right.
class EditedAdapter final : public suite::Adapter {
 public:
  /// `inner` must outlive it.
  explicit EditedAdapter(suite::Adapter& inner) : inner_(inner) {}

  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override;
  [[nodiscard]] const std::set<std::string>& operations() const override { return inner_.operations(); }
  [[nodiscard]] std::optional<std::set<std::string>> conventions() const override { return inner_.conventions(); }
  [[nodiscard]] nlohmann::json claims() const override { return inner_.claims(); }
  void answer_by(std::chrono::steady_clock::time_point deadline) override { inner_.answer_by(deadline); }

 private:
  suite::Adapter& inner_;
};

}  // namespace plumbline::mutants
