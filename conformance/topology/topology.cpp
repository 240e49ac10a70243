// Component "topology": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/components.hpp"
#include "conformance/topology/topology_checks.hpp"
#include "conformance/topology/topology_mutants.hpp"

extern const std::string_view plumbline_topology_requirements;
extern const std::string_view plumbline_topology_hollow;
extern const std::string_view plumbline_topology_mutants;

namespace plumbline::conformance {

void add_topology(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_topology_requirements, "conformance/topology/requirements.toml");
  add_topology_checks(suite);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_topology_hollow, "conformance/topology/hollow.toml");
  suite.add_mutants_of_toml(plumbline_topology_mutants, "conformance/topology/mutants.toml");
  suite.add(mutants::topology_mutants);
  suite.add(mutants::topology_size_mutants);
}

}  // namespace plumbline::conformance
