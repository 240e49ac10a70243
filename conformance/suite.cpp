#include "conformance/suite.hpp"

#include <string_view>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/profiles/profiles.hpp"
#include "conformance/training/training_checks.hpp"

// Compiled in by plumbline_embed().
extern const std::string_view plumbline_profiles_text;
extern const std::string_view plumbline_collectives_requirements;
extern const std::string_view plumbline_training_requirements;

namespace plumbline::conformance {

std::unique_ptr<suite::Suite> make_suite() {
  auto suite = std::make_unique<suite::Suite>();
  add_profiles(*suite, plumbline_profiles_text, "conformance/profiles/profiles.toml");
  suite->requirements.add_toml(plumbline_collectives_requirements, "conformance/collectives/requirements.toml");
  add_collectives_checks(*suite);
  suite->requirements.add_toml(plumbline_training_requirements, "conformance/training/requirements.toml");
  add_training_checks(*suite);
  return suite;
}

}  // namespace plumbline::conformance
