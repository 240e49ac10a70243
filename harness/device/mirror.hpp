// harness/device/mirror.hpp: places on a device for the buffers of calls whose data lie on the host.
//
// Model   Buffers that share memory on the host share a place: in place stays in place. A place is as far from a
//         boundary of 64 bytes as the host's memory is, and lies between guards. Data go there, and come back, in the
//         order of streams that the caller chooses; the host's buffers must stay meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::harness {

/// Memory of earlier calls, to be used again: that of a GPU is slow to get. One thread at a time; must outlive its
/// mirrors.
class Shelf {
 public:
  Shelf(std::shared_ptr<device::Runtime> runtime, int device) : runtime_(std::move(runtime)), device_(device) {}
  /// Throws OutOfMemory.
  [[nodiscard]] device::Memory take(std::size_t bytes);
  void put_back(device::Memory memory) { free_.emplace(memory.bytes(), std::move(memory)); }

 private:
  std::shared_ptr<device::Runtime> runtime_;
  int device_;
  std::multimap<std::size_t, device::Memory> free_;
};

/// Memory of the host that has one place on the device for all calls: it was registered there.
struct StandingPlace {
  std::span<std::byte> host;
  std::byte* data = nullptr;  // on the device
};
using StandingPlaces = std::map<std::uint64_t, StandingPlace>;

/// Whether its data are the host's; so are a barrier's, which has none.
[[nodiscard]] inline bool is_of_host(const comm::Call& call) { return call.device().kind == comm::Device::Kind::cpu; }

class Mirror {
 public:
  /// Of the calls that `rank` makes as one. Those on memory of a device stay as they are. Buffers within a standing
  /// place go there, without guards, the others to memory of the shelf.
  Mirror(device::Runtime& runtime, Shelf& shelf, comm::Device device, std::span<const comm::Call> calls, int rank,
         const StandingPlaces& standing = {});
  Mirror(Mirror&&) = default;
  Mirror(const Mirror&) = delete;
  ~Mirror();

  /// The calls with their buffers on the device.
  [[nodiscard]] const std::vector<comm::Call>& calls() const { return there_; }
  /// Puts into the stream: what the buffers hold goes to a second memory of the device, and the places hold what no
  /// buffer does.
  void set_aside(device::Stream stream);
  /// Puts into the stream: what was set aside goes to its places. Unlike send(), that lets no host wait, whatever the
  /// device.
  void send_what_was_set_aside(device::Stream stream);
  /// Puts into the stream: what the buffers hold goes to the device.
  void send(device::Stream stream);
  /// Puts into the stream: what the calls wrote comes back.
  void bring_back(device::Stream stream);
  /// After that, and a wait for the stream: what was written beside the buffers, or into an input, in a line; "" when
  /// nothing.
  [[nodiscard]] std::string damage() const;

 private:
  struct Place {
    const std::byte* host;  // [host, host + bytes) has its place `begin` bytes into the memory
    std::size_t bytes;
    bool only_read;
    std::size_t begin = 0;
    device::Memory memory = {}, aside = {};
    std::byte* data = nullptr;                   // of the memory, or in a standing place
    std::vector<std::byte> put = {}, seen = {};  // guards and contents, before and afterwards
    [[nodiscard]] std::string damage() const;
  };
  struct Result {
    std::byte* host;
    const void* there;
    std::size_t bytes;
  };
  void note(const comm::ConstBuffer& buffer, bool written);
  [[nodiscard]] std::byte* on_device(const void* host) const;
  void put_on_device(Place& place, const StandingPlaces& standing);
  void fill(Place& place, std::byte* there, device::Stream stream);

  device::Runtime& runtime_;
  Shelf& shelf_;
  comm::Device device_;
  std::vector<Place> places_;
  std::vector<Result> results_;
  std::vector<comm::Call> there_;
};

}  // namespace plumbline::harness
