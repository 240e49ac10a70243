// Shards of parameters on the data ranks of a replica (FSDP), and replicas beside each other (HSDP).
#include "conformance/training/sharded_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "conformance/training/job_runs.hpp"
#include "conformance/training/reference_runs.hpp"
#include "conformance/training/report.hpp"
#include "harness/suite/requirement.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = training_requirements;

namespace {

// Replicas and shards: one replica in equal shards, and in unequal ones; two replicas. Each with accumulation, moments,
// weight decay or a shared weight.
struct ShardedSetup {
  int replicate, shard;
  std::string_view model, optimizer;
  int micro_batches, accumulation;
};
constexpr std::array kShardedSetups{ShardedSetup{1, 2, "mlp", "sgd", 2, 1}, ShardedSetup{1, 3, "mlp", "adam", 1, 2},
                                    ShardedSetup{1, 3, "conv", "sgd_decay", 2, 1},
                                    ShardedSetup{2, 2, "mlp", "adam", 2, 1},
                                    ShardedSetup{2, 2, "transformer", "sgd", 1, 2}};

std::string mesh_of(const ShardedSetup& setup) { return fmt::format("{}x{}", setup.replicate, setup.shard); }

const ShardedSetup* planned_shards(const suite::Parameters& parameters) {
  const auto* const found = std::ranges::find_if(kShardedSetups, [&](const ShardedSetup& setup) {
    return parameters.world() == setup.replicate * setup.shard && parameters.text("mesh") == mesh_of(setup) &&
           parameters.text("model") == setup.model && parameters.text("optimizer") == setup.optimizer &&
           parameters.number("micro_batches") == setup.micro_batches &&
           parameters.number("accumulation") == setup.accumulation;
  });
  return found == kShardedSetups.end() ? nullptr : found;
}

job::RunSpec sharded_run(Context& context, const std::filesystem::path& folder) {
  const ShardedSetup& setup = *planned_shards(context.parameters());
  return training::write_digits_run({.model = std::string(setup.model),
                                     .optimizer = std::string(setup.optimizer),
                                     .data = setup.replicate * setup.shard,
                                     .steps = 3,
                                     .global_batch = 24,
                                     .micro_batches = setup.micro_batches,
                                     .accumulation = setup.accumulation,
                                     .seed = context.seed() & INT64_MAX,  // a specification's seed has 63 bits
                                     .device = context.device(),
                                     .shard = setup.shard},
                                    training::digits(), folder);
}

// A wrong gradient or value of shards violates what is asked of all, and what is asked of these.
std::vector<Finding> with_shards(const job::RunSpec&, std::vector<Finding> findings) {
  std::vector<Finding> more;
  for (const Finding& finding : findings) {
    const auto is_of = [&](std::string_view citation) {
      return finding.requirement == suite::id_of_citation(citation);
    };
    if (!is_of(ids::kGradient) && !is_of(ids::kCoverage) && !is_of(ids::kGivenWeights)) continue;
    more.push_back(finding);
    more.back().requirement = suite::id_of_citation(is_of(ids::kGradient) ? ids::kShardedGradient : ids::kShards);
  }
  findings.insert(findings.end(), more.begin(), more.end());
  return findings;
}

void sharded_job(Context& context) {
  report(with_shards(
      {}, findings_of_job(context, [&](const std::filesystem::path& folder) { return sharded_run(context, folder); })));
}

void sharded_reference(Context& context) {
  judge_reference(
      context, context.world(), [&](const std::filesystem::path& folder) { return sharded_run(context, folder); },
      with_shards);
}

}  // namespace

void add_sharded_checks(suite::Suite& suite, suite::Door door) {
  const bool is_job = door == suite::Door::job;
  suite.add({.id = is_job ? "training.job.shards" : "training.shards",
             .verifies = cited({ids::kShardedGradient, ids::kShards, ids::kCoverage, ids::kGivenWeights,
                                ids::kContinuity, ids::kEqualParameters, ids::kEqualGradients, ids::kGradient,
                                ids::kUnionGradient, ids::kUpdate, ids::kLoss, ids::kOwnRows}),
             .door = door,
             .axes = {{"mesh", {"1x2", "1x3", "2x2"}},
                      {"model", {"mlp", "conv", "transformer"}},
                      {"optimizer", {"sgd", "sgd_decay", "adam"}},
                      {"micro_batches", {"1", "2"}},
                      {"accumulation", {"1", "2"}},
                      suite::worlds({2, 3, 4})},
             .applies = [](const suite::Parameters& parameters) { return planned_shards(parameters) != nullptr; },
             .modules = {"training"},
             .limit = std::chrono::seconds(is_job ? 75 : 20),
             .body = is_job ? sharded_job : sharded_reference});
}

}  // namespace plumbline::conformance
