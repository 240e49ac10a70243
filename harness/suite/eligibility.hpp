// harness/suite/eligibility.hpp: what a subject must have for a case to be run on it.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/suite/suite.hpp"

namespace plumbline::suite {

/// What a backend claims, as it says so when it is ready.
[[nodiscard]] nlohmann::json description_of(const comm::Capabilities& capabilities);

/// Something that a case needs and the subject does not claim.
struct Lacking {
  std::string what;        // "capability groups", "dtype bf16", "operation comm.ring_sum"
  bool mandatory = false;  // the profile demands it: then it is a failure
};

/// The first thing that the subject lacks for the case, or nothing. `description` is what the subject said of itself when
/// it was ready: {"capabilities": {"claims", "dtypes"}, "operations"}.
[[nodiscard]] std::optional<Lacking> lacking(const Suite& suite, const Profile& profile, const Case& one,
                                             const nlohmann::json& description);

}  // namespace plumbline::suite
