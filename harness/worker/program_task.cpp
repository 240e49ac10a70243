#include "harness/worker/program_task.hpp"

#include <gtest/gtest.h>

#include "harness/subject/pipeline_run_json.hpp"
#include "harness/subject/training_module.hpp"
#include "harness/suite/machine_error.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/training.hpp"

namespace plumbline::worker {

using nlohmann::json;

void program_task(TaskRank& rank) {
  const auto run = rank.arguments.get<training::PipelineRun>();
  const training::PipelineSinks sinks{
      .log = [&](const std::string& text) { rank.output({{"log", text}}); },
      .progress = [&](const std::string& text) { rank.output({{"progress", text}}); },
      .epoch = [&](const training::Position& at,
                   const training::EpochResult& result) { rank.output({{"epoch", training::step_of(at, result)}}); },
      .compared = [&](const training::UpdateComparison& one) { rank.output({{"compared", one}}); },
      .timeline = [&](const std::vector<training::RankTimeline>& ranks) { rank.output({{"timeline", ranks}}); }};
  try {
    (void)subject::training_module().program(run, rank.world, sinks);
  } catch (const InvalidArgument& error) {
    throw Unsupported(error.what());
  } catch (const NotFound& error) {
    throw Unsupported(error.what());
  } catch (const training::DeviceMissing& error) {
    throw suite::MachineFailure(error.what());
  } catch (const training::NonFiniteLoss& error) {
    ADD_FAILURE() << error.what();
  } catch (const RuntimeFailure& error) {
    throw suite::MachineFailure(error.what());
  }
}

}  // namespace plumbline::worker
