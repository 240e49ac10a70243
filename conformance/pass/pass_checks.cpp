#include "conformance/pass/pass_checks.hpp"

namespace plumbline::conformance {

void add_pass_checks(suite::Suite& suite) {
  add_pass_rule_checks(suite);
  add_pass_linear_checks(suite);
  add_pass_value_checks(suite);
  add_pass_recorded_checks(suite);
  add_pass_size_checks(suite);
}

}  // namespace plumbline::conformance
