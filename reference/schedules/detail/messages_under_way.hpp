// reference/schedules/detail/messages_under_way.hpp: the messages of a rank that were started and are not over yet.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/schedules/detail/message_calls.hpp"
#include "reference/schedules/executor.hpp"

namespace plumbline::schedules::detail {

/// A rank's actions while it takes them.
struct RowInProgress {
  using Clock = std::chrono::steady_clock;
  std::span<const Action> actions;
  std::vector<Period> periods;  // of each action, when it happened
  Clock::time_point begin;
  std::size_t at = 0;  // the next action's position
  [[nodiscard]] double now() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
};

/// What it is given must outlive it.
class MessagesUnderWay {
 public:
  MessagesUnderWay(comm::Communicator& communicator, const Schedule& schedule, const StageCallbacks& callbacks,
                   const ExecutorOptions& options, RowInProgress& row)
      : communicator_(communicator),
        schedule_(schedule),
        callbacks_(callbacks),
        options_(options),
        row_(row),
        calls_(communicator, schedule, callbacks, options) {}
  /// Starts messages that are joined.
  void post(std::span<const Action> messages);
  /// Finishes the message where it is under way. Returns whether it has come.
  bool wait_until_here(const Action& receive);
  /// Takes the schedule's own wait for a send.
  void wait_until_sent(const Action& wait);
  /// Gives back the memory of sends that are over.
  void finish_what_is_over();
  void finish_all();

 private:
  // A message, or messages that are over together.
  struct Posted {
    std::size_t position = 0;  // of the first
    std::span<const Action> messages;
    std::vector<comm::Work> works;
    bool sends_alone = false;
  };
  using Place = std::deque<Posted>::iterator;
  using Name = std::tuple<ActionKind, int, int>;

  static Name name_of_message(const Action& message) { return {message.kind, message.stage, message.micro_batch}; }
  void start(std::span<const Action> messages, std::vector<GroupCalls>& groups);
  void take_up(Posted posted);
  void finish_where_under_way(const Action& message);
  void finish(Place place);
  [[nodiscard]] std::string describe_wait(const Posted& posted) const;

  comm::Communicator& communicator_;
  const Schedule& schedule_;
  const StageCallbacks& callbacks_;
  const ExecutorOptions& options_;
  RowInProgress& row_;
  MessageCalls calls_;
  std::deque<Posted> posted_;
  std::size_t outstanding_sends_ = 0;
  std::set<Name> received_;
};

}  // namespace plumbline::schedules::detail
