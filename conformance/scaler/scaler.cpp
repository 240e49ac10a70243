// Component "scaler": its requirements, the checks that verify them, and the mutants that violate them.
#include "conformance/components.hpp"
#include "conformance/scaler/scaler_checks.hpp"

extern const std::string_view plumbline_scaler_requirements;
extern const std::string_view plumbline_scaler_hollow;
extern const std::string_view plumbline_scaler_mutants;

namespace plumbline::conformance {

void add_scaler(suite::Suite& suite) {
  suite.requirements.add_toml_later(plumbline_scaler_requirements, "conformance/scaler/requirements.toml");
  add_scaler_checks(suite);
  suite::add_truths_of_toml(suite.hollow_truths, plumbline_scaler_hollow, "conformance/scaler/hollow.toml");
  suite.add_mutants_of_toml(plumbline_scaler_mutants, "conformance/scaler/mutants.toml");
}

}  // namespace plumbline::conformance
