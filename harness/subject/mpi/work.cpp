#include "harness/subject/mpi/work.hpp"

#include <fmt/format.h>
#include <sched.h>

#include "harness/subject/mpi/issue.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::mpi {

using comm::Call;

namespace {

bool ends_now(MPI_Request& request) {
  int complete = 0;
  return MPI_Test(&request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS && complete != 0;
}

}  // namespace

void MpiWork::post(const Call& call) {
  Posted& posted = posted_.emplace_back(Posted{.call = call, .staged = call});
  if (needs_staging(call, group_->rank, group_->size))
    posted.staged = stage(call, group_->rank, group_->size, posted.scratch);
  Started started(*group_, posted.call, posted.requests);
  issue(started, *group_, posted.staged);
}

bool MpiWork::test() {
  for (; calls_done_ < posted_.size(); ++calls_done_) {
    Posted& posted = posted_[calls_done_];
    for (; requests_done_ < posted.requests.size(); ++requests_done_)
      if (!is_complete(posted, posted.requests[requests_done_])) return false;
    if (needs_staging(posted.call, group_->rank, group_->size))
      unstage(posted.call, posted.staged, group_->rank, group_->size);
    requests_done_ = 0;
  }
  return true;
}

bool MpiWork::is_complete(const Posted& posted, MPI_Request& request) {
  // A request that ended with an error is null afterwards, which MPI takes for complete.
  if (request == MPI_REQUEST_NULL && group_->failed()) group_->throw_failed();
  int complete = 0;
  MPI_Status status;
  const int code = MPI_Test(&request, &complete, &status);
  if (code != MPI_SUCCESS) group_->throw_error(posted.call, code);
  if (complete == 0 && group_->failed()) group_->throw_failed();
  if (complete != 0 && posted.call.operation == comm::Operation::recv) group_->check_length(posted.call, status);
  return complete != 0;
}

void MpiWork::wait(comm::Timeout timeout) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = timeout ? Clock::now() : Clock::time_point{};
  int polls_left = group_->runtime->polls_before_yield();
  while (!test()) {
    if (timeout && Clock::now() - begin >= *timeout) time_out(*timeout);
    if (polls_left > 0)
      --polls_left;
    else
      sched_yield();
  }
}

// MPI does not tell who is late: for a message it is the peer, for a collective anyone else.
void MpiWork::time_out(std::chrono::nanoseconds limit) {
  const Call& call = posted_[calls_done_].call;
  const std::vector<int> late = is_point_to_point(call.operation) ? std::vector{call.root} : group_->others();
  group_->throw_late(group_->place(call), limit, late);
}

MpiWork::~MpiWork() {
  bool dropped = false;
  for (std::size_t index = calls_done_; index < posted_.size(); ++index) {
    Posted& posted = posted_[index];
    for (MPI_Request& request : posted.requests) {
      if (request == MPI_REQUEST_NULL || ends_now(request)) continue;
      dropped = true;
      if (is_point_to_point(posted.call.operation) && MPI_Cancel(&request) == MPI_SUCCESS && ends_now(request))
        continue;
      posted.scratch.abandon();
    }
  }
  if (dropped) group_->fail(fmt::format("rank {} dropped an unfinished call", group_->rank));
}

}  // namespace plumbline::subject::mpi
