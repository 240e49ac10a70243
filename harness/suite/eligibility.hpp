// harness/suite/eligibility.hpp: what a subject must have for a case to be run on it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/suite/suite.hpp"

namespace plumbline::suite {

/// What a backend claims, as it says so when it is ready.
[[nodiscard]] nlohmann::json description_of(const comm::Capabilities& capabilities);

/// Something that a case needs and the subject does not claim.
struct Lacking {
  std::string what;        // "capability groups", "dtype bf16", "operation comm.ring_sum", "graph ring of gossip.graph"
  bool mandatory = false;  // the profile demands it: then it is a failure
};

/// Whether a run on that device makes the case's calls on its memory: a case of the backend door. What LibTorch has on
/// a GPU goes through the host's memory where the backend takes no other.
[[nodiscard]] bool uses_device_memory(const Check& check, std::string_view device);

/// Whether one of the values of an option is that one, or the kind of which it is one: cuda of cuda:1.
[[nodiscard]] bool claims_value(const std::set<std::string>& values, std::string_view value);

/// The first thing that the subject lacks for the case on that device, or nothing. `description` is what the subject
/// said of itself when it was ready: {"capabilities": {"claims", "dtypes", "devices"}}, what an adapter claims
/// (Adapter::claims), and "device_missing", why the run's device is not there.
[[nodiscard]] std::optional<Lacking> lacking(const Suite& suite, const Profile& profile, const Case& one,
                                             const nlohmann::json& description, const std::string& device = "cpu");

/// A line about the conventions that an adapter claims and in which no case asks one of its operations; nothing where
/// there are none.
[[nodiscard]] std::string unasked_conventions(const Suite& suite, const nlohmann::json& claims);

struct ProfileCases {
  const Profile* profile;
  int cases;
};
/// The profiles that have cases for an adapter with these claims, and how many; of profiles with equally many the
/// narrowest alone.
[[nodiscard]] std::vector<ProfileCases> profiles_for_adapter(const Suite& suite, const nlohmann::json& claims);

}  // namespace plumbline::suite
