// harness/subject/mpi/work.hpp: a batch of calls under way.
//
// Model   Requests are completed in the order in which they were posted; looking at one makes MPI progress
//         on all. A call that needs a step after MPI (staging.hpp) gets it when its requests are through.
//         MPI cannot take back a collective that it has begun. When one is given up, the group fails, and
//         the memory that MPI may still touch stays: ours is never freed; the caller's buffers are not ours
//         to keep, so whoever gives up a call must not free them before the process ends. Messages are
//         cancelled, which is enough for a receive that nothing has matched.
// Source  MPI-3.1 sections 3.7 (requests), 3.8.4 (MPI_Cancel), 5.12 (non-blocking collectives).
#pragma once

#include <memory>
#include <vector>

#include <mpi.h>

#include "harness/subject/mpi/group.hpp"
#include "harness/subject/mpi/staging.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::mpi {

class MpiWork final : public comm::Work::State {
 public:
  explicit MpiWork(std::shared_ptr<MpiGroup> group) : group_(std::move(group)) {}
  ~MpiWork() override;
  MpiWork(const MpiWork&) = delete;
  MpiWork& operator=(const MpiWork&) = delete;

  /// Begins a validated call. Throws RuntimeFailure.
  void post(const comm::Call& call);
  /// The same of one that copies rows which RowType describes.
  void post(const comm::StridedCall& call);
  bool test() override;
  void wait(comm::Timeout timeout) override;

 private:
  struct Posted {
    comm::Call call;
    comm::Call staged;
    Scratch scratch;
    std::vector<MPI_Request> requests;
  };

  /// Throws what a call that ended badly has to throw.
  [[nodiscard]] bool is_complete(const Posted& posted, MPI_Request& request);
  [[noreturn]] void time_out(std::chrono::nanoseconds limit);

  const std::shared_ptr<MpiGroup> group_;
  std::vector<Posted> posted_;
  std::size_t calls_done_ = 0;     // of posted_
  std::size_t requests_done_ = 0;  // of the next call
};

}  // namespace plumbline::subject::mpi
