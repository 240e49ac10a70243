// harness/trainer/single_device.hpp: the updates of a run over a pipeline, each held to a single device.
//
// Model   Around an update rank 0 gathers what every rank holds: values before, the gradient that is used, values
//         after. From the values before it repeats the update by itself: all blocks in one graph, the rows of each data
//         rank, micro-batch after micro-batch; the mean over the data ranks in their order; the optimizer's rule on the
//         gradients that the ranks used, with moments of its own. So errors do not pile up. Neither engine, schedule
//         nor communicator have a part in it.
// Bits    Loss, running statistics and updates are equal bit for bit; so are gradients where a single device adds in
//         the same order: the schedule back-propagates each stage's micro-batches in turn, the communicator adds in
//         rank order, no other stage uses the parameter, and everything is on the host. Others may differ by max(8 d,
//         64 u g), d the distance of the same computation in float32 from float64, g the largest gradient of a data
//         rank, u = 2^-24. What travels compressed may differ by its roundings besides: (data ranks + 3) (v m + s) at
//         each place, m the mean of the data ranks' magnitudes there, v the type's unit round-off and s its smallest
//         number; by half of the mean of their scales where it travels as bytes. What PowerSGD compresses is to be a
//         projection on r directions of the gradient and of what the updates before left over of it.
// Cost    The run's own computations once more on rank 0, twice more where bits may differ, and three times the model's
//         size in messages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/trainer/pipeline_program.hpp"
#include "harness/trainer/pipeline_run.hpp"

namespace plumbline::training {

class SingleDeviceCheck {
 public:
  /// Collective over `world`. Before the first update, after restore(). All must outlive it.
  SingleDeviceCheck(const TrainerSettings& settings, const PipelineTask& task, comm::Communicator& world,
                    PipelineProgram& program);
  ~SingleDeviceCheck();

  /// The same functions, of which the first `updates` updates are compared; `tell` hears of each, on rank 0.
  [[nodiscard]] TrainingProgram watched(TrainingProgram functions, std::int64_t updates,
                                        std::function<void(const UpdateComparison&)> tell);

 private:
  class Implementation;
  std::unique_ptr<Implementation> own_;
};

}  // namespace plumbline::training
