// Component "pass": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/components.hpp"
#include "conformance/pass/pass_checks.hpp"
#include "conformance/pass/pass_mutants.hpp"
#include "conformance/pass/race_checks.hpp"

extern const std::string_view plumbline_pass_requirements;
extern const std::string_view plumbline_pass_race_requirements;
extern const std::string_view plumbline_pass_hollow;
extern const std::string_view plumbline_pass_mutants;

namespace plumbline::conformance {

void add_pass(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_pass_requirements, "conformance/pass/requirements.toml");
  add_pass_checks(suite);
  suite.requirements.add_toml_later(plumbline_pass_race_requirements, "conformance/pass/race_requirements.toml");
  add_race_checks(suite);
  add_exact_checks(suite);
  add_problem_checks(suite);
  add_interpreter_checks(suite);
  add_recorded_run_checks(suite);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_pass_hollow, "conformance/pass/hollow.toml");
  suite.add_mutants_of_toml(plumbline_pass_mutants, "conformance/pass/mutants.toml");
  suite.add(mutants::pass_size_mutants);
}

}  // namespace plumbline::conformance
