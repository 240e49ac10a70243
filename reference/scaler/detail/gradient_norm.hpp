// reference/scaler/detail/gradient_norm.hpp: the norm of a list of gradients, and clipping by it, in one process.
//
// Model   The norm of order p of the list is that of the norms of its members: for 0 < p < inf the same as of all
//         elements in one row; for p = 0 how many members have an element that is not 0; for inf the largest magnitude.
//         NaN is handed on.
//         Clipping multiplies every element by max_norm / (norm + 1e-6), or by 1 where that is more; so a norm equal to
//         max_norm shrinks a little.
// Numbers In the type of the gradients, which is one for all of a list, f16 and bf16 with f32 between. Powers overflow
//         as the type does: the 2-norm of [3e38] in f32 is infinite. Sums are kept in f64 and rounded once.
// Source  torch 2.13, torch.nn.utils.clip_grad_norm_, get_total_norm; parts: DTensor's _NormPartial. Over ranks:
//         fp16_optimizer.hpp.
#pragma once

#include <span>

#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::scaler {

/// A norm by which nothing can be clipped; nothing was changed.
class NonFiniteNorm : public Error {
 public:
  using Error::Error;
};

struct Clipping {
  double max_norm = 1;
  double norm_type = 2;  // p: any number, inf and -inf; NaN makes a NaN of most norms
  bool error_if_nonfinite = false;
};

/// The norm of order `p`; 0 for no gradients. Throws InvalidArgument for the orders -inf and inf of a gradient without
/// elements; Unsupported for integers and memory of other devices.
[[nodiscard]] double total_norm(std::span<const comm::ConstBuffer> gradients, double p);
/// The norm of order `p` of gradients in several parts, such as pipeline stages or shards: (sum of norm^p)^(1/p) of the
/// parts' norms, each power and the sum rounded to `dtype`; their maximum or minimum for p = inf and -inf, their sum
/// for p = 0. 0 for no part. For p < 0 a part without gradients has to be left out, since no norm stands for it.
[[nodiscard]] double combined_norm(std::span<const double> norms, comm::DType dtype, double p);
/// Clips in place. Returns the norm before. Throws as total_norm(), and NonFiniteNorm where that is asked for.
double clip_grad_norm(std::span<const comm::Buffer> gradients, const Clipping& clipping);

}  // namespace plumbline::scaler
