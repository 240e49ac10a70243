// Communicators whose groups are wrong beside other groups: many of them, outstanding calls, destroyed parents.
#include <algorithm>
#include <mutex>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::Communicator;
using comm::CommunicatorDecorator;
using comm::Operation;
using comm::Work;
using namespace std::chrono_literals;

namespace {

// What all handles of a rank's groups know of each other.
struct Shared {
  int groups = 0;                      // that were made
  int outstanding = 0;                 // started calls that are not complete
  std::vector<Communicator*> by_slot;  // of OneOfSixteen
  std::timed_mutex creating;
  Communicator* last = nullptr;  // of LosesAtSwitches: on which the last call was made
  int switches = 0;
};

/// A decorator whose groups know what its other groups do, and which it was made from.
template <class Self>
class Related : public CommunicatorDecorator {
 public:
  explicit Related(std::unique_ptr<Communicator> inner, Self* parent = nullptr)
      : CommunicatorDecorator(std::move(inner)),
        parent_(parent),
        shared_(parent == nullptr ? std::make_shared<Shared>() : parent->shared_) {}

 protected:
  friend Self;
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<Self>(std::move(group), static_cast<Self*>(this));
  }
  Self* parent_;  // used while it lives: in creations
  std::shared_ptr<Shared> shared_;
};

// An average in a group is divided by the number of ranks of the world.
class DividesByWorld final : public CommunicatorDecorator {
 public:
  explicit DividesByWorld(std::unique_ptr<Communicator> inner, int world = 0)
      : CommunicatorDecorator(std::move(inner)), world_(world == 0 ? size() : world) {}

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    CommunicatorDecorator::do_run(call, timeout);
    if (!is_reduction(call.operation) || call.op != comm::ReduceOp::avg || call.dtype() != comm::DType::f32 ||
        !call.uses_out(rank()))
      return;
    const float share = static_cast<float>(size()) / static_cast<float>(world_);
    change_all<float>(call.out, [share](float value) { return value * share; });
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<DividesByWorld>(std::move(group), world_);
  }
  int world_;
};

// An algorithm that groups of seven alone take.
After last_block_of_seven(Call& call, const Place& place) {
  return call.operation == Operation::all_to_all && place.group.size() == 7 && call.out.count > 0
             ? restore(call.out, call.out.count - 1, 1)
             : After{};
}

// A barrier of a group waits for all ranks of its parent, for a while.
class BarrierOfParent final : public Related<BarrierOfParent> {
 public:
  using Related::Related;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    if (call.operation == Operation::barrier && parent_ != nullptr)
      return parent_->CommunicatorDecorator::do_run(call, 100ms);
    CommunicatorDecorator::do_run(call, timeout);
  }
};

// A started collective, or message, whose result is lost where a group is made before it is waited for.
template <bool messages>
class CreationDropsCalls final : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  class Dropped final : public WrappedWork {
   public:
    Dropped(Work inner, CreationDropsCalls& group, After lose)
        : WrappedWork(std::move(inner)), group_(group), creations_(group.creations_), lose_(std::move(lose)) {}
    void wait(comm::Timeout timeout) override {
      WrappedWork::wait(timeout);
      if (group_.creations_ != creations_) lose_();
    }

   private:
    CreationDropsCalls& group_;
    int creations_;
    After lose_;
  };
  Work do_start(std::span<const Call> calls) override {
    const auto is_lost = [this](const Call& call) {
      return call.uses_out(rank()) && is_point_to_point(call.operation) == messages;
    };
    const auto lost = std::ranges::find_if(calls, is_lost);
    if (lost == calls.end()) return CommunicatorDecorator::do_start(calls);
    After lose = restore(lost->out, 0, lost->out.count);
    return Work(std::make_unique<Dropped>(CommunicatorDecorator::do_start(calls), *this, std::move(lose)));
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    ++creations_;
    return std::make_unique<CreationDropsCalls>(std::move(group));
  }
  int creations_ = 0;
};

// A group goes with the one that it was made from.
class GoesWithParent final : public CommunicatorDecorator {
 public:
  explicit GoesWithParent(std::unique_ptr<Communicator> inner, std::shared_ptr<const bool> parent_lives = {})
      : CommunicatorDecorator(std::move(inner)), parent_lives_(std::move(parent_lives)) {}
  ~GoesWithParent() override { *lives_ = false; }
  GoesWithParent(const GoesWithParent&) = delete;
  GoesWithParent& operator=(const GoesWithParent&) = delete;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    if (parent_lives_ != nullptr && !*parent_lives_) throw comm::PeerFailed("the group's parent was destroyed");
    CommunicatorDecorator::do_run(call, timeout);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<GoesWithParent>(std::move(group), lives_);
  }
  std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
  std::shared_ptr<const bool> parent_lives_;
};

// The 17th group of a rank uses the first one's channel, and so on: as with an identity of four bits.
class OneOfSixteen final : public Related<OneOfSixteen> {
 public:
  explicit OneOfSixteen(std::unique_ptr<Communicator> inner, OneOfSixteen* parent = nullptr)
      : Related(std::move(inner), parent) {
    if (parent == nullptr) return;
    constexpr std::size_t kSlots = 16;
    const auto number = static_cast<std::size_t>(shared_->groups++);
    if (number < kSlots)
      shared_->by_slot.push_back(this);
    else
      used_ = static_cast<OneOfSixteen*>(shared_->by_slot[number % kSlots]);
  }

 private:
  Work do_start(std::span<const Call> calls) override { return used_->CommunicatorDecorator::do_start(calls); }
  OneOfSixteen* used_ = this;
};

// Of calls that are outstanding on more than two groups, the last to be started comes back as it was.
class TwoAtATime final : public Related<TwoAtATime> {
 public:
  using Related::Related;

 private:
  class Counted final : public WrappedWork {
   public:
    Counted(Work inner, std::shared_ptr<Shared> shared, After lose)
        : WrappedWork(std::move(inner)), shared_(std::move(shared)), lose_(std::move(lose)) {}
    void wait(comm::Timeout timeout) override {
      WrappedWork::wait(timeout);
      --shared_->outstanding;
      if (lose_) lose_();
    }

   private:
    std::shared_ptr<Shared> shared_;
    After lose_;
  };
  Work do_start(std::span<const Call> calls) override {
    const Call& last = calls.back();
    After lose;
    if (parent_ != nullptr && ++shared_->outstanding > 2) lose = restore(last.out, 0, last.out.count);
    Work work = CommunicatorDecorator::do_start(calls);
    return parent_ == nullptr ? std::move(work)
                              : Work(std::make_unique<Counted>(std::move(work), shared_, std::move(lose)));
  }
};

// Groups claim no bf16.
class GroupsWithoutBf16 final : public CommunicatorDecorator {
 public:
  explicit GroupsWithoutBf16(std::unique_ptr<Communicator> inner, bool is_world = true)
      : CommunicatorDecorator(std::move(inner)), capabilities_(CommunicatorDecorator::capabilities()) {
    if (!is_world) capabilities_.dtypes.erase(comm::DType::bf16);
  }
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return capabilities_; }

 private:
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<GroupsWithoutBf16>(std::move(group), false);
  }
  comm::Capabilities capabilities_;
};

// One lock for all creations of a rank, which is held while the other members are waited for.
class CreatesUnderALock final : public Related<CreatesUnderALock> {
 public:
  using Related::Related;

 private:
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override {
    const std::unique_lock lock(shared_->creating, 200ms);
    if (!lock) throw RuntimeFailure("another thread creates a group");
    return CommunicatorDecorator::do_create_group(ranks);
  }
};

// Every tenth call on another group than the one before it loses its first element.
class LosesAtSwitches final : public Related<LosesAtSwitches> {
 public:
  using Related::Related;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    constexpr int kSwitches = 10;
    const bool loses = shared_->last != this && ++shared_->switches % kSwitches == 0 && call.uses_out(rank()) &&
                       call.operation != Operation::broadcast && call.out.count > 0;
    shared_->last = this;
    const After lose = loses ? restore(call.out, 0, 1) : After{};
    CommunicatorDecorator::do_run(call, timeout);
    if (lose) lose();
  }
};

// A group that is five levels deep has its ranks in ascending order.
class LevelsOfTwoBits final : public CommunicatorDecorator {
 public:
  explicit LevelsOfTwoBits(std::unique_ptr<Communicator> inner, int level = 0)
      : CommunicatorDecorator(std::move(inner)), level_(level) {}

 private:
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    constexpr int kLevels = 4;
    if (level_ < kLevels) return std::make_unique<LevelsOfTwoBits>(std::move(group), level_ + 1);
    std::vector<int> order(static_cast<std::size_t>(group->size()));
    for (int member = 0; member < group->size(); ++member)
      order[static_cast<std::size_t>(member)] = group->size() - 1 - member;
    return std::make_unique<LevelsOfTwoBits>(group->create_group(order), level_ + 1);
  }
  int level_;
};

// A destroyed group keeps 4 KiB.
class LeavesMemory final : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    kept_.emplace_back(4096);
    return std::make_unique<LeavesMemory>(std::move(group));
  }
  std::vector<std::vector<std::byte>> kept_;
};

}  // namespace

std::vector<Mutant> several_groups_mutants() {
  const char* const order = "collectives.groups.order[world=3]";
  return {
      {"col.group_average_by_world", "COLL-067", "an average in a group is divided by the size of the world", "RED-02",
       "collectives.groups.every_size[world=3]", "collectives.average.divisor[length=many,world=3]",
       "the group is the world", wrap_in<DividesByWorld>},
      {"col.all_to_all_of_seven", "COLL-067", "in groups of seven, all_to_all loses its last element",
       "COL-10: odd numbers of ranks", "collectives.groups.every_size[world=8]",
       "collectives.groups.every_size[world=6]", "no group has seven members", with_fault(last_block_of_seven)},
      {"col.barrier_of_parent", "COLL-068", "a barrier of a group waits for all ranks of its parent", "GRP-09",
       "collectives.groups.waits_for_members_only[world=3]", order, "no barrier is made", wrap_in<BarrierOfParent>},
      {"col.creation_drops_calls", "COLL-069", "a group's creation loses the results of outstanding calls",
       "state of the parent that a split resets", "collectives.groups.made_beside_outstanding_calls[world=3]",
       "collectives.nonblocking.many_outstanding[world=3]", "no group is made meanwhile",
       wrap_in<CreationDropsCalls<false>>},
      {"col.creation_takes_messages", "COLL-069", "a group's creation loses messages that are under way",
       "MPI_Comm_create_group of Open MPI 4.1, whose messages a user's receive takes",
       "collectives.groups.made_beside_outstanding_calls[world=3]", "collectives.messages.tags[world=3]",
       "no group is made meanwhile", wrap_in<CreationDropsCalls<true>>},
      {"col.goes_with_parent", "COLL-070", "a group cannot be used after its parent was destroyed",
       "resources that a split shares with its parent", "collectives.groups.outlive_their_parent[world=3]",
       "collectives.groups.nested[world=5]", "every parent lives", wrap_in<GoesWithParent>},
      {"col.sixteen_groups", "COLL-071", "the 17th group of a rank is taken for the first one",
       "GRP-10: an identity with too few bits", "collectives.groups.many_at_once[world=3]",
       "collectives.groups.calls_in_flight[world=3]", "there are four groups", wrap_in<OneOfSixteen>},
      {"col.two_groups_at_a_time", "COLL-072", "of calls on three groups at once, the last one's result is lost",
       "COL-03: scratch memory for two communicators", "collectives.groups.calls_in_flight[world=3]",
       "collectives.groups.never_meet[world=3]", "there are two groups", wrap_in<TwoAtATime>},
      {"col.groups_without_bf16", "COLL-073", "groups do not claim bf16, which the world does", "COL-07",
       "collectives.groups.claim_what_their_parent_claims[world=3]", order, "calls have f32",
       wrap_in<GroupsWithoutBf16>},
      {"col.creates_under_a_lock", "COLL-074", "one lock is held while a group's members are waited for",
       "COL-03: a lock that several communicators share", "collectives.groups.made_by_several_threads[world=2]", order,
       "one thread makes groups", wrap_in<CreatesUnderALock>},
      {"col.nested_five_deep", "COLL-096", "a group that is five levels deep has another order of ranks",
       "GRP-06: a table of ranks for each level", "collectives.groups.deeply_nested[world=3]",
       "collectives.groups.nested[world=5]", "groups are three levels deep", wrap_in<LevelsOfTwoBits>},
      {"col.loses_at_switches", "COLL-097", "every tenth call on another group than before loses an element",
       "OVL-04: memory that groups share, by turns", "collectives.groups.by_turns_on_a_mesh[world=4]", order,
       "calls of a group come together", wrap_in<LosesAtSwitches>},
      {"col.groups_leave_memory", "COLL-088", "a destroyed group keeps 4 KiB", "GRP-08",
       "collectives.memory.groups_do_not_grow[world=2]", order, "nobody looks at the memory", wrap_in<LeavesMemory>,
       "plain", "plain", Sanitized::measured},
  };
}

}  // namespace plumbline::mutants
