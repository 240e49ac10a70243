// conformance/groups/groups_checks.hpp: the checks of component "groups", rows by subject.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Adds all of them: those of each subject below.
void add_groups_checks(suite::Suite& suite);

// Of contexts over real communicators.
void add_membership_checks(suite::Suite& suite);
void add_lookup_checks(suite::Suite& suite);
void add_agreement_checks(suite::Suite& suite);
void add_creation_checks(suite::Suite& suite);
void add_lifetime_checks(suite::Suite& suite);
// Of answers.
void add_mode_answer_checks(suite::Suite& suite);
void add_shared_module_checks(suite::Suite& suite);
void add_expert_checks(suite::Suite& suite);
void add_lint_checks(suite::Suite& suite);
void add_lint_property_checks(suite::Suite& suite);
void add_creation_log_checks(suite::Suite& suite);
void add_group_create_checks(suite::Suite& suite);
void add_created_mode_checks(suite::Suite& suite);
void add_group_size_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
