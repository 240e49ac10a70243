// Calls on memory of devices: one launch for all members, which each member's stream follows.
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local/collectives.hpp"
#include "reference/comm/local/endpoint.hpp"

namespace plumbline::comm::local {

std::shared_ptr<const DeviceCalls::Mark> Endpoint::mark(Device device) {
  auto ready = device_calls().mark(device, stream_);
  device_ = device;
  return ready;
}

void Endpoint::follow(Device device, const DeviceCalls::Mark& done) {
  try {
    device_calls().follow(device, stream_, done);
  } catch (const std::exception& error) {
    fail_on_device(
        fmt::format("{}: its stream on {} cannot wait for a call: {}", name(), name_of(device), error.what()));
  }
}

void Endpoint::follow_lane() noexcept {
  if (!device_) return;
  try {
    device_calls().follow(*device_, stream_, *group->lane->mark());
  } catch (const std::exception&) {
    // The runtime does nothing any more; whoever asks it next is told why.
  }
}

// The whole call, which all have posted.
void Collectives::launch() {
  try {
    std::vector<DeviceCalls::Member> members;
    for (std::size_t member = 0; member < cursors_.size(); ++member) {
      const DevicePosting& posting = *slot(member).on_device;
      members.push_back({.device = posting.device, .in = in_[member], .out = out_[member], .ready = posting.ready});
    }
    slot(0).on_device->done = group_.lane->launch({.operation = shape_.operation,
                                                   .op = shape_.op,
                                                   .dtype = shape_.dtype,
                                                   .root = shape_.root,
                                                   .elements = shape_.elements,
                                                   .members = members});
  } catch (const std::exception& error) {
    group_.leave(self_.rank);
    self_.fail_on_device(
        fmt::format("rank {} could not launch {}: {}", self_.rank, name_of(shape_.operation), error.what()));
  }
}

// The stream of who makes a blocking call follows at once. A Work keeps the mark: the stream at its wait does.
void Collectives::finish_launched(const Pending& pending) {
  const std::shared_ptr<const DeviceCalls::Mark> done = slot(0).on_device->done;
  const Device device = slot(static_cast<std::size_t>(self_.rank)).on_device->device;
  advance();
  if (pending.launched == nullptr) return self_.follow(device, *done);
  pending.launched->push_back({device, done});
}

}  // namespace plumbline::comm::local
