#include "conformance/groups/groups_checks.hpp"

namespace plumbline::conformance {

void add_groups_checks(suite::Suite& suite) {
  add_membership_checks(suite);
  add_lookup_checks(suite);
  add_agreement_checks(suite);
  add_creation_checks(suite);
  add_lifetime_checks(suite);
  add_mode_answer_checks(suite);
  add_shared_module_checks(suite);
  add_expert_checks(suite);
  add_lint_checks(suite);
  add_lint_property_checks(suite);
  add_creation_log_checks(suite);
  add_group_create_checks(suite);
  add_created_mode_checks(suite);
  add_group_size_checks(suite);
}

}  // namespace plumbline::conformance
