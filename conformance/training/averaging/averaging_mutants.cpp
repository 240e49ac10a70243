// Mutants of training whose ranks average parameters that are no edits: of what devices do.
#include <string>
#include <vector>

#include "conformance/training/training_mutants.hpp"
#include "harness/mutants/record_rewriting.hpp"
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

std::string of_job(const char* algorithm, const char* graph, int world) {
  return std::string("training.job.averaging_") + algorithm + "[" + graph +
         "optimizer=sgd,world=" + std::to_string(world) + "]";
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
      {"job.values_before_averages_missing", "TRAIN-018", "the values between optimizer and average are not recorded",
       "a record that is written when the step is over", of_job("localsgd", "", 3), "",
       "every run that averages has them", with_tensors([](const job::RunSpec&, int, RecordedTensor& tensor) {
         if (is_of(tensor, job::Moment::updated)) tensor.name.clear();
       })},
      {"job.push_sum_weights_missing", "TRAIN-018", "push-sum weights are not recorded", "a record of parameters alone",
       of_job("sgp", "graph=star,", 3), of_job("localsgd", "", 3), "there are none",
       with_tensors([](const job::RunSpec&, int, RecordedTensor& tensor) {
         if (tensor.name.ends_with("/weight")) tensor.name.clear();
       })},
  };
}

}  // namespace plumbline::mutants
