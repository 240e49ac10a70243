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
  if (pump()) thread_.wake();
}

bool Job::pump() {
  const bool are_messages_left = messages.pump();
  return process.pump() || are_messages_left;
}

}  // namespace plumbline::subject::nccl
