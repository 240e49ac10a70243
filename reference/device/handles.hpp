// reference/device/handles.hpp: owners of a runtime's memory, streams and events.
#pragma once

#include <memory>
#include <utility>

#include "reference/device/runtime.hpp"

namespace plumbline::device {

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
