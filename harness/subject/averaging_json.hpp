// harness/subject/averaging_json.hpp: how ranks average parameters, on the way between driver and workers.
#pragma once

#include <nlohmann/json.hpp>

#include "reference/training/averaging.hpp"

namespace plumbline::training {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AveragingSettings, algorithm, base, ranks_per_node, local_sgd_frequency,
                                   local_sgd_begin, slow_frequency, slow_momentum, slow_learning_rate, outer_momentum,
                                   outer_learning_rate, memory_efficient, shards, graph, peers, push_sum,
                                   average_at_slow_steps, overlap, overlap_lag, checkpoint_steps, rate_decay)

}  // namespace plumbline::training
