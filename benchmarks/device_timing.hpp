// benchmarks/device_timing.hpp: how long a device is at what is put into a stream.
#pragma once

#include <memory>
#include <vector>

#include "reference/device/runtime.hpp"
#include "reference/support/quantile.hpp"

namespace plumbline::bench {

/// The time between two events of a stream, which must outlive it.
class StreamTimer {
 public:
  StreamTimer(std::shared_ptr<device::Runtime> runtime, int device, device::Stream stream)
      : begin_(runtime, device, true),
        end_(runtime, device, true),
        runtime_(std::move(runtime)),
        device_(device),
        stream_(stream) {}
  void begin() const { begin_.record(stream_); }
  void end() const { end_.record(stream_); }
  /// Between the last begin() and the last end(). Waits for the stream.
  [[nodiscard]] double seconds() const {
    runtime_->synchronize(device_, stream_);
    return runtime_->seconds_between(begin_.get(), end_.get());
  }
  /// Of what `step` puts into the stream.
  template <class Step>
  [[nodiscard]] double seconds_of(const Step& step) const {
    begin();
    step();
    end();
    return seconds();
  }

 private:
  const device::OwnEvent begin_, end_;
  const std::shared_ptr<device::Runtime> runtime_;
  const int device_;
  const device::Stream stream_;
};

}  // namespace plumbline::bench
