// reference/device/memory_space.hpp: where tensors lie and are worked on: the host's memory, at once; or a device's, in
// the order of a stream.
//
// Model   A plain value that functions on tensors are given: on the host they are done when the call returns, on a
//         device they are put into the stream, and the host waits for nothing. What is in other streams is ordered by
//         the caller.
// Errors  Those of runtime.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/device/kernel.hpp"
#include "reference/device/runtime.hpp"
#include "reference/device/scaled_copies.hpp"

namespace plumbline::device {

/// What works on tensors that are in a device's memory, and in which stream (null: the device's default one), which
/// must outlive whatever is given this. Without a runtime tensors are in the host's.
struct DeviceUse {
  std::shared_ptr<Runtime> runtime = nullptr;
  Stream stream = nullptr;
};

class MemorySpace {
 public:
  /// The host.
  MemorySpace() = default;
  MemorySpace(DeviceUse use, int index) : use_(std::move(use)), index_(index) {}

  [[nodiscard]] bool is_host() const { return use_.runtime == nullptr; }
  [[nodiscard]] comm::Device device() const {
    return is_host() ? comm::Device{} : comm::Device{use_.runtime->kind(), static_cast<std::int16_t>(index_)};
  }
  [[nodiscard]] const DeviceUse& use() const { return use_; }
  [[nodiscard]] int index() const { return index_; }  // of the device
  /// The stream from now on. Nothing on the host.
  void use_stream(Stream stream) { use_.stream = stream; }

  /// Puts works (kernel.hpp) into the stream of a device.
  template <class Work>
  void launch(const std::vector<Work>& works) const {
    device::launch(*use_.runtime, index_, works, use_.stream);
  }
  /// Copies bytes within this place's memory, or between the host's and it.
  void copy(void* to, const void* from, std::size_t bytes) const;
  /// Each `from` to its `to`, byte for byte, all at this place: on a device in one launch per full table.
  /// Pairs are the same memory or do not overlap, and are of one type and length: else throws InvalidArgument, on a
  /// device what scaled_copy_work() throws.
  void copy(std::span<const ScaledCopy> pairs) const;
  void fill(void* to, std::byte value, std::size_t bytes) const;
  /// Waits until all that was put into the stream is done.
  void synchronize() const;

 private:
  DeviceUse use_;
  int index_ = 0;
};

/// Where all of the tensors are; of none, the host. Throws, beginning with `what`, in one line: InvalidArgument where
/// they are in several memories or on a device that does not exist, Unsupported on a device that `use` has no runtime
/// of.
[[nodiscard]] MemorySpace place_of(std::string_view what, std::span<const comm::Buffer> tensors, const DeviceUse& use);
/// Throws InvalidArgument, naming the first tensor that is not at the place.
void require_at(std::string_view what, std::span<const comm::Buffer> tensors, const MemorySpace& place);
/// Throws Unsupported unless the group's backend takes memory of the place.
void require_served(std::string_view what, const comm::Communicator& group, const MemorySpace& place);

/// The bytes of a tensor at a place, on the host, and back. Returns when the copy is done: on a device the host waits
/// for the stream.
[[nodiscard]] std::vector<std::byte> bytes_of(const MemorySpace& place, comm::ConstBuffer tensor);
/// Throws InvalidArgument for another number of bytes than the tensor has.
void set_bytes(const MemorySpace& place, comm::Buffer tensor, std::span<const std::byte> bytes);

/// Memory of a place that is kept from use to use. A device's is waited for before it is given back.
class ScratchBuffer {
 public:
  ScratchBuffer() = default;
  ScratchBuffer(ScratchBuffer&& other) noexcept = default;
  ScratchBuffer& operator=(ScratchBuffer&& other) noexcept;
  ~ScratchBuffer();

  /// At least `bytes` bytes; earlier contents are lost where it has to grow, for which the host waits for the stream.
  [[nodiscard]] std::byte* take(const MemorySpace& place, std::size_t bytes);

 private:
  void give_back() noexcept;
  std::vector<std::byte> on_host_;
  MemorySpace place_;  // of the other
  Memory on_device_;
};

// ---- Calls on a device's memory over a group that takes the host's, by way of the host.
//
// Model   What a call gives is copied to the host in the order of the caller's stream, and waited for; then the call is
//         made on the host's memory; what it got is copied back in the order of the stream that is the caller's at the
//         wait, after all that was in the one of the start; at a further wait the current stream continues after it.
//         Calls on the host's memory go through as they are. Groups made from this one are staged in the same way.
// Bits    Those of the group on the host's memory.
// Cost    The host waits for the stream at each call that gives something, and for the call itself. Memory of the host
//         is kept, and used again once the copies out of it are done.
// Threads, errors  As communicator.hpp says; and the runtime's.

class HostStaging final : public comm::Communicator {
 public:
  /// Around a group that outlives it, for memory of the devices of `use`, which must have a runtime.
  HostStaging(comm::Communicator& inner, DeviceUse use);
  /// The same, and owns the group.
  HostStaging(std::unique_ptr<comm::Communicator> inner, DeviceUse use);
  ~HostStaging() override;

  /// The group's, and memory of the devices beside the host's; none that is registered or the group's own.
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return capabilities_; }
  void use_stream(void* stream) override;
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

 private:
  struct Shared;
  class Staged;
  class StagedWork;
  // Makes the call, with its data on the host.
  void make_staged(const comm::Call& call, const std::function<void(const comm::Call&)>& make);
  void do_run(const comm::Call& call, comm::Timeout timeout) override;
  void do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) override;
  void do_run_scaled(const comm::Call& call, double factor, comm::Timeout timeout) override;
  void do_run_strided(const comm::StridedCall& call, comm::Timeout timeout) override;
  std::unique_ptr<comm::Window> do_create_window(comm::Buffer memory, comm::Timeout timeout) override;
  comm::Work do_start(std::span<const comm::Call> calls) override;
  std::unique_ptr<comm::Communicator> do_create_group(std::span<const int> ranks) override;
  std::unique_ptr<comm::Communicator> do_shrink(std::span<const int> excluded) override;
  std::string do_invite() override;
  std::unique_ptr<comm::Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers) override;
  std::unique_ptr<comm::Communicator> do_join(const std::string& invitation, std::span<const int> newcomers) override;

  std::unique_ptr<comm::Communicator> owned_;
  comm::Communicator& inner_;
  comm::Capabilities capabilities_;
  std::shared_ptr<Shared> shared_;  // with calls that outlive this
};

}  // namespace plumbline::device
