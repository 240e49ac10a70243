// harness/mutants/rewriting.hpp: the ways in which most answers are rewritten.
#pragma once

#include <functional>
#include <string>

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

using ChangeResult = std::function<void(const nlohmann::json& args, nlohmann::json& result)>;

/// Changes the results of one operation.
[[nodiscard]] RewriteAnswer results_of(const std::string& asked, ChangeResult change);
/// The same where it is asked under one convention.
[[nodiscard]] RewriteAnswer results_of(const std::string& asked, const std::string& convention, ChangeResult change);
/// Takes what is refused, where `concerns` says so, and gives `result`.
[[nodiscard]] RewriteAnswer takes(const std::string& asked, std::function<bool(const nlohmann::json& args)> concerns,
                                  nlohmann::json result = nlohmann::json::object());

}  // namespace plumbline::mutants
