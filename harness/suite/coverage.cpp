#include "harness/suite/coverage.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/suite/eligibility.hpp"

namespace plumbline::suite {
namespace {

// What keeps a subject from every case of a check; nothing where it runs one.
std::optional<std::string> obstacle(const Suite& suite, const Check& check, const KnownSubject& subject) {
  std::string first;
  for (const Case& one : suite.cases()) {
    if (one.check != &check) continue;
    const auto lack = lacking(suite, {}, one, subject.description, subject.device);
    if (!lack) return std::nullopt;
    if (first.empty()) first = lack->what;
  }
  return fmt::format("{} lacks {}", subject.name, first.empty() ? "a case" : first);
}

// Over a backend, only the collectives' checks judge what is under their calls.
Judged judged_by(const Check& check) {
  if (check.door == Door::adapter) return Judged::adapter;
  if (check.door == Door::job) return Judged::job;
  return check.id.starts_with("collectives.") ? Judged::backend : Judged::reference;
}

}  // namespace

std::string_view name_of(Judged judged) {
  switch (judged) {
    case Judged::backend:
      return "backend";
    case Judged::adapter:
      return "adapter";
    case Judged::job:
      return "job";
    default:
      return "reference";
  }
}

std::set<Judged> judged_by(const Suite& suite, const Requirement& requirement) {
  std::set<Judged> all;
  for (const Check& check : suite.checks())
    if (std::ranges::find(check.verifies, requirement.id, &id_of_citation) != check.verifies.end())
      all.insert(judged_by(check));
  return all;
}

std::vector<std::string> dead_checks(const Suite& suite, const std::vector<KnownSubject>& known) {
  std::vector<std::string> dead;
  for (const Check& check : suite.checks()) {
    std::vector<std::string> obstacles;
    bool runs = false;
    for (const KnownSubject& subject : known) {
      if (subject.door != check.door) continue;
      const auto found = obstacle(suite, check, subject);
      runs = runs || !found;
      if (found) obstacles.push_back(*found);
    }
    if (runs) continue;
    dead.push_back(fmt::format("check {} runs on no known subject: {}", check.id,
                               obstacles.empty() ? fmt::format("there is none for the {} door", name_of(check.door))
                                                 : fmt::format("{}", fmt::join(obstacles, ", "))));
  }
  return dead;
}

}  // namespace plumbline::suite
