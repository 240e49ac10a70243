// harness/mutants/rewriting.hpp: the ways in which most answers are rewritten.
#pragma once

#include <cstddef>
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

// ---- adapters that are right of small questions alone ----

/// How large a question is.
using Size = std::function<std::size_t(const nlohmann::json& args)>;
/// The number, or the length of the list, that it has as that argument; 0 where it has none.
[[nodiscard]] Size number_in(const std::string& argument);
[[nodiscard]] Size length_of(const std::string& argument);
/// Changes the results of one operation of questions that are larger than `most`.
[[nodiscard]] RewriteAnswer results_past(const std::string& asked, Size size, std::size_t most, ChangeResult change);

/// A mutant that shows at one value of a check's axis "size", and hides at a smaller one.
struct SizeMutant {
  std::string name, violates, what, check, shows, hides;
  RewriteAnswer change;
};
[[nodiscard]] Mutant past_size(SizeMutant mutant);

/// One more than it was; what is no number stays as it is.
void one_more(nlohmann::json& number);

}  // namespace plumbline::mutants
