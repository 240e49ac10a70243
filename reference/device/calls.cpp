#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/device/detail/move.hpp"
#include "reference/device/fold.hpp"
#include "reference/device/runtime.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::device {
namespace {

using comm::Call;
using comm::Operation;
using Collective = comm::DeviceCalls::Collective;
using Member = comm::DeviceCalls::Member;

/// Events of one runtime, used again when nobody holds them any more.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}

  // Each waiting member has put the event into its stream by then: it may be recorded again.
  std::shared_ptr<const OwnEvent> take(int device) {
    std::unique_ptr<const OwnEvent> event;
    {
      const std::lock_guard hold(mutex_);
      auto& free = free_[device];
      if (!free.empty()) {
        event = std::move(free.back());
        free.pop_back();
      }
    }
    if (event == nullptr) event = std::make_unique<const OwnEvent>(runtime_, device);
    return {event.release(), [pool = shared_from_this()](const OwnEvent* used) { pool->give_back(used); }};
  }

 private:
  void give_back(const OwnEvent* used) {
    std::unique_ptr<const OwnEvent> event(used);
    const std::lock_guard hold(mutex_);
    free_[event->device()].push_back(std::move(event));
  }

  std::shared_ptr<Runtime> runtime_;
  std::mutex mutex_;
  std::map<int, std::vector<std::unique_ptr<const OwnEvent>>> free_;
};

/// A place in the streams of one device or several.
struct EventMark final : comm::DeviceCalls::Mark {
  std::vector<std::shared_ptr<const OwnEvent>> events;
};

void await(Runtime& runtime, int device, Stream stream, const comm::DeviceCalls::Mark& mark) {
  for (const auto& event : dynamic_cast<const EventMark&>(mark).events) runtime.wait(device, stream, event->get());
}

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

std::vector<int> devices_of(std::span<const Member> members) {
  std::vector<int> devices;
  for (const Member& member : members)
    if (std::ranges::count(devices, int{member.device.index}) == 0) devices.push_back(member.device.index);
  return devices;
}

// The addresses of all members, of a call that adds.
FoldTable fold_of(const Collective& call) {
  FoldTable table;
  table.dtype = call.dtype;
  table.op = call.op;
  for (const Member& member : call.members) table.input[table.inputs++] = member.in;
  return table;
}

// Of an all_reduce or a reduce a device does the share-th of `shares` parts of the elements.
FoldTable fold_whole(const Collective& call, std::size_t share, std::size_t shares) {
  FoldTable table = fold_of(call);
  // A multiple of a vector's bytes, so that the parts lie as the whole does.
  constexpr std::size_t unit = kVectorBytes;
  const std::size_t part = (call.elements + shares * unit - 1) / (shares * unit) * unit;
  const std::size_t first = std::min(call.elements, share * part);
  table.first = static_cast<std::int64_t>(first);
  table.count = static_cast<std::int64_t>(std::min(call.elements, first + part) - first);
  for (std::size_t rank = 0; rank < call.members.size(); ++rank)
    if (call.operation == Operation::all_reduce || static_cast<int>(rank) == call.root)
      table.output[table.outputs++] = call.members[rank].out;
  return table;
}

// Of a reduce_scatter a device does its members' segments.
FoldTable fold_segments(const Collective& call, int device) {
  FoldTable table = fold_of(call);
  table.scattered = true;
  table.count = table.stride = static_cast<std::int64_t>(call.elements);
  for (std::size_t rank = 0; rank < call.members.size(); ++rank) {
    if (call.members[rank].device.index != device) continue;
    table.segment[table.outputs] = static_cast<std::int16_t>(rank);
    table.output[table.outputs++] = call.members[rank].out;
  }
  return table;
}

// What one device moves: what is read from its members' memory, so that each input is read once.
Moves moves_of(const Collective& call, int device) {
  Moves moves;
  const std::size_t block = call.bytes(), n = call.members.size();
  const auto is_here = [&](std::size_t rank) { return call.members[rank].device.index == device; };
  const auto in = [&](std::size_t rank) { return call.members[rank].in; };
  const auto out = [&](std::size_t rank) { return call.members[rank].out; };
  const auto copy_to = [&](const std::byte* from, std::byte* to) { moves.copy(from, std::span(&to, 1), block); };
  const std::size_t root = call.root == comm::kNoRoot ? 0 : index(call.root);
  std::vector<std::byte*> places;
  switch (call.operation) {
    case Operation::broadcast:
      for (std::size_t rank = 0; rank < n; ++rank)
        if (rank != root) places.push_back(out(rank));
      if (is_here(root)) moves.copy(in(root), places, block);
      break;
    case Operation::all_gather:
      for (std::size_t giver = 0; giver < n; ++giver) {
        if (!is_here(giver)) continue;
        places.clear();
        for (std::size_t rank = 0; rank < n; ++rank) places.push_back(out(rank) + giver * block);
        moves.copy(in(giver), places, block);
      }
      break;
    case Operation::gather:
      for (std::size_t giver = 0; giver < n; ++giver)
        if (is_here(giver)) copy_to(in(giver), out(root) + giver * block);
      break;
    case Operation::scatter:
      for (std::size_t rank = 0; is_here(root) && rank < n; ++rank) copy_to(in(root) + rank * block, out(rank));
      break;
    case Operation::all_to_all:
      for (std::size_t a = 0; a < n; ++a) {
        if (!is_here(a)) continue;
        copy_to(in(a) + a * block, out(a) + a * block);
        for (std::size_t b = a + 1; b < n; ++b)
          moves.exchange(out(a) + b * block, in(b) + a * block, out(b) + a * block, in(a) + b * block, block);
      }
      break;
    default:
      break;
  }
  return moves;
}

class GroupLane final : public comm::DeviceCalls::Lane {
 public:
  GroupLane(std::shared_ptr<Runtime> runtime, std::shared_ptr<EventPool> events)
      : runtime_(std::move(runtime)), events_(std::move(events)) {}

  std::shared_ptr<const comm::DeviceCalls::Mark> launch(const Collective& call) override {
    const std::vector<int> devices = devices_of(call.members);
    const std::lock_guard hold(mutex_);
    auto done = std::make_shared<EventMark>();
    for (std::size_t share = 0; share < devices.size(); ++share) {
      const int device = devices[share];
      const Stream stream = stream_on(device, devices, call.elements == 0 ? std::span<const Member>() : call.members);
      for (const Member& member : call.members) await(*runtime_, device, stream, *member.ready);
      if (call.elements != 0) put(call, device, share, devices.size(), stream);
      done->events.push_back(recorded(device, stream));
    }
    return done;
  }

  std::shared_ptr<const comm::DeviceCalls::Mark> copy(const Member& from, const Member& to,
                                                      std::size_t bytes) override {
    const Member both[] = {from, to};
    const std::vector<int> devices = devices_of(both);
    const int device = to.device.index;
    const std::lock_guard hold(mutex_);
    const Stream stream = stream_on(device, devices, bytes == 0 ? std::span<const Member>() : both);
    await(*runtime_, device, stream, *from.ready);
    await(*runtime_, device, stream, *to.ready);
    Moves moves;
    moves.copy(from.in, std::span(&to.out, 1), bytes);
    for (const MoveTable& table : moves.tables()) runtime_->move(device, table, stream);
    auto done = std::make_shared<EventMark>();
    done->events.push_back(recorded(device, stream));
    return done;
  }

  std::shared_ptr<const comm::DeviceCalls::Mark> mark() override {
    const std::lock_guard hold(mutex_);
    auto here = std::make_shared<EventMark>();
    for (const auto& [device, stream] : streams_) here->events.push_back(recorded(device, stream->get()));
    return here;
  }

 private:
  // Of one of `devices`, which may use what the members give and get from here on.
  Stream stream_on(int device, const std::vector<int>& devices, std::span<const Member> members) {
    for (const int other : devices)
      if (other != device) runtime_->connect(device, other);
    for (const Member& member : members) {
      if (member.device.index == device) continue;
      if (member.in != nullptr) runtime_->reach(device, member.in);
      if (member.out != nullptr) runtime_->reach(device, member.out);
    }
    auto& stream = streams_[device];
    if (stream == nullptr) stream = std::make_unique<OwnStream>(runtime_, device);
    return stream->get();
  }

  std::shared_ptr<const OwnEvent> recorded(int device, Stream stream) {
    auto event = events_->take(device);
    event->record(stream);
    return event;
  }

  void put(const Collective& call, int device, std::size_t share, std::size_t shares, Stream stream) {
    if (!is_reduction(call.operation)) {
      const Moves moves = moves_of(call, device);
      for (const MoveTable& table : moves.tables()) runtime_->move(device, table, stream);
      return;
    }
    FoldTable table =
        call.operation == Operation::reduce_scatter ? fold_segments(call, device) : fold_whole(call, share, shares);
    note_shifts(table);
    if (table.count != 0) runtime_->fold(device, table, stream);
  }

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<EventPool> events_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<OwnStream>> streams_;
};

class Calls final : public comm::DeviceCalls {
 public:
  explicit Calls(std::shared_ptr<Runtime> runtime)
      : runtime_(std::move(runtime)), events_(std::make_shared<EventPool>(runtime_)) {}

  [[nodiscard]] comm::Device::Kind kind() const override { return runtime_->kind(); }

  void expect_memory(const Call& call, int rank) const override {
    if (const comm::Device device = call.device(); device.kind == runtime_->kind() && device.index >= runtime_->count())
      throw InvalidArgument(fmt::format("{}: there is no {}; this process has {}, from {}:0", name_of(call.operation),
                                        comm::name_of(device), runtime_->count(), comm::name_of(device.kind)));
    if (call.uses_in(rank)) expect_place(call, "in", call.in);
    if (call.uses_out(rank)) expect_place(call, "out", call.out);
  }

  [[nodiscard]] int most_added() const override { return kMostFolded; }

  [[nodiscard]] std::shared_ptr<const Mark> mark(comm::Device device, void* stream) override {
    auto here = std::make_shared<EventMark>();
    here->events.push_back(events_->take(device.index));
    here->events.front()->record(stream);
    return here;
  }
  void follow(comm::Device device, void* stream, const Mark& mark) override {
    await(*runtime_, device.index, stream, mark);
  }
  [[nodiscard]] bool is_reached(const Mark& mark) override {
    return std::ranges::all_of(dynamic_cast<const EventMark&>(mark).events,
                               [](const auto& event) { return event->is_reached(); });
  }
  [[nodiscard]] std::unique_ptr<Lane> open_lane() override { return std::make_unique<GroupLane>(runtime_, events_); }

 private:
  void expect_place(const Call& call, std::string_view which, const comm::ConstBuffer& buffer) const {
    if (buffer.count == 0) return;
    const auto holder = runtime_->holder_of(buffer.data);
    const auto claimed =
        buffer.device.kind == runtime_->kind() ? std::optional<int>(buffer.device.index) : std::nullopt;
    const std::string is =
        holder ? comm::name_of(comm::Device{runtime_->kind(), static_cast<std::int16_t>(*holder)}) : "the host";
    if (holder != claimed)
      throw InvalidArgument(fmt::format("{}: {} is given as memory of {}, and is memory of {}", name_of(call.operation),
                                        which, claimed ? comm::name_of(buffer.device) : "the host", is));
    if (claimed && reinterpret_cast<std::uintptr_t>(buffer.data) % size_of(buffer.dtype) != 0)
      throw InvalidArgument(fmt::format("{}: {} at {} is no multiple of the {} bytes of {}; a device reads none other",
                                        name_of(call.operation), which, buffer.data, size_of(buffer.dtype),
                                        name_of(buffer.dtype)));
  }

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<EventPool> events_;
};

}  // namespace

std::shared_ptr<comm::DeviceCalls> make_calls(std::shared_ptr<Runtime> runtime) {
  return std::make_shared<Calls>(std::move(runtime));
}

}  // namespace plumbline::device
