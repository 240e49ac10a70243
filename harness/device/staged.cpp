#include "harness/device/staged.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/device/handles.hpp"

namespace plumbline::harness {

using comm::Call;
using comm::ConstBuffer;
using device::Memory;
using device::Runtime;

namespace {

constexpr std::size_t kGuard = 256;  // bytes on each side, and the alignment of the device's memory
constexpr std::size_t kBoundary = 64;
constexpr std::byte kCanary{0xa7};

/// Memory of earlier calls, to be used again: that of a GPU is slow to get.
class Shelf {
 public:
  Shelf(std::shared_ptr<Runtime> runtime, int device) : runtime_(std::move(runtime)), device_(device) {}
  Memory take(std::size_t bytes) {
    if (const auto found = free_.lower_bound(bytes); found != free_.end() && found->first <= 4 * bytes + 4096) {
      Memory memory = std::move(found->second);
      free_.erase(found);
      return memory;
    }
    return {runtime_, device_, bytes};
  }
  void put_back(Memory memory) { free_.emplace(memory.bytes(), std::move(memory)); }

 private:
  std::shared_ptr<Runtime> runtime_;
  int device_;
  std::multimap<std::size_t, Memory> free_;
};

/// The buffers of calls that are made as one, on the device.
class Staging {
 public:
  Staging(Runtime& runtime, Shelf& shelf, comm::Device device, device::Stream stream)
      : runtime_(runtime), shelf_(shelf), device_(device), stream_(stream) {}
  Staging(Staging&&) = default;
  ~Staging() {
    for (Place& place : places_) shelf_.put_back(std::move(place.memory));
  }

  /// The calls with their buffers on the device, where their contents will be. Buffers that share memory share a place.
  std::vector<Call> put(std::span<const Call> calls, int rank) {
    for (const Call& call : calls) {
      if (call.uses_in(rank) && call.in.count != 0) note(call.in, false);
      if (call.uses_out(rank) && call.out.count != 0) note(call.out, true);
    }
    for (Place& place : places_) fill(place);
    std::vector<Call> there(calls.begin(), calls.end());
    for (Call& call : there) {
      call.in.device = call.out.device = device_;
      if (call.uses_in(rank) && call.in.count != 0) call.in.data = on_device(call.in.data);
      if (!call.uses_out(rank) || call.out.count == 0) continue;
      std::byte* const data = on_device(call.out.data);
      results_.push_back({static_cast<std::byte*>(call.out.data), data, call.out.bytes()});
      call.out.data = data;
    }
    return there;
  }

  /// Brings what the calls wrote back to the host, and looks whether they wrote anything else.
  void take_back() {
    for (const Result& result : results_)
      runtime_.copy(device_.index, result.host, result.there, result.bytes, stream_);
    for (Place& place : places_)
      runtime_.copy(device_.index, place.seen.data(), place.memory.data(), place.seen.size(), stream_);
    runtime_.synchronize(device_.index, stream_);
    for (const Place& place : places_) place.expect_whole();
  }
  /// Nothing of the calls is under way any more.
  void settle() { runtime_.synchronize(device_.index, stream_); }

 private:
  struct Place {
    const std::byte* host;  // [host, host + bytes) has its place `begin` bytes into the memory
    std::size_t bytes;
    bool only_read;
    std::size_t begin = 0;
    Memory memory = {};
    std::vector<std::byte> put = {}, seen = {};  // guards and contents, before and afterwards

    void expect_whole() const {
      for (std::size_t i = 0; i < seen.size(); ++i) {
        const bool inside = i >= begin && i < begin + bytes;
        if (seen[i] == put[i] || (inside && !only_read)) continue;
        if (inside) throw RuntimeFailure(fmt::format("byte {} of an input on the device was changed", i - begin));
        throw RuntimeFailure(
            i < begin ? fmt::format("byte {} before the start of a buffer on the device was written", begin - i)
                      : fmt::format("byte {} after the end of a buffer on the device was written", i - begin - bytes));
      }
    }
  };
  struct Result {
    std::byte* host;
    const void* there;
    std::size_t bytes;
  };

  void note(const ConstBuffer& buffer, bool written) {
    const auto* const data = static_cast<const std::byte*>(buffer.data);
    Place made{.host = data, .bytes = buffer.bytes(), .only_read = !written};
    std::erase_if(places_, [&](const Place& other) {
      if (made.host + made.bytes <= other.host || other.host + other.bytes <= made.host) return false;
      const std::byte* const end = std::max(made.host + made.bytes, other.host + other.bytes);
      made.host = std::min(made.host, other.host);
      made.bytes = static_cast<std::size_t>(end - made.host);
      made.only_read = made.only_read && other.only_read;
      return true;
    });
    places_.push_back(std::move(made));
  }

  void fill(Place& place) {
    place.begin = kGuard + reinterpret_cast<std::uintptr_t>(place.host) % kBoundary;
    const std::size_t bytes = place.begin + place.bytes + kGuard;
    place.memory = shelf_.take(bytes);
    place.put.assign(bytes, kCanary);
    std::memcpy(place.put.data() + place.begin, place.host, place.bytes);
    place.seen.resize(bytes);
    runtime_.copy(device_.index, place.memory.data(), place.put.data(), bytes, stream_);
  }

  [[nodiscard]] std::byte* on_device(const void* host) const {
    const auto* const at = static_cast<const std::byte*>(host);
    const auto found = std::ranges::find_if(
        places_, [&](const Place& place) { return at >= place.host && at < place.host + place.bytes; });
    return found->memory.data() + found->begin + (at - found->host);
  }

  Runtime& runtime_;
  Shelf& shelf_;
  comm::Device device_;
  device::Stream stream_;
  std::vector<Place> places_;
  std::vector<Result> results_;
};

/// What a communicator and the calls under way of it share, so that a Work may outlive it.
struct Desk {
  Desk(std::shared_ptr<Runtime> runtime_, comm::Device device_)
      : runtime(std::move(runtime_)), device(device_), shelf(runtime, device.index), stream(runtime, device.index) {}
  ~Desk() {
    try {
      stream.synchronize();  // nothing uses the shelf's memory any more
    } catch (const std::exception&) {
      // its work met an error that a call has told
    }
  }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;
  std::shared_ptr<Runtime> runtime;
  comm::Device device;
  Shelf shelf;
  device::OwnStream stream;
};

class StagedWork final : public comm::Work::State {
 public:
  StagedWork(std::shared_ptr<Desk> desk, Staging staging, comm::Work work)
      : desk_(std::move(desk)), staging_(std::move(staging)), work_(std::move(work)) {}
  ~StagedWork() override {
    work_.reset();  // the backend keeps off the buffers from here on
    settle();
  }
  StagedWork(const StagedWork&) = delete;
  StagedWork& operator=(const StagedWork&) = delete;
  bool test() override {
    if (!done_ && work_->test()) take_back();
    return done_;
  }
  void wait(comm::Timeout timeout) override {
    if (done_) return;
    work_->wait(timeout);
    take_back();
  }

 private:
  void take_back() {
    staging_.take_back();
    done_ = true;
  }
  void settle() noexcept {
    try {
      if (!done_) staging_.settle();
    } catch (const std::exception&) {
      // the call has ended with an error before
    }
  }
  std::shared_ptr<Desk> desk_;
  Staging staging_;
  std::optional<comm::Work> work_;
  bool done_ = false;
};

class Staged final : public comm::CommunicatorDecorator {
 public:
  Staged(std::shared_ptr<Runtime> runtime, comm::Device device, std::unique_ptr<comm::Communicator> inner)
      : CommunicatorDecorator(std::move(inner)), desk_(std::make_shared<Desk>(std::move(runtime), device)) {
    this->inner().use_stream(desk_->stream.get());
  }

 private:
  [[nodiscard]] static bool is_of_host(const Call& call) {
    return call.in.device.kind == comm::Device::Kind::cpu && call.out.device.kind == comm::Device::Kind::cpu;
  }
  [[nodiscard]] Staging staging() { return {*desk_->runtime, desk_->shelf, desk_->device, desk_->stream.get()}; }

  void do_run(const Call& call, comm::Timeout timeout) override {
    if (call.operation == comm::Operation::barrier || !is_of_host(call))
      return CommunicatorDecorator::do_run(call, timeout);
    Staging buffers = staging();
    try {
      CommunicatorDecorator::do_run(buffers.put(std::span(&call, 1), rank()).front(), timeout);
    } catch (...) {
      buffers.settle();
      throw;
    }
    buffers.take_back();
  }

  comm::Work do_start(std::span<const Call> calls) override {
    if (!std::ranges::all_of(calls, is_of_host)) return CommunicatorDecorator::do_start(calls);
    Staging buffers = staging();
    const std::vector<Call> there = buffers.put(calls, rank());
    try {
      comm::Work work = CommunicatorDecorator::do_start(there);
      return comm::Work(std::make_unique<StagedWork>(desk_, std::move(buffers), std::move(work)));
    } catch (...) {
      buffers.settle();
      throw;
    }
  }

  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<Staged>(desk_->runtime, desk_->device, std::move(group));
  }

  std::shared_ptr<Desk> desk_;
};

}  // namespace

std::unique_ptr<comm::Communicator> staged_on(std::shared_ptr<Runtime> runtime, comm::Device device,
                                              std::unique_ptr<comm::Communicator> inner) {
  return std::make_unique<Staged>(std::move(runtime), device, std::move(inner));
}

}  // namespace plumbline::harness
