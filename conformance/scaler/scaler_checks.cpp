#include "conformance/scaler/scaler_checks.hpp"

namespace plumbline::conformance {

void add_scaler_checks(suite::Suite& suite) {
  add_torch_scaler_checks(suite);
  add_scale_rule_checks(suite);
  add_skipping_checks(suite);
  add_norm_checks(suite);
  add_overflow_checks(suite);
  add_unscale_checks(suite);
  add_optimizer_checks(suite);
  add_optimizer_argument_checks(suite);
  add_optimizer_answer_checks(suite);
  add_grad_scaler_checks(suite);
  add_recorded_scaler_checks(suite);
  add_scaler_size_checks(suite);
}

}  // namespace plumbline::conformance
