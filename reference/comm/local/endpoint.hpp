// reference/comm/local/endpoint.hpp: one rank's end of a local group: how its calls fail, and which stream of a device
// follows them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference/comm/local/group.hpp"
#include "reference/comm/local/wait.hpp"

namespace plumbline::comm::local {

constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};  // of calls that are not numbered: messages

class Endpoint {
 public:
  Endpoint(std::shared_ptr<LocalGroup> of, int member) : group(std::move(of)), rank(member) {}

  const std::shared_ptr<LocalGroup> group;
  const int rank;
  [[nodiscard]] int size() const { return group->size; }
  [[nodiscard]] Deadline deadline(Timeout timeout) const { return Deadline(timeout.value_or(group->options.timeout)); }
  /// "world [0 1 2], rank 1".
  [[nodiscard]] std::string name() const;

  // ---- failures: `call` is the call's description, with name() in it ----

  /// Fails the group and throws what has failed it, whatever failed the group first.
  [[noreturn]] void fail(const Failure& failure);
  [[noreturn]] void fail_late(const std::string& call, std::uint64_t sequence, const Deadline& deadline,
                              const std::vector<int>& missing);
  [[noreturn]] void fail_deserted(const std::string& call, std::uint64_t sequence, const std::vector<int>& left);
  /// Fails the group with the error of a device's runtime, and throws RuntimeFailure.
  [[noreturn]] void fail_on_device(const std::string& why);
  /// Throws the reason why the group has failed: the error itself once, to a rank whose call it was.
  [[noreturn]] void throw_failure(std::uint64_t sequence, bool had_arrived);

  // ---- memory of devices ----

  void use_stream(void* stream) { stream_ = stream; }
  [[nodiscard]] void* stream() const { return stream_; }
  [[nodiscard]] DeviceCalls& device_calls() const { return *group->options.device_calls; }
  /// Where the caller's stream stands at a call on memory of a device.
  [[nodiscard]] std::shared_ptr<const DeviceCalls::Mark> mark(Device device);
  /// Lets the caller's stream wait until a call is done.
  void follow(Device device, const DeviceCalls::Mark& done);
  /// After this what the caller's stream does touches no buffer that a call of this group still uses.
  void follow_lane() noexcept;

 private:
  bool told_ = false;             // this rank knows why the group failed: later calls get PeerFailed
  void* stream_ = nullptr;        // of the caller, for calls on memory of devices
  std::optional<Device> device_;  // of the last of them
};

}  // namespace plumbline::comm::local
