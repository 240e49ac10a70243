// Component "slowmo": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/components.hpp"
#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/slowmo/slowmo_mutants.hpp"

extern const std::string_view plumbline_slowmo_requirements;
extern const std::string_view plumbline_slowmo_hollow;
extern const std::string_view plumbline_slowmo_mutants;

namespace plumbline::conformance {

void add_slowmo(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_slowmo_requirements, "conformance/slowmo/requirements.toml");
  add_slowmo_checks(suite);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_slowmo_hollow, "conformance/slowmo/hollow.toml");
  suite.add_mutants_of_toml(plumbline_slowmo_mutants, "conformance/slowmo/mutants.toml");
  suite.add(mutants::slowmo_mutants);
  suite.add(mutants::slowmo_size_mutants);
}

}  // namespace plumbline::conformance
