// reference/bucketing/compression.hpp: gradients that are reduced in fewer bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reference/bucketing/reducer.hpp"

namespace plumbline::bucketing {

// ---- Gradients that travel as products of two narrow matrices.
//
// Model   A gradient M of n rows and m columns is, in every step, projected on r directions: P = mean of M Q over the
//         ranks, made orthonormal; Q = mean of M'P; the mean's approximation is P Q'. Warm start: the next step begins
//         with this Q, so that the directions turn towards the largest ones, as in power iteration. Error feedback:
//         what the approximation lacks of a rank's own gradient, the rank adds to its next one; so over steps nothing
//         is lost, but for what is left in the end.
// Plain   What would not become smaller by `least_rate`, and everything before `start`, is averaged as it is. With P it
//         is one all-reduce a bucket, beside which Q is the second one.
// State   By gradient, not by bucket: other buckets, and new ones, change nothing of what is compressed where
//         additions have one order; nor of what is plain in f32. The first Q is drawn from the seed and the gradient's
//         index, identically on every rank.
// Types   f16, bf16 and f32; P and Q are f32, products are added in f64 and rounded to the gradient's type, and what
//         that takes off is left over, too. Others are averaged as they are. A plain half is averaged in f32 beside
//         products, and in its own type in a bucket without them: there a sum may be rounded otherwise in other
//         buckets.
// Finite  A gradient with an Inf or NaN has a mean of NaNs on every rank, after which
//         directions start again; what was left over stays as it was. So it does where P Q' alone is beyond the
//         gradient's type, which is then infinite where it is; and on a rank where what is left over is beyond f32.
// Absent  What was left over of a gradient that no rank has in a step (Unused::find_unused) goes into a view that
//         is never read.
// Cost    4 r (n + m) bytes in place of 4 n m, and about 8 n m r operations.
// Source  Vogels, Karimireddy and Jaggi, PowerSGD, NeurIPS 2019; PyTorch, powerSGD_hook, whose defaults these are but
//         for the epsilon, without which a gradient of zeros becomes NaN.

struct MatrixShape {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};

struct PowerSgdOptions {
  int rank = 1;
  std::int64_t start = 1000;  // reductions of a gradient before the first one that is compressed
  double least_rate = 2;      // numbers before to numbers after, which must be more than that
  bool warm_start = true;
  bool error_feedback = true;
  double epsilon = 1e-8;  // added to a column's length when it is divided by it
  std::uint64_t seed = 0;
};

/// Whether rate * rank * (rows + columns) < rows * columns.
[[nodiscard]] bool is_worth_compressing(const MatrixShape& shape, int rank, double least_rate);
/// The columns of a row-major matrix made orthonormal, one after the other (Gram and Schmidt, each projected out
/// twice); one that depends on those before it, to a millionth of its length, becomes zero.
void orthonormalise(std::span<double> matrix, std::int64_t columns, double epsilon);

class PowerSgd {
 public:
  /// Of gradients of these shapes, by their number. Throws InvalidArgument, naming the gradient or the value, for a
  /// shape of less than 0 rows or columns, a rank below 1, a start below 0, and a rate or an epsilon that is negative
  /// or NaN.
  explicit PowerSgd(std::vector<MatrixShape> shapes, PowerSgdOptions options = {});

  /// For one reducer of these gradients; lives on without this. Starting it throws InvalidArgument for a gradient whose
  /// shape is unknown or has another number of elements, or that is complex or has not the room of its shape in its
  /// bucket.
  [[nodiscard]] CommunicationHook hook() const;
  /// What this rank has left over of a gradient, row-major; empty where nothing was compressed. Throws OutOfRange for a
  /// gradient that does not exist.
  [[nodiscard]] std::span<const float> error(int gradient) const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

// ---- Buckets that travel as a byte a number.
//
// Model   A channel is a given number of consecutive elements of a bucket, or all. Its lowest and highest number, zero
//         among them, are mapped to 0 and 255: q = round(x / scale) + zero point, held within the bytes; half goes to
//         even. Each rank gathers all ranks' scales and zero points, and all ranks' bytes, in one batch; makes numbers
//         of them, scale (q - zero point), by the sender's scale; and adds them in rank order. So all ranks have the
//         same bits.
// Error   Of the mean: half of the mean of the ranks' scales, where numbers are larger than 2^-23 at all; a scale is no
//         smaller than that. Nothing of it is kept for the next step.
// Bytes   n + 8 a channel to every rank, for n numbers: less than an all-reduce of f32 moves up to about eight ranks.
// Finite  A channel with an Inf or NaN arrives as a channel of NaNs on every rank. So does a
//         channel whose lowest and highest number are further apart than the largest f32, which a scale would have to
//         span.
// Source  PyTorch, quantization_pertensor_hook and quantization_perchannel_hook with their observers; but no channel of
//         padding.

/// How a channel is mapped to bytes.
struct Quantisation {
  float scale = 1;
  float zero_point = 0;  // a whole number in [0, 255]
};
/// That of a channel; its scale is not finite where one of the channel's numbers, or the distance of two, is not.
[[nodiscard]] Quantisation quantisation_of(std::span<const float> channel);

/// Numbers that share a scale.
inline constexpr std::int64_t kWholeBucket = 0;
inline constexpr std::int64_t kUsualChannel = 512;

/// Means of buckets of floating types, `channel` numbers of which share a scale. Serves one reducer; starting it throws
/// Unsupported for integers. Throws InvalidArgument for a channel of less than 0 numbers.
[[nodiscard]] CommunicationHook quantising_hook(std::int64_t channel = kWholeBucket);

}  // namespace plumbline::bucketing
