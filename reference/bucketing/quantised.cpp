#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/compression.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

constexpr float kHighestByte = 255;

// Half to even, of numbers far below 2^22: what is added leaves no bits for fractions. It saves a call for each number.
float rounded(float value) {
  constexpr float no_fractions = 0x1.8p23F;
  return (value + no_fractions) - no_fractions;
}

void to_bytes(std::span<const float> channel, const Quantisation& by, std::uint8_t* bytes) {
  for (std::size_t i = 0; i < channel.size(); ++i) {
    const float place = rounded(channel[i] / by.scale) + by.zero_point;
    // Where the scale is none, so is every place, and the byte is 0.
    bytes[i] = static_cast<std::uint8_t>(place > 0 ? std::min(place, kHighestByte) : 0.0F);
  }
}

float number_of(std::uint8_t byte, const Quantisation& by) {
  return by.scale * (static_cast<float>(byte) - by.zero_point);
}

// What is under way of a bucket: all ranks' parts, of which this rank's are sent.
struct QuantisedExchange {
  std::vector<float> values;  // this rank's, then the mean
  std::vector<Quantisation> own, all;
  std::vector<std::uint8_t> bytes, all_bytes;
};

class Quantiser {
 public:
  explicit Quantiser(std::int64_t channel) : channel_(channel) {}

  comm::Work start(comm::Communicator& group, const HookedBucket& bucket) {
    if (!comm::is_floating(bucket.values.dtype))
      throw Unsupported(fmt::format("bucket {} of {}: only floating numbers are quantised", bucket.index,
                                    comm::name_of(bucket.values.dtype)));
    QuantisedExchange& exchange = exchanges_[bucket.index];
    const auto ranks = static_cast<std::size_t>(group.size());
    exchange.values.resize(static_cast<std::size_t>(bucket.values.count));
    copy_divided(bucket.values, buffer_of(exchange.values), 1);
    quantise(exchange);
    exchange.all.resize(exchange.own.size() * ranks);
    exchange.all_bytes.resize(exchange.bytes.size() * ranks);
    const std::vector<comm::Call> calls{
        gathering(buffer_of(exchange.own), buffer_of(exchange.all)),
        gathering(buffer_of(exchange.bytes), buffer_of(exchange.all_bytes)),
    };
    return group.start(calls);
  }

  void finish(comm::Communicator& group, const HookedBucket& bucket) {
    QuantisedExchange& exchange = exchanges_[bucket.index];
    std::ranges::fill(exchange.values, 0.0F);
    for (int rank = 0; rank < group.size(); ++rank) add(exchange, static_cast<std::size_t>(rank));
    copy_divided(buffer_of(exchange.values), bucket.values, group.size());
  }

 private:
  static comm::Buffer buffer_of(std::vector<float>& values) { return comm::Buffer::of(values); }
  static comm::Buffer buffer_of(std::vector<std::uint8_t>& bytes) {
    return {bytes.data(), std::ssize(bytes), comm::DType::u8};
  }
  static comm::Buffer buffer_of(std::vector<Quantisation>& pairs) {
    static_assert(sizeof(Quantisation) == 2 * sizeof(float));
    return {pairs.data(), 2 * std::ssize(pairs), comm::DType::f32};
  }
  static comm::Call gathering(comm::Buffer own, comm::Buffer all) {
    return {.operation = comm::Operation::all_gather, .in = own, .out = all};
  }

  // The numbers from which on a channel begins, and how many there are.
  [[nodiscard]] std::size_t channel_size(const QuantisedExchange& exchange) const {
    return channel_ == kWholeBucket ? std::max<std::size_t>(1, exchange.values.size())
                                    : static_cast<std::size_t>(channel_);
  }
  void quantise(QuantisedExchange& exchange) const {
    const std::size_t size = channel_size(exchange);
    exchange.own.clear();
    exchange.bytes.resize(exchange.values.size());
    for (std::size_t begin = 0; begin < exchange.values.size(); begin += size) {
      const auto channel = std::span(exchange.values).subspan(begin, std::min(size, exchange.values.size() - begin));
      exchange.own.push_back(quantisation_of(channel));
      to_bytes(channel, exchange.own.back(), exchange.bytes.data() + begin);
    }
  }
  void add(QuantisedExchange& exchange, std::size_t rank) const {
    const std::size_t size = channel_size(exchange);
    const auto senders = std::span(exchange.all).subspan(rank * exchange.own.size(), exchange.own.size());
    const auto bytes = std::span(exchange.all_bytes).subspan(rank * exchange.bytes.size(), exchange.bytes.size());
    for (std::size_t channel = 0; channel < senders.size(); ++channel) {
      const Quantisation& by = senders[channel];
      const std::size_t end = std::min(bytes.size(), (channel + 1) * size);
      for (std::size_t i = channel * size; i < end; ++i) exchange.values[i] += number_of(bytes[i], by);
    }
  }

  std::int64_t channel_;
  std::map<int, QuantisedExchange> exchanges_;  // by bucket
};

}  // namespace

Quantisation quantisation_of(std::span<const float> channel) {
  float lowest = 0, highest = 0;
  for (const float value : channel) {
    if (!std::isfinite(value)) return {.scale = std::numeric_limits<float>::quiet_NaN()};
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  const float scale = std::max((highest - lowest) / kHighestByte, std::numeric_limits<float>::epsilon());
  return {.scale = scale, .zero_point = std::clamp(-std::nearbyint(lowest / scale), 0.0F, kHighestByte)};
}

CommunicationHook quantising_hook(std::int64_t channel) {
  if (channel < 0)
    throw InvalidArgument(
        fmt::format("channels of {} numbers; 1 or more are possible, or 0 for whole buckets", channel));
  const auto quantiser = std::make_shared<Quantiser>(channel);
  return {.start = [quantiser](comm::Communicator& group,
                               const HookedBucket& bucket) { return quantiser->start(group, bucket); },
          .finish = [quantiser](comm::Communicator& group,
                                const HookedBucket& bucket) { quantiser->finish(group, bucket); }};
}

}  // namespace plumbline::bucketing
