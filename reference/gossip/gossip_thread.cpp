#include "reference/gossip/gossip_thread.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {

using comm::Buffer;
using Clock = std::chrono::steady_clock;

namespace {

// The stream of the thread's own on a device, and where it and the caller's meet.
class ThreadStream {
 public:
  ThreadStream(const device::DeviceUse& use, int index)
      : runtime_(use.runtime), stream_(runtime_, index), handed_over_(runtime_, index), came_(runtime_, index) {}

  [[nodiscard]] device::Stream stream() const { return stream_.get(); }
  void synchronize() const { stream_.synchronize(); }
  // What is put into this stream from now on waits for all that is in the caller's, and the other way round.
  void follow(device::Stream callers) const { order(handed_over_, callers, stream()); }
  void lead(device::Stream callers) const { order(came_, stream(), callers); }

 private:
  void order(const device::OwnEvent& event, device::Stream first, device::Stream then) const {
    event.record(first);
    runtime_->wait(event.device(), then, event.get());
  }
  std::shared_ptr<device::Runtime> runtime_;
  device::OwnStream stream_;
  device::OwnEvent handed_over_, came_;
};

}  // namespace

struct GossipThread::Shared {
  Shared(std::unique_ptr<comm::Communicator> of_nodes, Graph graph, Mixing mixing, PushSumOptions options)
      : group(std::move(of_nodes)),
        heartbeat(options.heartbeat),
        use(options.device),
        has_own_stream(options.use_streams),
        push_sum(*group, std::move(graph), std::move(mixing), options) {}

  std::unique_ptr<comm::Communicator> group;
  const std::chrono::nanoseconds heartbeat;
  const device::DeviceUse use;  // with the caller's stream
  const bool has_own_stream;

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool is_on = true;
  bool is_under_way = false;    // from hand-over to collection
  bool is_handed_over = false;  // the thread's turn
  bool is_ready = false;        // the caller's
  bool is_closing = false;
  std::exception_ptr error;
  std::int64_t mixed = 0;
  // Of the round under way:
  Clock::time_point deadline;    // from its hand-over on
  Clock::time_point not_before;  // the exchange begins
  Backoff backoff{heartbeat};
  std::string words;         // which round it is, and with whom
  std::string interruption;  // the last one

  // Of whose turn it is.
  std::optional<ThreadStream> own_stream;
  PushSum push_sum;
  device::MemorySpace place;  // where what was handed over lies
  std::vector<device::ScratchBuffer> memory;
  std::vector<Buffer> copied;  // in it
  std::vector<Buffer> sent;
  Incoming incoming;
  std::thread thread;

  // The caller's side; the lock is held.
  // All that handing x over takes of a device, and where x lies.
  [[nodiscard]] device::MemorySpace reserve(std::span<const Buffer> x) {
    device::MemorySpace found = device::place_of("gossip", x, use);
    if (!found.is_host() && has_own_stream && !own_stream) own_stream.emplace(use, found.index());
    copied.assign(x.begin(), x.end());
    memory.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) copied[i].data = memory[i].take(found, x[i].bytes());
    return found;
  }
  void keep(std::span<const Buffer> x) {
    sent = copied;
    std::vector<TensorPair> pairs;
    for (std::size_t i = 0; i < x.size(); ++i) pairs.push_back({x[i], sent[i]});
    place.copy(pairs);
  }
  // Nothing is under way any more in memory that goes. A stream that tells of an error has come to its end as well;
  // whoever collected the round was told of it.
  void await_device() const noexcept {
    const auto await = [](const auto& stream) {
      try {
        stream.synchronize();
      } catch (const std::exception&) {
      }
    };
    if (own_stream) await(*own_stream);
    await(place);
  }
  void set_deadline() {
    constexpr std::chrono::hours longest{24 * 365};  // a sum that no clock can hold is no limit
    deadline = Clock::now() + std::min<std::chrono::nanoseconds>(heartbeat, longest);
  }
  void begin_round() {
    words = push_sum.words_of_round();
    interruption.clear();
    backoff = Backoff(heartbeat);
    set_deadline();
  }
  [[nodiscard]] comm::TimeoutError late() const { return late_round(words, interruption, heartbeat); }
  // The thread's side: the exchange of what was handed over.
  [[nodiscard]] Incoming exchange() {
    if (own_stream) push_sum.use_stream(own_stream->stream());
    return push_sum.exchange(sent);
  }
  // The same values again, after a pause.
  void repeat() {
    not_before = std::min(Clock::now() + backoff.next(), deadline);
    give_turn();
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
      changed.wait_until(lock, not_before, [this] { return is_closing; });
      lock.unlock();
      std::exception_ptr failed;
      Incoming came;
      try {
        came = exchange();
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
                           PushSumOptions options)
    : shared_(std::make_unique<Shared>(std::move(group), std::move(graph), std::move(mixing), options)) {
  shared_->thread = std::thread([shared = shared_.get()] { shared->run(); });
}

GossipThread::~GossipThread() { close(); }

bool GossipThread::hand_over(std::span<const Buffer> x) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->is_on || shared_->is_under_way || shared_->is_closing) return false;
  device::MemorySpace place = shared_->reserve(x);
  shared_->push_sum.prepare(x);
  shared_->place = std::move(place);
  shared_->keep(x);
  if (shared_->own_stream) shared_->own_stream->follow(shared_->use.stream);
  shared_->is_under_way = true;
  shared_->begin_round();
  shared_->give_turn();
  return true;
}

void GossipThread::reserve(std::span<const Buffer> x) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->is_under_way) (void)shared_->reserve(x);
}

GossipThread::Collected GossipThread::collect(std::span<const Buffer> x, bool waits) {
  std::unique_lock lock(shared_->mutex);
  Shared& shared = *shared_;
  if (!shared.is_under_way) return Collected::nothing;
  if (!shared.is_ready && !waits) return Collected::not_yet;
  if (!shared.changed.wait_until(lock, shared.deadline, [&] { return shared.is_ready; })) throw shared.late();
  if (shared.error != nullptr) {
    try {
      std::rethrow_exception(shared.error);
    } catch (const RuntimeFailure& error) {
      if (!may_pass(error)) throw;
      shared.interruption = error.what();
    }
    if (Clock::now() >= shared.deadline) throw shared.late();
    shared.repeat();
    return Collected::interrupted;
  }
  if (shared.own_stream) {
    shared.own_stream->lead(shared.use.stream);
    shared.push_sum.use_stream(shared.use.stream);
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

std::int64_t GossipThread::rounds_mixed() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->mixed;
}

void GossipThread::close() noexcept {
  if (!shared_->thread.joinable()) return;
  {
    std::unique_lock lock(shared_->mutex);
    const auto ended = [this] { return !shared_->is_under_way || shared_->is_ready; };
    if (!shared_->changed.wait_until(lock, shared_->deadline, ended) || shared_->error != nullptr)
      shared_->group->abort("the gossip thread is closed while a round is under way");
    shared_->is_closing = true;
    shared_->changed.notify_all();
  }
  shared_->thread.join();
  shared_->await_device();
}

}  // namespace plumbline::gossip
