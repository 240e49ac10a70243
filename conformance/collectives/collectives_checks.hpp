// conformance/collectives/collectives_checks.hpp: the checks of component "collectives", rows by subject.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Adds all of them: those of each subject below.
void add_collectives_checks(suite::Suite& suite);

void add_reduction_checks(suite::Suite& suite);
void add_average_checks(suite::Suite& suite);
void add_special_number_checks(suite::Suite& suite);
void add_copy_checks(suite::Suite& suite);
void add_buffer_checks(suite::Suite& suite);
void add_length_checks(suite::Suite& suite);
void add_reuse_checks(suite::Suite& suite);
void add_growth_checks(suite::Suite& suite);
void add_refusal_checks(suite::Suite& suite);
void add_group_checks(suite::Suite& suite);
void add_several_groups_checks(suite::Suite& suite);
void add_nonblocking_checks(suite::Suite& suite);
void add_message_checks(suite::Suite& suite);
void add_message_queue_checks(suite::Suite& suite);
void add_mixed_calls_checks(suite::Suite& suite);
void add_barrier_checks(suite::Suite& suite);
void add_limit_checks(suite::Suite& suite);
void add_failure_checks(suite::Suite& suite);
void add_lost_group_checks(suite::Suite& suite);
void add_scaled_checks(suite::Suite& suite);
void add_grow_checks(suite::Suite& suite);
void add_registered_memory_checks(suite::Suite& suite);
void add_shrink_checks(suite::Suite& suite);
void add_strided_checks(suite::Suite& suite);
void add_uneven_checks(suite::Suite& suite);
void add_window_checks(suite::Suite& suite);
void add_complex_checks(suite::Suite& suite);
void add_optional_dtype_checks(suite::Suite& suite);
void add_misuse_checks(suite::Suite& suite);
void add_thread_checks(suite::Suite& suite);
void add_device_checks(suite::Suite& suite);
void add_adapter_checks(suite::Suite& suite);
void add_adapter_refusal_checks(suite::Suite& suite);
void add_adapter_size_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
