// harness/suite/suite.hpp: what conformance/ contributes, in one value: requirements, checks, mutants, profiles,
// waivers.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "harness/suite/bug.hpp"
#include "harness/suite/check.hpp"
#include "harness/suite/hollow_truths.hpp"
#include "harness/suite/mutant.hpp"
#include "harness/suite/requirement.hpp"
#include "harness/suite/waiver.hpp"

namespace plumbline::suite {

/// What a subject can claim.
struct Profile {
  std::string name;                    // "collectives"
  std::string version;                 // of the profile
  std::string title;                   // one line
  std::vector<std::string> prefixes;   // of the requirement ids that belong to it: "COLL"
  std::vector<std::string> mandatory;  // capabilities: a subject that lacks one fails the profile
};

class Suite {
 public:
  /// Adds a check, which keeps the file and line of the call. Throws InvalidArgument for an id used twice.
  void add(Check check, const std::source_location& where = std::source_location::current());
  /// Adds mutants, which are made when they are first asked for: most commands need none.
  void add(std::function<std::vector<Mutant>()> make);
  /// Those of a mutants.toml, whose text and origin must outlive the suite.
  void add_mutants_of_toml(std::string_view text, std::string_view origin);
  void add(Profile profile) { profiles_.push_back(std::move(profile)); }
  RequirementTable requirements;
  std::vector<Waiver> waivers;
  std::vector<SuiteIssue> issues;
  std::map<std::string, Bug> bugs;  // by id
  HollowTruths hollow_truths;

  [[nodiscard]] const std::deque<Check>& checks() const { return checks_; }
  /// The cases of all checks; a case's number is its position.
  [[nodiscard]] const std::vector<Case>& cases() const { return cases_; }
  /// By name. Throws InvalidArgument for a name used twice, and for a mutants.toml that is malformed.
  [[nodiscard]] const std::vector<Mutant>& mutants() const;
  /// The mutant of that name, or nullptr. Of a mutants.toml without that name it reads nothing.
  [[nodiscard]] const Mutant* find_mutant(const std::string& name) const;
  [[nodiscard]] const std::vector<Profile>& profiles() const { return profiles_; }
  /// Throws NotFound, naming those that there are.
  [[nodiscard]] const Profile& profile(const std::string& name) const;
  [[nodiscard]] bool belongs(const Requirement& requirement, const Profile& profile) const;
  /// The requirements that a check verifies.
  [[nodiscard]] std::vector<const Requirement*> verified_by(const Check& check) const;

  /// Whether a pattern (names_case) names any case at all.
  [[nodiscard]] bool has_case(std::string_view pattern) const;

  /// What is inconsistent, a line each: a requirement without check or mutant, a check without requirement, a stale or
  /// unknown citation, rows that name checks which do not cite them, waivers and suite issues of what
  /// there is not. Empty is good.
  [[nodiscard]] std::vector<std::string> problems() const;

 private:
  std::deque<Check> checks_;  // addresses stay
  std::vector<Case> cases_;
  mutable std::vector<Mutant> mutants_;
  std::vector<Profile> profiles_;
  std::set<std::string> ids_;  // of the checks

  struct MutantSource {
    std::function<std::vector<Mutant>()> make;
    std::string_view text;  // of a mutants.toml; else empty
  };
  [[nodiscard]] std::vector<Mutant> made_by(const MutantSource& source) const;
  std::vector<MutantSource> mutant_sources_;
  std::unique_ptr<std::mutex> making_mutants_ = std::make_unique<std::mutex>();  // a suite can be moved
  mutable bool made_mutants_ = false;
  mutable std::map<std::string, Mutant> found_mutants_;  // before all are made
};

}  // namespace plumbline::suite
