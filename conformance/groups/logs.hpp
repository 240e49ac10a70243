// conformance/groups/logs.hpp: logs of the groups that ranks make, questions to a linter about them, and its findings.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "conformance/support/property.hpp"

namespace plumbline::conformance {

inline constexpr const char* kLint = "groups.lint";

struct Made {
  std::vector<int> ranks;
  std::string mode = {};
};
using Log = std::vector<std::vector<Made>>;  // by rank

/// The arguments of kLint: each rank's creations after those of the rank before.
[[nodiscard]] nlohmann::json lint_question(const Log& log, const std::string& rule,
                                           const std::vector<std::string>& partial_modes = {});
[[nodiscard]] std::string text_of(const Log& log);

/// Ranks that make some groups in one order, of which one may swap two, or leave one out.
[[nodiscard]] Log draw_log(Random& random);
/// Those with a creation less.
[[nodiscard]] std::vector<Log> smaller_logs(const Log& log);

/// Where blocking calls of members alone end, tried out step by step: the creation at which each rank waits; nothing
/// for one that has made all.
[[nodiscard]] std::vector<std::optional<std::size_t>> ends_of(const Log& log);
/// Whether no rank waits then.
[[nodiscard]] bool all_complete(const Log& log);
/// Whether all ranks give the same lists.
[[nodiscard]] bool all_equal(const Log& log);

/// Kind, rank and creation of a finding; -1 where it names none.
struct Named {
  std::string kind;
  int rank, sequence;
  auto operator<=>(const Named&) const = default;
};
using Findings = std::multiset<Named>;
[[nodiscard]] Findings findings_in(const nlohmann::json& result, const std::string& severity);
[[nodiscard]] std::string text_of(const Findings& findings);
/// "" when they are the same, else both.
[[nodiscard]] std::string not_equal(const Findings& expected, const Findings& got);

/// The errors of a log of draw_log() whose creations all ranks make: the first difference of the odd rank. Nothing
/// where it is not plain who is odd.
[[nodiscard]] std::optional<Findings> first_difference_of(const Log& log);

}  // namespace plumbline::conformance
