// Communicators that are wrong of calls and messages that are under way together, and of calls of a group that fails.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <thread>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::Communicator;
using comm::CommunicatorDecorator;
using comm::Operation;
using comm::PeerFailed;
using comm::Timeout;
using comm::TimeoutError;
using comm::Work;
using namespace std::chrono_literals;

namespace {

// ---- different calls ----

// A counter of calls that has nine bits: where it wraps, a result is lost.
After loses_the_513th(Call& call, const Place& place) {
  return place.number > 512 && place.number % 16 == 1 && call.uses_out(place.group.rank()) && call.out.count > 0
             ? restore(call.out, call.out.count - 1, 1)
             : After{};
}

// A collective first waits, for a while, for what was started before it.
class FlushesFirst final : public Plain<FlushesFirst> {
 public:
  using Plain::Plain;

 private:
  using SharedWork = std::shared_ptr<Work>;
  class Kept final : public Work::State {
   public:
    explicit Kept(SharedWork work) : work_(std::move(work)) {}
    bool test() override { return work_->test(); }
    void wait(Timeout timeout) override { work_->wait(timeout); }

   private:
    SharedWork work_;
  };
  void do_run(const Call& call, Timeout timeout) override {
    if (!is_point_to_point(call.operation))
      for (const auto& earlier : under_way_)
        if (const SharedWork work = earlier.lock()) work->wait(100ms);
    CommunicatorDecorator::do_run(call, timeout);
  }
  Work do_start(std::span<const Call> calls) override {
    const auto work = std::make_shared<Work>(CommunicatorDecorator::do_start(calls));
    if (calls.front().operation == Operation::recv) under_way_.push_back(work);
    return Work(std::make_unique<Kept>(work));
  }
  std::vector<std::weak_ptr<Work>> under_way_;
};

// A started all_reduce uses its input as scratch until it is complete.
class BorrowsInput final : public Plain<BorrowsInput> {
 public:
  using Plain::Plain;

 private:
  class Borrowing final : public WrappedWork {
   public:
    Borrowing(Work inner, std::byte* input, std::vector<std::byte> content)
        : WrappedWork(std::move(inner)), input_(input), content_(std::move(content)) {}
    void wait(Timeout timeout) override {
      WrappedWork::wait(timeout);
      if (!content_.empty()) std::memcpy(input_, content_.data(), content_.size());
    }

   private:
    std::byte* input_;
    std::vector<std::byte> content_;
  };
  Work do_start(std::span<const Call> calls) override {
    const Call& call = calls.front();
    if (calls.size() != 1 || call.operation != Operation::all_reduce || call.in.data == call.out.data ||
        call.in.count == 0)
      return CommunicatorDecorator::do_start(calls);
    auto* const input = const_cast<std::byte*>(element(call.in, 0));
    std::vector<std::byte> content(input, input + call.in.bytes());
    copies_.push_back(content);  // what the call itself reads
    Call copied = call;
    copied.in.data = copies_.back().data();
    Work work = CommunicatorDecorator::do_start(std::span(&copied, 1));
    std::memset(input, 0, content.size());
    return Work(std::make_unique<Borrowing>(std::move(work), input, std::move(content)));
  }
  std::vector<std::vector<std::byte>> copies_;
};

// A batch has the dtype of its first call: results of another are lost.
class BatchOfOneDType final : public Plain<BatchOfOneDType> {
 public:
  using Plain::Plain;

 private:
  class Losing final : public WrappedWork {
   public:
    Losing(Work inner, std::vector<After> lose) : WrappedWork(std::move(inner)), lose_(std::move(lose)) {}
    void wait(Timeout timeout) override {
      WrappedWork::wait(timeout);
      for (const After& lose : lose_) lose();
    }

   private:
    std::vector<After> lose_;
  };
  Work do_start(std::span<const Call> calls) override {
    std::vector<After> lose;
    for (const Call& call : calls)
      if (call.uses_out(rank()) && call.dtype() != calls.front().dtype())
        lose.push_back(restore(call.out, 0, call.out.count));
    return Work(std::make_unique<Losing>(CommunicatorDecorator::do_start(calls), std::move(lose)));
  }
};

// all_gather reads its input as it was before the call that wrote it.
class ReadsBeforeWritten final : public Plain<ReadsBeforeWritten> {
 public:
  using Plain::Plain;

 private:
  void do_run(const Call& call, Timeout timeout) override {
    Call changed = call;
    const bool reads_last = call.operation == Operation::all_gather && call.in.data == written_ &&
                            before_.size() == call.in.bytes() && !before_.empty();
    if (reads_last) changed.in.data = before_.data();
    std::vector<std::byte> before;
    if (call.uses_out(rank()) && call.out.count > 0)
      before.assign(element(call.out, 0), element(call.out, call.out.count));
    CommunicatorDecorator::do_run(changed, timeout);
    written_ = call.out.data;
    before_ = std::move(before);
  }
  const void* written_ = nullptr;
  std::vector<std::byte> before_;
};

// Of a batch, what follows the first 128 calls is lost.
class BatchOf128 final : public Plain<BatchOf128> {
 public:
  using Plain::Plain;

 private:
  class Losing final : public WrappedWork {
   public:
    Losing(Work inner, std::vector<After> lose) : WrappedWork(std::move(inner)), lose_(std::move(lose)) {}
    void wait(Timeout timeout) override {
      WrappedWork::wait(timeout);
      for (const After& lose : lose_) lose();
    }

   private:
    std::vector<After> lose_;
  };
  Work do_start(std::span<const Call> calls) override {
    constexpr std::size_t kCalls = 128;
    std::vector<After> lose;
    for (std::size_t i = kCalls; i < calls.size(); ++i) lose.push_back(restore(calls[i].out, 0, calls[i].out.count));
    return Work(std::make_unique<Losing>(CommunicatorDecorator::do_start(calls), std::move(lose)));
  }
};

// A member whose buffer alone is not aligned takes another algorithm than rank 0, which it tells nobody.
After other_algorithm_if_unaligned(Call& call, const Place& place) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(call.out.data) % 64 == 0;
  return call.operation == Operation::all_gather && place.group.rank() == 1 && !aligned && call.out.count > 0
             ? restore(call.out, call.out.count - 1, 1)
             : After{};
}

// In place, an odd rank takes its input for what it was before the call.
After in_place_on_even_ranks(Call& call, const Place& place) {
  const bool in_place = call.in.data != nullptr && call.in.data == call.out.data;
  return call.operation == Operation::all_reduce && !in_place && place.group.rank() == 1 && call.out.count > 4096
             ? restore(call.out, call.out.count - 1, 1)
             : After{};
}

// A started barrier counts as complete at once. It is waited for when the group goes.
class BarrierDoneEarly final : public Plain<BarrierDoneEarly> {
 public:
  using Plain::Plain;
  ~BarrierDoneEarly() override {
    for (Work& work : under_way_) try {
        work.wait();
      } catch (const Error&) {  // nobody is left to hear of it
      }
  }
  BarrierDoneEarly(const BarrierDoneEarly&) = delete;
  BarrierDoneEarly& operator=(const BarrierDoneEarly&) = delete;

 private:
  Work do_start(std::span<const Call> calls) override {
    Work work = CommunicatorDecorator::do_start(calls);
    if (calls.front().operation != Operation::barrier) return work;
    under_way_.push_back(std::move(work));
    return {};
  }
  std::vector<Work> under_way_;
};

// A call is waited for by the thread that started it, or by none.
class WaitsWhereStarted final : public Plain<WaitsWhereStarted> {
 public:
  using Plain::Plain;

 private:
  class Bound final : public WrappedWork {
   public:
    using WrappedWork::WrappedWork;
    void wait(Timeout timeout) override {
      if (std::this_thread::get_id() != owner_) throw StateError("another thread started the call");
      WrappedWork::wait(timeout);
    }

   private:
    std::thread::id owner_ = std::this_thread::get_id();
  };
  Work do_start(std::span<const Call> calls) override {
    return Work(std::make_unique<Bound>(CommunicatorDecorator::do_start(calls)));
  }
};

// A call that was not waited for counts as given up when its Work goes.
class TestIsNoWait final : public Plain<TestIsNoWait> {
 public:
  using Plain::Plain;

 private:
  class Watched final : public WrappedWork {
   public:
    Watched(Work inner, TestIsNoWait& group) : WrappedWork(std::move(inner)), group_(group) {}
    ~Watched() override {
      if (!waited_) group_.lost_ = true;
    }
    void wait(Timeout timeout) override {
      WrappedWork::wait(timeout);
      waited_ = true;
    }

   private:
    TestIsNoWait& group_;
    bool waited_ = false;
  };
  void do_run(const Call& call, Timeout timeout) override {
    if (lost_) throw PeerFailed("a call was given up");
    CommunicatorDecorator::do_run(call, timeout);
  }
  Work do_start(std::span<const Call> calls) override {
    return Work(std::make_unique<Watched>(CommunicatorDecorator::do_start(calls), *this));
  }
  bool lost_ = false;
};

// What only the root uses is looked at on every member.
class RefusesUnusedNull final : public Plain<RefusesUnusedNull> {
 public:
  using Plain::Plain;

 private:
  void do_run(const Call& call, Timeout timeout) override {
    const bool has_both = call.operation == Operation::reduce || call.operation == Operation::gather;
    if (has_both && call.in.count > 0 && call.out.data == nullptr) throw InvalidArgument("out is a null pointer");
    CommunicatorDecorator::do_run(call, timeout);
  }
};

// ---- messages ----

// A wait for a receive first waits, for a while, for those that were started before it.
class ReceivesInOrder final : public Plain<ReceivesInOrder> {
 public:
  using Plain::Plain;

 private:
  class Ordered final : public Work::State {
   public:
    Ordered(std::shared_ptr<Work> work, std::vector<std::weak_ptr<Work>> earlier)
        : work_(std::move(work)), earlier_(std::move(earlier)) {}
    bool test() override { return work_->test(); }
    void wait(Timeout timeout) override {
      for (const auto& earlier : earlier_)
        if (const auto work = earlier.lock()) work->wait(100ms);
      work_->wait(timeout);
    }

   private:
    std::shared_ptr<Work> work_;
    std::vector<std::weak_ptr<Work>> earlier_;
  };
  Work do_start(std::span<const Call> calls) override {
    if (calls.size() != 1 || calls.front().operation != Operation::recv) return CommunicatorDecorator::do_start(calls);
    const auto work = std::make_shared<Work>(CommunicatorDecorator::do_start(calls));
    std::vector<std::weak_ptr<Work>> earlier = receives_;
    receives_.push_back(work);
    return Work(std::make_unique<Ordered>(work, std::move(earlier)));
  }
  std::vector<std::weak_ptr<Work>> receives_;
};

// Started sends of more than 1 KiB are copied into 64 buffers in turn, whether or not what is in them has gone.
class SixtyFourBuffers final : public Plain<SixtyFourBuffers> {
 public:
  using Plain::Plain;

 private:
  Work do_start(std::span<const Call> calls) override {
    Call call = calls.front();
    if (calls.size() != 1 || call.operation != Operation::send || call.in.bytes() <= 1024 || call.in.bytes() > kLength)
      return CommunicatorDecorator::do_start(calls);
    auto& buffer = buffers_[next_++ % buffers_.size()];
    buffer.resize(kLength);
    std::memcpy(buffer.data(), call.in.data, call.in.bytes());
    call.in.data = buffer.data();
    return CommunicatorDecorator::do_start(std::span(&call, 1));
  }
  static constexpr std::size_t kLength = 32768;
  std::array<std::vector<std::byte>, 64> buffers_;
  std::size_t next_ = 0;
};

After tags_of_a_byte(Call& call, const Place&) {
  if (is_point_to_point(call.operation)) call.tag &= 0xff;
  return {};
}

// ---- groups that fail ----

/// The Work of a started call, changed by Self::test_of(work) and Self::wait_for(work, timeout).
template <class Self>
class OtherWork : public Plain<Self> {
 public:
  using Plain<Self>::Plain;

 private:
  class State final : public Work::State {
   public:
    explicit State(Work inner) : inner_(std::move(inner)) {}
    bool test() override { return Self::test_of(inner_); }
    void wait(Timeout timeout) override { Self::wait_for(inner_, timeout); }

   private:
    Work inner_;
  };
  Work do_start(std::span<const Call> calls) override {
    return Work(std::make_unique<State>(CommunicatorDecorator::do_start(calls)));
  }
};

// A call that was aborted counts as complete.
class AbortedIsComplete final : public OtherWork<AbortedIsComplete> {
 public:
  using OtherWork::OtherWork;
  static bool test_of(Work& work) { return work.test(); }
  static void wait_for(Work& work, Timeout timeout) {
    try {
      work.wait(timeout);
    } catch (const PeerFailed&) {  // and that is all
    }
  }
};

// A call that failed is not complete, however often one looks.
class FailedIsIncomplete final : public OtherWork<FailedIsIncomplete> {
 public:
  using OtherWork::OtherWork;
  static bool test_of(Work& work) {
    try {
      return work.test();
    } catch (const PeerFailed&) {
      return false;
    }
  }
  static void wait_for(Work& work, Timeout timeout) { work.wait(timeout); }
};

// The limit is added to the time in nanoseconds, and wraps.
class LimitWraps final : public OtherWork<LimitWraps> {
 public:
  using OtherWork::OtherWork;
  static bool test_of(Work& work) { return work.test(); }
  static void wait_for(Work& work, Timeout timeout) {
    constexpr auto kWraps = std::chrono::hours(24 * 365 * 100);
    if (timeout && *timeout > kWraps && !work.test()) work.wait(0ns);
    work.wait(timeout);
  }
};

// A limit of zero is none.
class ZeroIsNoLimit final : public OtherWork<ZeroIsNoLimit> {
 public:
  using OtherWork::OtherWork;
  static bool test_of(Work& work) { return work.test(); }
  static void wait_for(Work& work, Timeout timeout) {
    constexpr auto kPatience = 4s;  // of a mutant, which is waited for
    work.wait(timeout == Timeout(0ns) ? Timeout(kPatience) : timeout);
  }
};

// One lock for calls and abort(), which so comes when the call is over.
class AbortWaits final : public Plain<AbortWaits> {
 public:
  using Plain::Plain;
  void abort(const std::string& reason) noexcept override {
    const std::lock_guard lock(in_call_);
    CommunicatorDecorator::abort(reason);
  }

 private:
  void do_run(const Call& call, Timeout timeout) override {
    const std::lock_guard lock(in_call_);
    CommunicatorDecorator::do_run(call, timeout ? timeout : 1s);
  }
  std::mutex in_call_;
};

// Every group is made from the world, whatever it is made from.
class MadeFromWorld final : public CommunicatorDecorator {
 public:
  explicit MadeFromWorld(std::unique_ptr<Communicator> inner, MadeFromWorld* world = nullptr)
      : CommunicatorDecorator(std::move(inner)), world_(world == nullptr ? this : world) {}

 private:
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override {
    std::vector<int> world_ranks;
    for (const int rank : ranks) world_ranks.push_back(group().ranks[static_cast<std::size_t>(rank)]);
    return world_->CommunicatorDecorator::do_create_group(world_ranks);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<MadeFromWorld>(std::move(group), world_);
  }
  MadeFromWorld* world_;
};

// A Work that is dropped is kept, as if it were still waited for, until its group goes.
class KeepsDropped final : public Plain<KeepsDropped> {
 public:
  using Plain::Plain;
  ~KeepsDropped() override {
    for (const auto& work : *kept_) try {
        work->wait(0ns);
      } catch (const Error&) {  // nobody is left to hear of it
      }
  }
  KeepsDropped(const KeepsDropped&) = delete;
  KeepsDropped& operator=(const KeepsDropped&) = delete;

 private:
  using Works = std::vector<std::shared_ptr<Work>>;
  class Kept final : public Work::State {
   public:
    explicit Kept(std::shared_ptr<Work> work) : work_(std::move(work)) {}
    bool test() override { return work_->test(); }
    void wait(Timeout timeout) override { work_->wait(timeout); }

   private:
    std::shared_ptr<Work> work_;
  };
  Work do_start(std::span<const Call> calls) override {
    kept_->push_back(std::make_shared<Work>(CommunicatorDecorator::do_start(calls)));
    return Work(std::make_unique<Kept>(kept_->back()));
  }
  std::shared_ptr<Works> kept_ = std::make_shared<Works>();
};

}  // namespace

std::vector<Mutant> outstanding_mutants() {
  const char* const sum = "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]";
  const char* const many = "collectives.nonblocking.many_outstanding[world=3]";
  return {
      {"col.loses_the_513th", "COLL-075", "from the 513th call on, a call now and then loses its last element",
       "a counter of calls with nine bits", "collectives.mixed.long_chain[world=3]", many, "there are 72 calls",
       with_fault(loses_the_513th)},
      {"col.flushes_first", "COLL-076", "a collective waits for receives that were started before it",
       "P2P-08: one stream for messages and collectives", "collectives.mixed.beside_an_outstanding_receive[world=3]",
       sum, "there is no message", wrap_in<FlushesFirst>},
      {"col.borrows_input", "COLL-077", "a started all_reduce uses its input as scratch until it is complete", "P2P-05",
       "collectives.mixed.one_input_of_several_calls[world=3]", many, "every call has an input of its own",
       wrap_in<BorrowsInput>},
      {"col.batch_of_one_dtype", "COLL-078", "results of a batch whose dtype is not the first call's are lost",
       "a batch that is fused into one call", "collectives.mixed.batch[world=3]",
       "collectives.nonblocking.order[world=3]", "a batch has one dtype", wrap_in<BatchOfOneDType>},
      {"col.refuses_unused_null", "COLL-079", "reduce and gather refuse a null output on members that get none",
       "arguments that are checked before the root is looked at", "collectives.mixed.unused_buffers[world=3]",
       "collectives.gather.exact[world=3]", "every member has an output", wrap_in<RefusesUnusedNull>},
      {"col.receives_in_order", "COLL-080", "a receive completes after those that were started before it", "PIPE-04",
       "collectives.messages.arrive_in_any_order[world=3]", "collectives.messages.order[world=3]",
       "messages come in their order", wrap_in<ReceivesInOrder>},
      {"col.sixty_four_buffers", "COLL-081",
       "of long sends, the 65th that is outstanding overwrites what the first one sends", "OVL-04",
       "collectives.messages.many_before_the_first_receive[world=2]", "collectives.messages.order[world=2]",
       "no more than 12 are under way", wrap_in<SixtyFourBuffers>},
      {"col.tags_of_a_byte", "COLL-082", "messages match by the lower 8 bits of their tags", "PIPE-04",
       "collectives.messages.tags_of_15_bits[world=2]", "collectives.messages.tags[world=2]", "tags are small",
       with_fault(tags_of_a_byte)},
      {"col.reads_before_written", "COLL-089", "all_gather sends what its input was before the call before it",
       "OVL-02: a call that does not wait for what makes its input", "collectives.mixed.equal_to_their_parts[world=3]",
       "collectives.all_gather.exact[world=3]", "no call wrote the input", wrap_in<ReadsBeforeWritten>},
      {"col.batch_of_128", "COLL-090", "calls after the first 128 of a batch are lost",
       "NCCL: a list of fixed length for the calls of a group", "collectives.mixed.long_batch[world=3]",
       "collectives.mixed.batch[world=3]", "the batch is shorter", wrap_in<BatchOf128>},
      {"col.other_algorithm_if_unaligned", "COLL-091", "rank 1 chooses its algorithm by its own buffer's alignment",
       "GRP-09: a decision by what one rank alone knows", "collectives.mixed.other_alignment_on_each_member[world=3]",
       "collectives.all_gather.exact[world=3]", "buffers start at 64 bytes", with_fault(other_algorithm_if_unaligned)},
      {"col.in_place_by_rank_0", "COLL-092", "rank 1 is taken to call in place where rank 0 does", "RED-12",
       "collectives.mixed.in_place_on_some_members[world=3]", "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]",
       "calls are shorter", with_fault(in_place_on_even_ranks)},
      {"col.barrier_done_early", "COLL-093", "a started barrier says at once that it is complete", "COL-04",
       "collectives.nonblocking.barrier[world=2]", "collectives.barrier.nobody_leaves_early[world=2]",
       "the barriers block", wrap_in<BarrierDoneEarly>},
      {"col.waits_where_started", "COLL-094", "another thread than the one that started a call cannot wait for it",
       "MPI_THREAD_FUNNELED", "collectives.nonblocking.waited_for_by_another_thread[world=2]", many,
       "each rank has one thread", wrap_in<WaitsWhereStarted>},
      {"col.test_is_no_wait", "COLL-095", "a call that is complete by test() counts as given up when its Work goes",
       "AMP-05: two ways of completion", "collectives.nonblocking.dropped_when_test_says_complete[world=2]", many,
       "every call is waited for", wrap_in<TestIsNoWait>},
      {"col.aborted_is_complete", "COLL-083", "a wait for a call of an aborted group returns as if it were complete",
       "COL-08", "collectives.failure.abort_ends_outstanding_calls[world=2]",
       "collectives.failure.abort_reaches_all[world=2]", "calls block", wrap_in<AbortedIsComplete>},
      {"col.failed_is_incomplete", "COLL-084", "test() of a failed call says that it is not complete",
       "COL-08: polling that never ends", "collectives.failure.polling_ends_after_abort[world=2]",
       "collectives.failure.abort_ends_outstanding_calls[world=2]", "calls are waited for",
       wrap_in<FailedIsIncomplete>},
      {"col.made_from_world", "COLL-085", "a group does not know what it was made from", "COL-08",
       "collectives.failure.abort_reaches_groups_made_from_it[world=2]", "collectives.groups.nested[world=5]",
       "nobody aborts", wrap_in<MadeFromWorld>},
      {"col.keeps_dropped", "COLL-086", "a Work that is dropped keeps its call outstanding", "OVL-04",
       "collectives.failure.dropped_work_fails_its_group[world=2]", many, "every call is waited for",
       wrap_in<KeepsDropped>},
      {"col.zero_is_no_limit", "COLL-098", "a limit of zero is no limit", "COL-08: zero that stands for infinity",
       "collectives.limits.no_time_at_all[world=2]", "collectives.limits.wait[world=2]", "the limit is 20 ms",
       wrap_in<ZeroIsNoLimit>},
      {"col.abort_waits", "COLL-099", "an abort waits for the call that it is to end",
       "COL-08: one lock for calls and for the watchdog", "collectives.failure.abort_by_another_thread[world=2]",
       "collectives.failure.abort_reaches_all[world=2]", "the abort comes between calls", wrap_in<AbortWaits>},
      {"col.limit_wraps", "COLL-087", "a limit that overflows the clock ends a wait at once", "COL-08",
       "collectives.limits.longest[world=2]", "collectives.limits.late_but_in_time[world=2]", "the limit is 5 s",
       wrap_in<LimitWraps>},
  };
}

}  // namespace plumbline::mutants
