// Mutants of training whose ranks average parameters that are no edits: of push-sum below it, and of what devices do.
#include <string>
#include <vector>

#include "conformance/training/training_mutants.hpp"
#include "harness/mutants/wrong_kernels.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/gossip/mixing_kernel.hpp"
#include "reference/gossip/push_sum.hpp"

namespace plumbline::mutants {

using gossip::PushSumSteps;

namespace {

std::string at_averaging(const char* check, const std::string& parameters, int world) {
  return "training.averaging." + std::string(check) + "[" + parameters + ",world=" + std::to_string(world) + "]";
}
std::string judged(const char* algorithm, int node, int world) {
  return at_averaging("judged", "algorithm=" + std::string(algorithm) + ",node=" + std::to_string(node), world);
}
std::string of(const char* check, const char* algorithm, int world) {
  return at_averaging(check, "algorithm=" + std::string(algorithm), world);
}

void lose_tails(gossip::MixWork& work) {
  constexpr std::int64_t in_a_vector = device::kVectorBytes / sizeof(float);
  for (std::int32_t i = 0; i < work.table.entries; ++i)
    work.table.entry[i].count -= work.table.entry[i].count % in_a_vector;
}

}  // namespace

std::vector<Mutant> averaging_mutants() {
  return {
      {"train.shares_half_lost", "TRAIN-044", "half of each share that is sent is lost",
       "push-sum with a factor too many", judged("sgp-star", 1, 3), judged("sgp", 1, 3), "lazy mixing sends everything",
       with([](PushSumSteps& steps) {
         steps.sent = [](const gossip::Shares& shares, std::size_t peer) { return 0.5 * shares.sent[peer]; };
       })},
      {"train.gossip_added_before_it_came", "TRAIN-212",
       "what is collected is added before the gossip's stream is done", "an event that one of two streams forgets",
       of("stays_there", "slowmo-sgp-overlap", 2), of("stays_there", "sgp-star", 2), "gossip has no stream of its own",
       with([](PushSumSteps& steps) { steps.leads_the_caller = [] { return false; }; })},
      {"train.mixed_tail_lost", "TRAIN-212", "what is left over after the last vector is not mixed on a device",
       "COL-02", of("stays_there", "sgp-star", 2), of("stays_there", "localsgd", 2), "LocalSGD mixes nothing",
       changing<gossip::MixWork>(lose_tails)},
  };
}

}  // namespace plumbline::mutants
