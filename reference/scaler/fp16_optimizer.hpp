// reference/scaler/fp16_optimizer.hpp: training with parameters in 16 bits and an optimizer in 32, over a model group.
//
// Model   Each parameter has a master copy in f32, which the optimizer steps. A step: gradients are copied to f32 and
//         unscaled in one pass; what was found is agreed on; the scale is updated; unless something was found,
//         gradients are clipped by their norm over the model group, the optimizer steps the master weights, and they
//         are rounded back.
// Skip    A skipped step leaves parameters, master weights and the optimizer's state as they were; only the scale has
//         moved.
// Group   The collectives of a step are the same on every rank, whatever was found and whatever a rank holds: the
//         decision, then one message with norm and zeros where they are requested.
// Counted Once: a parameter that every tensor rank has is counted by tensor rank 0, a tied one by its first owner.
// Norm    Of order p: sums of |g|^p in f64, added up over the model group; the largest magnitude for infinity.
// Errors  InvalidArgument names the parameter. ScaleAtMinimum comes to all ranks of the deciding group, before anything
//         steps.
// Sources ColossalAI, commit 96780e6 (amp/naive_amp); Megatron-LM (MixedPrecisionOptimizer, clip_grads).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/scaler/found_inf.hpp"
#include "reference/scaler/loss_scale.hpp"
#include "reference/scaler/unscale.hpp"

namespace plumbline::scaler {

struct ModelParameter {
  std::string name;
  comm::Buffer values;      // f16, bf16 or f32, of the host
  bool replicated = false;  // every rank of the tensor group has all of it
  bool tied_copy = false;   // an earlier stage has it too, and counts it
};

/// What the optimizer steps. No gradient: `gradient` is empty.
struct Master {
  std::span<float> values;
  std::span<float> gradient;
};

/// The optimizer on the master weights, whatever it is.
struct InnerOptimizer {
  using State = std::vector<std::vector<float>>;
  std::function<void(std::span<const Master>)> step;
  std::function<State()> state = [] { return State(); };
  std::function<void(const State&)> load = [](const State&) {};
};
struct SgdOptions {
  double lr = 0.1;
  double momentum = 0;
};
/// Stochastic gradient descent: the buffer is 0, then buffer x momentum + gradient; each operation is rounded to f32.
[[nodiscard]] InnerOptimizer sgd(const SgdOptions& options);

/// This rank's groups; null for a group of one. They must outlive the optimizer. Where data ranks hold shards of the
/// parameters, `model` is all ranks that hold any: decision, norm and zeros are over those.
struct ScalerGroups {
  comm::Communicator* tensor = nullptr;
  comm::Communicator* pipeline = nullptr;
  comm::Communicator* model = nullptr;
  comm::Communicator* data = nullptr;
};

struct Fp16Options {
  LossScale scale = HysteresisScale();
  Deciding deciding = Deciding::model;
  double clip_norm = 0;  // 0: gradients are not clipped, and there is no norm
  double norm_type = 2;  // above 0, or infinity
  bool count_zeros = false;
  bool skips_overflows =
      true;  // else nothing is looked for, and every step is made: enough for bf16; the scale is constant
  /// Adds up gradients over replicas, in place, before they are looked at; nothing where that was done.
  std::function<void(std::span<const comm::Buffer> gradients)> reduce{};
  comm::Timeout timeout{};
};

/// Throws InvalidArgument for a norm type not above 0, and a clip norm below 0.
void expect_clipping(double clip_norm, double norm_type);

struct StepOutcome {
  bool stepped = false;
  bool found_inf = false;        // by the deciding group
  double scale = 1;              // that gradients were divided by
  std::optional<double> norm{};  // of a step that was made
  std::optional<std::int64_t> zeros{};
};

/// All that a run continues from.
struct Fp16State {
  LossScale scale;
  std::vector<std::vector<float>> master_weights;
  InnerOptimizer::State inner;
};

/// The groups whose flags are reduced, one after the other.
[[nodiscard]] std::vector<comm::Communicator*> deciding_groups(Deciding deciding, const ScalerGroups& groups);
/// Whether this rank counts a parameter.
[[nodiscard]] bool is_counted(const ModelParameter& parameter, int tensor_rank);
/// Sum of |g|^p, or the largest magnitude for infinity; 0 of nothing.
[[nodiscard]] double partial_norm(std::span<const std::span<const float>> gradients, double p);
/// The norm that partial ones make together: the p-th root of their sum, or their maximum; in f32.
[[nodiscard]] double norm_of_partial(double combined, double p);
/// Multiplies every element by most / (norm + 1e-6) where that is below 1.
void clip_by_norm(std::span<const std::span<float>> gradients, double most, double norm);

/// Gradients of this rank, and the views of those among them that it counts: what several ranks hold identically, one
/// of them does.
struct GroupGradients {
  std::vector<std::span<float>> all;
  std::vector<std::span<const float>> counted;
};
/// Clips in place by the norm of order p over the group; null: of this rank alone. Returns the norm before. Collective,
/// also for a rank without gradients. Throws InvalidArgument unless p is above 0 and `most` at least 0; what the
/// communicator throws.
double clip_over_group(comm::Communicator* group, const GroupGradients& gradients, double most, double p,
                       comm::Timeout timeout = {});

/// What lies between a decision and the optimizer's step: adds to the outcome, where the options ask for them, the norm
/// of the whole model's unscaled gradients and the number of their zeros, and clips all by the norm. Of a step that
/// found something nothing is reported or clipped. Collective over the norm's group, whatever was found and whatever a
/// rank holds.
void clip_over_model(std::span<const ModelParameter> parameters, std::span<const Master> master_weights,
                     const Fp16Options& options, const ScalerGroups& groups, StepOutcome& outcome);

class Fp16Optimizer {
 public:
  /// The master weights are made from the parameters. Throws InvalidArgument for parameters of another type, a scale
  /// that makes no sense, a norm type not above 0, a clip norm below 0.
  Fp16Optimizer(std::vector<ModelParameter> parameters, InnerOptimizer inner, Fp16Options options = {},
                const ScalerGroups& groups = {});

  /// What a loss is multiplied by.
  [[nodiscard]] double scale() const { return value_of(scale_); }
  [[nodiscard]] const LossScale& loss_scale() const { return scale_; }
  /// Gradients of scaled losses, one a parameter; null data: none. Collective over the groups. Throws InvalidArgument
  /// for another number of them or of elements; ScaleAtMinimum; what the communicator throws.
  StepOutcome step(std::span<const comm::Buffer> gradients);
  /// Every element zero, of these and of the master weights' gradients.
  void zero_grad(std::span<const comm::Buffer> gradients);

  [[nodiscard]] std::span<const float> master(std::size_t parameter) const { return master_weights_[parameter]; }
  [[nodiscard]] std::span<const float> master_gradient(std::size_t parameter) const { return gradients_[parameter]; }
  [[nodiscard]] Fp16State state() const;
  /// Continues from a state, parameters rounded from its fp32 master weights. Throws InvalidArgument for one of another
  /// kind of scale or other sizes; then nothing has changed.
  void load(const Fp16State& state);

 private:
  [[nodiscard]] bool look(std::span<const comm::Buffer> gradients, double scale);
  [[nodiscard]] bool agreed(bool own);
  [[nodiscard]] std::vector<Master> master_weights();
  void copy_back();

  std::vector<ModelParameter> parameters_;
  InnerOptimizer inner_;
  Fp16Options options_;
  ScalerGroups groups_;
  LossScale scale_;
  std::vector<std::vector<float>> master_weights_, gradients_;
  std::vector<bool> has_gradient_;
};

}  // namespace plumbline::scaler
