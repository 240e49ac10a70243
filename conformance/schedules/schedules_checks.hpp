// conformance/schedules/schedules_checks.hpp: the checks of pipeline schedules, and of the partitions under them.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

void add_schedules_checks(suite::Suite& suite);

void add_partition_checks(suite::Suite& suite);
void add_partition_name_checks(suite::Suite& suite);
void add_measured_partition_checks(suite::Suite& suite);
void add_generate_checks(suite::Suite& suite);
void add_convention_checks(suite::Suite& suite);
void add_detail_checks(suite::Suite& suite);
void add_form_checks(suite::Suite& suite);
void add_size_limit_checks(suite::Suite& suite);
void add_move_checks(suite::Suite& suite);
void add_chain_checks(suite::Suite& suite);
void add_torch_pass_checks(suite::Suite& suite);
void add_recorded_schedule_checks(suite::Suite& suite);
void add_lowering_checks(suite::Suite& suite);
void add_checker_checks(suite::Suite& suite);
void add_judging_checks(suite::Suite& suite);
void add_simulator_checks(suite::Suite& suite);
void add_timeline_checks(suite::Suite& suite);
void add_executor_checks(suite::Suite& suite);
void add_message_checks_of_schedules(suite::Suite& suite);
void add_automatic_checks(suite::Suite& suite);
void add_warmup_checks(suite::Suite& suite);
void add_slot_checks(suite::Suite& suite);
void add_execution_checks(suite::Suite& suite);
void add_schedule_error_checks(suite::Suite& suite);
void add_plan_size_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
