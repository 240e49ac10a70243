// Component "pipeline": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/components.hpp"
#include "conformance/pipeline/pipeline_checks.hpp"
#include "conformance/pipeline/pipeline_mutants.hpp"

extern const std::string_view plumbline_pipeline_requirements;
extern const std::string_view plumbline_pipeline_hollow;
extern const std::string_view plumbline_pipeline_mutants;

namespace plumbline::conformance {

void add_pipeline(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_pipeline_requirements, "conformance/pipeline/requirements.toml");
  add_pipeline_checks(suite);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_pipeline_hollow, "conformance/pipeline/hollow.toml");
  suite.add_mutants_of_toml(plumbline_pipeline_mutants, "conformance/pipeline/mutants.toml");
  suite.add(mutants::pipeline_job_mutants);
}

}  // namespace plumbline::conformance
