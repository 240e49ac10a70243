#include "harness/modes/rendezvous.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/modes/posting_board.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::modes {
namespace {

using comm::Call;
using comm::Operation;
using comm::Timeout;
using Clock = std::chrono::steady_clock;

// A send, and its index among those of its kind: that number of receives must have been posted.
struct HeldSend {
  Call call;
  std::uint64_t key;
  std::uint64_t number;
};

// A call that was started. Whoever waits for something else makes it go on, as a runtime does.
struct Outstanding {
  comm::Work work;
  std::exception_ptr error = {};
  bool done = false;
  std::thread::id owner = std::this_thread::get_id();

  bool test() {
    progress();
    if (error) std::rethrow_exception(error);
    return done;
  }
  void progress() noexcept {
    if (done || error) return;
    try {
      done = work.test();
    } catch (...) {
      error = std::current_exception();  // for whoever waits for this one
    }
  }
};

// What the communicators of one rank share.
class RankState {
 public:
  explicit RankState(const std::filesystem::path& file, std::chrono::nanoseconds own_limit)
      : board(file), limit(own_limit) {}
  PostingBoard board;
  const std::chrono::nanoseconds limit;

  void add(const std::shared_ptr<Outstanding>& call) {
    const std::lock_guard hold(mutex_);
    std::erase_if(calls_, [](const auto& one) { return one.expired(); });
    calls_.push_back(call);
  }
  // Of this thread: a communicator is used by one at a time.
  void progress() {
    std::vector<std::shared_ptr<Outstanding>> mine;
    {
      const std::lock_guard hold(mutex_);
      for (const auto& one : calls_)
        if (auto call = one.lock(); call && call->owner == std::this_thread::get_id()) mine.push_back(std::move(call));
    }
    for (const auto& call : mine) call->progress();
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Outstanding>> calls_;
};

// Looks often at first, then seldom: most receives are posted within microseconds.
class Patience {
 public:
  Patience(Timeout timeout, std::chrono::nanoseconds limit) : timeout_(timeout), limit_(timeout.value_or(limit)) {}
  [[nodiscard]] bool over() const { return Clock::now() - begin_ >= limit_; }
  /// What is left of the caller's limit, where there is one.
  [[nodiscard]] Timeout rest() const {
    if (!timeout_) return timeout_;
    return std::max(std::chrono::nanoseconds(0), *timeout_ - std::chrono::nanoseconds(Clock::now() - begin_));
  }
  void pause() {
    constexpr int looks = 200;
    if (++looks_ < looks)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  Clock::time_point begin_ = Clock::now();
  Timeout timeout_;
  std::chrono::nanoseconds limit_;
  int looks_ = 0;
};

class Rendezvous final : public comm::CommunicatorDecorator {
 public:
  Rendezvous(std::unique_ptr<comm::Communicator> inner, std::shared_ptr<RankState> state)
      : CommunicatorDecorator(std::move(inner)), state_(std::move(state)) {}

 private:
  class HeldWork final : public comm::Work::State {
   public:
    HeldWork(comm::Work inner, std::vector<HeldSend> sends, const Rendezvous& group)
        : call_(std::make_shared<Outstanding>(Outstanding{std::move(inner)})),
          sends_(std::move(sends)),
          state_(group.state_),
          group_(group.group()),
          size_(group.size()) {
      state_->add(call_);
    }

    bool test() override {
      const bool done = call_->test();
      return posted() && done;
    }
    void wait(Timeout timeout) override {
      Patience patience(timeout, state_->limit);
      while (!posted()) {
        state_->progress();
        if (call_->error) std::rethrow_exception(call_->error);
        if (patience.over()) give_up(sends_.front().call);
        patience.pause();
      }
      if (call_->error) std::rethrow_exception(call_->error);
      if (!call_->done) call_->work.wait(patience.rest());
      call_->done = true;
    }

   private:
    bool posted() {
      std::erase_if(sends_, [&](const HeldSend& send) { return state_->board.posted(send.key) >= send.number; });
      return sends_.empty();
    }
    [[noreturn]] void give_up(const Call& call) const {
      throw comm::TimeoutError(fmt::format("{} on {}: timeout: no receive was posted by rank {}",
                                           comm::describe(call, size_), group_.name, call.root));
    }
    std::shared_ptr<Outstanding> call_;
    std::vector<HeldSend> sends_;  // whose receives are not posted
    std::shared_ptr<RankState> state_;
    const comm::Group group_;
    const int size_;
  };

  [[nodiscard]] std::uint64_t key_of(const Call& call) const {
    const bool sends = call.operation == Operation::send;
    return PostingBoard::key(group().id, sends ? rank() : call.root, sends ? call.root : rank(), call.tag);
  }

  // Says that the receives are posted, makes the calls, and takes it back when the backend refuses them.
  template <class Make>
  auto with_posted(std::span<const Call> calls, const Make& make) {
    const auto each_receive = [&](const auto& what) {
      for (const Call& call : calls)
        if (call.operation == Operation::recv) what(key_of(call));
    };
    each_receive([&](std::uint64_t key) { state_->board.post(key); });
    try {
      return make();
    } catch (const Error& error) {
      if (error.kind() == "unsupported" || error.kind() == "invalid_argument")
        each_receive([&](std::uint64_t key) { state_->board.take_back(key); });
      throw;
    }
  }

  // A call that has a held send in it: when that is given up, so is the group, as after any call.
  template <class Make>
  void held(const Make& make) {
    try {
      make();
    } catch (const comm::TimeoutError& error) {
      abort(error.what());
      throw;
    }
  }

  void do_run(const Call& call, Timeout timeout) override {
    // A send is started, so that what the backend refuses it refuses at once, and so that the other side can go on.
    if (call.operation == Operation::send && capabilities().has(comm::Capability::nonblocking))
      return held([&] { do_start(std::span(&call, 1)).wait(timeout); });
    with_posted(std::span(&call, 1), [&] { CommunicatorDecorator::do_run(call, timeout); });
  }

  // A send of rows cannot be started: it is held when it has been made.
  void do_run_strided(const comm::StridedCall& call, Timeout timeout) override {
    const Call& message = call.call;
    with_posted(std::span(&message, 1), [&] { CommunicatorDecorator::do_run_strided(call, timeout); });
    if (message.operation != Operation::send) return;
    const std::uint64_t key = key_of(message);
    held([&] { HeldWork({}, {{message, key, ++sent_[key]}}, *this).wait(timeout); });
  }

  comm::Work do_start(std::span<const Call> calls) override {
    comm::Work work = with_posted(calls, [&] { return CommunicatorDecorator::do_start(calls); });
    std::vector<HeldSend> sends;
    for (const Call& call : calls)
      if (call.operation == Operation::send) sends.push_back({call, key_of(call), ++sent_[key_of(call)]});
    if (calls.empty()) return work;
    return comm::Work(std::make_unique<HeldWork>(std::move(work), std::move(sends), *this));
  }

  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<Rendezvous>(std::move(group), state_);
  }

  std::shared_ptr<RankState> state_;
  std::map<std::uint64_t, std::uint64_t> sent_;  // sends of each kind so far
};

}  // namespace

std::unique_ptr<comm::Communicator> hold_sends(std::unique_ptr<comm::Communicator> inner,
                                               const std::filesystem::path& file, std::chrono::nanoseconds limit) {
  return std::make_unique<Rendezvous>(std::move(inner), std::make_shared<RankState>(file, limit));
}

}  // namespace plumbline::modes
