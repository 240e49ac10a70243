#include "conformance/collectives/collectives_checks.hpp"

namespace plumbline::conformance {

void add_collectives_checks(suite::Suite& suite) {
  add_reduction_checks(suite);
  add_average_checks(suite);
  add_special_number_checks(suite);
  add_copy_checks(suite);
  add_buffer_checks(suite);
  add_length_checks(suite);
  add_reuse_checks(suite);
  add_growth_checks(suite);
  add_refusal_checks(suite);
  add_group_checks(suite);
  add_several_groups_checks(suite);
  add_nonblocking_checks(suite);
  add_message_checks(suite);
  add_message_queue_checks(suite);
  add_mixed_calls_checks(suite);
  add_barrier_checks(suite);
  add_limit_checks(suite);
  add_failure_checks(suite);
  add_lost_group_checks(suite);
  add_misuse_checks(suite);
  add_scaled_checks(suite);
  add_grow_checks(suite);
  add_registered_memory_checks(suite);
  add_shrink_checks(suite);
  add_strided_checks(suite);
  add_uneven_checks(suite);
  add_window_checks(suite);
  add_optional_dtype_checks(suite);
  add_complex_checks(suite);
  add_thread_checks(suite);
  add_device_checks(suite);
  add_adapter_checks(suite);
  add_adapter_refusal_checks(suite);
  add_adapter_size_checks(suite);
}

}  // namespace plumbline::conformance
