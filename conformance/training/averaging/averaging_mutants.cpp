// Mutants of training whose ranks average parameters that are no edits: of what devices do.
#include <string>
#include <vector>

#include "conformance/training/training_mutants.hpp"
#include "harness/mutants/wrong_kernels.hpp"
#include "reference/gossip/mixing_kernel.hpp"

namespace plumbline::mutants {

namespace {

std::string at_averaging(const char* check, const std::string& parameters, int world) {
  return "training.averaging." + std::string(check) + "[" + parameters + ",world=" + std::to_string(world) + "]";
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
      {"train.mixed_tail_lost", "TRAIN-212", "what is left over after the last vector is not mixed on a device",
       "COL-02", of("stays_there", "sgp-star", 2), of("stays_there", "localsgd", 2), "LocalSGD mixes nothing",
       changing<gossip::MixWork>(lose_tails)},
  };
}

}  // namespace plumbline::mutants
