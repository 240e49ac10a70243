// reference/bucketing/quantised.hpp: buckets that travel as a byte a number.
//
// Model   A channel is so many consecutive numbers of a bucket, or all. Its lowest and highest number, zero among them, are
//         mapped to 0 and 255: q = round(x / scale) + zero point, held within the bytes; half goes to even. Each rank gathers
//         all ranks' scales and zero points, and all ranks' bytes, in one batch; makes numbers of them, scale (q - zero point),
//         by the sender's scale; and adds them in rank order. So all ranks have the same bits.
// Error   Of the mean: half of the mean of the ranks' scales, where numbers are larger than 2^-23 at all; a scale is no smaller
//         than that. Nothing of it is kept for the next step.
// Bytes   n + 8 a channel to every rank, for n numbers: less than an all-reduce of f32 moves up to about eight ranks.
// Finite  What has a number that is none, or is infinite, arrives as a channel of no numbers, on every rank.
// Source  PyTorch, quantization_pertensor_hook and quantization_perchannel_hook with their observers; but no channel of padding.
#pragma once

#include <functional>
#include <span>

#include "reference/bucketing/reducer.hpp"

namespace plumbline::bucketing {

/// How a channel is mapped to bytes.
struct Quantisation {
  float scale = 1;
  float zero_point = 0;  // a whole number in [0, 255]
};
/// That of a channel; its scale is no number where one of the channel's is not finite.
[[nodiscard]] Quantisation quantisation_of(std::span<const float> channel);

/// Numbers that share a scale.
inline constexpr std::int64_t kWholeBucket = 0;
inline constexpr std::int64_t kUsualChannel = 512;

/// What decides the numbers, as functions that a wrong one replaces.
struct QuantisationSteps {
  std::function<Quantisation(std::span<const float> channel)> quantisation = quantisation_of;
  /// The numbers of a channel, given those that were asked for.
  std::function<std::int64_t(std::int64_t channel)> channel = [](std::int64_t channel) { return channel; };
  /// By what a rank's bytes are made numbers again.
  std::function<Quantisation(const Quantisation& senders, const Quantisation& own)> undone_by =
      [](const Quantisation& senders, const Quantisation&) { return senders; };
};

/// Means of buckets of floating types, `channel` numbers of which share a scale. Serves one reducer; starting it throws
/// Unsupported for integers. Throws InvalidArgument for a channel of less than 0 numbers.
[[nodiscard]] CommunicationHook quantising_hook(std::int64_t channel = kWholeBucket, QuantisationSteps steps = {});

}  // namespace plumbline::bucketing
