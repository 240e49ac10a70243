// conformance/collectives/device_exercise.hpp: an Exercise whose call is made on the memory of a rank's device.
#pragma once

#include "conformance/collectives/exercise.hpp"
#include "harness/device/mirror.hpp"
#include "harness/suite/check.hpp"

namespace plumbline::conformance {

class DeviceExercise {
 public:
  DeviceExercise(const suite::DeviceSeat& seat, const comm::Communicator& group, const Trial& trial);
  DeviceExercise(const DeviceExercise&) = delete;
  DeviceExercise& operator=(const DeviceExercise&) = delete;

  /// The call on the device's memory.
  [[nodiscard]] const std::vector<comm::Call>& calls() const { return mirror_.calls(); }
  void run(comm::Communicator& group) const;
  [[nodiscard]] comm::Work start(comm::Communicator& group) const { return group.start(calls()); }

  /// Puts into the stream: the inputs, and outputs of which no byte is right, are written. Before, what lies there is
  /// wrong.
  void produce(device::Stream stream) { mirror_.send_what_was_set_aside(stream); }
  /// Puts into the stream: the result comes to the host.
  void consume(device::Stream stream) { mirror_.bring_back(stream); }
  /// After that, and a wait for the stream: what is wrong, or "".
  [[nodiscard]] std::string problem() const;

 private:
  Exercise exercise_;  // its buffers are the host's side
  harness::Shelf shelf_;
  harness::Mirror mirror_;
};

}  // namespace plumbline::conformance
