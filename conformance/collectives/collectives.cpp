// Component "collectives": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/collectives_mutants.hpp"
#include "conformance/components.hpp"

extern const std::string_view plumbline_collectives_requirements;
extern const std::string_view plumbline_collectives_device_requirements;
extern const std::string_view plumbline_collectives_hollow;

namespace plumbline::conformance {

void add_collectives(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_collectives_requirements, "conformance/collectives/requirements.toml");
  suite.requirements.add_toml_later(plumbline_collectives_device_requirements,
                                    "conformance/collectives/device_requirements.toml");
  add_collectives_checks(suite);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_collectives_hollow, "conformance/collectives/hollow.toml");
  suite.add(mutants::result_mutants);
  suite.add(mutants::group_mutants);
  suite.add(mutants::several_groups_mutants);
  suite.add(mutants::outstanding_mutants);
  suite.add(mutants::work_mutants);
  suite.add(mutants::failure_mutants);
  suite.add(mutants::scaled_mutants);
  suite.add(mutants::grow_mutants);
  suite.add(mutants::registered_memory_mutants);
  suite.add(mutants::shrink_mutants);
  suite.add(mutants::strided_mutants);
  suite.add(mutants::uneven_mutants);
  suite.add(mutants::window_mutants);
  suite.add(mutants::optional_dtype_mutants);
  suite.add(mutants::complex_mutants);
  suite.add(mutants::device_mutants);
  suite.add(mutants::answer_mutants);
  suite.add(mutants::collectives_size_mutants);
}

}  // namespace plumbline::conformance
