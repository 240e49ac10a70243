#include "conformance/suite.hpp"

#include <string_view>

#include "conformance/components.hpp"
#include "conformance/profiles/profiles.hpp"

// Compiled in by plumbline_embed().
extern const std::string_view plumbline_profiles_text;
extern const std::string_view plumbline_bugs_text;
extern const std::string_view plumbline_waivers_text;
extern const std::string_view plumbline_suite_issues_text;

namespace plumbline::conformance {

std::unique_ptr<suite::Suite> make_suite() {
  auto suite = std::make_unique<suite::Suite>();
  add_profiles(*suite, plumbline_profiles_text, "conformance/profiles/profiles.toml");
  for (const auto add : {add_collectives, add_topology, add_schedules, add_bucketing, add_pass, add_pipeline,
                         add_scaler, add_gossip, add_groups, add_slowmo, add_training})
    add(*suite);
  suite->bugs = suite::bugs_of_toml(plumbline_bugs_text, "conformance/bugs.toml");
  suite->waivers = suite::waivers_of_toml(plumbline_waivers_text, "conformance/waivers.toml");
  suite->issues = suite::suite_issues_of_toml(plumbline_suite_issues_text, "conformance/suite-issues.toml");
  return suite;
}

}  // namespace plumbline::conformance
