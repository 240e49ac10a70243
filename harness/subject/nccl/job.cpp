#include "harness/subject/nccl/job.hpp"

namespace plumbline::subject::nccl {

Job::Job(const Options& options, Place place, std::shared_ptr<device::Runtime> runtime)
    : process(options, std::move(place), std::move(runtime)), messages(process), thread_([this] {
        const Process::Turn turn(process);
        return pump();
      }) {}

Job::~Job() {
  const Process::Turn turn(process);
  process.bury(std::move(all));
}

void Job::go_on() {
  if (pump().left != Left::nothing) thread_.wake();
}

Step Job::pump() {
  Step step = messages.pump();
  if (process.pump()) step.left = Left::nccl;
  return step;
}

}  // namespace plumbline::subject::nccl
