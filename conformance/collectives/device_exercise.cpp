#include "conformance/collectives/device_exercise.hpp"

namespace plumbline::conformance {

DeviceExercise::DeviceExercise(const suite::DeviceSeat& seat, const comm::Communicator& group, const Trial& trial)
    : exercise_(group, trial),
      shelf_(seat.runtime, seat.device.index),
      mirror_(*seat.runtime, shelf_, seat.device, exercise_.calls(), group.rank()) {
  mirror_.set_aside(nullptr);
  seat.runtime->synchronize(seat.device.index, nullptr);
}

void DeviceExercise::run(comm::Communicator& group) const { run_calls(group, calls()); }

std::string DeviceExercise::problem() const {
  const std::string problem = exercise_.problem();
  return problem.empty() ? mirror_.damage() : problem;
}

}  // namespace plumbline::conformance
