// conformance/bucketing/reducer_checks.hpp: the checks of the reducer.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Training with a reducer equals a single device: BUCKET-050 to BUCKET-057.
void add_reducer_training_checks(suite::Suite& suite);
/// What it starts, scales, compresses and refuses: BUCKET-058 and up.
void add_reducer_rule_checks(suite::Suite& suite);
/// Where gradients lie, what is looked at first, and what is known of a bucket when: BUCKET-100 to BUCKET-107,
/// BUCKET-213 to BUCKET-215.
void add_reducer_memory_checks(suite::Suite& suite);
/// Gradients that travel as bytes or as products of narrow matrices: BUCKET-200 to BUCKET-208.
void add_compression_checks(suite::Suite& suite);
/// Sums of sparse gradients: BUCKET-210 to BUCKET-212.
void add_sparse_checks(suite::Suite& suite);
/// What a reducer rejects when it is made and while it is used, each beside what it accepts: BUCKET-216, BUCKET-217.
void add_reducer_refusal_checks(suite::Suite& suite);
/// Plans of a reducer's gradients, and tables of them, that no adapter is asked for.
void add_plan_library_checks(suite::Suite& suite);
/// What is found about plans and ranks, in numbers: BUCKET-224.
void add_finding_checks(suite::Suite& suite);
/// Which size of buckets is chosen by trying: BUCKET-218.
void add_tuning_checks(suite::Suite& suite);
/// A model in buckets: BUCKET-070.
void add_reducer_model_checks(suite::Suite& suite);
/// All of them.
void add_reducer_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
