#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/device/detail/fold_chunk.hpp"
#include "reference/device/detail/move_chunk.hpp"
#include "reference/device/kernel.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::device {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kAlignment = 256;
constexpr int kThreads = 32;  // of an emulated block: few vectors make a round of all of them

/// A place in a stream that its thread will come to.
struct Point {
  std::atomic<bool> reached{false};
  Clock::time_point at;  // valid once it is reached
  void reach() {
    at = Clock::now();
    reached.store(true, std::memory_order_release);
    reached.notify_all();
  }
  void await() const { reached.wait(false, std::memory_order_acquire); }
};

struct EmulatedEvent {
  int device;
  std::mutex mutex;
  std::shared_ptr<Point> last;  // where it was recorded last
  [[nodiscard]] std::shared_ptr<Point> point() {
    const std::lock_guard hold(mutex);
    return last;
  }
};

/// A thread that does its queue in order.
class EmulatedStream final : public EmulatedQueue {
 public:
  /// `under_way` counts the work of all streams.
  EmulatedStream(int device, const EmulatedOptions& options, std::uint64_t number, std::atomic<int>& under_way)
      : device(device),
        under_way_(under_way),
        longest_delay_(options.longest_delay.count()),
        random_(options.seed * 1000003 + number) {
    thread_ = std::thread([this] { run(); });
  }
  /// All work is done by then.
  ~EmulatedStream() {
    close();
    thread_.join();
  }
  EmulatedStream(const EmulatedStream&) = delete;
  EmulatedStream& operator=(const EmulatedStream&) = delete;

  void put(std::function<void()> work) override {
    under_way_.fetch_add(1, std::memory_order_relaxed);
    {
      const std::lock_guard hold(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_one();
  }
  void close() {
    {
      const std::lock_guard hold(mutex_);
      closed_ = true;
    }
    changed_.notify_one();
  }
  void synchronize() {
    const auto end = std::make_shared<Point>();
    put([end] { end->reach(); });
    end->await();
    const std::lock_guard hold(mutex_);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  /// Whether it was closed and has nothing left to do.
  [[nodiscard]] bool has_ended() const { return ended_.load(std::memory_order_acquire); }

  const int device;

 private:
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock hold(mutex_);
        changed_.wait(hold, [this] { return closed_ || !queue_.empty(); });
        if (queue_.empty()) return ended_.store(true, std::memory_order_release);
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      if (longest_delay_ > 0)
        std::this_thread::sleep_for(
            std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(0, longest_delay_)(random_)));
      try {
        work();
      } catch (...) {
        const std::lock_guard hold(mutex_);
        if (!error_) error_ = std::current_exception();
      }
      under_way_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::atomic<int>& under_way_;
  const std::int64_t longest_delay_;  // microseconds
  std::mt19937_64 random_;            // of the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::exception_ptr error_;
  bool closed_ = false;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

class Emulated final : public Runtime {
 public:
  explicit Emulated(const EmulatedOptions& options)
      : options_(options), used_(static_cast<std::size_t>(options.devices)) {
    for (int device = 0; device < options.devices; ++device) default_streams_.push_back(make_stream(device));
  }
  ~Emulated() override {
    // A stream may wait for another: all are told to end before one is waited for.
    for (auto& [handle, stream] : streams_) stream->close();
    for (auto& stream : default_streams_) stream->close();
    streams_.clear();
    default_streams_.clear();
    retired_.clear();
    released_.clear();
  }
  Emulated(const Emulated&) = delete;
  Emulated& operator=(const Emulated&) = delete;

  [[nodiscard]] comm::Device::Kind kind() const override { return comm::Device::Kind::emulated; }
  [[nodiscard]] int count() const override { return options_.devices; }
  [[nodiscard]] Description describe(int device) const override {
    expect_device(device);
    return {.name = "emulated", .memory_bytes = options_.memory_bytes, .multiprocessors = 1};
  }
  [[nodiscard]] std::map<std::string, std::string> environment() const override {
    return {{"device.runtime", "emulated"}, {"device.count", std::to_string(options_.devices)}};
  }

  [[nodiscard]] void* allocate(int device, std::size_t bytes) override {
    expect_device(device);
    if (bytes == 0) return nullptr;
    const std::lock_guard hold(mutex_);
    if (under_way_.load(std::memory_order_acquire) == 0) released_.clear();
    std::size_t& used = used_[static_cast<std::size_t>(device)];
    if (bytes > options_.memory_bytes - used)
      throw OutOfMemory(fmt::format("emulated:{}: no memory for {} bytes; {} of {} bytes are free", device, bytes,
                                    options_.memory_bytes - used, options_.memory_bytes));
    // Aligned here: aligned_alloc of glibc 2.36 leaves holes that later calls of the size do not fit into.
    std::size_t room = bytes + kAlignment - 1;
    std::unique_ptr<std::byte[]> whole(new std::byte[room]);
    void* memory = whole.get();
    std::align(kAlignment, bytes, memory, room);
    std::memset(memory, 0xcd, bytes);
    used += bytes;
    blocks_.emplace(reinterpret_cast<std::uintptr_t>(memory), Block{bytes, device, std::move(whole)});
    return memory;
  }
  void release(int, void* memory) noexcept override {
    const std::lock_guard hold(mutex_);
    const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(memory));
    if (found == blocks_.end()) return;
    used_[static_cast<std::size_t>(found->second.device)] -= found->second.bytes;
    // Work that was not waited for may still use it: it stays the process's until nothing is under way.
    released_.push_back(std::move(found->second.whole));
    blocks_.erase(found);
    if (under_way_.load(std::memory_order_acquire) == 0) released_.clear();
  }
  [[nodiscard]] std::optional<int> holder_of(const void* address) const override {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const std::lock_guard hold(mutex_);
    auto found = blocks_.upper_bound(at);
    if (found == blocks_.begin()) return std::nullopt;
    --found;
    if (at - found->first >= found->second.bytes) return std::nullopt;
    return found->second.device;
  }
  void connect(int device, int other) override {
    expect_device(device);
    expect_device(other);
    const std::lock_guard hold(mutex_);
    connected_.emplace(device, other);
  }

  void reach(int device, const void* address) override {
    expect_device(device);
    (void)usable_holder(device, address);
  }

  [[nodiscard]] Stream create_stream(int device) override {
    expect_device(device);
    auto stream = make_stream(device);
    const Stream handle = static_cast<EmulatedQueue*>(stream.get());
    const std::lock_guard hold(mutex_);
    streams_.emplace(handle, std::move(stream));
    return handle;
  }
  // Its work continues; nothing waits for it before the runtime goes.
  void destroy_stream(int, Stream handle) noexcept override {
    const std::lock_guard hold(mutex_);
    std::erase_if(retired_, [](const auto& stream) { return stream->has_ended(); });
    const auto found = streams_.find(handle);
    if (found == streams_.end()) return;
    found->second->close();
    retired_.push_back(std::move(found->second));
    streams_.erase(found);
  }
  void synchronize(int device, Stream stream) override { stream_of(device, stream)->synchronize(); }

  [[nodiscard]] Event create_event(int device, bool) override {
    expect_device(device);
    auto event = std::make_shared<EmulatedEvent>();
    event->device = device;
    const std::lock_guard hold(mutex_);
    return events_.emplace(event.get(), event).first->first;
  }
  void destroy_event(int, Event event) noexcept override {
    const std::lock_guard hold(mutex_);
    events_.erase(event);
  }
  void record(int device, Event handle, Stream stream) override {
    const auto event = event_of(handle);
    if (event->device != device)
      throw InvalidArgument(
          fmt::format("an event of emulated:{} is recorded in a stream of emulated:{}", event->device, device));
    const auto recorded_in = stream_of(device, stream);  // for an unknown stream the event stays as it was
    auto point = std::make_shared<Point>();
    {
      const std::lock_guard hold(event->mutex);
      event->last = point;
    }
    recorded_in->put([point = std::move(point)] { point->reach(); });
  }
  void wait(int device, Stream stream, Event event) override {
    if (auto point = event_of(event)->point(); point != nullptr)
      stream_of(device, stream)->put([point = std::move(point)] { point->await(); });
  }
  [[nodiscard]] bool is_reached(int, Event event) override {
    const auto point = event_of(event)->point();
    return point == nullptr || point->reached.load(std::memory_order_acquire);
  }
  [[nodiscard]] double seconds_between(Event begin, Event end) override {
    const auto first = event_of(begin)->point(), last = event_of(end)->point();
    if (first == nullptr || last == nullptr || !first->reached.load(std::memory_order_acquire) ||
        !last->reached.load(std::memory_order_acquire))
      throw StateError("the time between two events is asked for before both are reached");
    return std::chrono::duration<double>(last->at - first->at).count();
  }

  void copy(int device, void* to, const void* from, std::size_t bytes, Stream stream) override {
    if (bytes == 0) return;
    stream_of(device, stream)->put([this, to, from, bytes, was_to = holder_of(to), was_from = holder_of(from)] {
      expect_kept(to, bytes, was_to);
      expect_kept(from, bytes, was_from);
      std::memcpy(to, from, bytes);
    });
  }
  void fill(int device, void* to, std::byte value, std::size_t bytes, Stream stream) override {
    if (bytes == 0) return;
    stream_of(device, stream)->put([this, to, value, bytes, was = holder_of(to)] {
      expect_kept(to, bytes, was);
      std::memset(to, std::to_integer<int>(value), bytes);
    });
  }
  void fold(int device, const FoldTable& table, Stream stream) override {
    std::vector<const void*> used(table.input, table.input + table.inputs);
    used.insert(used.end(), table.output, table.output + table.outputs);
    put_kernel(device, stream, std::move(used), [table = std::make_shared<const FoldTable>(table)] {
      const std::int64_t chunks = table->chunks();
      with_folding(table->dtype, table->op, [&](auto folding) {
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
          for (int thread = 0; thread < kThreads; ++thread) folding.chunk(*table, chunk, thread, kThreads);
      });
    });
  }
  void move(int device, const MoveTable& table, Stream stream) override {
    put_kernel(device, stream, std::vector<const void*>(table.address, table.address + table.addresses),
               [table = std::make_shared<const MoveTable>(table)] {
                 for (std::int32_t chunk = 0; chunk < table->chunks; ++chunk)
                   for (int thread = 0; thread < kThreads; ++thread) move_chunk(*table, chunk, thread, kThreads);
               });
  }
  void launch(int device, const Kernel& kernel, const void* work, std::int32_t chunks, Stream stream) override {
    const auto* const bytes = static_cast<const std::byte*>(work);
    put_kernel(device, stream, kernel.addresses(work),
               [run = kernel.run, kept = std::vector(bytes, bytes + kernel.bytes), chunks] {
                 for (std::int32_t chunk = 0; chunk < chunks; ++chunk)
                   for (int thread = 0; thread < kThreads; ++thread) run(kept.data(), chunk, thread, kThreads);
               });
  }
  void pause(int device, std::chrono::nanoseconds duration, Stream stream) override {
    stream_of(device, stream)->put([duration] { std::this_thread::sleep_for(duration); });
  }

 private:
  struct Block {
    std::size_t bytes;
    int device;
    std::unique_ptr<std::byte[]> whole;
  };

  void expect_device(int device) const {
    if (device < 0 || device >= options_.devices)
      throw InvalidArgument(
          fmt::format("there is no emulated:{}; this process has {}, from emulated:0", device, options_.devices));
  }
  // Whose memory it is that a kernel of the device is given.
  [[nodiscard]] int usable_holder(int device, const void* address) const {
    const std::optional<int> holder = holder_of(address);
    if (!holder) throw InvalidArgument(fmt::format("a kernel is given {}, which is no device's memory", address));
    const std::lock_guard hold(mutex_);
    if (*holder != device && !connected_.contains({device, *holder}))
      throw InvalidArgument(fmt::format(
          "a kernel of emulated:{} is given memory of emulated:{}, to which it is not connected", device, *holder));
    return *holder;
  }
  // All bytes are memory of the device that held them when the work was put into the stream.
  void expect_kept(const void* address, std::size_t bytes, std::optional<int> holder) const {
    if (!holder ||
        (holder_of(address) == holder && holder_of(static_cast<const std::byte*>(address) + bytes - 1) == holder))
      return;
    throw InvalidArgument(
        fmt::format("{} bytes at {} are used when they are memory of emulated:{} no more", bytes, address, *holder));
  }
  // Looks at the memory again when the kernel begins: by then it may have been given back.
  template <class Body>
  void put_kernel(int device, Stream stream, std::vector<const void*> used, Body body) {
    std::vector<int> holders;
    for (const void* address : used) holders.push_back(usable_holder(device, address));
    stream_of(device, stream)
        ->put([this, used = std::move(used), holders = std::move(holders), body = std::move(body)] {
          for (std::size_t i = 0; i < used.size(); ++i) expect_kept(used[i], 1, holders[i]);
          body();
        });
  }
  std::shared_ptr<EmulatedStream> make_stream(int device) {
    return std::make_shared<EmulatedStream>(device, options_, number_of_stream_.fetch_add(1), under_way_);
  }
  // Throws InvalidArgument where it is of another device, as a runtime does where another device is current.
  std::shared_ptr<EmulatedStream> stream_of(int device, Stream handle) const {
    expect_device(device);
    if (handle == nullptr) return default_streams_[static_cast<std::size_t>(device)];
    const std::lock_guard hold(mutex_);
    const auto found = streams_.find(handle);
    if (found == streams_.end()) throw InvalidArgument("there is no such stream");
    if (found->second->device != device)
      throw InvalidArgument(
          fmt::format("a stream of emulated:{} is used as one of emulated:{}", found->second->device, device));
    return found->second;
  }
  std::shared_ptr<EmulatedEvent> event_of(Event handle) const {
    const std::lock_guard hold(mutex_);
    const auto found = events_.find(handle);
    if (found == events_.end()) throw InvalidArgument("there is no such event");
    return found->second;
  }

  const EmulatedOptions options_;
  std::atomic<std::uint64_t> number_of_stream_{0};
  std::atomic<int> under_way_{0};
  std::vector<std::shared_ptr<EmulatedStream>> default_streams_;
  mutable std::mutex mutex_;  // of everything below
  std::vector<std::size_t> used_;
  std::map<std::uintptr_t, Block> blocks_;
  std::vector<std::unique_ptr<std::byte[]>> released_;
  std::set<std::pair<int, int>> connected_;
  std::unordered_map<Stream, std::shared_ptr<EmulatedStream>> streams_;
  std::vector<std::shared_ptr<EmulatedStream>> retired_;
  std::unordered_map<Event, std::shared_ptr<EmulatedEvent>> events_;
};

}  // namespace

std::shared_ptr<Runtime> make_emulated(const EmulatedOptions& options) {
  if (options.devices < 1)
    throw InvalidArgument(fmt::format("{} emulated devices; there is 1 at least", options.devices));
  return std::make_shared<Emulated>(options);
}

}  // namespace plumbline::device
