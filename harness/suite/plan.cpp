#include "harness/suite/plan.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/support/fnv1a.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::suite {
namespace {

// "a", "a or b", "a, b or c".
std::string in_words(std::vector<std::string> names) {
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : fmt::format("{} or {}", fmt::join(names, ", "), last);
}

constexpr std::string_view kOperation = "operation:";

bool filter_matches(const std::string& filter, const Case& one, const std::vector<const Requirement*>& requirements) {
  const auto any = [&](std::string_view prefix, const auto& texts_of) {
    if (!filter.starts_with(prefix)) return false;
    const std::string_view pattern = std::string_view(filter).substr(prefix.size());
    return std::ranges::any_of(requirements, [&](const Requirement* requirement) {
      return std::ranges::any_of(texts_of(*requirement),
                                 [&](const std::string& text) { return matches_id(pattern, text); });
    });
  };
  if (filter.starts_with("component:")) return matches_id(filter.substr(10), one.component());
  if (filter.starts_with(kOperation))
    return std::ranges::any_of(one.operations(), [&](const std::string& operation) {
      return matches_id(std::string_view(filter).substr(kOperation.size()), operation);
    });
  if (any("tag:", [](const Requirement& r) { return r.tags; })) return true;
  if (any("source:", [](const Requirement& r) { return r.sources; })) return true;
  if (any("", [](const Requirement& r) { return std::vector{r.id}; })) return true;
  return matches_id(filter, one.check->id) || matches_id(filter, one.id());
}

// Whether a check is outside of profiles: what all its requirements are tagged with takes more than most machines have.
bool is_huge(const std::vector<const Requirement*>& requirements) {
  return !requirements.empty() && std::ranges::all_of(requirements, [](const Requirement* requirement) {
    return std::ranges::count(requirement->tags, "huge") > 0;
  });
}

// Whether a filter asks for a case by the tag, or by an id without * and ? in the check's name.
bool asks_for_huge(const std::string& filter, const Case& one, const std::vector<const Requirement*>& requirements) {
  if (filter == "tag:huge") return true;
  const std::string literal = filter.substr(0, filter.find_first_of("*?"));
  return matches_id(one.check->id, std::string_view(literal).substr(0, one.check->id.size())) ||
         std::ranges::any_of(requirements,
                             [&](const Requirement* requirement) { return matches_id(requirement->id, filter); });
}

// The names of the profiles that have checks of a door, or cases of it that a filter matches.
std::vector<std::string> profiles_with(const Suite& suite, Door door, const std::string& filter = "*") {
  std::vector<std::string> names;
  for (const Profile& profile : suite.profiles()) {
    const auto has = [&](const Case& one) {
      if (one.check->door != door) return false;
      const auto requirements = suite.verified_by(*one.check);
      return std::ranges::any_of(requirements, [&](const Requirement* r) { return suite.belongs(*r, profile); }) &&
             filter_matches(filter, one, requirements);
    };
    if (std::ranges::any_of(suite.cases(), has)) names.push_back(profile.name);
  }
  return names;
}

// What a filter of that kind may name of a door's cases: all, or those of a profile. An operation is near to a filter
// with its name alone, too.
std::vector<std::string> names_like(const Suite& suite, const std::string& filter, Door door, const Profile* profile) {
  std::set<std::string> names;
  const auto add_all = [&](std::string_view prefix, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) names.insert(std::string(prefix) + text);
  };
  const bool has_kind = filter.find(':') != std::string::npos;
  for (const Check& check : suite.checks()) {
    if (check.door != door) continue;
    auto rows = suite.verified_by(check);
    if (profile != nullptr) std::erase_if(rows, [&](const Requirement* row) { return !suite.belongs(*row, *profile); });
    if (rows.empty()) continue;
    if (!has_kind) names.insert(check.id);
    if (filter.starts_with(kOperation)) add_all(kOperation, check.operations);
    if (!has_kind) add_all("", check.operations);
    for (const Requirement* row : rows) {
      if (!has_kind) names.insert(row->id);
      if (filter.starts_with("component:")) names.insert("component:" + row->component);
      if (filter.starts_with("tag:")) add_all("tag:", row->tags);
      if (filter.starts_with("source:")) add_all("source:", row->sources);
    }
  }
  return {names.begin(), names.end()};
}

// An operation is named with its kind: its name alone is nearly one of a check.
std::string as_filter(const Suite& suite, const std::string& name) {
  const bool is_operation = std::ranges::any_of(
      suite.checks(), [&](const Check& check) { return std::ranges::count(check.operations, name) > 0; });
  return is_operation ? std::string(kOperation) + name : name;
}

// The word between the dots of a check's id that is near to a filter, as "all_reduce" is to "allreduce".
std::string nearest_part(const Suite& suite, const Selection& selection, const std::string& filter,
                         const Profile& profile) {
  if (filter.find_first_of(":.*?[") != std::string::npos) return "";
  std::set<std::string> parts;
  for (const std::string& name : names_like(suite, filter, selection.door, &profile)) {
    if (name.find('.') == std::string::npos || as_filter(suite, name) != name) continue;
    for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = name.find('.', begin);
      parts.insert(name.substr(begin, end - begin));
    }
  }
  return meant_name(filter, {parts.begin(), parts.end()}).value_or("");
}

// "; did you mean COLL-001?": a filter that selects something, with what else it needs.
std::string nearest_filter(const Suite& suite, const Selection& selection, const std::string& filter) {
  const Profile& profile = suite.profile(selection.profile);
  if (const auto meant = meant_name(filter, names_like(suite, filter, selection.door, &profile)))
    return fmt::format("; did you mean {}?", as_filter(suite, *meant));
  if (const std::string part = nearest_part(suite, selection, filter, profile); !part.empty())
    return fmt::format("; did you mean '*{}*'?", part);
  for (const Door door : {selection.door, Door::backend, Door::adapter, Door::job})
    if (const auto meant = meant_name(filter, names_like(suite, filter, door, nullptr))) {
      const std::string one = as_filter(suite, *meant);
      const auto profiles = profiles_with(suite, door, one);
      if (!profiles.empty())
        return fmt::format("; did you mean {}, with --{} and --profile {}?", one, name_of(door), in_words(profiles));
    }
  return "";
}

// Why a filter selects nothing, and what would have it select something.
std::string no_match(const Suite& suite, const Selection& selection, const std::string& filter) {
  const std::string nothing = fmt::format("--filter '{}' matches nothing in profile {}", filter, selection.profile);
  const auto here = profiles_with(suite, selection.door, filter);
  if (!here.empty() && std::ranges::count(here, selection.profile) == 0)
    return fmt::format("{}; --profile {} has it", nothing, in_words(here));
  for (const Door door : {Door::backend, Door::adapter, Door::job}) {
    if (door == selection.door) continue;
    const auto there = profiles_with(suite, door, filter);
    if (here.empty() && !there.empty())
      return fmt::format("{}; with --{} and --profile {} it does", nothing, name_of(door), in_words(there));
  }
  return nothing + "; --list shows what there is" + nearest_filter(suite, selection, filter);
}

}  // namespace

namespace {

std::vector<ExecutionMode> arms_of(const Case& one, const Selection& selection, std::uint64_t seed) {
  if (!selection.modes.empty()) return selection.modes;
  if (!one.check->deadlock_prone && !selection.every_arm) return {ExecutionMode{}};
  return {ExecutionMode{}, ExecutionMode{.kind = ExecutionMode::Kind::rendezvous},
          ExecutionMode{.kind = ExecutionMode::Kind::chaos, .seed = seed}};
}

std::vector<std::uint64_t> seeds_of(const Selection& selection) {
  if (!selection.seeds.empty()) return selection.seeds;
  std::vector<std::uint64_t> seeds(static_cast<std::size_t>(selection.repeat));
  std::iota(seeds.begin(), seeds.end(), selection.seed);
  return seeds;
}

std::vector<PlannedCase> part_of(std::vector<PlannedCase> plan, const Shard& shard) {
  if (shard.count == 1) return plan;
  std::vector<PlannedCase> part;
  for (std::size_t i = 0; i < plan.size(); ++i)
    if (plan[i].canary || static_cast<int>(i % static_cast<std::size_t>(shard.count)) == shard.index - 1)
      part.push_back(plan[i]);
  return part;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool matches_id(std::string_view pattern, std::string_view id) {
  return matches(in_lower_case(pattern), in_lower_case(id));
}

bool names_case(std::string_view pattern, std::string_view check, std::string_view case_id,
                const std::vector<std::string>& requirements) {
  const auto verifies = [&](std::string_view requirement) {
    return std::ranges::any_of(requirements, [&](const std::string& id) { return matches(requirement, id); });
  };
  const std::size_t slash = pattern.find('/');
  // A requirement's id has a dash before any dot, and a slash may stand in a parameter.
  const bool two = slash != std::string_view::npos && pattern.substr(0, slash).find_first_of(".[") == std::string::npos;
  const std::string_view place = two ? pattern.substr(slash + 1) : pattern;
  const bool named = matches(place, check) || matches(place, case_id);
  return two ? named && verifies(pattern.substr(0, slash)) : named || verifies(pattern);
}

std::vector<PlannedCase> make_plan(const Suite& suite, const Selection& selection) {
  const Profile& profile = suite.profile(selection.profile);
  std::vector<const Case*> chosen;
  std::vector<bool> used(selection.filters.size());
  std::set<int> sizes;  // of worlds, also of those that are not asked for
  for (const Case& one : suite.cases()) {
    if (one.check->door != selection.door) continue;
    const auto requirements = suite.verified_by(*one.check);
    if (std::ranges::none_of(requirements, [&](const Requirement* r) { return suite.belongs(*r, profile); })) continue;
    const bool sized = selection.door == Door::adapter || selection.worlds.empty() ||
                       std::ranges::count(selection.worlds, one.ranks()) > 0;
    const bool fits = selection.largest_world == 0 || one.world() <= selection.largest_world;
    const bool huge = is_huge(requirements);
    bool wanted = selection.filters.empty() && !huge;
    for (std::size_t i = 0; i < selection.filters.size(); ++i) {
      const std::string& filter = selection.filters[i];
      if (!filter_matches(filter, one, requirements)) continue;
      if (!huge || asks_for_huge(filter, one, requirements)) used[i] = wanted = true;
    }
    if (fits && wanted) sizes.insert(one.ranks());
    if (sized && fits && wanted) chosen.push_back(&one);
  }
  if (const auto others = profiles_with(suite, selection.door); std::ranges::count(others, profile.name) == 0)
    throw NotFound(fmt::format("nothing to run: profile {} has no check of the {} door; {}", profile.name,
                               name_of(selection.door),
                               others.empty() ? "no profile has" : fmt::format("--profile {} has", in_words(others))));
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) throw NotFound(no_match(suite, selection, selection.filters[i]));
  if (chosen.empty())
    throw NotFound(fmt::format(
        "nothing to run: no case of profile {} for the {} door at the requested world sizes; {}", profile.name,
        name_of(selection.door),
        sizes.empty() ? "--list shows what there is" : fmt::format("--world-size has {}", fmt::join(sizes, ", "))));
  if (selection.shuffle) std::ranges::shuffle(chosen, std::mt19937_64(*selection.shuffle));
  std::ranges::stable_sort(chosen, {}, [](const Case* one) { return std::tuple(one->component(), one->ranks()); });
  std::vector<PlannedCase> plan;
  std::set<std::string> components;
  int repetition = 0;
  for (const std::uint64_t seed : seeds_of(selection)) {
    for (const Case* one : chosen)
      for (const ExecutionMode& mode : arms_of(*one, selection, seed))
        plan.push_back({one, seed, repetition, mode, components.insert(one->component()).second});
    ++repetition;
  }
  return part_of(plan, selection.shard);
}

Shard Shard::parse(const std::string& text) {
  static const std::regex pattern("([0-9]{1,5})/([0-9]{1,5})");
  std::smatch parts;
  Shard shard;
  if (std::regex_match(text, parts, pattern)) shard = {std::stoi(parts[1]), std::stoi(parts[2])};
  if (parts.empty() || shard.index < 1 || shard.index > shard.count)
    throw InvalidArgument(fmt::format("--shard '{}'; it is I/N, with I from 1 to N: 2/3", text));
  return shard;
}

std::string Shard::name() const { return fmt::format("{}/{}", index, count); }

std::string plan_hash(std::string_view subject, std::string_view version, const std::vector<PlannedCase>& plan) {
  comm::Fnv1a hash;
  const auto mix = [&hash](std::string_view text) { hash.add(text).add_word(0xff); };
  mix(subject);
  mix(version);
  for (const PlannedCase& planned : plan)
    mix(fmt::format("{} {} {} {}", planned.one->id(), planned.mode.name(), planned.seed, planned.repetition));
  return fmt::format("{:016x}", hash.value());
}

}  // namespace plumbline::suite
