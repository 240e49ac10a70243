#include "reference/gossip/gossip_thread.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::gossip {

using comm::Buffer;
using Clock = std::chrono::steady_clock;

namespace {

// Before a round that was cut is repeated: twice as long each time, a second at most.
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::seconds kLongestPause{1};

}  // namespace

struct GossipThread::Shared {
  Shared(std::unique_ptr<comm::Communicator> of_nodes, Graph graph, Mixing mixing, PushSumOptions options,
         PushSumSteps steps)
      : group(std::move(of_nodes)),
        heartbeat(steps.patience(options.heartbeat)),
        copies(steps.copies_on_hand_over()),
        takes_values(steps.takes_values),
        retry_mixes(steps.retry_mixes),
        renews_heartbeat(steps.renews_heartbeat),
        pause(steps.pause),
        push_sum(*group, std::move(graph), std::move(mixing), options, std::move(steps)) {}

  std::unique_ptr<comm::Communicator> group;
  const std::chrono::nanoseconds heartbeat;
  const bool copies;
  const std::function<bool(bool is_on)> takes_values;
  const std::function<bool()> retry_mixes;
  const std::function<bool()> renews_heartbeat;
  const std::function<std::chrono::nanoseconds(std::chrono::nanoseconds)> pause;

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool is_on = true;
  bool is_under_way = false;    // from hand-over to collection
  bool is_handed_over = false;  // the thread's turn
  bool is_ready = false;        // the caller's
  bool is_closing = false;
  bool has_failed = false;  // the group is of no more use
  std::exception_ptr error;
  std::int64_t mixed = 0;
  std::int64_t round = 0;                  // that is under way
  Clock::time_point deadline;              // of the round under way, from its hand-over on
  std::chrono::nanoseconds next_pause{0};  // before its next attempt
  std::string interruption;                // what ended its last one

  // Of whose turn it is.
  PushSum push_sum;
  std::vector<std::vector<std::byte>> memory;
  std::vector<Buffer> sent;
  Incoming incoming;
  std::thread thread;

  // The caller's side; the lock is held.
  void keep(std::span<const Buffer> x) {
    sent.assign(x.begin(), x.end());
    if (!copies) return;
    memory.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      memory[i].resize(x[i].bytes());
      if (!memory[i].empty()) std::memcpy(memory[i].data(), x[i].data, x[i].bytes());
      sent[i].data = memory[i].data();
    }
  }
  void set_deadline() {
    constexpr std::chrono::hours longest{24 * 365};  // a sum that no clock can hold is none
    deadline = Clock::now() + std::min<std::chrono::nanoseconds>(heartbeat, longest);
  }
  // The thread may be in the round: what is asked of push-sum is what no round changes.
  [[nodiscard]] comm::TimeoutError late() const {
    const Peers peers = push_sum.graph().peers(group->rank(), round);
    return comm::TimeoutError(fmt::format(
        "gossip over group {}: in round {} node {} has waited for {}, and for {} to receive from it, for the heartbeat "
        "time of {} s{}",
        group->group().name, round, group->rank(), peers.in, peers.out,
        std::chrono::duration<double>(heartbeat).count(),
        interruption.empty() ? "" : fmt::format("; its last attempt ended with '{}'", interruption)));
  }
  // Until the next attempt, unless the round ends before it.
  void rest(std::unique_lock<std::mutex>& lock) {
    const std::chrono::nanoseconds length = pause(next_pause);
    if (length > length.zero())
      changed.wait_until(lock, std::min(Clock::now() + length, deadline), [this] { return is_closing; });
  }
  void give_turn() {
    error = nullptr;
    is_ready = false;
    is_handed_over = true;
    changed.notify_all();
  }
  void require_idle(const char* what) const {
    if (is_under_way) throw StateError(fmt::format("the {} of a gossip thread while a round is under way", what));
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return is_handed_over || is_closing; });
      if (!is_handed_over) return;
      is_handed_over = false;
      rest(lock);
      lock.unlock();
      std::exception_ptr failed;
      Incoming came;
      try {
        came = push_sum.exchange(sent);
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      incoming = std::move(came);
      error = failed;
      is_ready = true;
      changed.notify_all();
    }
  }
};

GossipThread::GossipThread(std::unique_ptr<comm::Communicator> group, Graph graph, Mixing mixing,
                           PushSumOptions options, PushSumSteps steps)
    : shared_(
          std::make_unique<Shared>(std::move(group), std::move(graph), std::move(mixing), options, std::move(steps))) {
  shared_->thread = std::thread([shared = shared_.get()] { shared->run(); });
}

GossipThread::~GossipThread() { close(); }

bool GossipThread::hand_over(std::span<const Buffer> x) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->takes_values(shared_->is_on) || shared_->is_under_way || shared_->is_closing || shared_->has_failed)
    return false;
  shared_->push_sum.prepare(x);
  shared_->keep(x);
  shared_->is_under_way = true;
  shared_->round = shared_->push_sum.round();
  shared_->next_pause = std::chrono::nanoseconds{0};
  shared_->interruption.clear();
  shared_->set_deadline();
  shared_->give_turn();
  return true;
}

GossipThread::Collected GossipThread::collect(std::span<const Buffer> x, bool waits) {
  std::unique_lock lock(shared_->mutex);
  Shared& shared = *shared_;
  if (!shared.is_under_way) return Collected::nothing;
  if (!shared.is_ready && !waits) return Collected::not_yet;
  if (!shared.changed.wait_until(lock, shared.deadline, [&] { return shared.is_ready; })) {
    shared.has_failed = true;
    throw shared.late();
  }
  if (shared.error != nullptr) {
    try {
      std::rethrow_exception(shared.error);
    } catch (const RuntimeFailure& error) {
      shared.interruption = error.what();
      if (Clock::now() >= shared.deadline) {
        shared.has_failed = true;
        throw shared.late();
      }
      // Interrupted: the same values again, and not mixed anew.
      shared.next_pause = std::clamp<std::chrono::nanoseconds>(2 * shared.next_pause, kFirstPause, kLongestPause);
      if (shared.retry_mixes()) shared.push_sum.prepare(shared.sent);
      if (shared.renews_heartbeat()) shared.set_deadline();
      shared.give_turn();
      return Collected::interrupted;
    } catch (...) {
      shared.has_failed = true;
      throw;
    }
  }
  shared.push_sum.absorb(x, shared.incoming);
  shared.is_under_way = shared.is_ready = false;
  ++shared.mixed;
  return Collected::mixed;
}

bool GossipThread::is_gossiping() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->is_under_way;
}

void GossipThread::turn_on() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_on = true;
}

void GossipThread::turn_off(std::span<const Buffer> x) {
  while (collect(x, true) == Collected::interrupted) {
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->is_on = false;
}

bool GossipThread::is_on() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->is_on;
}

double GossipThread::weight() const {
  const std::lock_guard lock(shared_->mutex);
  shared_->require_idle("weight");
  return shared_->push_sum.weight();
}

void GossipThread::set_weight(double weight) {
  const std::lock_guard lock(shared_->mutex);
  shared_->require_idle("weight");
  shared_->push_sum.set_weight(weight);
}

std::int64_t GossipThread::round() const {
  const std::lock_guard lock(shared_->mutex);
  shared_->require_idle("round");
  return shared_->push_sum.round();
}

void GossipThread::set_round(std::int64_t round) {
  const std::lock_guard lock(shared_->mutex);
  shared_->require_idle("round");
  shared_->push_sum.set_round(round);
}

bool GossipThread::is_lazy() const { return shared_->push_sum.is_lazy(); }

std::int64_t GossipThread::rounds_mixed() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->mixed;
}

void GossipThread::close() noexcept {
  if (!shared_->thread.joinable()) return;
  {
    std::unique_lock lock(shared_->mutex);
    const auto ended = [this] { return !shared_->is_under_way || shared_->is_ready; };
    if (shared_->has_failed || !shared_->changed.wait_for(lock, shared_->heartbeat, ended))
      shared_->group->abort("the gossip thread is closed while a round is under way");
    shared_->is_closing = true;
    shared_->changed.notify_all();
  }
  shared_->thread.join();
}

}  // namespace plumbline::gossip
