// harness/subject/nccl/group.hpp: what a communicator of a group shares with the calls that it started.
//
// Model   A group has a lane for its collectives, a seat for each member on its board, and its part in the messages of
//         the process. All ranks of the job split NCCL's communicator of the job (ncclCommSplit is collective over all
//         of its ranks); other lists get a unique id over the board.
//         The first failure stays. The others learn of it from the board, at their next look.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "harness/subject/nccl/job.hpp"

namespace plumbline::subject::nccl {

class Group : public std::enable_shared_from_this<Group> {
 public:
  /// Makes the group of those world ranks, the caller among them; `parent` is null for a world. Collective over them.
  /// An empty name stands for "[0 2]", or "[0 2] #2" for the second group of that list and parent. Throws PeerFailed,
  /// RuntimeFailure, DeviceFailure.
  static std::shared_ptr<Group> create(std::shared_ptr<Job> job, std::shared_ptr<Group> parent,
                                       std::vector<int> world_ranks, std::string name);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::shared_ptr<Job> job;
  const comm::Group identity;
  const int rank;
  const int size;

  // ---- calls; in a Turn, but for memory ----

  /// Puts collectives into the lane as one batch. Returns the number of the last one among this member's collectives.
  std::uint64_t post(std::shared_ptr<Batch> batch);
  /// Members that have not made their collective of that number.
  [[nodiscard]] std::vector<int> missing(std::uint64_t number) const;
  /// ncclCommRegister with the communicator of the collectives, once NCCL has taken what it was given. Throws
  /// PeerFailed, RuntimeFailure.
  [[nodiscard]] comm::Registration register_memory(void* memory, std::size_t bytes);
  /// Throws InvalidArgument for what is no registration of this group, or has ended. Of a group that has failed NCCL
  /// has ended it.
  void deregister(comm::Registration registration);
  /// Moves on whatever can move. Throws RuntimeFailure, of the device DeviceFailure, having failed the group.
  void pump();
  /// Moves on this group's calls, for whoever looks. Tells the others of an error, which this rank meets in its next
  /// pump(). Where another member has failed, ends what this rank has under way: its stream goes on, and its next look
  /// meets has_ended().
  Left move_on() noexcept;
  /// Whether its calls were ended: what their events say since is nothing.
  [[nodiscard]] bool has_ended() const { return lane_->is_dead(); }

  // ---- failure ----

  /// What the members say, read before what they did: `pump()` between the two.
  struct News {
    std::vector<Status> status;  // of each member
    std::string words;           // of the first that failed, timed out or aborted, or of an ancestor's
    Status worst = Status::member;
  };
  [[nodiscard]] News look() const;
  [[nodiscard]] bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  /// Throws PeerFailed if the group has failed.
  void expect_sound();
  /// Fails the group; ends what it has under way on this rank. In a Turn.
  void fail(Status status, const std::string& reason) noexcept;
  /// Fails it and the groups made from it. Any thread; the process' thread ends what is under way, and what waits for
  /// NCCL stays out of it.
  void abort(const std::string& reason) noexcept;
  /// The handle is gone: no calls will come.
  void leave() noexcept;
  [[noreturn]] void throw_failed() const;
  [[nodiscard]] const std::shared_ptr<const Lineage>& lineage() const { return lineage_; }
  [[nodiscard]] bool is_aborted() const { return abort_words(*lineage_) != nullptr; }
  /// "world [0 1], rank 0".
  [[nodiscard]] std::string place() const;
  [[nodiscard]] std::string place(const comm::Call& call) const;
  /// "rank 2", "ranks 1, 3".
  [[nodiscard]] static std::string name_ranks(const std::vector<int>& ranks);

 private:
  Group(std::shared_ptr<Job> job, const std::shared_ptr<Group>& parent, comm::Group identity);
  /// Whether the lane is split from the job's: all ranks are members.
  [[nodiscard]] bool is_split() const {
    return size > 1 && size == job->process.place.size && job->process.library->CommSplit != nullptr;
  }
  /// Does that in a Turn in which NCCL is not at work in the lane, or the lane is dead.
  void when_settled(const std::function<void()>& action);
  void make_lane();
  /// A step towards the lane; whether it is there.
  bool begin_lane();
  bool begin_split();
  bool is_connected();
  [[nodiscard]] bool are_all_connected() const;
  void meet(Lane& lane, int rank_in_lane);
  [[noreturn]] void give_up_start();
  void fail_start(const std::string& reason) noexcept;

  const std::shared_ptr<GroupBoard> board_;
  const std::shared_ptr<const Lineage> lineage_;
  std::unique_ptr<Lane> lane_;
  std::shared_ptr<Batch> first_;  // of the lane, made with the group
  std::atomic<bool> has_failed_{false};
  mutable std::mutex reason_mutex_;
  std::string reason_;
  std::vector<std::weak_ptr<Group>> subgroups_;  // under reason_mutex_
};

}  // namespace plumbline::subject::nccl
