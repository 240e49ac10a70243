// reference/schedules/detail/message_calls.hpp: the calls that move the messages of a schedule, and how they are
// started.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/schedules/executor.hpp"

namespace plumbline::schedules::detail {

inline constexpr int kMessageDirections = 3;  // outputs, gradients, metadata

/// The rank that has the stage; -1 for a stage that there is not.
[[nodiscard]] int rank_of_stage(const Schedule& schedule, int stage);

/// What is started together: the calls of one group's messages.
struct GroupCalls {
  comm::Communicator* communicator;
  std::vector<comm::Call> calls;
  std::vector<std::size_t> messages;  // of each call, its message among the joined ones
};

/// Makes the calls of messages. What it is given must outlive it.
class MessageCalls {
 public:
  MessageCalls(comm::Communicator& communicator, const Schedule& schedule, const StageCallbacks& callbacks,
               const ExecutorOptions& options)
      : communicator_(communicator), schedule_(schedule), callbacks_(callbacks), options_(options) {}
  /// Adds those of a message, which is the `number`-th of the joined ones, to its group's.
  void add_calls(const Action& message, std::size_t number, std::vector<GroupCalls>& groups) const;

 private:
  [[nodiscard]] std::vector<comm::Buffer> memory_of(const Action& message) const;

  comm::Communicator& communicator_;
  const Schedule& schedule_;
  const StageCallbacks& callbacks_;
  const ExecutorOptions& options_;
};

/// Starts all calls as one.
[[nodiscard]] std::vector<comm::Work> start_together(comm::Communicator& communicator,
                                                     std::span<const comm::Call> calls);
/// Starts each call by itself, without waiting in between: a handle for each. As one where one would go after the
/// other: on the memory of devices, and over communicators without Capability::nonblocking.
[[nodiscard]] std::vector<comm::Work> start_each(comm::Communicator& communicator, std::span<const comm::Call> calls);

}  // namespace plumbline::schedules::detail
