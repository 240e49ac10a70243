// reference/comm/device_calls.hpp: what backend local asks of devices, so that it can serve memory of theirs.
//
// Model   A Mark is a place in a stream: of a member, where its buffers are ready; of a call, where it is done. A Lane is a group's
//         own stream on each of its devices. A call of all members is one launch: it waits, on the devices, for the marks of all,
//         and leaves one that all streams then follow. Nothing here lets the host wait.
// Threads Any thread may call, also of one Lane.
// Errors  Those of reference/device/runtime.hpp, which implements this on any runtime (reference/device/calls.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "reference/comm/call.hpp"

namespace plumbline::comm {

class DeviceCalls {
 public:
  class Mark {
   public:
    virtual ~Mark() = default;
  };

  /// A member's part of a call. What it does not give or get is null.
  struct Member {
    Device device;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::shared_ptr<const Mark> ready;
  };
  /// A collective with data, as all members call it; `in` of a broadcast's root is its out.
  struct Collective {
    Operation operation = Operation::all_reduce;
    ReduceOp op = ReduceOp::sum;
    DType dtype = DType::f32;
    int root = kNoRoot;
    std::size_t elements = 0;  // c of call.hpp
    std::span<const Member> members;
    [[nodiscard]] std::size_t bytes() const { return elements * size_of(dtype); }
  };

  class Lane {
   public:
    virtual ~Lane() = default;
    /// Does the collective once all members are ready.
    virtual std::shared_ptr<const Mark> launch(const Collective& collective) = 0;
    /// Copies from one member's `in` to another's `out` once both are ready.
    virtual std::shared_ptr<const Mark> copy(const Member& from, const Member& to, std::size_t bytes) = 0;
    /// Where all that was launched so far is done.
    virtual std::shared_ptr<const Mark> mark() = 0;
  };

  virtual ~DeviceCalls() = default;
  [[nodiscard]] virtual Device::Kind kind() const = 0;
  /// Throws InvalidArgument, naming the buffer, unless what `rank` gives and gets lies where the call says: on a device that there
  /// is, or on the host, at a multiple of the elements' size. Looks at calls on the host's memory, too.
  virtual void expect_memory(const Call& call, int rank) const = 0;
  /// The most ranks whose elements one reduction adds.
  [[nodiscard]] virtual int most_added() const = 0;
  /// Where a stream of `device` stands; null is its default one.
  [[nodiscard]] virtual std::shared_ptr<const Mark> mark(Device device, void* stream) = 0;
  /// What is put into the stream from now on starts when the mark is reached.
  virtual void follow(Device device, void* stream, const Mark& mark) = 0;
  [[nodiscard]] virtual bool is_reached(const Mark& mark) = 0;
  [[nodiscard]] virtual std::unique_ptr<Lane> open_lane() = 0;
};

}  // namespace plumbline::comm
