// Runtimes of devices that order, add or move wrongly, and communicators that do not look where memory is.
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/detail/move.hpp"
#include "reference/device/fold.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::Communicator;
using comm::CommunicatorDecorator;
using device::Event;
using device::FoldTable;
using device::MoveTable;
using device::Runtime;
using device::RuntimeDecorator;
using device::Stream;

namespace {

template <class Wrong>
std::shared_ptr<Runtime> around(std::shared_ptr<Runtime> inner) {
  return std::make_shared<Wrong>(std::move(inner));
}

/// Tells the streams that were made by it, which are the groups' own, from those of callers.
class KnowsItsStreams : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  Stream create_stream(int device) override {
    const Stream stream = RuntimeDecorator::create_stream(device);
    const std::lock_guard hold(mutex_);
    own_.insert(stream);
    return stream;
  }

 protected:
  [[nodiscard]] bool is_own(Stream stream) {
    const std::lock_guard hold(mutex_);
    return own_.contains(stream);
  }

 private:
  std::mutex mutex_;
  std::set<Stream> own_;
};

// Calls find devices connected where others have connected them before.
class NeverConnects final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void connect(int, int) override {}
};

class ReadyNotAwaited final : public KnowsItsStreams {
 public:
  using KnowsItsStreams::KnowsItsStreams;
  void wait(int device, Stream stream, Event event) override {
    if (!is_own(stream)) RuntimeDecorator::wait(device, stream, event);
  }
};

class DoneNotAwaited final : public KnowsItsStreams {
 public:
  using KnowsItsStreams::KnowsItsStreams;
  void wait(int device, Stream stream, Event event) override {
    if (is_own(stream)) RuntimeDecorator::wait(device, stream, event);
  }
};

// The caller's stream on the first device does not wait for the end of calls, which take their time.
class FirstRankGoesOn final : public KnowsItsStreams {
 public:
  using KnowsItsStreams::KnowsItsStreams;
  void wait(int device, Stream stream, Event event) override {
    if (device != 0 || is_own(stream)) RuntimeDecorator::wait(device, stream, event);
  }
  void fold(int device, const FoldTable& table, Stream stream) override {
    pause(device, std::chrono::milliseconds(2), stream);
    RuntimeDecorator::fold(device, table, stream);
  }
};

class RecordedElsewhere final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void record(int device, Event event, Stream) override { RuntimeDecorator::record(device, event, nullptr); }
};

// The event that says that a call is done is recorded, and then its kernel is launched, which takes its time.
class DoneRecordedFirst final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void fold(int device, const FoldTable& table, Stream stream) override {
    put_off(stream, [this, device, table, stream] { RuntimeDecorator::fold(device, table, stream); });
  }
  void move(int device, const MoveTable& table, Stream stream) override {
    put_off(stream, [this, device, table, stream] { RuntimeDecorator::move(device, table, stream); });
  }
  void record(int device, Event event, Stream stream) override {
    RuntimeDecorator::record(device, event, stream);
    std::vector<std::function<void()>> kernels;
    {
      const std::lock_guard hold(mutex_);
      kernels.swap(late_[stream]);
    }
    if (!kernels.empty()) pause(device, std::chrono::milliseconds(20), stream);
    for (const auto& launch : kernels) launch();
  }

 private:
  void put_off(Stream stream, std::function<void()> launch) {
    const std::lock_guard hold(mutex_);
    late_[stream].push_back(std::move(launch));
  }
  std::mutex mutex_;
  std::map<Stream, std::vector<std::function<void()>>> late_;
};

class OtherDeviceNotAwaited final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  Event create_event(int device, bool timed) override {
    const Event event = RuntimeDecorator::create_event(device, timed);
    const std::lock_guard hold(mutex_);
    device_of_[event] = device;
    return event;
  }
  void wait(int device, Stream stream, Event event) override {
    {
      const std::lock_guard hold(mutex_);
      if (device_of_[event] != device) return;
    }
    RuntimeDecorator::wait(device, stream, event);
  }

 private:
  std::mutex mutex_;
  std::map<Event, int> device_of_;
};

class HostWaits final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void fold(int device, const FoldTable& table, Stream stream) override {
    RuntimeDecorator::fold(device, table, stream);
    synchronize(device, stream);
  }
};

class SaysLaunched final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  bool is_reached(int, Event) override { return true; }
};

class OneStreamForAll final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  Stream create_stream(int device) override {
    const std::lock_guard hold(mutex_);
    auto& stream = streams_[device];
    if (stream == nullptr) stream = RuntimeDecorator::create_stream(device);
    return stream;
  }
  void destroy_stream(int, Stream) noexcept override {}

 private:
  std::mutex mutex_;
  std::map<int, Stream> streams_;
};

/// Changes the table of each reduction.
template <void change(FoldTable& table, std::int64_t in_a_vector)>
class FoldsOtherwise final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void fold(int device, const FoldTable& table, Stream stream) override {
    FoldTable changed = table;
    change(changed, device::kVectorBytes / static_cast<std::int64_t>(size_of(table.dtype)));
    RuntimeDecorator::fold(device, changed, stream);
  }
};

void drop_tail(FoldTable& table, std::int64_t in_a_vector) { table.count -= table.count % in_a_vector; }
void round_up(FoldTable& table, std::int64_t in_a_vector) {
  table.count = (table.count + in_a_vector - 1) / in_a_vector * in_a_vector;
}

class ExchangesByCopies final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void move(int device, const MoveTable& table, Stream stream) override {
    for (std::int32_t i = 0; i < table.moves; ++i) {
      const device::Move& one = table.move[i];
      std::byte* const* const address = table.address + one.first_address;
      const auto bytes = static_cast<std::size_t>(one.bytes);
      if (one.copies > 0) {
        copy_all(device, address[0], {address + 1, static_cast<std::size_t>(one.copies)}, bytes, stream);
      } else {
        copy_all(device, address[0], {address + 1, 1}, bytes, stream);
        copy_all(device, address[2], {address + 3, 1}, bytes, stream);
      }
    }
  }

 private:
  void copy_all(int device, const std::byte* from, std::span<std::byte* const> to, std::size_t bytes, Stream stream) {
    device::Moves moves;
    moves.copy(from, to, bytes);
    for (const MoveTable& table : moves.tables()) RuntimeDecorator::move(device, table, stream);
  }
};

// Kernels are launched on the first device, whichever their stream is of.
class WrongDeviceCurrent final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void fold(int, const FoldTable& table, Stream stream) override { RuntimeDecorator::fold(0, table, stream); }
  void move(int, const MoveTable& table, Stream stream) override { RuntimeDecorator::move(0, table, stream); }
};

// Each further input is added to a sum that is in memory by then.
class AccumulatesInHalf final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void fold(int device, const FoldTable& table, Stream stream) override {
    const bool half = table.dtype == comm::DType::f16 || table.dtype == comm::DType::bf16;
    if (!half || table.scattered || table.op != comm::ReduceOp::sum)
      return RuntimeDecorator::fold(device, table, stream);
    FoldTable two = table;
    two.inputs = 2;
    for (std::int32_t next = 1; next < table.inputs; ++next) {
      if (next > 1) two.input[0] = table.output[0];
      two.input[1] = table.input[next];
      two.outputs = next + 1 == table.inputs ? table.outputs : 1;
      note_shifts(two);
      RuntimeDecorator::fold(device, two, stream);
    }
    if (table.inputs == 1) RuntimeDecorator::fold(device, table, stream);
  }
};

class HostMemoryTaken final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  [[nodiscard]] std::optional<int> holder_of(const void* address) const override {
    return RuntimeDecorator::holder_of(address).value_or(0);
  }
};

class NoFigures final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void* allocate(int device, std::size_t bytes) override {
    try {
      return RuntimeDecorator::allocate(device, bytes);
    } catch (const OutOfMemory&) {
      throw OutOfMemory("out of memory");
    }
  }
};

class StreamIgnored final : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  void use_stream(void*) override {}

 private:
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<StreamIgnored>(std::move(group));
  }
};

/// A decorator whose started calls are waited for in another way: by a Waits, made from the call and the decorator.
template <class Waits>
class StartedOtherwise final : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  void use_stream(void* stream) override { CommunicatorDecorator::use_stream(this->stream = stream); }
  void* stream = nullptr;  // the caller's
  using CommunicatorDecorator::inner;

 private:
  comm::Work do_start(std::span<const Call> calls) override {
    return comm::Work(std::make_unique<Waits>(CommunicatorDecorator::do_start(calls), *this));
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<StartedOtherwise>(std::move(group));
  }
};

// After its first wait a call is forgotten.
class OneWait final : public WrappedWork {
 public:
  OneWait(comm::Work inner, StartedOtherwise<OneWait>&) : WrappedWork(std::move(inner)) {}
};

class WaitsAsAtStart final : public WrappedWork {
 public:
  using Group = StartedOtherwise<WaitsAsAtStart>;
  WaitsAsAtStart(comm::Work inner, Group& group)
      : WrappedWork(std::move(inner)), group_(group), stream_(group.stream) {}
  void wait(comm::Timeout timeout) override {
    group_.inner().use_stream(stream_);
    WrappedWork::wait(timeout);
    group_.inner().use_stream(group_.stream);
  }
  [[nodiscard]] bool outlasts_wait() const override { return true; }

 private:
  Group& group_;
  void* const stream_;
};

class DoneWhenWaitedFor final : public WrappedWork {
 public:
  DoneWhenWaitedFor(comm::Work inner, StartedOtherwise<DoneWhenWaitedFor>&) : WrappedWork(std::move(inner)) {}
  bool test() override { return is_waited_for_ || WrappedWork::test(); }
  void wait(comm::Timeout timeout) override {
    WrappedWork::wait(timeout);
    is_waited_for_ = true;
  }
  [[nodiscard]] bool outlasts_wait() const override { return true; }

 private:
  bool is_waited_for_ = false;
};

// A member's call on the host's memory is none of the group's.
class MixedMemoryUnseen final : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    if (call.operation != comm::Operation::all_reduce || call.device().kind != comm::Device::Kind::cpu)
      CommunicatorDecorator::do_run(call, timeout);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<MixedMemoryUnseen>(std::move(group));
  }
};

template <class Wrong>
std::unique_ptr<Communicator> wrapped_with(std::unique_ptr<Communicator> inner) {
  return std::make_unique<Wrong>(std::move(inner));
}

std::string order(const std::string& operation, int world, const std::string& how = "run") {
  return "collectives.device.stream_order[operation=" + operation + ",how=" + how + ",world=" + std::to_string(world) +
         "]";
}

std::string waits(const std::string& operation, int world, const std::string& wait) {
  return "collectives.device.streams_of_waits[operation=" + operation + ",wait=" + wait +
         ",world=" + std::to_string(world) + "]";
}

}  // namespace

std::vector<Mutant> device_mutants() {
  const std::string mixed = "collectives.device.mixed_members[world=2]", sum = order("all_reduce", 2);
  const char* const events = "an event that one of two streams forgets";
  return {
      racing({"dev.ready_not_awaited", "DEVICE-001", "a collective starts before its inputs are ready", events, sum,
              mixed, "no data are moved", WrapRuntime(around<ReadyNotAwaited>)}),
      racing({"dev.recorded_elsewhere", "DEVICE-001", "events are recorded in the default stream",
              "a stream that was not handed on", order("all_gather", 2), mixed, "no data are moved",
              WrapRuntime(around<RecordedElsewhere>)}),
      racing({"dev.stream_ignored", "DEVICE-001", "the caller's stream is not used, but the default one",
              "a stream that was not handed on", order("broadcast", 3), order("broadcast", 1), "no data are moved",
              Wrap(wrapped_with<StreamIgnored>)}),
      racing({"dev.other_device_not_awaited", "DEVICE-001", "streams of different devices do not wait for each other",
              "an event that is asked of the wrong device", sum, order("all_reduce", 1), "there is one device",
              WrapRuntime(around<OtherDeviceNotAwaited>)}),
      racing({"dev.done_not_awaited", "DEVICE-002", "a result is read before the kernel has ended", events,
              order("reduce_scatter", 2), mixed, "no data are moved", WrapRuntime(around<DoneNotAwaited>)}),
      racing({"dev.done_recorded_first", "DEVICE-002", "a call's end is recorded before its kernel is launched",
              "a line too high", order("all_to_all", 2, "started"), mixed, "no data are moved",
              WrapRuntime(around<DoneRecordedFirst>)}),
      {"dev.host_waits", "DEVICE-003", "the host waits for the end of each reduction", "a stream is synchronized",
       "collectives.device.host_goes_on[world=2]", sum, "nobody looks at what the host does",
       WrapRuntime(around<HostWaits>)},
      racing({"dev.test_says_launched", "DEVICE-003", "test() says that a call is done which was launched",
              "the event is not asked", "collectives.device.host_goes_on[world=2]", sum, "nobody tests",
              WrapRuntime(around<SaysLaunched>)}),
      {"dev.done_when_waited_for", "DEVICE-003", "test() says that a call is done which was waited for",
       "a call that is over for the host", "collectives.device.host_goes_on[world=2]", sum, "nobody tests",
       Wrap(wrapped_with<StartedOtherwise<DoneWhenWaitedFor>>)},
      {"dev.wait_in_stream_of_start", "DEVICE-050", "a wait holds back the stream of the start",
       "a stream that is noted once", waits("all_reduce", 2, "first"), order("all_reduce", 2, "started"),
       "there is one stream", Wrap(wrapped_with<StartedOtherwise<WaitsAsAtStart>>)},
      {"dev.one_wait_a_call", "DEVICE-050", "a call that was waited for is forgotten",
       "a call that is over for the host", waits("send", 2, "second"), waits("send", 2, "first"), "there is one wait",
       Wrap(wrapped_with<StartedOtherwise<OneWait>>)},
      racing(
          {"dev.first_rank_goes_on", "DEVICE-051", "the stream of a member that gets nothing does not wait for a call",
           "a call that ends when its own result is there", "collectives.device.back_to_back[operation=reduce,world=2]",
           mixed, "no data are moved", WrapRuntime(around<FirstRankGoesOn>)}),
      {"dev.one_stream_for_all", "DEVICE-004", "all groups launch in one stream", "a stream for each device",
       "collectives.device.streams_apart[world=2]", sum, "there is one group", WrapRuntime(around<OneStreamForAll>)},
      {"dev.tail_dropped", "DEVICE-005", "what is left over after the last vector is not added", "COL-02",
       "collectives.device.odd_lengths[dtype=f32,world=2]", order("all_reduce", 1),
       "the length is a multiple of a vector", WrapRuntime(around<FoldsOtherwise<drop_tail>>)},
      {"dev.vectors_past_the_end", "DEVICE-005", "the last vector is written whole", "COL-02",
       "collectives.device.odd_lengths[dtype=u8,world=2]", order("all_reduce", 1),
       "the length is a multiple of a vector", WrapRuntime(around<FoldsOtherwise<round_up>>)},
      {"dev.exchange_by_copies", "DEVICE-005", "blocks of an all_to_all in place are copied one after the other",
       "COL-02: a block is read after it was written", "collectives.device.odd_lengths[dtype=i32,world=2]",
       order("all_to_all", 2), "it is not in place", WrapRuntime(around<ExchangesByCopies>)},
      {"dev.wrong_device_current", "DEVICE-005", "kernels are launched on the first device",
       "cudaSetDevice that is missing", "collectives.device.odd_lengths[dtype=f32,world=2]",
       "collectives.device.odd_lengths[dtype=f32,world=1]", "the first device is all there is",
       WrapRuntime(around<WrongDeviceCurrent>)},
      {"dev.never_connects", "DEVICE-005", "no device is given access to the memory of another",
       "cudaDeviceEnablePeerAccess that is missing", "collectives.device.odd_lengths[dtype=f64,world=2]",
       "collectives.device.odd_lengths[dtype=f64,world=1]", "there is one device", WrapRuntime(around<NeverConnects>)},
      {"dev.half_accumulates_in_half", "DEVICE-006", "sums of halves are rounded after each addition", "COL-09",
       "collectives.device.half_accumulation[dtype=f16,world=3]",
       "collectives.device.half_accumulation[dtype=f16,world=2]", "there is one addition",
       WrapRuntime(around<AccumulatesInHalf>)},
      {"dev.host_memory_taken", "DEVICE-007", "the host's memory passes for a device's", "COL-07",
       "collectives.device.refuses_misplaced[world=1]", order("all_reduce", 1), "all memory is the device's",
       WrapRuntime(around<HostMemoryTaken>)},
      {"dev.mixed_memory_unseen", "DEVICE-008", "a member with the host's memory is left out of a device's call",
       "COL-06", mixed, sum, "all memory is the devices'", Wrap(wrapped_with<MixedMemoryUnseen>)},
      {"dev.no_figures", "DEVICE-009", "memory that is not there is refused without figures",
       "CUDA's out of memory says no more", "collectives.device.out_of_memory[world=1]", order("all_reduce", 1),
       "there is memory enough", WrapRuntime(around<NoFigures>)},
  };
}

}  // namespace plumbline::mutants
