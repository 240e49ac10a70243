// reference/training/detail/gradients.hpp: the gradient of the loss over some rows, by back-propagation.
//
// Model   A gradient of several parts is the mean of the parts' gradients: each part's loss is divided by
//         their number and propagated back, in order, into one sum. That is how a data rank accumulates its
//         micro-batches.
// Memory  The weights of convolutions, and so their gradients, lie channels last, as the kernels read them.
// Bits    The rows of a part are copied into memory of their own: with the same rows, values and one thread
//         the result has the same bits, wherever the rows lay (kernels choose their path by alignment).
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/record/run_files.hpp"
#include "reference/training/detail/activations.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

/// In the order of job::parameters_of().
struct TensorGradient {
  std::vector<at::Tensor> gradients;  // zeros of what is frozen, or unused
  std::vector<double> losses;         // of the parts
};

/// The type that run.dtype names.
[[nodiscard]] at::ScalarType compute_type(const job::RunSpec& spec);

/// Parameters of type float or double on a device, in the order of job::parameters_of(). Throws
/// InvalidArgument where one is missing or has another number of elements.
[[nodiscard]] std::vector<at::Tensor> parameters_on(const job::RunSpec& spec, const Values& values,
                                                    Arithmetic arithmetic, c10::Device device);
/// Each as layers of run.dtype have it, in the type that it came in.
[[nodiscard]] std::vector<at::Tensor> rounded_parameters(const job::RunSpec& spec, std::vector<at::Tensor> parameters);

/// The gradient of the sum of the parts' losses over `divisor`, their number for the mean, times the scale. The type of
/// the rows follows the parameters'; losses are in float32 at least. A tape, where one is given, keeps what layers make
/// of each part.
[[nodiscard]] TensorGradient gradient_of(const job::RunSpec& spec, const job::RunFiles& files,
                                         std::span<const at::Tensor> parameters, std::span<const job::RowRange> parts,
                                         double divisor, double loss_scale = 1, ActivationTape* tape = nullptr);

/// Of the losses of micro-batches, which have these rows; with row weights these losses are weighted sums.
[[nodiscard]] double mean_loss(const job::RunFiles& files, std::span<const job::RowRange> rows,
                               std::span<const double> micro_batches);
/// By what a data rank divides the losses of its micro-batches, so that the mean over the data ranks is the step's
/// gradient: their number, or with row weights the weight of the step's rows that a data rank has on average.
[[nodiscard]] double divisor_of(const job::RunSpec& spec, const job::RunFiles& files, int step);

struct Rows {
  at::Tensor x;
  at::Tensor y;
  at::Tensor w;  // the weights of the rows, in float32; undefined where the specification has none
};
/// The rows, on the host. Integers stay, numbers take the type.
[[nodiscard]] Rows read_rows(const job::RunFiles& files, const job::RowRange& range, at::ScalarType type);

/// The elements on the host.
[[nodiscard]] std::vector<float> to_floats(const at::Tensor& tensor);
[[nodiscard]] std::vector<double> to_doubles(const at::Tensor& tensor);

}  // namespace plumbline::training
