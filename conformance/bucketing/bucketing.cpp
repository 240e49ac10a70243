// Component "bucketing": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/bucketing/bucketing_mutants.hpp"
#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/components.hpp"

extern const std::string_view plumbline_bucketing_requirements;
extern const std::string_view plumbline_bucketing_hollow;
extern const std::string_view plumbline_bucketing_mutants;

namespace plumbline::conformance {

void add_bucketing(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_bucketing_requirements, "conformance/bucketing/requirements.toml");
  add_bucketing_checks(suite);
  add_reducer_checks(suite);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_bucketing_hollow, "conformance/bucketing/hollow.toml");
  suite.add(mutants::bucket_mutants);
  suite.add_mutants_of_toml(plumbline_bucketing_mutants, "conformance/bucketing/mutants.toml");
  suite.add(mutants::bucketing_size_mutants);
}

}  // namespace plumbline::conformance
