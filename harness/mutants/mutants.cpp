#include "harness/mutants/mutants.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/mutants/kinds.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {
namespace {

// The least number of characters inserted, removed or changed between two names (Levenshtein).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({changed, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

Mutant racing(Mutant mutant) {
  mutant.sanitized = Sanitized::race;
  return mutant;
}

std::string why_not_under_sanitizer([[maybe_unused]] const Mutant& mutant) {
#ifdef __SANITIZE_THREAD__
  if (mutant.sanitized == Sanitized::race) return "they are races, at which the thread sanitizer ends a process";
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  if (mutant.sanitized == Sanitized::measured) return "the sanitizer's allocator keeps no figures";
#endif
  return {};
}

suite::Door door_of(const Mutant& mutant) {
  using suite::Door;
  if (std::holds_alternative<RewriteAnswer>(mutant.change) || std::holds_alternative<MakeRewrite>(mutant.change))
    return Door::adapter;
  return std::holds_alternative<ChangeRecord>(mutant.change) ? Door::job : Door::backend;
}

const std::vector<Mutant>& all_mutants() {
  static const std::vector<Mutant> all = [] {
    std::vector<Mutant> made;
    for (const auto kind :
         {result_mutants,    group_mutants,       work_mutants,        failure_mutants,      training_mutants,
          job_mutants,       context_mutants,     answer_mutants,      group_answer_mutants, schedule_mutants,
          plan_mutants,      executor_mutants,    judgement_mutants,   partition_mutants,    topology_mutants,
          pipeline_mutants,  bucket_mutants,      pass_mutants,        reducer_mutants,      race_mutants,
          gossip_mutants,    scaler_mutants,      scaler_step_mutants, slowmo_mutants,       mixed_mutants,
          averaging_mutants, compression_mutants, device_mutants,     size_mutants})
      std::ranges::move(kind(), std::back_inserter(made));
    std::ranges::sort(made, {}, &Mutant::name);
    return made;
  }();
  return all;
}

std::vector<std::string> nearest_names(const std::string& name, std::vector<std::string> names, std::size_t most) {
  std::ranges::stable_sort(names, {}, [&](const std::string& other) { return distance(name, other); });
  names.resize(std::min(names.size(), most));
  return names;
}

const Mutant& find_mutant(const std::string& name) {
  std::vector<std::string> names;
  for (const auto* list : {&all_mutants(), &hollow_subjects()})
    for (const Mutant& mutant : *list) {
      if (mutant.name == name) return mutant;
      names.push_back(mutant.name);
    }
  throw NotFound(fmt::format("no mutant '{}'; did you mean {}? plumbline mutants lists them", name,
                             fmt::join(nearest_names(name, std::move(names), 3), " or ")));
}

const Mutant& find_mutant(const std::string& name, suite::Door door) {
  const Mutant& mutant = find_mutant(name);
  if (door_of(mutant) != door)
    throw InvalidArgument(fmt::format(
        "--mutant {}: it breaks what --{} names, and the subject here is one of --{}; plumbline mutants lists all",
        name, name_of(door_of(mutant)), name_of(door)));
  return mutant;
}

}  // namespace plumbline::mutants
