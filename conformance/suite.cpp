#include "conformance/suite.hpp"

#include <string_view>

#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/groups/groups_checks.hpp"
#include "conformance/pass/pass_checks.hpp"
#include "conformance/pass/race_checks.hpp"
#include "conformance/pipeline/pipeline_checks.hpp"
#include "conformance/profiles/profiles.hpp"
#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/topology/topology_checks.hpp"
#include "conformance/training/averaging/averaging_checks.hpp"
#include "conformance/training/training_checks.hpp"

// Compiled in by plumbline_embed().
extern const std::string_view plumbline_profiles_text;
extern const std::string_view plumbline_collectives_requirements;
extern const std::string_view plumbline_device_requirements;
extern const std::string_view plumbline_schedules_requirements;
extern const std::string_view plumbline_bucketing_requirements;
extern const std::string_view plumbline_pass_requirements;
extern const std::string_view plumbline_race_requirements;
extern const std::string_view plumbline_pipeline_requirements;
extern const std::string_view plumbline_scaler_requirements;
extern const std::string_view plumbline_topology_requirements;
extern const std::string_view plumbline_gossip_requirements;
extern const std::string_view plumbline_groups_requirements;
extern const std::string_view plumbline_slowmo_requirements;
extern const std::string_view plumbline_mixed_requirements;
extern const std::string_view plumbline_training_requirements;
extern const std::string_view plumbline_bugs_text;
extern const std::string_view plumbline_waivers_text;
extern const std::string_view plumbline_suite_issues_text;

namespace plumbline::conformance {

std::unique_ptr<suite::Suite> make_suite() {
  auto suite = std::make_unique<suite::Suite>();
  add_profiles(*suite, plumbline_profiles_text, "conformance/profiles/profiles.toml");
  suite->requirements.add_toml(plumbline_collectives_requirements, "conformance/collectives/requirements.toml");
  suite->requirements.add_toml(plumbline_device_requirements, "conformance/collectives/device_requirements.toml");
  add_collectives_checks(*suite);
  suite->requirements.add_toml(plumbline_topology_requirements, "conformance/topology/requirements.toml");
  add_topology_checks(*suite);
  suite->requirements.add_toml(plumbline_schedules_requirements, "conformance/schedules/requirements.toml");
  add_schedules_checks(*suite);
  suite->requirements.add_toml(plumbline_bucketing_requirements, "conformance/bucketing/requirements.toml");
  add_bucketing_checks(*suite);
  add_reducer_checks(*suite);
  suite->requirements.add_toml(plumbline_pass_requirements, "conformance/pass/requirements.toml");
  add_pass_checks(*suite);
  suite->requirements.add_toml(plumbline_race_requirements, "conformance/pass/race_requirements.toml");
  add_race_checks(*suite);
  add_interpreter_checks(*suite);
  add_recorded_run_checks(*suite);
  suite->requirements.add_toml(plumbline_pipeline_requirements, "conformance/pipeline/requirements.toml");
  add_pipeline_checks(*suite);
  suite->requirements.add_toml(plumbline_scaler_requirements, "conformance/scaler/requirements.toml");
  add_scaler_checks(*suite);
  suite->requirements.add_toml(plumbline_gossip_requirements, "conformance/gossip/requirements.toml");
  add_gossip_checks(*suite);
  suite->requirements.add_toml(plumbline_groups_requirements, "conformance/groups/requirements.toml");
  add_groups_checks(*suite);
  suite->requirements.add_toml(plumbline_slowmo_requirements, "conformance/slowmo/requirements.toml");
  add_slowmo_checks(*suite);
  suite->requirements.add_toml(plumbline_training_requirements, "conformance/training/requirements.toml");
  suite->requirements.add_toml(plumbline_mixed_requirements, "conformance/training/mixed_requirements.toml");
  add_training_checks(*suite);
  add_averaging_checks(*suite);
  suite->bugs = suite::bugs_of_toml(plumbline_bugs_text, "conformance/bugs.toml");
  suite->waivers = suite::waivers_of_toml(plumbline_waivers_text, "conformance/waivers.toml");
  suite->issues = suite::suite_issues_of_toml(plumbline_suite_issues_text, "conformance/suite-issues.toml");
  return suite;
}

}  // namespace plumbline::conformance
