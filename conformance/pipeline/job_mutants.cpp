// Training records of jobs that train by a schedule, with a fault.
#include "conformance/training/job_mutants.hpp"

#include <fmt/format.h>

#include "conformance/pipeline/pipeline_mutants.hpp"

namespace plumbline::mutants {

std::vector<Mutant> pipeline_job_mutants() {
  const auto pipeline = [](const char* schedule, const char* micro_batches, int accumulation, int data, int world) {
    return fmt::format(
        "pipeline.job.single_device[model=mlp,schedule={},micro_batches={},accumulation={},data={},world={}]", schedule,
        micro_batches, accumulation, data, world);
  };
  return {
      {"job.first_stage_scaled_again", "PIPE-002", "the first stage divides by the number of micro-batches once more",
       "PIPE-09", pipeline("zb-h1", "2p", 3, 2, 4), pipeline("gpipe", "1", 1, 1, 3), "there is one micro-batch",
       with_tensors(scale_first_stage_again)},
      {"job.later_chunks_missing", "PIPE-001", "a rank records its first chunk alone",
       "a list of parameters of one module", pipeline("interleaved-zb", "2p", 1, 1, 2), pipeline("gpipe", "1", 1, 1, 3),
       "each rank has one chunk", with_tensors(omit_later_chunks)},
      {"job.order_ignored", "PIPE-001", "ranks take their places in the usual order of the axes, whatever is asked",
       "a launcher that knows one order", "pipeline.job.order[order=data_first,schedule=1f1b,data=2,world=4]",
       "pipeline.job.order[order=pipeline_first,schedule=1f1b,data=2,world=4]", "it is the usual order",
       ChangeRecord(exchange_ranks)},
  };
}

}  // namespace plumbline::mutants
