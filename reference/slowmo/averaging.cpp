#include "reference/slowmo/averaging.hpp"

#include <algorithm>
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
  explicit Flat(const Message& message) : message_(message) {
    std::int64_t count = 0;
    for (const Buffer& tensor : message) count += tensor.count;
    if (message.size() > 1) memory_.resize(static_cast<std::size_t>(count) * comm::size_of(message.front().dtype));
    values_ = {message.size() > 1 ? memory_.data() : message.front().data, count, message.front().dtype};
    if (message.size() == 1) return;
    std::byte* to = memory_.data();
    for (const Buffer& tensor : message) {
      std::memcpy(to, tensor.data, tensor.bytes());
      to += tensor.bytes();
    }
  }
  [[nodiscard]] Buffer values() const { return values_; }
  void copy_back() const {
    if (message_.size() == 1) return;
    const std::byte* from = memory_.data();
    for (const Buffer& tensor : message_) {
      std::memcpy(tensor.data, from, tensor.bytes());
      from += tensor.bytes();
    }
  }

 private:
  const Message& message_;
  std::vector<std::byte> memory_;
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
void ring_sum_into(Buffer values, const std::vector<std::byte>& all, int ranks) {
  with_type(values.dtype, [&]<class T>(T) {
    std::vector<std::span<const T>> inputs;
    const auto count = static_cast<std::size_t>(values.count);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank)
      inputs.emplace_back(reinterpret_cast<const T*>(all.data()) + rank * count, count);
    const std::vector<T> sum = comm::ring_sum<T>(inputs);
    std::memcpy(values.data, sum.data(), values.bytes());
  });
}

void all_reduce_sum(Communicator& group, Buffer values, Convention convention) {
  if (convention == Convention::plumbline || !is_ring_known(values, group.size()))
    return group.all_reduce(values, values, comm::ReduceOp::sum);
  std::vector<std::byte> all(values.bytes() * static_cast<std::size_t>(group.size()));
  group.all_gather(values, {all.data(), values.count * group.size(), values.dtype});
  ring_sum_into(values, all, group.size());
}

void reduce_sum(Communicator& group, Buffer values, int root, Convention convention) {
  const bool is_root = group.rank() == root;
  if (convention == Convention::plumbline || !is_ring_known(values, group.size()))
    return group.reduce(values, is_root ? values : Buffer{nullptr, 0, values.dtype}, comm::ReduceOp::sum, root);
  std::vector<std::byte> all(is_root ? values.bytes() * static_cast<std::size_t>(group.size()) : 0);
  group.gather(values, {all.data(), is_root ? values.count * group.size() : 0, values.dtype}, root);
  if (is_root) ring_sum_into(values, all, group.size());
}

// The sum by `add`, divided before or after it.
void mean(std::span<const Buffer> tensors, int divisor, Convention convention,
          const std::function<void(Buffer values)>& add) {
  for (const Message& message : messages_of(tensors, INT64_MAX)) {
    const bool first = divides_first(message.front().dtype, convention);
    const Flat flat(message);
    if (first) divide(flat.values(), divisor);
    add(flat.values());
    if (!first) divide(flat.values(), divisor);
    flat.copy_back();
  }
}

}  // namespace

void all_reduce_mean(Communicator& group, std::span<const Buffer> tensors, int divisor, Convention convention) {
  mean(tensors, divisor, convention, [&](Buffer values) { all_reduce_sum(group, values, convention); });
}

void reduce_mean(Communicator& group, std::span<const Buffer> tensors, int divisor, int root, Convention convention) {
  mean(tensors, divisor, convention, [&](Buffer values) { reduce_sum(group, values, root, convention); });
}

void broadcast(Communicator& group, std::span<const Buffer> tensors, int root, std::int64_t full_bytes) {
  for (const Message& message : messages_of(tensors, full_bytes)) {
    const Flat flat(message);
    group.broadcast(flat.values(), root);
    flat.copy_back();
  }
}

}  // namespace plumbline::slowmo
