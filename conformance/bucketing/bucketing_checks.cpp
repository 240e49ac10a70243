#include "conformance/bucketing/bucketing_checks.hpp"

namespace plumbline::conformance {

void add_bucketing_checks(suite::Suite& suite) {
  add_assign_checks(suite);
  add_bucket_buffer_checks(suite);
  add_bucket_plan_checks(suite);
  add_plan_agreement_checks(suite);
  add_asked_plan_checks(suite);
  add_reduce_checks(suite);
  add_reduce_call_checks(suite);
  add_reduce_training_checks(suite);
  add_bucket_size_checks(suite);
}

}  // namespace plumbline::conformance
