// harness/subject/mpi/communicator.hpp: comm::Communicator over an MPI communicator.
//
// Model   A blocking call without an explicit limit is one blocking MPI call. With a limit it is a
//         non-blocking one that is polled, so that the limit can be kept; MPI does not match the two.
#pragma once

#include <memory>

#include "harness/subject/mpi/group.hpp"
#include "harness/subject/mpi/memory.hpp"
#include "harness/subject/mpi/staging.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::mpi {

class MpiCommunicator final : public comm::Communicator {
 public:
  explicit MpiCommunicator(std::shared_ptr<MpiGroup> group);
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return group_->runtime->capabilities(); }
  /// Fails the group in this process only: MPI cannot tell the others. A call that is blocked inside MPI
  /// stays there.
  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override;
  comm::Work do_start(std::span<const comm::Call> calls) override;
  void do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) override;
  void do_run_scaled(const comm::Call& call, double factor, comm::Timeout timeout) override;
  void do_run_strided(const comm::StridedCall& call, comm::Timeout timeout) override;
  std::unique_ptr<comm::Communicator> do_create_group(std::span<const int> ranks) override;
  std::string do_invite() override;
  std::unique_ptr<comm::Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers) override;
  std::unique_ptr<comm::Communicator> do_join(const std::string& invitation, std::span<const int> newcomers) override;
  void* do_allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  void do_deallocate(void* memory) override { memory_.deallocate(memory); }

  /// False for memory that is not the CPU's and for tags that MPI does not have.
  [[nodiscard]] bool is_supported(const comm::Call& call) const;
  /// Throws Unsupported.
  [[noreturn]] void refuse(const comm::Call& call) const;
  void run_staged(const comm::Call& call);
  void run_within(const comm::Call& call, comm::Timeout timeout);

  const std::shared_ptr<MpiGroup> group_;
  Scratch scratch_;  // of blocking calls
  OwnMemory memory_;
};

}  // namespace plumbline::subject::mpi
