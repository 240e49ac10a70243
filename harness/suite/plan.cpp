#include "harness/suite/plan.hpp"

#include <algorithm>
#include <random>
#include <tuple>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::suite {
namespace {

bool filter_matches(const std::string& filter, const Case& one, const std::vector<const Requirement*>& requirements) {
  const auto any = [&](std::string_view prefix, const auto& texts_of) {
    if (!filter.starts_with(prefix)) return false;
    const std::string_view pattern = std::string_view(filter).substr(prefix.size());
    return std::ranges::any_of(requirements, [&](const Requirement* requirement) {
      return std::ranges::any_of(texts_of(*requirement),
                                 [&](const std::string& text) { return matches(pattern, text); });
    });
  };
  if (filter.starts_with("component:")) return matches(filter.substr(10), one.component());
  if (any("tag:", [](const Requirement& r) { return r.tags; })) return true;
  if (any("source:", [](const Requirement& r) { return r.sources; })) return true;
  if (any("", [](const Requirement& r) { return std::vector{r.id}; })) return true;
  return matches(filter, one.check->id) || matches(filter, one.id());
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

std::vector<PlannedCase> make_plan(const Suite& suite, const Selection& selection) {
  const Profile& profile = suite.profile(selection.profile);
  std::vector<const Case*> chosen;
  std::vector<bool> used(selection.filters.size());
  for (const Case& one : suite.cases()) {
    if (one.check->door != selection.door) continue;
    const auto requirements = suite.verified_by(*one.check);
    if (std::ranges::none_of(requirements, [&](const Requirement* r) { return suite.belongs(*r, profile); })) continue;
    const bool sized = selection.door != Door::backend || selection.worlds.empty() ||
                       std::ranges::count(selection.worlds, one.world()) > 0;
    const bool fits = selection.largest_world == 0 || one.world() <= selection.largest_world;
    bool wanted = selection.filters.empty();
    for (std::size_t i = 0; i < selection.filters.size(); ++i)
      if (filter_matches(selection.filters[i], one, requirements)) used[i] = wanted = true;
    if (sized && fits && wanted) chosen.push_back(&one);
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      throw NotFound(fmt::format("--filter '{}' matches nothing in profile {}; --list shows what there is",
                                 selection.filters[i], profile.name));
  if (chosen.empty())
    throw NotFound(fmt::format("nothing to run: no case of profile {} for the {} door at the world sizes asked for",
                               profile.name, name_of(selection.door)));
  if (selection.shuffle) std::ranges::shuffle(chosen, std::mt19937_64(*selection.shuffle));
  std::ranges::stable_sort(chosen, {}, [](const Case* one) { return std::tuple(one->component(), one->world()); });
  std::vector<PlannedCase> plan;
  for (int repetition = 0; repetition < selection.repeat; ++repetition)
    for (const Case* one : chosen)
      plan.push_back({one, selection.seed + static_cast<std::uint64_t>(repetition), repetition});
  return plan;
}

std::string plan_hash(std::string_view subject, std::string_view version, const std::vector<PlannedCase>& plan) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hash = (hash ^ 0xffu) * 0x100000001b3u;
  };
  mix(subject);
  mix(version);
  for (const PlannedCase& planned : plan)
    mix(fmt::format("{} {} {}", planned.one->id(), planned.seed, planned.repetition));
  return fmt::format("{:016x}", hash);
}

}  // namespace plumbline::suite
