// reference/program/pass_json.hpp: what the data-parallel pass is asked, and what it answers, as JSON.
//
// Form    {"analysis": {"grad_to_ring": [["w@GRAD", 12], ...], "ring_to_grads": [[12, ["w@GRAD", ...]], ...],
//           "support_rescale_grad", "data_parallel_applied", "all_dp_groups_same_degree", "could_be_prune",
//           "could_be_overlap", "could_be_fuse"},
//          "stages": {"after_prune", "after_overlap", "after_fuse": {"ops", "vars_added"} or {"same_as": "before"}},
//          "groups": [{"gradients", "numel", "dtype", "ring_id", "coalesce_op_idx", ...}],
//          "summary": {"info": [lines], "debug": [lines], "allreduce_ops", "coalesce_allreduce_ops", "not_fused"},
//          "final": a program or {"same_as": "before"}}
//         "skipped" stands in place of all but "final" where nothing was done; groups and stages are missing where
//         nothing is data parallel.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reference/program/pass.hpp"

namespace plumbline::program {

[[nodiscard]] nlohmann::json json_of(const Analysis& analysis);
[[nodiscard]] nlohmann::json json_of(const GradientGroup& group);
[[nodiscard]] nlohmann::json json_of(const Summary& summary);
/// `before` is the program that the pass was applied to.
[[nodiscard]] nlohmann::json json_of(const PassResult& result, const Program& before);

/// {"use_sharding": false, "gradient_scale": true, "global_rank": 0, "sequential_run": false, "context_passes":
/// [names], "dist_context": null if there is no context}; each may be left out, and further ones are not looked at, as
/// the source does.
/// Throws InvalidArgument that names the field.
[[nodiscard]] PassOptions pass_options_of_json(const nlohmann::json& value, const std::string& where = "options");

}  // namespace plumbline::program
