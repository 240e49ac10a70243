// harness/mutants/rewritten_adapter.hpp: an adapter whose answers are changed on their way to the check.
#pragma once

#include "harness/mutants/mutants.hpp"
#include "harness/suite/adapter_decorator.hpp"

namespace plumbline::mutants {

/// Where the adapter answers with an error, so does this one, unless `rewrite` makes a result of it.
class RewrittenAdapter final : public suite::AdapterDecorator {
 public:
  /// `inner` must outlive it.
  RewrittenAdapter(suite::Adapter& inner, RewriteAnswer rewrite)
      : AdapterDecorator(inner), rewrite_(std::move(rewrite)) {}

  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override;

 private:
  nlohmann::json reply_to(const std::string& op, const nlohmann::json& args);
  RewriteAnswer rewrite_;
};

/// The reference's adapter in this process, with the edit that was chosen (choose_woven) while it answers: what judges
/// is right.
class EditedAdapter final : public suite::AdapterDecorator {
 public:
  using AdapterDecorator::AdapterDecorator;
  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override;
};

}  // namespace plumbline::mutants
