// reference/comm/local/group.hpp: what the members of one group share.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sched.h>

#include "reference/comm/communicator.hpp"
#include "reference/comm/local.hpp"
#include "reference/comm/local/channel.hpp"
#include "reference/comm/local/pair_exchange_queue.hpp"
#include "reference/comm/local/posting.hpp"

namespace plumbline::comm::local {

/// Why a group cannot continue.
struct Failure {
  enum class Kind { mismatch, timeout, peer };
  Kind kind = Kind::peer;
  std::uint64_t sequence = 0;  // of the collective that failed, if it was one
  std::string message;
};

class LocalGroup {
 public:
  /// The policy is that of the world: the members of a small group share the cores with all other ranks.
  LocalGroup(Group identity, const LocalOptions& options, WaitPolicy policy);

  const Group identity;
  const LocalOptions options;
  const int size;
  const WaitPolicy policy;
  /// The group's own streams; null where no devices are served.
  const std::unique_ptr<DeviceCalls::Lane> lane;

  [[nodiscard]] const Capabilities& capabilities() const {
    return local_capabilities(options.device_calls == nullptr ? Device::Kind::cpu : options.device_calls->kind());
  }
  /// A place for what `member` posts with a call on a device's memory; those that all have consumed are given up.
  DevicePosting& device_posting(int member, std::uint64_t consumed_by_all);
  [[nodiscard]] PostingStream& stream(int member) { return *members_[static_cast<std::size_t>(member)].stream; }
  /// The messages from one member to another.
  [[nodiscard]] Channel& channel(int from, int to);
  /// Where two members exchange values in place.
  [[nodiscard]] PairExchangeQueue& meeting_place(int lower, int higher);

  // Failure. The first one stays.
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_seq_cst); }
  [[nodiscard]] Failure failure() const;
  void fail(const Failure& failure) noexcept;
  /// fail(), here and in all groups made from this one.
  void abort(const std::string& reason) noexcept;

  // A member that works on others' buffers says so first, and a member that gives up a call first fails the group, then
  // waits until no member works: so no member touches buffers of a call that has been given up.
  /// False when the group has failed: then keep off.
  [[nodiscard]] bool enter(int member);
  void leave(int member);
  void await_nobody_inside(int except) const noexcept;

  // Where a waiting member was last seen running: who shares its core gains by yielding to it.
  int note_core(int member) {
    const int core = sched_getcpu();
    members_[static_cast<std::size_t>(member)].core.store(core, std::memory_order_relaxed);
    return core;
  }
  [[nodiscard]] int last_core(int member) const {
    return members_[static_cast<std::size_t>(member)].core.load(std::memory_order_relaxed);
  }

  // A member whose communicator is gone will post no more.
  void depart(int member) {
    departed_[static_cast<std::size_t>(member)].store(true, std::memory_order_release);
    anyone_departed_.store(true, std::memory_order_release);
  }
  [[nodiscard]] bool anyone_departed() const { return anyone_departed_.load(std::memory_order_acquire); }
  [[nodiscard]] bool departed(int member) const {
    return departed_[static_cast<std::size_t>(member)].load(std::memory_order_acquire);
  }

  /// The group made of these members: the first member to ask makes it, and each gets it once all have asked. Throws
  /// TimeoutError, PeerFailed; both fail this group, and wake every member that waits for the new one.
  std::shared_ptr<LocalGroup> subgroup(int member, const std::vector<int>& world_ranks) {
    return form(identity.ranks[static_cast<std::size_t>(member)], world_ranks, {});
  }
  /// The group of the members that are left of this one, which may have failed, and stays as it is even if this throws
  /// TimeoutError or PeerFailed, as it does on every member that waits for the new one.
  std::shared_ptr<LocalGroup> shrunk(int member, const std::vector<int>& world_ranks) {
    return form(identity.ranks[static_cast<std::size_t>(member)], world_ranks, {.of_those_left = true});
  }
  /// The group of all members and of newcomers, who ask for it by an invitation. This one stays as it is even if this
  /// throws TimeoutError or PeerFailed, and the invitation has served.
  std::shared_ptr<LocalGroup> grown(const std::string& invitation, int world_rank,
                                    const std::vector<int>& world_ranks) {
    return form(world_rank, world_ranks, {.invitation = invitation});
  }

 private:
  struct alignas(kApart) Member {
    std::unique_ptr<PostingStream> stream;
    std::atomic<bool> inside{false};
    std::atomic<int> core{-1};
    std::deque<DevicePosting> on_device;  // changed by the member alone
  };
  // How a group is made from this one.
  struct Making {
    bool of_those_left = false;   // shrunk(): this group's failure does not end it
    std::string invitation = {};  // grown(); else empty
    [[nodiscard]] bool fails_with_us() const { return !of_those_left; }
    [[nodiscard]] bool fails_us() const { return !of_those_left && invitation.empty(); }
    [[nodiscard]] const char* function() const;
    friend bool operator==(const Making&, const Making&) = default;
  };
  struct Subgroup {
    std::vector<int> missing;  // world ranks that have not asked
    std::shared_ptr<LocalGroup> group;
    Making making;
  };
  std::shared_ptr<LocalGroup> form(int world_rank, const std::vector<int>& world_ranks, const Making& making);
  std::shared_ptr<Subgroup> join_subgroup(int world_rank, const std::vector<int>& world_ranks, const Making& making);
  void add_subgroup(const std::shared_ptr<LocalGroup>& group);  // under mutex_
  [[nodiscard]] std::optional<Failure> failure_of(const Subgroup& forming, std::vector<int> left, bool late) const;
  void watch(const std::shared_ptr<Subgroup>& forming, bool late);
  void note(const Failure& failure);  // under mutex_

  std::vector<Member> members_;
  std::vector<std::atomic<bool>> departed_;
  std::atomic<bool> anyone_departed_{false};
  // What two members have to themselves: [from * size + to], made when first used.
  template <class Meeting>
  struct Pairs {
    std::vector<std::atomic<Meeting*>> places;
    std::vector<std::unique_ptr<Meeting>> owned;  // under mutex_
  };
  /// Made of the arguments when it is first requested.
  template <class Meeting, class... Arguments>
  Meeting& of_pair(Pairs<Meeting>& pairs, int from, int to, Arguments... arguments);
  Pairs<Channel> channels_;
  Pairs<PairExchangeQueue> meeting_places_;

  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // of everything below, and of what pairs own
  std::optional<Failure> failure_;
  std::vector<std::weak_ptr<LocalGroup>> subgroups_;
  std::vector<std::shared_ptr<Subgroup>> forming_;
  std::map<std::vector<int>, int> creations_;  // how often each list of ranks was made into a group
};

/// "world [0 1 2]", "[4 0] #2".
[[nodiscard]] std::string describe(const Group& group);

/// The communicator of `member`.
[[nodiscard]] std::unique_ptr<Communicator> make_local_communicator(std::shared_ptr<LocalGroup> group, int member);

}  // namespace plumbline::comm::local
