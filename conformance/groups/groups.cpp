// Component "groups": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/components.hpp"
#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/groups_mutants.hpp"

extern const std::string_view plumbline_groups_requirements;
extern const std::string_view plumbline_groups_hollow;
extern const std::string_view plumbline_groups_mutants;

namespace plumbline::conformance {

void add_groups(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_groups_requirements, "conformance/groups/requirements.toml");
  add_groups_checks(suite);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_groups_hollow, "conformance/groups/hollow.toml");
  suite.add_mutants_of_toml(plumbline_groups_mutants, "conformance/groups/mutants.toml");
  suite.add(mutants::groups_size_mutants);
}

}  // namespace plumbline::conformance
