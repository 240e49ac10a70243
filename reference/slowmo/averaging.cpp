#include "reference/slowmo/averaging.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "reference/comm/ring_sum.hpp"
#include "reference/slowmo/elements.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;
using comm::Communicator;
using comm::DType;
using gossip::Convention;

// Tensors of one type, which travel together.
using Message = std::vector<Buffer>;

std::vector<Message> messages_of(std::span<const Buffer> tensors, std::int64_t full_bytes) {
  std::vector<Message> messages;
  std::vector<std::int64_t> bytes;
  for (const Buffer& tensor : tensors) {
    if (tensor.count == 0) continue;
    std::size_t at = messages.size();
    for (std::size_t i = 0; i < messages.size(); ++i)
      if (messages[i].front().dtype == tensor.dtype && bytes[i] < full_bytes) at = i;
    if (at == messages.size()) {
      messages.emplace_back();
      bytes.push_back(0);
    }
    messages[at].push_back(tensor);
    bytes[at] += static_cast<std::int64_t>(tensor.bytes());
  }
  return messages;
}

// One after the other; a single tensor stays where it is.
class Flat {
 public:
  Flat(const Message& message, Workspace& workspace) : place_(workspace.place()) {
    values_ = message.front();
    if (message.size() == 1) return;
    std::int64_t count = 0;
    for (const Buffer& tensor : message) count += tensor.count;
    values_ = workspace.message(count, message.front().dtype);
    std::int64_t begin = 0;
    for (const Buffer& tensor : message) {
      there_.push_back({tensor, part_of(values_, begin, tensor.count)});
      back_.push_back({there_.back().to, tensor});
      begin += tensor.count;
    }
    place_.copy(there_);
  }
  [[nodiscard]] Buffer values() const { return values_; }
  void copy_back() const { place_.copy(back_); }

 private:
  const MemorySpace& place_;
  std::vector<TensorPair> there_, back_;
  Buffer values_{};
};

// Of sums in the ring's order.
constexpr std::int64_t kRingPartBytes = std::int64_t{1} << 20;

bool divides_first(DType dtype, Convention convention) {
  return convention == Convention::fairscale || dtype == DType::f16 || dtype == DType::bf16;
}

// Whether gloo's order is known for messages of that length.
bool is_ring_known(const Buffer& values, int ranks) {
  return values.bytes() <= (std::size_t{2} << 20) * static_cast<std::size_t>(ranks);
}

// A part of a message from element `first` on; the ranks' lie one after the other. Chunk by chunk of the message's
// ring: first a copy, and then a sum of two for each further rank.
void ring_sum_into(const MemorySpace& place, Buffer part, Buffer all, std::int64_t first, std::int64_t chunk,
                   int ranks) {
  for (int step = 1; step <= ranks; ++step) {
    std::vector<TensorPair> pairs;
    for (std::int64_t begin = 0, count = 0; begin < part.count; begin += count) {
      const std::int64_t number = (first + begin) / chunk;
      count = std::min((number + 1) * chunk - first, part.count) - begin;
      const std::int64_t rank = (number + ranks - step) % ranks;
      pairs.push_back({part_of(all, rank * part.count + begin, count), part_of(part, begin, count)});
    }
    if (step == 1)
      place.copy(pairs);
    else
      gossip::add(place, pairs);
  }
}

// The ranks' sum where `gather` brings theirs, if it does so here; part by part, since all of them take as many times
// the memory.
void ring_sum(int ranks, Buffer values, bool is_here, Workspace& workspace,
              const std::function<void(Buffer part, Buffer all)>& gather) {
  const std::int64_t most = kRingPartBytes / static_cast<std::int64_t>(comm::size_of(values.dtype));
  for (std::int64_t first = 0; first < values.count; first += most) {
    const Buffer part = part_of(values, first, std::min(most, values.count - first));
    const Buffer all =
        is_here ? workspace.of_all(part.count * ranks, values.dtype) : Buffer{nullptr, 0, values.dtype, values.device};
    gather(part, all);
    if (is_here) ring_sum_into(workspace.place(), part, all, first, comm::ring_chunk(values.count, ranks), ranks);
  }
}

void all_reduce_sum(Communicator& group, Buffer values, Convention convention, Workspace& workspace) {
  if (convention == Convention::plumbline || !is_ring_known(values, group.size()))
    return group.all_reduce(values, values, comm::ReduceOp::sum);
  ring_sum(group.size(), values, true, workspace, [&](Buffer part, Buffer all) { group.all_gather(part, all); });
}

void reduce_sum(Communicator& group, Buffer values, int root, Convention convention, Workspace& workspace) {
  const bool is_root = group.rank() == root;
  if (convention == Convention::plumbline || !is_ring_known(values, group.size())) {
    const Buffer nothing{nullptr, 0, values.dtype, values.device};
    return group.reduce(values, is_root ? values : nothing, comm::ReduceOp::sum, root);
  }
  ring_sum(group.size(), values, is_root, workspace, [&](Buffer part, Buffer all) { group.gather(part, all, root); });
}

// The sum by `add`, divided before or after it.
void mean(std::span<const Buffer> tensors, int divisor, Convention convention, Workspace& workspace,
          const std::function<void(Buffer values)>& add) {
  device::require_at("slowmo: an average", tensors, workspace.place());
  for (const Message& message : messages_of(tensors, INT64_MAX)) {
    const bool first = divides_first(message.front().dtype, convention);
    const Flat flat(message, workspace);
    const std::array values{flat.values()};
    if (first) divide(workspace.place(), values, divisor);
    add(flat.values());
    if (!first) divide(workspace.place(), values, divisor);
    flat.copy_back();
  }
  workspace.rest();
}

}  // namespace

Buffer Workspace::taken(device::ScratchBuffer& room, std::int64_t count, DType dtype) const {
  return {room.take(place_, static_cast<std::size_t>(count) * comm::size_of(dtype)), count, dtype, place_.device()};
}

void Workspace::rest() {
  if (!place_.is_host()) return;
  message_ = {};
  of_all_ = {};
}

void all_reduce_mean(Communicator& group, std::span<const Buffer> tensors, int divisor, Convention convention,
                     Workspace& workspace) {
  mean(tensors, divisor, convention, workspace,
       [&](Buffer values) { all_reduce_sum(group, values, convention, workspace); });
}

void reduce_mean(Communicator& group, std::span<const Buffer> tensors, int divisor, int root, Convention convention,
                 Workspace& workspace) {
  mean(tensors, divisor, convention, workspace,
       [&](Buffer values) { reduce_sum(group, values, root, convention, workspace); });
}

void broadcast(Communicator& group, std::span<const Buffer> tensors, int root, Workspace& workspace,
               std::int64_t full_bytes) {
  device::require_at("slowmo: a broadcast", tensors, workspace.place());
  for (const Message& message : messages_of(tensors, full_bytes)) {
    const Flat flat(message, workspace);
    group.broadcast(flat.values(), root);
    flat.copy_back();
  }
  workspace.rest();
}

}  // namespace plumbline::slowmo
