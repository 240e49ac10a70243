// Component "schedules": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/components.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/schedules/schedules_mutants.hpp"

extern const std::string_view plumbline_schedules_requirements;
extern const std::string_view plumbline_schedules_hollow;
extern const std::string_view plumbline_schedules_mutants;

namespace plumbline::conformance {

void add_schedules(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_schedules_requirements, "conformance/schedules/requirements.toml");
  add_schedules_checks(suite);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_schedules_hollow, "conformance/schedules/hollow.toml");
  suite.add(mutants::schedule_mutants);
  suite.add(mutants::plan_mutants);
  suite.add_mutants_of_toml(plumbline_schedules_mutants, "conformance/schedules/mutants.toml");
  suite.add(mutants::judgement_mutants);
  suite.add(mutants::partition_mutants);
  suite.add(mutants::schedules_size_mutants);
}

}  // namespace plumbline::conformance
