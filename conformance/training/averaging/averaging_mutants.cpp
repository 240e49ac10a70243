// Training whose ranks average parameters, with one wrong step. Each is the smallest change that a real fault would
// make.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conformance/training/training_mutants.hpp"
#include "harness/mutants/wrong_kernels.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/slowmo.hpp"
#include "reference/training/averaging.hpp"

namespace plumbline::mutants {

using comm::Buffer;
using slowmo::Mean;
using slowmo::Setting;
using slowmo::SlowRule;
using slowmo::StepPlan;
using training::AveragedSteps;

namespace {

MakeSteps planning_averages(std::function<void(const Setting&, std::int64_t step, StepPlan&)> change) {
  return with([change = std::move(change)](AveragedSteps& steps) {
    steps.slowmo.plan = [change](const Setting& setting, std::int64_t step) {
      StepPlan plan = slowmo::plan_of(setting, step);
      change(setting, step, plan);
      return plan;
    };
  });
}
MakeSteps dividing_by_world(Mean what) {
  return with([what](AveragedSteps& steps) {
    steps.slowmo.divisor = [what](const Setting& setting, Mean of) {
      return of == what ? setting.world : slowmo::divisor_of(setting, of);
    };
  });
}

std::string at_averaging(const char* check, const std::string& parameters, int world) {
  return "training.averaging." + std::string(check) + "[" + parameters + ",world=" + std::to_string(world) + "]";
}
std::string judged(const char* algorithm, int node, int world) {
  return at_averaging("judged", "algorithm=" + std::string(algorithm) + ",node=" + std::to_string(node), world);
}
std::string of(const char* check, const char* algorithm, int world) {
  return at_averaging(check, "algorithm=" + std::string(algorithm), world);
}

void keep_first_rate(AveragedSteps& steps) {
  steps.slowmo.slow = [first = std::make_shared<double>(0)](const device::MemorySpace& place, const SlowRule& rule,
                                                            std::span<const slowmo::SlowTensor> tensors) {
    SlowRule stale = rule;
    if (*first == 0) *first = rule.fast_learning_rate;
    stale.fast_learning_rate = *first;
    slowmo::slow_steps(place, stale, tensors);
  };
}

// As far beyond where the ranks came from as they went ahead.
void step_uphill(AveragedSteps& steps) {
  steps.slowmo.slow = [](const device::MemorySpace& place, const SlowRule& rule,
                         std::span<const slowmo::SlowTensor> tensors) {
    for (const auto& [x, old, momentum] : tensors)
      for (std::int64_t i = 0; i < x.count && x.dtype == comm::DType::f32; ++i)
        static_cast<float*>(x.data)[i] = 2 * static_cast<float*>(old.data)[i] - static_cast<float*>(x.data)[i];
    slowmo::slow_steps(place, rule, tensors);
  };
}

void lose_tails(gossip::MixWork& work) {
  constexpr std::int64_t in_a_vector = device::kVectorBytes / sizeof(float);
  for (std::int32_t i = 0; i < work.table.entries; ++i)
    work.table.entry[i].count -= work.table.entry[i].count % in_a_vector;
}

void lose_the_last_of_shards(AveragedSteps& steps) {
  steps.slowmo.shard = [](std::int64_t elements, int shards, int index) {
    slowmo::Range range = slowmo::shard_range(elements, shards, index);
    if (shards > 1) range.end = std::min(range.end, (index + 1) * (elements / shards));
    return range;
  };
}

void step_in_evaluation(AveragedSteps& steps) {
  steps.performs = [](bool) { return true; };
  steps.slowmo.gossips = [](bool) { return true; };
}

void overwrite_masters(const device::MemorySpace& place, std::span<const gossip::TensorPair> halves) {
  slowmo::copy(place, halves);
}
void overwrite_masters_at_checkpoints(AveragedSteps& steps) {
  const auto is_draining = std::make_shared<bool>(false);
  steps.slowmo.drains = [is_draining] { return *is_draining = true; };
  steps.slowmo.error_after = [is_draining](const device::MemorySpace& place,
                                           std::span<const gossip::TensorPair> halves) {
    (std::exchange(*is_draining, false) ? overwrite_masters : slowmo::add_errors_of)(place, halves);
  };
}

void forget_slow_momentum(AveragedSteps& steps) {
  steps.slowmo.saved = [](slowmo::Checkpoint& checkpoint) {
    if (checkpoint.slow) std::ranges::fill(checkpoint.slow->momentum, 0);
  };
}

std::vector<Mutant> of_estimates() {
  return {
      {"train.forward_sees_numerators", "TRAIN-040", "the forward works on numerators",
       "weight not de-biased in forward", judged("sgp-star", 1, 3), judged("sgp", 1, 3),
       "weights stay 1 on a regular graph",
       with([](AveragedSteps& steps) { steps.slowmo.debias = [](double) { return 1.0; }; })},
      {"train.optimizer_changes_estimates", "TRAIN-042", "numerators are not taken again behind the backward",
       "a hook that is not called", judged("sgp-star", 1, 3), judged("sgp", 1, 3), "weights stay 1 on a regular graph",
       with([](AveragedSteps& steps) { steps.slowmo.bias = [](double) { return 1.0; }; })},
      {"train.never_gossips", "TRAIN-047", "no round of gossip is made, and ranks drift apart",
       "gossip that evaluation turned off and nobody turned on", judged("sgp", 1, 4), judged("localsgd", 1, 4),
       "LocalSGD does not gossip",
       with([](AveragedSteps& steps) { steps.slowmo.gossips = [](bool) { return false; }; })},
  };
}

std::vector<Mutant> of_averages() {
  return {
      {"train.node_gradients_apart", "TRAIN-041", "gradients are not averaged inside the node",
       "a hook that is not called", judged("localsgd", 2, 4), judged("localsgd", 1, 4), "nodes have one rank",
       with([](AveragedSteps& steps) {
         steps.slowmo.reduce_gradients = [](comm::Communicator&, std::span<const Buffer>, int, slowmo::Convention,
                                            slowmo::Workspace&) {};
       })},
      {"train.node_gradients_by_world", "TRAIN-041", "gradients of a node are divided by all ranks",
       "average by world size instead of node size", judged("sgp-star", 2, 4), judged("sgp-star", 1, 3),
       "nodes have one rank", dividing_by_world(Mean::gradients_of_node)},
      {"train.nodes_by_world", "TRAIN-043", "parameters of nodes are divided by all ranks",
       "average by world size instead of the number of nodes", judged("localsgd", 2, 4), judged("localsgd", 1, 4),
       "each rank is a node", dividing_by_world(Mean::parameters_of_nodes)},
      {"train.averages_a_step_early", "TRAIN-043", "LocalSGD averages a step early, from the first step on",
       "steps counted from 0 and from 1 are mixed up", judged("localsgd", 1, 3), judged("sgp", 1, 3),
       "stochastic gradient push averages nothing",
       planning_averages([](const Setting& setting, std::int64_t step, StepPlan& plan) {
         plan.average = setting.local_sgd && step % setting.local_sgd_frequency == 0;
       })},
      {"train.averages_every_other_step", "TRAIN-048", "every other average is left out",
       "a step that is counted in forward and in backward",
       at_averaging("equals_synchronous", "algorithm=localsgd-1,node=1", 3),
       at_averaging("equals_synchronous", "algorithm=localsgd-1,node=1", 1), "alone, there is nothing to average",
       planning_averages(
           [](const Setting&, std::int64_t step, StepPlan& plan) { plan.average = plan.average && step % 2 == 0; })},
      {"train.running_statistics_apart", "TRAIN-046", "running statistics stay each rank's own",
       "buffers not broadcast", at_averaging("running_statistics", "algorithm=localsgd,model=conv_norm", 3),
       at_averaging("running_statistics", "algorithm=localsgd,model=conv_norm", 1), "alone, a rank's own are rank 0's",
       with([](AveragedSteps& steps) { steps.slowmo.broadcasts_buffers = [](bool, std::int64_t) { return false; }; })},
      {"train.halves_lose_for_good", "TRAIN-052", "masters become the average of the halves", "error feedback left out",
       at_averaging("halves", "algorithm=localsgd,type=float16", 3),
       at_averaging("halves", "algorithm=localsgd,type=float16", 1), "alone, there is nothing to average",
       with([](AveragedSteps& steps) {
         steps.slowmo.error_before = [](const device::MemorySpace& place, std::span<const gossip::TensorPair> halves) {
           for (const auto& [half, master] : halves)
             slowmo::subtract(place, std::array{gossip::TensorPair{master, master}});
         };
       })},
  };
}

std::vector<Mutant> of_slow_steps() {
  return {
      {"train.slow_rate_read_once", "TRAIN-045", "slow momentum goes on with the rate of the first slow step",
       "a rate is read once", judged("slowmo", 1, 3), judged("localsgd", 1, 3), "there is no slow momentum",
       with(keep_first_rate)},
      {"train.slow_step_uphill", "TRAIN-053", "slow steps go back as far as the ranks went ahead",
       "the difference has the wrong sign", of("learns", "slowmo", 4), of("learns", "localsgd", 4),
       "there is no slow momentum", with(step_uphill)},
      {"train.last_of_shards_lost", "TRAIN-049", "elements that the shards do not divide are in none",
       "shard boundary rounded down", of("memory_efficient", "slowmo", 3), of("memory_efficient", "slowmo", 1),
       "alone, there is one shard", with(lose_the_last_of_shards)},
      {"train.evaluation_gossips", "TRAIN-050", "an evaluation mixes, as a step does", "eval that still gossips",
       at_averaging("evaluates", "algorithm=sgp-star,model=mlp", 3),
       at_averaging("evaluates", "algorithm=sgp-star,model=mlp", 1), "alone, there is nobody to mix with",
       with(step_in_evaluation)},
      {"train.slow_momentum_not_saved", "TRAIN-051", "a checkpoint has no slow momentum",
       "a checkpoint of weight and numerator flag alone", of("resumes", "slowmo", 3), of("resumes", "localsgd", 3),
       "there is no slow momentum", with(forget_slow_momentum)},
      {"train.overlap_collects_late", "TRAIN-110", "what was handed over is collected a step late",
       "synch_freq counts from 1", at_averaging("overlaps", "algorithm=sgp-star-overlap,lag=2,node=1", 3), "",
       "every case overlaps",
       with([](AveragedSteps& steps) { steps.slowmo.collects = [](int behind, int lag) { return behind > lag; }; })},
      {"train.gossip_overwrites_masters", "TRAIN-200", "masters become what gossip made of their halves",
       "a copy where an error is to be added",
       at_averaging("overlaps_halves", "algorithm=sgp-star-overlap,type=float16,lag=0", 3),
       at_averaging("overlaps", "algorithm=sgp-star-overlap,lag=0,node=1", 3), "parameters of 32 bits have no masters",
       with([](AveragedSteps& steps) { steps.slowmo.error_after = overwrite_masters; })},
      {"train.checkpoint_overwrites_masters", "TRAIN-200",
       "where a checkpoint adds a round, masters become their halves", "a copy where an error is to be added",
       at_averaging("lags_over_checkpoints", "algorithm=sgp-star-overlap,type=float16,lag=2,checkpoints=2", 3),
       at_averaging("overlaps_halves", "algorithm=sgp-star-overlap,type=float16,lag=2", 3), "nothing is saved",
       with(overwrite_masters_at_checkpoints)},
      {"train.checkpoint_beside_gossip", "TRAIN-201", "a checkpoint does not wait for what is under way",
       "a state that is saved while a thread changes it",
       at_averaging("lags_over_checkpoints", "algorithm=sgp-star-overlap,type=float32,lag=2,checkpoints=2", 3),
       at_averaging("overlaps", "algorithm=sgp-star-overlap,lag=2,node=1", 3), "nothing is saved",
       with([](AveragedSteps& steps) { steps.slowmo.drains = [] { return false; }; })},
      {"train.averages_through_the_host", "TRAIN-212", "what is averaged goes through the host's memory",
       "an option that only a test looks at", of("stays_there", "localsgd", 2), "",
       "every run of that check averages on a device",
       with([](AveragedSteps& steps) { steps.goes_by_host = [](bool) { return true; }; })},
      {"train.mixed_tail_lost", "TRAIN-212", "what is left over after the last vector is not mixed on a device",
       "COL-02", of("stays_there", "sgp-star", 2), of("stays_there", "localsgd", 2), "LocalSGD mixes nothing",
       changing<gossip::MixWork>(lose_tails)},
      {"train.resumes_with_any_optimizer", "TRAIN-111", "a checkpoint does not say of which optimizer it is",
       "a field that nobody added", at_averaging("other_runs", "differs=optimizer", 3),
       at_averaging("other_runs", "differs=dtype", 3), "the other type is still seen", with([](AveragedSteps& steps) {
         steps.same = [](training::Configuration all) {
           std::erase_if(all, [](const auto& field) { return field.first == "optimizer"; });
           return all;
         };
       })},
      {"train.takes_any_decay", "TRAIN-112", "decays are not looked at", "a rate of 0 or infinity is a number, too",
       at_averaging("rates", "decay=1e30", 3), at_averaging("rates", "decay=1.1", 3), "float32 holds all rates",
       with([](AveragedSteps& steps) {
         steps.accept = [](const job::RunSpec&, const training::AveragingSettings&) {};
       })},
  };
}

}  // namespace

std::vector<Mutant> averaging_mutants() {
  std::vector<Mutant> all = of_estimates();
  for (std::vector<Mutant> more : {of_averages(), of_slow_steps()})
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return all;
}

}  // namespace plumbline::mutants
