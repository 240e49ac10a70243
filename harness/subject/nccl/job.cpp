#include "harness/subject/nccl/job.hpp"

#include <algorithm>

#include "harness/subject/nccl/group.hpp"

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

void Job::go_on() { thread_.wake(pump().left); }

Step Job::pump() {
  Step step = messages.pump();
  for (Group* const group : groups_) step.left = std::max(step.left, group->move_on());
  return step;
}

}  // namespace plumbline::subject::nccl
