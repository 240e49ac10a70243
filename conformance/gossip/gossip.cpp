// Component "gossip": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/components.hpp"
#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/gossip/gossip_mutants.hpp"

extern const std::string_view plumbline_gossip_requirements;
extern const std::string_view plumbline_gossip_hollow;
extern const std::string_view plumbline_gossip_mutants;

namespace plumbline::conformance {

void add_gossip(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_gossip_requirements, "conformance/gossip/requirements.toml");
  add_gossip_checks(suite);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_gossip_hollow, "conformance/gossip/hollow.toml");
  suite.add(mutants::gossip_mutants);
  suite.add_mutants_of_toml(plumbline_gossip_mutants, "conformance/gossip/mutants.toml");
}

}  // namespace plumbline::conformance
