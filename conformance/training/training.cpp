// Component "training": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/components.hpp"
#include "conformance/training/averaging/averaging_checks.hpp"
#include "conformance/training/training_checks.hpp"
#include "conformance/training/training_mutants.hpp"

extern const std::string_view plumbline_training_requirements;
extern const std::string_view plumbline_training_mixed_requirements;
extern const std::string_view plumbline_training_hollow;
extern const std::string_view plumbline_training_mutants;

namespace plumbline::conformance {

void add_training(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_training_requirements, "conformance/training/requirements.toml");
  suite.requirements.add_toml_later(plumbline_training_mixed_requirements,
                                    "conformance/training/mixed_requirements.toml");
  add_training_checks(suite);
  add_averaging_checks(suite);
  suite.add(mutants::training_mutants);
  suite.add(mutants::averaging_mutants);
  suite.add(mutants::job_mutants);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_training_hollow, "conformance/training/hollow.toml");
  suite.add_mutants_of_toml(plumbline_training_mutants, "conformance/training/mutants.toml");
}

}  // namespace plumbline::conformance
