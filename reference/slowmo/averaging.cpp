#include "reference/slowmo/averaging.hpp"

#include <algorithm>
#include <array>
#include <cstring>
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

// One behind the other; a single tensor stays where it is.
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
    gossip::copy(place_, there_);
  }
  [[nodiscard]] Buffer values() const { return values_; }
  void copy_back() const { gossip::copy(place_, back_); }

 private:
  const Place& place_;
  std::vector<TensorPair> there_, back_;
  Buffer values_{};
};

bool divides_first(DType dtype, Convention convention) {
  return convention == Convention::fairscale || dtype == DType::f16 || dtype == DType::bf16;
}

// Whether gloo's order is known for messages of that length.
bool is_ring_known(const Buffer& values, int ranks) {
  return values.bytes() <= (std::size_t{2} << 20) * static_cast<std::size_t>(ranks);
}

// The sum of the ranks' values, which lie one behind the other.
void ring_sum_into(Buffer values, Buffer all, int ranks) {
  with_type(values.dtype, [&]<class T>(T) {
    std::vector<std::span<const T>> inputs;
    const auto count = static_cast<std::size_t>(values.count);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank)
      inputs.emplace_back(static_cast<const T*>(all.data) + rank * count, count);
    const std::vector<T> sum = comm::ring_sum<T>(inputs);
    std::memcpy(values.data, sum.data(), values.bytes());
  });
}

// The same on a device, chunk by chunk of the ring: first a copy, and then a sum of two for each further rank.
void ring_sum_on_device(const Place& place, Buffer values, Buffer all, int ranks) {
  const std::int64_t chunk = comm::ring_chunk(values.count, ranks);
  for (int step = 1; step <= ranks; ++step) {
    std::vector<TensorPair> pairs;
    for (std::int64_t begin = 0; begin < values.count; begin += chunk) {
      const std::int64_t count = std::min(chunk, values.count - begin);
      const std::int64_t rank = (begin / chunk + ranks - step) % ranks;
      pairs.push_back({part_of(all, rank * values.count + begin, count), part_of(values, begin, count)});
    }
    if (step == 1)
      gossip::copy(place, pairs);
    else
      gossip::add(place, pairs);
  }
}

void ring_sum_into(const Place& place, Buffer values, Buffer all, int ranks) {
  if (place.is_host()) return ring_sum_into(values, all, ranks);
  ring_sum_on_device(place, values, all, ranks);
}

void all_reduce_sum(Communicator& group, Buffer values, Convention convention, Workspace& workspace) {
  if (convention == Convention::plumbline || !is_ring_known(values, group.size()))
    return group.all_reduce(values, values, comm::ReduceOp::sum);
  const Buffer all = workspace.of_all(values.count * group.size(), values.dtype);
  group.all_gather(values, all);
  ring_sum_into(workspace.place(), values, all, group.size());
}

void reduce_sum(Communicator& group, Buffer values, int root, Convention convention, Workspace& workspace) {
  const bool is_root = group.rank() == root;
  const Buffer nothing{nullptr, 0, values.dtype, values.device};
  if (convention == Convention::plumbline || !is_ring_known(values, group.size()))
    return group.reduce(values, is_root ? values : nothing, comm::ReduceOp::sum, root);
  const Buffer all = is_root ? workspace.of_all(values.count * group.size(), values.dtype) : nothing;
  group.gather(values, all, root);
  if (is_root) ring_sum_into(workspace.place(), values, all, group.size());
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

Buffer Workspace::taken(device::Room& room, std::int64_t count, DType dtype) const {
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
