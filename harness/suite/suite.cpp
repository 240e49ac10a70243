#include "harness/suite/suite.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/suite/plan.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::suite {

namespace {

// As the sources have it: the compiler was given a path of the machine that built this.
std::string path_in_sources(std::string_view file) {
  std::size_t begin = std::string_view::npos;
  for (const std::string_view folder : {"/conformance/", "/harness/"})
    if (const std::size_t at = file.rfind(folder); at != std::string_view::npos)
      begin = begin == std::string_view::npos ? at : std::max(begin, at);
  return std::string(begin == std::string_view::npos ? file : file.substr(begin + 1));
}

}  // namespace

void Suite::add(Check check, const std::source_location& where) {
  if (!ids_.insert(check.id).second) throw InvalidArgument(fmt::format("check '{}' is registered twice", check.id));
  check.file = path_in_sources(where.file_name());
  check.line = static_cast<int>(where.line());
  checks_.push_back(std::move(check));
  for (Case& one : cases_of(checks_.back())) {
    one.number = static_cast<int>(cases_.size());
    cases_.push_back(std::move(one));
  }
}

void Suite::add(std::function<std::vector<Mutant>()> make) {
  mutant_sources_.push_back({std::move(make), {}});
  made_mutants_ = false;
}

void Suite::add_mutants_of_toml(std::string_view text, std::string_view origin) {
  mutant_sources_.push_back({[text, origin] { return mutants_of_toml(text, origin); }, text});
  made_mutants_ = false;
}

std::vector<Mutant> Suite::made_by(const MutantSource& source) const {
  std::map<std::string_view, Door> doors;
  for (const Check& check : checks_) doors.emplace(check.id, check.door);
  std::vector<Mutant> made = source.make();
  for (Mutant& mutant : made) {
    auto* const edits = std::get_if<Edits>(&mutant.change);
    const auto door = doors.find(std::string_view(mutant.shows).substr(0, mutant.shows.find('[')));
    if (edits != nullptr && door != doors.end()) edits->door = door->second;
  }
  return made;
}

const std::vector<Mutant>& Suite::mutants() const {
  const std::lock_guard lock(*making_mutants_);
  if (made_mutants_) return mutants_;
  std::vector<Mutant> all;
  for (const MutantSource& source : mutant_sources_) std::ranges::move(made_by(source), std::back_inserter(all));
  std::ranges::sort(all, {}, &Mutant::name);
  const auto twice = std::ranges::adjacent_find(all, {}, &Mutant::name);
  if (twice != all.end()) throw InvalidArgument(fmt::format("mutant '{}' is registered twice", twice->name));
  mutants_ = std::move(all);
  made_mutants_ = true;
  return mutants_;
}

const Mutant* Suite::find_mutant(const std::string& name) const {
  const std::lock_guard lock(*making_mutants_);
  if (made_mutants_) {
    const auto found = std::ranges::lower_bound(mutants_, name, {}, &Mutant::name);
    return found != mutants_.end() && found->name == name ? &*found : nullptr;
  }
  if (const auto known = found_mutants_.find(name); known != found_mutants_.end()) return &known->second;
  for (const MutantSource& source : mutant_sources_) {
    if (!source.text.empty() && source.text.find(name) == std::string_view::npos) continue;
    for (Mutant& mutant : made_by(source))
      if (mutant.name == name) return &found_mutants_.emplace(name, std::move(mutant)).first->second;
  }
  return nullptr;
}

const Profile& Suite::profile(const std::string& name) const {
  std::vector<std::string> names;
  for (const Profile& profile : profiles_) {
    if (profile.name == name) return profile;
    names.push_back(profile.name);
  }
  throw NotFound(fmt::format("--profile: no profile '{}'; {}", name, there_are(name, names)));
}

bool Suite::belongs(const Requirement& requirement, const Profile& profile) const {
  return std::ranges::any_of(profile.prefixes,
                             [&](const std::string& prefix) { return requirement.id.starts_with(prefix + "-"); });
}

std::vector<const Requirement*> Suite::verified_by(const Check& check) const {
  std::vector<const Requirement*> list;
  for (const std::string& citation : check.verifies)
    if (const Requirement* requirement = requirements.find(id_of_citation(citation))) list.push_back(requirement);
  return list;
}

bool Suite::has_case(std::string_view pattern) const {
  return std::ranges::any_of(checks_, [&](const Check& check) {
    std::vector<std::string> ids;
    for (const std::string& citation : check.verifies) ids.emplace_back(id_of_citation(citation));
    return std::ranges::any_of(
        cases_, [&](const Case& one) { return one.check == &check && names_case(pattern, check.id, one.id(), ids); });
  });
}

std::vector<std::string> Suite::problems() const {
  std::vector<std::string> found;
  std::map<std::string, std::set<std::string>> citing;  // requirement -> checks
  for (const Check& check : checks_) {
    if (check.verifies.empty()) found.push_back(fmt::format("check {} verifies no requirement", check.id));
    if (cases_of(check).empty()) found.push_back(fmt::format("check {} has no case", check.id));
    for (const std::string& citation : check.verifies) {
      const Requirement* requirement = requirements.find(id_of_citation(citation));
      if (requirement == nullptr) {
        found.push_back(fmt::format("check {} cites {}, which is no requirement", check.id, citation));
        continue;
      }
      citing[requirement->id].insert(check.id);
      if (citation != requirement->citation())
        found.push_back(fmt::format("check {} cites {}, but the sentence is now {}: look whether it still holds",
                                    check.id, citation, requirement->citation()));
    }
  }
  for (const auto& [id, requirement] : requirements.rows()) {
    if (citing[id].empty()) found.push_back(fmt::format("{} has no check", id));
    for (const std::string& check : requirement.checks)
      if (!citing[id].contains(check))
        found.push_back(fmt::format("{} names check {}, which does not cite it", id, check));
    for (const std::string& need : requirement.needs)
      if (!comm::parse_capability(need))
        found.push_back(fmt::format("{} needs '{}', which is no capability", id, need));
  }
  const auto look_up = [&](const std::vector<std::string>& patterns, const std::string& origin) {
    for (const std::string& pattern : patterns)
      if (!has_case(pattern)) found.push_back(fmt::format("{} names '{}', which matches no case", origin, pattern));
  };
  for (const Waiver& waiver : waivers) look_up(waiver.checks, waiver.origin);
  for (const SuiteIssue& issue : issues) look_up(issue.checks, issue.origin);
  return found;
}

}  // namespace plumbline::suite
