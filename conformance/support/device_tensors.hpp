// conformance/support/device_tensors.hpp: tensors of a check, on the host and alike on the rank's device.
//
// Model   Values are numbers that differ by tensor, element and seed, rounded to the tensors' types. On the device a
//         tensor begins as many elements after a boundary of 16 bytes as it says. What is put into a stream is read
//         and written there when it comes to it: all memory of the host that is named here lives as long as this.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "harness/suite/check.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::conformance {

struct TensorShape {
  comm::DType dtype = comm::DType::f32;
  std::int64_t count = 1;
  int offset = 0;  // elements
};

/// In the host's memory.
class HostTensors {
 public:
  HostTensors(const std::vector<TensorShape>& shapes, std::uint64_t seed);
  HostTensors(HostTensors&&) = default;  // what views() name stays where it is
  HostTensors(const HostTensors&) = delete;

  [[nodiscard]] const std::vector<comm::Buffer>& views() const { return views_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<comm::Buffer> views_;
};

/// In the memory of the rank's device.
class DeviceTensors {
 public:
  DeviceTensors(const suite::DeviceSeat& seat, const std::vector<TensorShape>& shapes, device::Stream stream);
  /// Waits for the stream.
  ~DeviceTensors();
  DeviceTensors(const DeviceTensors&) = delete;
  DeviceTensors& operator=(const DeviceTensors&) = delete;

  [[nodiscard]] const std::vector<comm::Buffer>& views() const { return views_; }
  /// Puts into the stream: all become what these are, which stay meanwhile.
  void take(const HostTensors& values) const;
  /// Puts into the stream: what they hold there is noted.
  void note();
  /// Of what was noted first and not asked for yet, once the stream has come so far: the first difference from these
  /// bytes, or "".
  [[nodiscard]] std::string difference(const HostTensors& expected);

 private:
  struct Note {
    std::vector<std::vector<std::byte>> bytes;
    std::unique_ptr<device::OwnEvent> made;
  };
  suite::DeviceSeat seat_;
  device::Stream stream_;
  std::vector<device::Memory> memory_;
  std::vector<comm::Buffer> views_;
  std::deque<Note> notes_;
};

/// Waits until the event is reached, without a wait of the runtime's; false after a minute.
[[nodiscard]] bool await(const device::OwnEvent& event);

/// Asserts that the host is done with `work`, which it puts into the stream of the rank's device, while a producer
/// before it there is not. On a busy machine the host may be late by itself, so with ever slower producers, until all
/// ranks have seen it. Collective.
void expect_host_goes_on(suite::Context& context, const char* requirement, device::Stream stream,
                         const std::function<void()>& work);

}  // namespace plumbline::conformance
