// reference/training/slowmo/session.hpp: one rank of training that averages parameters, step by step. Free of LibTorch.
//
// Model   The model, batches and optimizer are those of a run specification; what is between ranks is reference/slowmo,
//         bound to the model by averaged_module.hpp. Data rank d of D computes on its slice of each batch, as in data-parallel
//         training, but changes its own parameters with its own gradients.
// Types   run.dtype float32: forward, backward and optimizer work on the parameters. float16 and bfloat16: forward and
//         backward do, the optimizer works on masters of float32. Gradients of float16 are those of 1024 times the loss.
// Memory  Batch normalisations keep running statistics, for evaluation: the model's buffers, those of rank 0 in each forward.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/slowmo/slowmo_steps.hpp"
#include "reference/training/slowmo/settings.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

/// What decides the numbers of such a run beside back-propagation and the optimizer, as functions that a wrong one replaces.
struct AveragedSteps {
  slowmo::SlowMoSteps slowmo;
  /// Whether what is behind a batch is done, in training or in evaluation.
  std::function<bool(bool training)> performs = [](bool training) { return training; };
  /// Looks at specification and settings before anything is done.
  std::function<void(const job::RunSpec& spec, const AveragingSettings& settings)> accept = require_together;
  /// Whether messages go through the host's memory, where the groups serve the tensors' own or do not.
  std::function<bool(bool serves)> goes_by_host = [](bool serves) { return !serves; };
  /// What must be the same where a run goes on from a checkpoint.
  std::function<Configuration(Configuration)> same = [](Configuration all) { return all; };
};

/// What one rank had in a step. Values are of all parameters, one behind the other in the order of job::parameters_of(), each
/// row-major; "the optimizer's" are the parameters, or their masters.
struct AveragedStep {
  std::vector<float> before;          // the optimizer's: numerators
  std::vector<float> seen;            // the parameters in the forward and backward: the estimate
  std::vector<float> gradient;        // that the optimizer uses
  std::vector<float> mixed{};         // where gossip overlaps: the optimizer's, ahead of its step
  std::vector<float> updated;         // the optimizer's, behind its step
  std::vector<float> after;           // the same, behind averages, gossip and slow momentum
  std::vector<float> halves{};        // parameters of 16 bits then
  std::vector<float> buffers_seen{};  // running statistics in the step's first forward, and
  std::vector<float> buffers{};       // behind its last
  double weight_before = 1;           // push-sum's, and
  double weight = 1;                  // behind the step
  double loss = 0;                    // mean over this rank's rows
  friend bool operator==(const AveragedStep&, const AveragedStep&) = default;
};

class AveragedSession {
 public:
  AveragedSession() = default;
  virtual ~AveragedSession() = default;
  AveragedSession(const AveragedSession&) = delete;
  AveragedSession& operator=(const AveragedSession&) = delete;

  /// Trains on a step's batches. Collective.
  virtual AveragedStep step(int step) = 0;
  /// The share of rows whose largest output is at their label, in evaluation: with this rank's estimate and running
  /// statistics. Collective, as a forward in training is. Throws InvalidArgument for no rows.
  [[nodiscard]] virtual double evaluate(const LabelledRows& rows) = 0;
  /// Numerators divided by their weight, in the order of AveragedStep.
  [[nodiscard]] virtual std::vector<float> estimate() const = 0;
  /// What slow buffers take on this rank.
  [[nodiscard]] virtual std::int64_t slow_buffer_bytes() const = 0;

  /// Writes folder/step-<S>/rank<R>.safetensors, S being the steps done: all that it takes to go on to the last bit.
  virtual void save(const std::filesystem::path& folder) = 0;
  /// Goes on from a checkpoint of that many steps. Throws InvalidArgument for one of another run, NotFound.
  virtual void load(const std::filesystem::path& folder, int steps) = 0;
};

/// What a rank's model is behind a step: halves where there are some, else numerators, divided by the weight.
[[nodiscard]] std::vector<float> model_behind(const AveragedStep& step);

/// How far ranks are from their mean, in the 2-norm.
struct ConsensusDistance {
  double largest = 0;
  double mean = 0;
};
/// Of one vector a rank. Collective.
[[nodiscard]] ConsensusDistance consensus_distance(comm::Communicator& world, const std::vector<float>& estimate);
/// The same of all ranks' vectors at once, which are equally long.
[[nodiscard]] ConsensusDistance consensus_distance(const std::vector<std::vector<float>>& estimates);

}  // namespace plumbline::training
