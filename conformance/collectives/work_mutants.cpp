// Communicators whose started calls, batches and messages are wrong.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::Communicator;
using comm::CommunicatorDecorator;
using comm::Operation;
using comm::Work;

namespace {

class StartBlocks final : public Plain<StartBlocks> {
  using Plain::Plain;
  Work do_start(std::span<const Call> calls) override {
    Plain::do_start(calls).wait();
    return {};
  }
};

class BatchOneByOne final : public Plain<BatchOneByOne> {
  using Plain::Plain;
  Work do_start(std::span<const Call> calls) override {
    if (calls.size() == 1) return Plain::do_start(calls);
    for (const Call& call : calls) Plain::do_run(call, {});
    return {};
  }
};

class BatchReversedOnRank1 final : public Plain<BatchReversedOnRank1> {
  using Plain::Plain;
  Work do_start(std::span<const Call> calls) override {
    std::vector<Call> changed(calls.begin(), calls.end());
    if (rank() == 1) std::ranges::reverse(changed);
    return Plain::do_start(changed);
  }
};

class MessagesOvertake final : public Plain<MessagesOvertake> {
  using Plain::Plain;
  Work do_start(std::span<const Call> calls) override {
    std::vector<Call> changed(calls.begin(), calls.end());
    const auto receives = [](const Call& call) { return call.operation == Operation::recv; };
    const auto first = std::ranges::find_if(changed, receives);
    if (first != changed.end()) {
      const auto second = std::find_if(first + 1, changed.end(), [&](const Call& call) {
        return receives(call) && call.root == first->root && call.tag == first->tag &&
               call.out.bytes() == first->out.bytes();
      });
      if (second != changed.end()) std::swap(first->out, second->out);
    }
    return Plain::do_start(changed);
  }
};

// As short messages do that are copied at once, while long ones wait for their receiver.
class ShortOvertakesLong final : public Plain<ShortOvertakesLong> {
  using Plain::Plain;
  Work do_start(std::span<const Call> calls) override {
    std::vector<Call> changed(calls.begin(), calls.end());
    std::ranges::stable_partition(
        changed, [](const Call& call) { return call.operation == Operation::send && call.in.bytes() <= 4096; });
    return Plain::do_start(changed);
  }
};

// Calls for which `Self::is_lost` says so are not made, and count as complete.
template <class Self>
class Loses : public Plain<Self> {
 public:
  using Plain<Self>::Plain;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    if (!Self::is_lost(call, this->rank())) CommunicatorDecorator::do_run(call, timeout);
  }
  Work do_start(std::span<const Call> calls) override {
    std::vector<Call> kept;
    std::ranges::remove_copy_if(calls, std::back_inserter(kept),
                                [this](const Call& call) { return Self::is_lost(call, this->rank()); });
    return kept.empty() ? Work() : CommunicatorDecorator::do_start(kept);
  }
};

class SelfSendLost final : public Loses<SelfSendLost> {
 public:
  using Loses::Loses;
  static bool is_lost(const Call& call, int rank) { return is_point_to_point(call.operation) && call.root == rank; }
};

class EmptyMessagesSkipped final : public Loses<EmptyMessagesSkipped> {
 public:
  using Loses::Loses;
  static bool is_lost(const Call& call, int) {
    return is_point_to_point(call.operation) && call.in.count + call.out.count == 0;
  }
};

// The first test() of a started all_reduce says that it is complete. The call goes on in memory of the mutant's own, so
// that nothing is written where the caller no longer expects it.
class CompletesEarly final : public Plain<CompletesEarly> {
 public:
  using Plain::Plain;

 private:
  struct Running {
    std::vector<std::byte> in, out;
    Work work;
  };
  class EarlyWork final : public Work::State {
   public:
    EarlyWork(CompletesEarly& group, std::unique_ptr<Running> running, void* out)
        : group_(group), running_(std::move(running)), out_(out) {}
    bool test() override {
      group_.abandoned_.push_back(std::move(running_));
      return true;
    }
    void wait(comm::Timeout timeout) override {
      running_->work.wait(timeout);
      if (!running_->out.empty()) std::memcpy(out_, running_->out.data(), running_->out.size());
    }

   private:
    CompletesEarly& group_;
    std::unique_ptr<Running> running_;
    void* out_;
  };

  Work do_start(std::span<const Call> calls) override {
    if (calls.size() != 1 || calls.front().operation != Operation::all_reduce || size() == 1)
      return Plain::do_start(calls);
    Call call = calls.front();
    auto running = std::make_unique<Running>();
    running->in.assign(element(call.in, 0), element(call.in, call.in.count));
    running->out.resize(call.out.bytes());
    void* const out = call.out.data;
    call.in.data = running->in.data();
    call.out.data = running->out.data();
    running->work = Plain::do_start(std::span(&call, 1));
    return Work(std::make_unique<EarlyWork>(*this, std::move(running), out));
  }

  std::vector<std::unique_ptr<Running>> abandoned_;
};

// When a group goes.
void wait_for_all(std::vector<Work>& sends) {
  for (Work& send : sends) try {
      send.wait();
    } catch (const Error&) {  // nobody is left to hear of it
    }
}

// Started sends are complete at once. They are waited for when the group goes.
class SendDoneEarly final : public Plain<SendDoneEarly> {
 public:
  using Plain::Plain;
  ~SendDoneEarly() override { wait_for_all(under_way_); }
  SendDoneEarly(const SendDoneEarly&) = delete;
  SendDoneEarly& operator=(const SendDoneEarly&) = delete;

 private:
  Work do_start(std::span<const Call> calls) override {
    Work work = Plain::do_start(calls);
    if (!std::ranges::all_of(calls, [](const Call& call) { return call.operation == Operation::send; })) return work;
    under_way_.push_back(std::move(work));
    return {};
  }
  std::vector<Work> under_way_;
};

// Collectives of f32 by messages whose giver does not wait for them. The last member takes its time to receive.
class ReadsInputLate final : public Plain<ReadsInputLate> {
 public:
  using Plain::Plain;
  ~ReadsInputLate() override { wait_for_all(under_way_); }
  ReadsInputLate(const ReadsInputLate&) = delete;
  ReadsInputLate& operator=(const ReadsInputLate&) = delete;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    if (call.operation == Operation::barrier || is_point_to_point(call.operation) || call.dtype() != comm::DType::f32 ||
        call.op != comm::ReduceOp::sum || call.in.data == call.out.data)
      return Plain::do_run(call, timeout);
    for (int to = 0; to < size(); ++to)
      if (to != rank() && gives(call, rank(), to)) {
        const Call send{.operation = Operation::send, .root = to, .tag = kTag, .in = given(call, to)};
        under_way_.push_back(Plain::do_start(std::span(&send, 1)));
      }
    if (rank() == size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::vector<float> sum(is_reduction(call.operation) ? static_cast<std::size_t>(call.out.count) : 0), next(sum);
    for (int from = 0; from < size(); ++from) {
      if (!gives(call, from, rank())) continue;
      const comm::Buffer place = is_reduction(call.operation)
                                     ? comm::Buffer{next.data(), call.out.count, comm::DType::f32}
                                     : place_of(call, from);
      if (from != rank())
        Plain::do_run({.operation = Operation::recv, .root = from, .tag = kTag, .out = place}, {});
      else if (call.operation != Operation::broadcast && place.count > 0)
        std::memcpy(place.data, given(call, from).data, place.bytes());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
    }
    if (!sum.empty() && gives(call, rank(), rank())) std::memcpy(call.out.data, sum.data(), call.out.bytes());
  }

  static bool gives(const Call& call, int from, int to) {
    if (call.operation == Operation::reduce || call.operation == Operation::gather) return to == call.root;
    return (call.operation != Operation::broadcast && call.operation != Operation::scatter) || from == call.root;
  }
  [[nodiscard]] comm::ConstBuffer given(const Call& call, int to) const {
    if (call.operation == Operation::broadcast) return call.out;
    const bool has_blocks = call.operation == Operation::all_to_all || call.operation == Operation::reduce_scatter ||
                            call.operation == Operation::scatter;
    if (!has_blocks) return call.in;
    const std::int64_t block = call.in.count / size();
    return {element(call.in, to * block), block, call.in.dtype};
  }
  [[nodiscard]] comm::Buffer place_of(const Call& call, int from) const {
    const bool has_blocks = call.operation == Operation::all_to_all || call.operation == Operation::all_gather ||
                            call.operation == Operation::gather;
    if (!has_blocks) return call.out;
    const std::int64_t block = call.out.count / size();
    return {element(call.out, from * block), block, call.out.dtype};
  }

  static constexpr int kTag = 32766;  // nobody else's
  std::vector<Work> under_way_;
};

// Short messages that are started are copied into one and the same buffer, whether or not the one before has gone.
class OneStagingBuffer final : public Plain<OneStagingBuffer> {
 public:
  using Plain::Plain;

 private:
  Work do_start(std::span<const Call> calls) override {
    if (calls.size() != 1 || calls.front().operation != Operation::send || calls.front().in.bytes() > staging_.size() ||
        calls.front().in.count == 0)
      return Plain::do_start(calls);
    Call call = calls.front();
    std::memcpy(staging_.data(), call.in.data, call.in.bytes());
    call.in.data = staging_.data();
    return Plain::do_start(std::span(&call, 1));
  }
  std::array<std::byte, 512> staging_{};
};

After stale_second_result(Call& call, const Place& place) {
  return place.started && place.number == 2 ? restore(call.out, 0, call.out.count) : After{};
}

After started_average_is_a_sum(Call& call, const Place& place) {
  if (place.started && is_reduction(call.operation) && call.op == comm::ReduceOp::avg) call.op = comm::ReduceOp::sum;
  return {};
}

After message_cut_at_4_kib(Call& call, const Place&) {
  const auto kept = 4096 / static_cast<std::int64_t>(size_of(call.out.dtype));
  return call.operation == Operation::recv && call.out.count > kept ? restore(call.out, kept, call.out.count - kept)
                                                                    : After{};
}

After message_tail_stale(Call& call, const Place&) {
  return call.operation == Operation::recv && call.out.count > 0 ? restore(call.out, call.out.count - 1, 1) : After{};
}

After tags_ignored(Call& call, const Place&) {
  call.tag = 0;
  return {};
}

}  // namespace

std::vector<Mutant> work_mutants() {
  const char* const blocking = "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]";
  return {
      {"col.start_blocks", "COLL-037", "start() returns when the call is complete", "OVL-05: overlap that went away",
       "collectives.nonblocking.returns_at_once[world=2]", blocking, "nothing is started", wrap_in<StartBlocks>},
      {"col.stale_second_result", "COLL-038", "the second started call's result does not arrive",
       "OVL-04: a buffer in flight that is overwritten", "collectives.nonblocking.many_outstanding[world=3]", blocking,
       "nothing is started", with_fault(stale_second_result)},
      {"col.completes_early", "COLL-039", "test() says complete when the call was only begun", "AMP-05",
       "collectives.nonblocking.test_is_honest[world=2]", "collectives.nonblocking.many_outstanding[world=3]",
       "wait() is right", wrap_in<CompletesEarly>},
      {"col.started_average_is_a_sum", "COLL-040", "a started average is not divided",
       "the last step of a call that is only made when it blocks",
       "collectives.nonblocking.agrees_with_blocking[operation=all_reduce,world=3]",
       "collectives.average.divisor[length=many,world=3]", "the averages block", with_fault(started_average_is_a_sum)},
      {"col.batch_reversed_on_rank_1", "COLL-041", "rank 1 makes the calls of a batch in reverse", "COL-03",
       "collectives.nonblocking.order[world=3]", "collectives.nonblocking.many_outstanding[world=3]",
       "calls are started one by one", wrap_in<BatchReversedOnRank1>},
      {"col.batch_one_by_one", "COLL-042", "a batch is a loop over blocking calls", "P2P-04",
       "collectives.nonblocking.exchange_in_a_batch[size=small,world=2]",
       "collectives.nonblocking.exchange_in_a_batch[size=small,world=2]", "small messages are buffered",
       wrap_in<BatchOneByOne>, "rendezvous"},
      {"col.message_cut_at_4_kib", "COLL-043", "of a message only the first 4 KiB arrive", "P2P-07",
       "collectives.messages.every_pair[world=2]", "collectives.messages.tags[world=2]", "messages are small",
       with_fault(message_cut_at_4_kib)},
      {"col.message_tail_stale", "COLL-043", "the last element of a received message is left as it was", "P2P-07",
       "collectives.messages.every_pair[world=2]", "collectives.nonblocking.many_outstanding[world=3]",
       "there are no messages", with_fault(message_tail_stale)},
      {"col.one_staging_buffer", "COLL-045", "started sends of up to 512 bytes share one buffer",
       "OVL-04: a buffer in flight that is overwritten", "collectives.messages.tags[world=2]",
       "collectives.messages.tags[world=2]", "short messages are read when they are started", wrap_in<OneStagingBuffer>,
       "chaos:1"},
      {"col.messages_overtake", "COLL-044", "the first two receives of a batch get each other's message", "PIPE-04",
       "collectives.messages.order[world=2]", "collectives.messages.tags[world=2]", "no two messages have the same tag",
       wrap_in<MessagesOvertake>},
      {"col.short_overtakes_long", "COLL-044", "in a batch, short messages are sent before long ones", "PIPE-04",
       "collectives.messages.order[world=2]", "collectives.messages.tags[world=2]", "all messages are short",
       wrap_in<ShortOvertakesLong>},
      {"col.tags_ignored", "COLL-045", "messages match by peer alone", "PIPE-04", "collectives.messages.tags[world=2]",
       "collectives.messages.order[world=2]", "all tags are equal", with_fault(tags_ignored)},
      {"col.self_send_lost", "COLL-047", "messages to oneself are not made", "a loop over the other ranks alone",
       "collectives.messages.to_self[world=2]", "collectives.messages.every_pair[world=2]",
       "every peer is another rank", wrap_in<SelfSendLost>},
      {"col.send_done_early", "COLL-061", "a started send says at once that it is complete", "P2P-05",
       "collectives.messages.buffer_is_free_afterwards[size=small,world=3]",
       "collectives.messages.buffer_is_free_afterwards[size=small,world=3]",
       "short messages are read when they are started", wrap_in<SendDoneEarly>, "chaos:1"},
      racing({"col.reads_input_late", "COLL-063", "an input is read by members after its call is complete on its own",
              "OVL-04: a call that ends when its own result is there",
              "collectives.buffers.input_is_free_afterwards[operation=all_reduce,world=3]",
              "collectives.all_gather.exact[world=3]", "short messages are read when they are started",
              wrap_in<ReadsInputLate>}),
      {"col.empty_messages_skipped", "COLL-048", "messages without elements are not made",
       "an early return on a count of zero", "collectives.messages.empty[world=2]",
       "collectives.messages.order[world=2]", "every message has an element", wrap_in<EmptyMessagesSkipped>},
  };
}

}  // namespace plumbline::mutants
