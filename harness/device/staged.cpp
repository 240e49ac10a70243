#include "harness/device/staged.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "harness/device/mirror.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::harness {

using comm::Call;
using device::Runtime;

namespace {

/// What a communicator and the calls under way of it share, so that a Work may outlive it.
struct Desk {
  Desk(std::shared_ptr<Runtime> runtime_, comm::Device device_, StagedStream whose)
      : runtime(std::move(runtime_)), device(device_), shelf(runtime, device.index) {
    if (whose == StagedStream::own) stream = own.emplace(runtime, device.index).get();
  }
  ~Desk() {
    if (own) settle(stream);
  }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  /// Waits until no call in that stream uses the shelf's memory any more.
  void settle(device::Stream used) noexcept {
    try {
      runtime->synchronize(device.index, used);
    } catch (const std::exception&) {
      // its work met an error that a call has told
    }
  }
  Mirror mirror(std::span<const Call> calls, int rank) {
    Mirror made(*runtime, shelf, device, calls, rank, standing);
    made.send(stream);
    return made;
  }
  void take_back(Mirror& mirror) {
    mirror.bring_back(stream);
    runtime->synchronize(device.index, stream);
    if (const std::string damage = mirror.damage(); !damage.empty()) throw RuntimeFailure(damage);
  }

  std::shared_ptr<Runtime> runtime;
  comm::Device device;
  Shelf shelf;
  StandingPlaces standing;
  std::optional<device::OwnStream> own;
  device::Stream stream = nullptr;  // of now
};

class StagedWork final : public comm::Work::State {
 public:
  StagedWork(std::shared_ptr<Desk> desk, Mirror mirror, comm::Work work)
      : desk_(std::move(desk)), stream_(desk_->stream), mirror_(std::move(mirror)), work_(std::move(work)) {}
  ~StagedWork() override {
    work_.reset();  // the backend keeps off the buffers from here on
    if (!done_) desk_->settle(stream_);
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
    try {
      desk_->take_back(mirror_);
    } catch (...) {
      desk_->settle(desk_->stream);  // of now, which may be another than that of the start
      throw;
    }
    done_ = true;
  }
  std::shared_ptr<Desk> desk_;
  const device::Stream stream_;  // of the start
  Mirror mirror_;
  std::optional<comm::Work> work_;
  bool done_ = false;
};

class Staged final : public comm::CommunicatorDecorator {
 public:
  Staged(std::shared_ptr<Runtime> runtime, comm::Device device, std::unique_ptr<comm::Communicator> inner,
         StagedStream whose)
      : CommunicatorDecorator(std::move(inner)), desk_(std::make_shared<Desk>(std::move(runtime), device, whose)) {
    this->inner().use_stream(desk_->stream);
  }
  // A registration ends before the memory that it is of.
  ~Staged() override {
    for (const auto& [registration, memory] : registered_) try {
        CommunicatorDecorator::do_deregister(registration);
      } catch (const std::exception&) {
        // it has ended with the group
      }
  }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
  void use_stream(void* stream) override {
    if (desk_->own) throw StateError("a communicator that stages the host's memory has a stream of its own");
    desk_->stream = stream;
    inner().use_stream(stream);
  }

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    if (call.operation == comm::Operation::barrier || !is_of_host(call))
      return CommunicatorDecorator::do_run(call, timeout);
    make_there(call, [&](const Call& there) { CommunicatorDecorator::do_run(there, timeout); });
  }

  // Makes a call, with its data on the device.
  void make_there(const Call& call, const std::function<void(const Call&)>& make) {
    Mirror mirror = desk_->mirror(std::span(&call, 1), rank());
    try {
      make(mirror.calls().front());
    } catch (...) {
      desk_->settle(desk_->stream);
      throw;
    }
    desk_->take_back(mirror);
  }

  // One that serves the host's memory, too, makes these sums there.
  void do_run_scaled(const Call& call, double factor, comm::Timeout timeout) override {
    const auto& devices = capabilities().devices;
    if (!is_of_host(call) || std::ranges::count(devices, comm::Device::Kind::cpu) > 0)
      return CommunicatorDecorator::do_run_scaled(call, factor, timeout);
    make_there(call, [&](const Call& there) { CommunicatorDecorator::do_run_scaled(there, factor, timeout); });
  }

  // A message meets those of other members, which lie on the device. Collectives are made by all in the host's memory.
  void do_run_strided(const comm::StridedCall& call, comm::Timeout timeout) override {
    if (!is_point_to_point(call.call.operation) || !is_of_host(call.call))
      return CommunicatorDecorator::do_run_strided(call, timeout);
    const comm::PackedCall packed(call, rank());
    do_run(packed.plain(), timeout);
    packed.finish();
  }

  comm::Work do_start(std::span<const Call> calls) override {
    if (std::ranges::none_of(calls, is_of_host)) return CommunicatorDecorator::do_start(calls);
    Mirror mirror = desk_->mirror(calls, rank());
    try {
      comm::Work work = CommunicatorDecorator::do_start(mirror.calls());
      return comm::Work(std::make_unique<StagedWork>(desk_, std::move(mirror), std::move(work)));
    } catch (...) {
      desk_->settle(desk_->stream);
      throw;
    }
  }

  // What is registered is a place on the device, for all calls on that memory of the host.
  comm::Registration do_register(comm::Buffer memory) override {
    if (memory.device.kind != comm::Device::Kind::cpu) return CommunicatorDecorator::do_register(memory);
    device::Memory there(desk_->runtime, desk_->device.index, memory.bytes());
    const comm::Registration made = CommunicatorDecorator::do_register(
        {there.data(), static_cast<std::int64_t>(memory.bytes()), comm::DType::u8, desk_->device});
    desk_->standing[made] = {{static_cast<std::byte*>(memory.data), memory.bytes()}, there.data()};
    registered_.emplace(made, std::move(there));
    return made;
  }
  void do_deregister(comm::Registration registration) override {
    CommunicatorDecorator::do_deregister(registration);
    desk_->standing.erase(registration);
    registered_.erase(registration);
  }

  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    const StagedStream whose = desk_->own ? StagedStream::own : StagedStream::callers;
    auto staged = std::make_unique<Staged>(desk_->runtime, desk_->device, std::move(group), whose);
    if (whose == StagedStream::callers) staged->use_stream(desk_->stream);  // as groups have that of their parent
    return staged;
  }

  std::shared_ptr<Desk> desk_;
  std::map<comm::Registration, device::Memory> registered_;
};

}  // namespace

std::unique_ptr<comm::Communicator> staged_on(std::shared_ptr<Runtime> runtime, comm::Device device,
                                              std::unique_ptr<comm::Communicator> inner, StagedStream stream) {
  return std::make_unique<Staged>(std::move(runtime), device, std::move(inner), stream);
}

}  // namespace plumbline::harness
