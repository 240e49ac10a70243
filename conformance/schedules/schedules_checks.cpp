#include "conformance/schedules/schedules_checks.hpp"

namespace plumbline::conformance {

void add_schedules_checks(suite::Suite& suite) {
  add_partition_checks(suite);
  add_partition_name_checks(suite);
  add_measured_partition_checks(suite);
  add_generate_checks(suite);
  add_form_checks(suite);
  add_recorded_schedule_checks(suite);
  add_lowering_checks(suite);
  add_checker_checks(suite);
  add_judging_checks(suite);
  add_simulator_checks(suite);
  add_timeline_checks(suite);
  add_executor_checks(suite);
  add_message_checks_of_schedules(suite);
  add_automatic_checks(suite);
  add_convention_checks(suite);
  add_torch_pass_checks(suite);
  add_size_limit_checks(suite);
  add_detail_checks(suite);
  add_move_checks(suite);
  add_chain_checks(suite);
  add_warmup_checks(suite);
  add_slot_checks(suite);
  add_execution_checks(suite);
  add_schedule_error_checks(suite);
  add_plan_size_checks(suite);
}

}  // namespace plumbline::conformance
