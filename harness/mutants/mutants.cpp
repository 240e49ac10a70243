#include "harness/mutants/mutants.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/mutants/kinds.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/nearest_name.hpp"

namespace plumbline::mutants {

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
