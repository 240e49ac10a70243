// reference/device/runtime.hpp: what we ask of a device with memory, streams and kernels of its own.
//
// Model   A device has memory that the host does not touch, and streams: queues of work, each done in its order, all of
//         them beside the host and beside each other. An event is a point in a stream that others may wait for. Calls
//         here return before their work is done. These may let the host wait for it: synchronize(), which always does;
//         release(), which a runtime may let wait for all work of the device (cudaFree does); copy() from or to memory
//         of the host that is not pinned.
//         There are two: `cuda` (lib/plumbline/libplumbline_cuda.so, opened on first use) and `emulated`, whose
//         memory is the host's and whose streams are threads: the same communicator and the same kernels' bodies, on
//         machines without a GPU. The emulated one exists to show faults of order; its speed is meaningless.
// Handles Streams and events are the runtime's own (cudaStream_t, cudaEvent_t), so that those of others (LibTorch's)
//         serve, too; the null stream is the device's default stream. OwnStream and OwnEvent own them.
// Threads Any thread may call; what the host's thread has as its current device stays as it is, unless nothing in the
//         process uses that device: to go back to it would start to.
// Errors  InvalidArgument: no such device. OutOfMemory (with figures). DeviceFailure: what the runtime says, with its
//         name for the error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "reference/comm/call.hpp"

namespace plumbline::device {

struct FoldTable;  // fold.hpp: reductions of many inputs to many outputs
struct MoveTable;  // move.hpp: many copies and exchanges
struct Kernel;     // kernel.hpp: what components bring along

/// What a device is.
struct Description {
  std::string name;                // "NVIDIA H200"
  std::string compute_capability;  // "9.0"; empty if it has none
  std::uint64_t memory_bytes = 0;
  int multiprocessors = 0;
  double memory_bytes_per_second = 0;  // by clock and bus width, as the maker states it; 0: unknown
};

using Stream = void*;
using Event = void*;

class Runtime {
 public:
  virtual ~Runtime() = default;

  [[nodiscard]] virtual comm::Device::Kind kind() const = 0;
  /// Of this process, devices 0 to count() - 1.
  [[nodiscard]] virtual int count() const = 0;
  /// Does not start to use it: that takes memory there, which a device that others use may not have. So what is free
  /// now is not told here, but by allocate(), where it is not enough.
  [[nodiscard]] virtual Description describe(int device) const = 0;
  /// The runtime's own words on itself: versions of driver, runtime and toolkit, settings; kept in the record's
  /// environment.
  [[nodiscard]] virtual std::map<std::string, std::string> environment() const = 0;

  /// Memory of `device`, aligned to 256 bytes; null for 0 bytes. Throws OutOfMemory, with the requested, the free
  /// and the total size.
  [[nodiscard]] virtual void* allocate(int device, std::size_t bytes) = 0;
  /// Work that uses it must have been waited for.
  virtual void release(int device, void* memory) noexcept = 0;
  /// The device whose memory holds `address`; nothing for memory of the host.
  [[nodiscard]] virtual std::optional<int> holder_of(const void* address) const = 0;
  /// From now on kernels of `device` may use memory of `other` that was allocated one by one, as allocate() does.
  /// Throws Unsupported where they cannot.
  virtual void connect(int device, int other) = 0;
  /// Opens the memory of another device that holds `address`, however it was allocated: that of a pool is opened to
  /// `device`. Once the two are connected. Throws Unsupported, saying what would be right, for memory that stays
  /// closed.
  virtual void reach(int device, const void* address) = 0;

  [[nodiscard]] virtual Stream create_stream(int device) = 0;
  virtual void destroy_stream(int device, Stream stream) noexcept = 0;
  /// Returns when all work that was put into the stream is done. Throws what that work met.
  virtual void synchronize(int device, Stream stream) = 0;

  /// `timed`: seconds_between() may be asked of it.
  [[nodiscard]] virtual Event create_event(int device, bool timed) = 0;
  virtual void destroy_event(int device, Event event) noexcept = 0;
  /// The event is where the stream stands now.
  virtual void record(int device, Event event, Stream stream) = 0;
  /// What is put into `stream` from now on starts when the event (of any device), as last recorded, is reached. One
  /// that was never recorded counts as reached.
  virtual void wait(int device, Stream stream, Event event) = 0;
  /// Whether the event, as last recorded, is reached. Does not wait.
  [[nodiscard]] virtual bool is_reached(int device, Event event) = 0;
  /// Of two timed events that are reached.
  [[nodiscard]] virtual double seconds_between(Event begin, Event end) = 0;

  // In stream order. Addresses are of the host or of any device; host memory that is not pinned may make the host wait.
  virtual void copy(int device, void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual void fill(int device, void* to, std::byte value, std::size_t bytes, Stream stream) = 0;

  // Kernels: each a launch, its table passed by value.
  virtual void fold(int device, const FoldTable& table, Stream stream) = 0;
  virtual void move(int device, const MoveTable& table, Stream stream) = 0;
  /// Blocks 0 to `chunks` - 1 of a component's kernel, on a copy of `work`. Throws Unsupported where the runtime has no
  /// such kernel.
  virtual void launch(int device, const Kernel& kernel, const void* work, std::int32_t chunks, Stream stream) = 0;
  /// Keeps the stream busy for at least that long: a producer that is slow on purpose.
  virtual void pause(int device, std::chrono::nanoseconds duration, Stream stream) = 0;
};

/// A Runtime around another, which it forwards to: what mutants derive from.
class RuntimeDecorator : public Runtime {
 public:
  explicit RuntimeDecorator(std::shared_ptr<Runtime> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] comm::Device::Kind kind() const override { return inner_->kind(); }
  [[nodiscard]] int count() const override { return inner_->count(); }
  [[nodiscard]] Description describe(int device) const override { return inner_->describe(device); }
  [[nodiscard]] std::map<std::string, std::string> environment() const override { return inner_->environment(); }
  [[nodiscard]] void* allocate(int device, std::size_t bytes) override { return inner_->allocate(device, bytes); }
  void release(int device, void* memory) noexcept override { inner_->release(device, memory); }
  [[nodiscard]] std::optional<int> holder_of(const void* address) const override { return inner_->holder_of(address); }
  void connect(int device, int other) override { inner_->connect(device, other); }
  void reach(int device, const void* address) override { inner_->reach(device, address); }
  [[nodiscard]] Stream create_stream(int device) override { return inner_->create_stream(device); }
  void destroy_stream(int device, Stream stream) noexcept override { inner_->destroy_stream(device, stream); }
  void synchronize(int device, Stream stream) override { inner_->synchronize(device, stream); }
  [[nodiscard]] Event create_event(int device, bool timed) override { return inner_->create_event(device, timed); }
  void destroy_event(int device, Event event) noexcept override { inner_->destroy_event(device, event); }
  void record(int device, Event event, Stream stream) override { inner_->record(device, event, stream); }
  void wait(int device, Stream stream, Event event) override { inner_->wait(device, stream, event); }
  [[nodiscard]] bool is_reached(int device, Event event) override { return inner_->is_reached(device, event); }
  [[nodiscard]] double seconds_between(Event begin, Event end) override { return inner_->seconds_between(begin, end); }
  void copy(int device, void* to, const void* from, std::size_t bytes, Stream stream) override {
    inner_->copy(device, to, from, bytes, stream);
  }
  void fill(int device, void* to, std::byte value, std::size_t bytes, Stream stream) override {
    inner_->fill(device, to, value, bytes, stream);
  }
  void fold(int device, const FoldTable& table, Stream stream) override { inner_->fold(device, table, stream); }
  void move(int device, const MoveTable& table, Stream stream) override { inner_->move(device, table, stream); }
  void launch(int device, const Kernel& kernel, const void* work, std::int32_t chunks, Stream stream) override {
    inner_->launch(device, kernel, work, chunks, stream);
  }
  void pause(int device, std::chrono::nanoseconds duration, Stream stream) override {
    inner_->pause(device, duration, stream);
  }

 private:
  std::shared_ptr<Runtime> inner_;
};

/// The factory's name in module cuda, and its type. Throws RuntimeFailure in one line where there is no driver, no
/// device, or a driver older than the toolkit.
inline constexpr const char* kRuntimeFactory = "plumbline_open_device";
using RuntimeFactory = Runtime*();

// ---- Owners of a runtime's memory, streams and events.

/// Memory of a device; given back when it goes. Work that uses it must have been waited for by then.
class Memory {
 public:
  Memory() = default;
  /// Throws OutOfMemory.
  Memory(std::shared_ptr<Runtime> runtime, int device, std::size_t bytes)
      : runtime_(std::move(runtime)), device_(device), bytes_(bytes), data_(runtime_->allocate(device, bytes)) {}
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Memory() {
    if (data_ != nullptr) runtime_->release(device_, data_);
  }

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] int device() const { return device_; }

 private:
  std::shared_ptr<Runtime> runtime_;
  int device_ = 0;
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
};

class OwnStream {
 public:
  OwnStream(std::shared_ptr<Runtime> runtime, int device)
      : runtime_(std::move(runtime)), device_(device), stream_(runtime_->create_stream(device)) {}
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { runtime_->destroy_stream(device_, stream_); }

  [[nodiscard]] Stream get() const { return stream_; }
  [[nodiscard]] int device() const { return device_; }
  void synchronize() const { runtime_->synchronize(device_, stream_); }

 private:
  std::shared_ptr<Runtime> runtime_;
  int device_;
  Stream stream_;
};

class OwnEvent {
 public:
  OwnEvent(std::shared_ptr<Runtime> runtime, int device, bool timed = false)
      : runtime_(std::move(runtime)), device_(device), event_(runtime_->create_event(device, timed)) {}
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;
  ~OwnEvent() { runtime_->destroy_event(device_, event_); }

  [[nodiscard]] Event get() const { return event_; }
  [[nodiscard]] int device() const { return device_; }
  void record(Stream stream) const { runtime_->record(device_, event_, stream); }
  [[nodiscard]] bool is_reached() const { return runtime_->is_reached(device_, event_); }

 private:
  std::shared_ptr<Runtime> runtime_;
  int device_;
  Event event_;
};

}  // namespace plumbline::device
