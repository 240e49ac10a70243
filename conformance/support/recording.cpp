#include "conformance/support/recording.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace plumbline::conformance {

void RecordingCommunicator::do_run(const comm::Call& call, comm::Timeout timeout) {
  note(call, true);
  CommunicatorDecorator::do_run(call, timeout);
}

comm::Work RecordingCommunicator::do_start(std::span<const comm::Call> started) {
  for (const comm::Call& call : started) note(call, false);
  return CommunicatorDecorator::do_start(started);
}

std::unique_ptr<comm::Communicator> RecordingCommunicator::decorate(std::unique_ptr<comm::Communicator> group) {
  return group;  // what is asked of this group alone
}

void RecordingCommunicator::note(const comm::Call& call, bool waits) {
  RecordedCall one{.operation = call.operation,
                   .dtype = call.dtype(),
                   .elements = call.elements(size()),
                   .waits = waits,
                   .has_no_number = false,
                   .after = now};
  // The host can't read a device's memory, nor knows when what is in it is complete.
  if (call.in.dtype == comm::DType::f32 && call.in.device.kind == comm::Device::Kind::cpu) {
    const std::span<const float> values(static_cast<const float*>(call.in.data),
                                        static_cast<std::size_t>(call.in.count));
    one.has_no_number = std::ranges::any_of(values, [](float value) { return std::isnan(value); });
  }
  calls.push_back(one);
}

}  // namespace plumbline::conformance
