// conformance/training/single_device.hpp: one step as a single device computes it, in the forms that a judge
// needs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reference/record/run_spec.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

/// Whether batch normalisation is in the model: then the union batch is another function, and is not computed.
[[nodiscard]] bool mixes_rows(const job::RunSpec& spec);

/// The layers that use a weight, ascending: its own, and those that are tied to it.
[[nodiscard]] std::vector<int> uses_of(const job::RunSpec& spec, const std::string& weight);

/// Data rank d of D takes the d-th of D equal consecutive slices of each batch of a step, cut into micro-batches.
[[nodiscard]] std::vector<training::Slice> slices_of(const job::RunSpec& spec, int step);

/// The p-norm of a gradient, with p = infinity the largest magnitude, by what each parameter adds to it.
class GradientNorm {
 public:
  GradientNorm(const training::Gradients& gradients, double p);
  /// Each parameter counted once, or as often as is said.
  [[nodiscard]] double whole() const { return of({}); }
  [[nodiscard]] double of(const std::map<std::string, double>& counts) const;

 private:
  double p_;
  std::map<std::string, double> parts_;
};

/// What clipping to `most` multiplies a gradient of this norm by.
[[nodiscard]] double clip_coefficient(double most, double norm);

class SingleDevice {
 public:
  /// Computes step `step` of `spec` at the values `before`: by slices in float32 and float64, and the union
  /// in float64. All must outlive it.
  SingleDevice(const job::RunSpec& spec, int step, const training::Values& before, training::Training& training,
               const std::string& device);

  /// A data rank's gradient.
  [[nodiscard]] std::vector<float> slice32(int data, const std::string& parameter) const;
  [[nodiscard]] const std::vector<double>& slice64(int data, const std::string& parameter) const;
  /// The mean of the slices: in float64 throughout; of the float32 slices, exactly; of those added in rank
  /// order and divided once, all in float32.
  [[nodiscard]] const std::vector<double>& mean64(const std::string& parameter) const;
  [[nodiscard]] std::vector<double> mean_of_slices(const std::string& parameter) const;
  [[nodiscard]] std::vector<float> rank_order_mean(const std::string& parameter) const;
  /// The sums of the magnitudes of the float32 slices.
  [[nodiscard]] std::vector<double> magnitudes(const std::string& parameter) const;
  /// The same of all parameters, in float64.
  [[nodiscard]] const training::Gradients& slices64(int data) const;
  [[nodiscard]] const training::Gradients& means64() const { return float64_.mean.gradients; }
  /// Computes the slices in run.dtype, under a scale, once more.
  void compute_scaled(double scale);
  /// Of these: a data rank's gradient, divided by the scale; the slices' mean as ranks make it that add in rank order
  /// in float32 and round once to run.dtype, divided by the scale; a data rank's loss.
  [[nodiscard]] std::vector<float> scaled_slice(int data, const std::string& parameter) const;
  [[nodiscard]] std::vector<float> scaled_mean(const std::string& parameter) const;
  [[nodiscard]] double scaled_loss(int data) const { return scaled_[static_cast<std::size_t>(data)].loss; }
  /// The gradient of all rows in one piece.
  [[nodiscard]] const std::vector<double>& union64(const std::string& parameter) const;

  /// What a step's gradient would be by rules that programs have used: where rows have weights, in place of the
  /// weighted mean over all rows; where there are mixtures of experts, in place of their routing. Computed when it is
  /// asked for.
  struct OtherRule {
    std::string name;  // "the mean of the weighted means of the micro-batches"
    training::Gradients gradients;
  };
  [[nodiscard]] const std::vector<OtherRule>& by_other_rules() const;

  /// Of a weight that several layers use: what its gradient would be without one of the uses, and with one twice.
  /// Nothing of other parameters. Computed when it is asked for.
  struct OtherSum {
    std::string name;  // "without the gradient of its use in layer 22 (tied_linear)"
    std::vector<double> gradient;
  };
  [[nodiscard]] const std::vector<OtherSum>& by_other_uses(const std::string& weight) const;

  /// max(8 d, 64 u max|gradient of a slice|) of the mean, and of one slice; d is the distance from float64 of a plain
  /// run in float32, or of one in run.dtype where that was computed and is farther off: there activations change sides,
  /// and what should cancel leaves the roundings of the type.
  [[nodiscard]] double gradient_bound(const std::string& parameter) const;
  [[nodiscard]] double slice_bound(int data, const std::string& parameter) const;

  /// A data rank's loss. Its bound: 8 times the distance of float32 from float64, or 64 u of its size and 1,
  /// since it is a difference of larger numbers.
  [[nodiscard]] double loss32(int data) const { return float32_.slices[static_cast<std::size_t>(data)].loss; }
  [[nodiscard]] double loss64(int data) const { return float64_.slices[static_cast<std::size_t>(data)].loss; }
  [[nodiscard]] double loss_bound(int data) const;

 private:
  void add_other_routings() const;

  const job::RunSpec& spec_;
  int step_;
  const training::Values& before_;
  training::Training& training_;
  std::string device_;
  [[nodiscard]] bool has_narrow() const { return !scaled_.empty() && spec_.run.dtype != "float32"; }
  double unit_roundoff_;  // of the compute dtype
  training::Baseline float32_;
  training::Baseline float64_;
  training::LossGradient union_;
  mutable std::vector<OtherRule> other_rules_;
  mutable std::map<std::string, std::vector<OtherSum>> other_sums_;  // by weight
  double scale_ = 1;
  std::vector<training::LossGradient> scaled_;
};

}  // namespace plumbline::conformance
