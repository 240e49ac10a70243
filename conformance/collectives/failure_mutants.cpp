// Communicators that wait, fail and notice misuse wrongly.
#include <algorithm>
#include <chrono>
#include <optional>
#include <regex>
#include <thread>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::Communicator;
using comm::CommunicatorDecorator;
using comm::DType;
using comm::MismatchError;
using comm::Operation;
using comm::PeerFailed;
using comm::TimeoutError;
using comm::Work;
using namespace std::chrono_literals;

namespace {

/// A decorator whose class changes how calls are made and waited for: Self::make(action, call, timeout) does
/// action(limit).
template <class Self>
class Changed : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  class ChangedWork final : public WrappedWork {
   public:
    ChangedWork(Work inner, Self& group, const Call& call)
        : WrappedWork(std::move(inner)), group_(group), call_(call) {}
    void wait(comm::Timeout timeout) override {
      group_.make([this](comm::Timeout limit) { WrappedWork::wait(limit); }, call_, timeout, true);
    }

   private:
    Self& group_;
    Call call_;
  };

  void do_run(const Call& call, comm::Timeout timeout) override {
    self().make([&](comm::Timeout limit) { CommunicatorDecorator::do_run(call, limit); }, call, timeout, false);
  }
  Work do_start(std::span<const Call> calls) override {
    return Work(std::make_unique<ChangedWork>(CommunicatorDecorator::do_start(calls), self(), calls.front()));
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<Self>(std::move(group));
  }
  Self& self() { return static_cast<Self&>(*this); }
};

class WaitIgnoresLimit final : public Changed<WaitIgnoresLimit> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call& call, comm::Timeout timeout, bool waits) {
    action(waits && !is_point_to_point(call.operation) ? comm::Timeout{} : timeout);
  }
};

class ReceiveIgnoresLimit final : public Changed<ReceiveIgnoresLimit> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call& call, comm::Timeout timeout, bool waits) {
    action(waits && call.operation == Operation::recv ? comm::Timeout{} : timeout);
  }
};

class BlockingIgnoresLimit final : public Changed<BlockingIgnoresLimit> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call&, comm::Timeout timeout, bool waits) {
    action(waits ? timeout : comm::Timeout{});
  }
};

// A hundredth of the limit, as of one that is taken in another unit.
class LimitInOtherUnit final : public Changed<LimitInOtherUnit> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call&, comm::Timeout timeout, bool waits) {
    action(waits && timeout ? comm::Timeout(*timeout / 100) : timeout);
  }
};

// Half of each limit, and barriers that keep their members longer than that.
class LimitHalvedAfterBarrier final : public Changed<LimitHalvedAfterBarrier> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call& call, comm::Timeout timeout, bool waits) {
    action(waits && timeout ? comm::Timeout(*timeout / 2) : timeout);
    if (!waits && call.operation == Operation::barrier) std::this_thread::sleep_for(30ms);
  }
};

class LimitCapped final : public Changed<LimitCapped> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call&, comm::Timeout timeout, bool waits) {
    action(waits && timeout ? comm::Timeout(std::min<std::chrono::nanoseconds>(*timeout, 20ms)) : timeout);
  }
};

class BlockingGivesUpAtOnce final : public Changed<BlockingGivesUpAtOnce> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call&, comm::Timeout timeout, bool waits) {
    action(!waits && timeout ? comm::Timeout(0ns) : timeout);
  }
};

class Impatient final : public Changed<Impatient> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call&, comm::Timeout timeout, bool) {
    action(timeout ? timeout : 20ms);
  }
};

class TimeoutNamesNobody final : public Changed<TimeoutNamesNobody> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call&, comm::Timeout timeout, bool) {
    try {
      action(timeout);
    } catch (const TimeoutError&) {
      throw TimeoutError("the call timed out");
    }
  }
};

// What goes wrong with an E, on calls for which Self::concerns says so, stays unsaid.
template <class Self, class E>
class Swallows : public Changed<Self> {
 public:
  using Changed<Self>::Changed;
  template <class Action>
  void make(const Action& action, const Call& call, comm::Timeout timeout, bool) {
    try {
      action(timeout);
    } catch (const E&) {
      if (!Self::concerns(call)) throw;
    }
  }
};

class FailureForgotten final : public Swallows<FailureForgotten, PeerFailed> {
 public:
  using Swallows::Swallows;
  static bool concerns(const Call&) { return true; }
};

class MismatchUnnoticed final : public Swallows<MismatchUnnoticed, MismatchError> {
 public:
  using Swallows::Swallows;
  static bool concerns(const Call& call) { return !is_point_to_point(call.operation); }
};

// Says of members that disagree which one does, and of the others what they do.
class MismatchNamesOneRank final : public Changed<MismatchNamesOneRank> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call&, comm::Timeout timeout, bool) {
    try {
      action(timeout);
    } catch (const MismatchError& error) {
      static const std::regex others("rank (0|[2-9]|1[0-9]+)\\b");
      throw MismatchError(std::regex_replace(std::string(error.what()), others, "another member"));
    }
  }
};

// Says of members that disagree on the root who they are, and not which roots they give.
class MismatchHidesRoots final : public Changed<MismatchHidesRoots> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call&, comm::Timeout timeout, bool) {
    try {
      action(timeout);
    } catch (const MismatchError& error) {
      static const std::regex root("root [0-9]+");
      throw MismatchError(std::regex_replace(std::string(error.what()), root, "another root"));
    }
  }
};

class MessageMismatchUnnoticed final : public Swallows<MessageMismatchUnnoticed, MismatchError> {
 public:
  using Swallows::Swallows;
  static bool concerns(const Call& call) { return is_point_to_point(call.operation); }
};

// A barrier that waits for its left neighbour only.
class LeakyBarrier final : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    if (call.operation != Operation::barrier || size() == 1) return CommunicatorDecorator::do_run(call, timeout);
    constexpr int kTag = 32767;  // the largest that every MPI has
    std::byte sent{}, received{};
    const Call calls[] = {
        {.operation = Operation::send, .root = (rank() + 1) % size(), .tag = kTag, .in = {&sent, 1, DType::u8}},
        {.operation = Operation::recv,
         .root = (rank() + size() - 1) % size(),
         .tag = kTag,
         .out = {&received, 1, DType::u8}}};
    CommunicatorDecorator::do_start(calls).wait(timeout);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<LeakyBarrier>(std::move(group));
  }
};

// A barrier that fails at its limit fails on rank 0 alone.
class PartialBarrier final : public Changed<PartialBarrier> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call& call, comm::Timeout timeout, bool) {
    try {
      action(timeout);
    } catch (const TimeoutError&) {
      if (call.operation != Operation::barrier || rank() == 0) throw;
    }
  }
};

// MPI_THREAD_FUNNELED, taken for MPI_THREAD_MULTIPLE.
class OneThreadOnly final : public CommunicatorDecorator {
 public:
  explicit OneThreadOnly(std::unique_ptr<Communicator> inner, std::thread::id owner = std::this_thread::get_id())
      : CommunicatorDecorator(std::move(inner)), owner_(owner) {}

 private:
  void check_thread() const {
    if (std::this_thread::get_id() != owner_) throw StateError("called by another thread than the one that began");
  }
  void do_run(const Call& call, comm::Timeout timeout) override {
    check_thread();
    CommunicatorDecorator::do_run(call, timeout);
  }
  Work do_start(std::span<const Call> calls) override {
    check_thread();
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<OneThreadOnly>(std::move(group), owner_);
  }
  std::thread::id owner_;
};

// Aborts nobody but itself.
class AbortIsLocal final : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  void abort(const std::string& reason) noexcept override { reason_ = reason; }

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    if (reason_) throw PeerFailed(*reason_);
    CommunicatorDecorator::do_run(call, timeout);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<AbortIsLocal>(std::move(group));
  }
  std::optional<std::string> reason_;
};

// A rank that leaves a group tells nobody: the handle is kept until all of this rank's are gone.
class SilentDeath final : public Communicator {
 public:
  using Graveyard = std::shared_ptr<std::vector<std::shared_ptr<Communicator>>>;
  explicit SilentDeath(std::shared_ptr<Communicator> inner,
                       Graveyard kept = std::make_shared<Graveyard::element_type>())
      : Communicator(inner->rank(), inner->group()), inner_(std::move(inner)), kept_(std::move(kept)) {}
  ~SilentDeath() override { kept_->push_back(inner_); }
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return inner_->capabilities(); }
  void use_stream(void* stream) override { inner_->use_stream(stream); }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 private:
  void do_run(const Call& call, comm::Timeout timeout) override { inner_->run(call, timeout); }
  Work do_start(std::span<const Call> calls) override { return inner_->start(calls); }
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override {
    return std::make_unique<SilentDeath>(inner_->create_group(ranks), kept_);
  }
  std::shared_ptr<Communicator> inner_;
  Graveyard kept_;
};

// The same, and the others call it a failure when their patience ends.
class LateNews final : public Changed<LateNews> {
 public:
  using Changed::Changed;
  template <class Action>
  void make(const Action& action, const Call&, comm::Timeout timeout, bool) {
    try {
      action(timeout);
    } catch (const TimeoutError& error) {
      throw PeerFailed(error.what());
    }
  }
};

std::unique_ptr<Communicator> with_late_news(std::unique_ptr<Communicator> inner) {
  return std::make_unique<LateNews>(std::make_unique<SilentDeath>(std::move(inner)));
}

}  // namespace

std::vector<Mutant> failure_mutants() {
  const char* const sum = "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]";
  return {
      {"col.leaky_barrier", "COLL-049", "a barrier waits for the left neighbour only", "COL-04",
       "collectives.barrier.nobody_leaves_early[world=3]", "collectives.barrier.nobody_leaves_early[world=2]",
       "of two ranks, the neighbour is everybody", wrap_in<LeakyBarrier>},
      {"col.wait_ignores_limit", "COLL-050", "a wait for a collective does not keep its limit", "COL-08",
       "collectives.limits.wait[world=2]", "collectives.limits.receive[world=2]", "the wait is for a message",
       wrap_in<WaitIgnoresLimit>},
      {"col.receive_ignores_limit", "COLL-050", "a wait for a message does not keep its limit", "COL-08",
       "collectives.limits.receive[world=2]", "collectives.limits.wait[world=2]", "the wait is for a barrier",
       wrap_in<ReceiveIgnoresLimit>},
      {"col.limit_in_other_unit", "COLL-050", "a wait gives up after a hundredth of its limit", "COL-08",
       "collectives.limits.wait[world=2]", "collectives.limits.blocking[world=2]", "the limit is no wait's",
       wrap_in<LimitInOtherUnit>},
      {"col.limit_halved_after_barrier", "COLL-050", "waits end at half of their limit, and barriers are slow",
       "COL-08: a clock that was started too early hides it", "collectives.limits.wait[world=3]",
       "collectives.limits.late_but_in_time[world=2]", "the limit is far away", wrap_in<LimitHalvedAfterBarrier>},
      {"col.limit_capped", "COLL-050", "a wait gives up after 20 ms, whatever its limit", "COL-08",
       "collectives.limits.late_but_in_time[world=2]", "collectives.limits.wait[world=2]", "that limit is 20 ms",
       wrap_in<LimitCapped>},
      {"col.blocking_gives_up_at_once", "COLL-051", "a blocking call with a limit gives up at once", "COL-08",
       "collectives.limits.blocking[world=2]", "collectives.limits.wait[world=2]", "the limit is a wait's",
       wrap_in<BlockingGivesUpAtOnce>},
      {"col.blocking_ignores_limit", "COLL-051", "a blocking call does not keep its limit", "COL-08",
       "collectives.limits.blocking[world=2]", "collectives.limits.wait[world=2]", "the limit is a wait's",
       wrap_in<BlockingIgnoresLimit>},
      {"col.timeout_names_nobody", "COLL-052", "a timeout does not say for whom it waited", "COL-05",
       "collectives.limits.names_the_missing[world=3]", "collectives.limits.wait[world=3]",
       "the error's type and time are right", wrap_in<TimeoutNamesNobody>},
      {"col.partial_barrier", "COLL-052", "a barrier that fails at its limit fails on rank 0 alone", "COL-05",
       "collectives.limits.names_the_missing[world=3]", "collectives.limits.blocking[world=3]", "rank 0 alone waits",
       wrap_in<PartialBarrier>},
      {"col.failure_forgotten", "COLL-053", "calls on a failed group seem to work", "COL-05",
       "collectives.failure.only_that_group_is_lost[world=2]", "collectives.limits.wait[world=2]",
       "nothing is called after the failure", wrap_in<FailureForgotten>},
      {"col.impatient", "COLL-054", "a rank that is 20 ms late is taken for dead", "COL-08: col.slow_rank0",
       "collectives.failure.slow_is_not_dead[world=2]", "",
       "nothing hides it for certain: on a busy machine any rank can be 20 ms late", wrap_in<Impatient>},
      {"col.silent_death", "COLL-055", "a rank that leaves a group tells nobody", "COL-08",
       "collectives.failure.departure_is_noticed[world=2]", "collectives.failure.slow_is_not_dead[world=2]",
       "nobody leaves while others wait", wrap_in<SilentDeath>},
      {"col.late_news", "COLL-055", "a rank that leaves a group is missed at the time limit only", "COL-08",
       "collectives.failure.departure_is_noticed[world=2]", "collectives.failure.slow_is_not_dead[world=2]",
       "nobody leaves while others wait", with_late_news},
      {"col.abort_is_local", "COLL-056", "abort() fails the caller's own calls alone",
       "COL-08: peers that wait for half an hour", "collectives.failure.abort_reaches_all[world=2]",
       "collectives.failure.departure_is_noticed[world=2]", "nobody aborts", wrap_in<AbortIsLocal>},
      {"col.mismatch_goes_unnoticed", "COLL-057", "members that disagree are told that all went well", "COL-01",
       "collectives.misuse.detected[difference=op,world=3]", sum, "all members agree", wrap_in<MismatchUnnoticed>},
      {"col.mismatch_names_one_rank", "COLL-057", "of members that disagree one alone is named", "COL-01",
       "collectives.misuse.detected[difference=count,world=3]", sum, "all members agree",
       wrap_in<MismatchNamesOneRank>},
      {"col.mismatch_hides_roots", "COLL-057", "members that disagree on the root are named without their roots",
       "COL-01", "collectives.misuse.detected[difference=root,world=5]", sum, "all members agree",
       wrap_in<MismatchHidesRoots>},
      {"col.message_mismatch_unnoticed", "COLL-058", "a message of another shape is taken for received", "P2P-06",
       "collectives.misuse.messages[difference=count,world=2]", "collectives.messages.every_pair[world=2]",
       "all messages fit", wrap_in<MessageMismatchUnnoticed>},
      {"col.one_thread_only", "COLL-059", "a group serves only the thread that made the first one",
       "MPI_Init without MPI_THREAD_MULTIPLE", "collectives.threads.a_group_each[world=2]",
       "collectives.groups.order[world=2]", "each rank has one thread", wrap_in<OneThreadOnly>},
  };
}

}  // namespace plumbline::mutants
