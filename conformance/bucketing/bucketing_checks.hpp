// conformance/bucketing/bucketing_checks.hpp: the checks of gradient buckets: plans, and what they are worth.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

void add_bucketing_checks(suite::Suite& suite);

void add_assign_checks(suite::Suite& suite);
void add_bucket_buffer_checks(suite::Suite& suite);
void add_bucket_plan_checks(suite::Suite& suite);
void add_plan_agreement_checks(suite::Suite& suite);
void add_asked_plan_checks(suite::Suite& suite);
/// What ranks reduce in buckets, step by step.
void add_reduce_checks(suite::Suite& suite);
void add_reduce_call_checks(suite::Suite& suite);
void add_reduce_training_checks(suite::Suite& suite);
void add_bucket_size_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
