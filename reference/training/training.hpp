// reference/training/training.hpp: real training, and what a single device computes in its place. Free of
// LibTorch.
//
// Model   Everything is decided by a job::RunSpec and its files. run() is the reference's executor of a
//         specification: one rank's part of a run, data-parallel or a pipeline's, which leaves a training record.
//         baseline() and union_batch() compute one step's gradient in one process without any distribution, at
//         parameter values that the caller gives.
// Threads One Training serves any number of threads at once, each as a rank; every call uses one
//         intra-operation thread. No generator is used: a run has no randomness of its own.
// Devices "cpu", "cuda" (the GPU of number rank modulo their count), "cuda:1", and "emulated" in the same way. On a
//         GPU: no TF32, deterministic algorithms. What ranks exchange lies in the device's memory, from LibTorch to the
//         communicator, where use_devices() was given its runtime and the world serves its memory; else it goes through
//         the host's. On emulated devices LibTorch computes on the host, and what ranks exchange is in their memory.
// Errors  Unsupported in one line for what this executor does not do, InvalidArgument, NotFound,
//         RuntimeFailure.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::device {
class Runtime;  // reference/device/runtime.hpp
}

namespace plumbline::training {

/// Values of parameters, by name ("0.weight"), row-major in the shape that job::parameters_of() says.
using Values = std::map<std::string, std::vector<float>>;
/// Gradients by parameter; float32 ones are widened, which is exact.
using Gradients = std::map<std::string, std::vector<double>>;

enum class Arithmetic { float32, float64 };

/// A gradient with the loss that it is of: a mean over rows.
struct LossGradient {
  Gradients gradients;
  double loss = 0;
};

/// What one data rank computes in a step: its micro-batches, in order.
using Slice = std::vector<job::RowRange>;

/// One step on a single device, the batch cut as it says.
struct Baseline {
  /// Of each slice: the mean over its micro-batches, each run alone, in order.
  std::vector<LossGradient> slices;
  /// The mean of the slices: added in rank order, then divided by their number, in the requested arithmetic.
  LossGradient mean;
};

/// What a layer makes of a micro-batch, and the gradient of the slice's part of the step's loss for it; row-major.
struct LayerActivation {
  job::Shape shape;
  std::vector<double> output, gradient;
};
/// By micro-batch of a slice, and layer.
using SliceActivations = std::vector<std::vector<LayerActivation>>;

/// Rows with class numbers, for accuracy().
struct LabelledRows {
  job::Shape row;                    // [64] or [1, 8, 8]
  std::vector<float> x;              // the rows one after the other
  std::vector<std::int64_t> labels;  // one a row, or one for each of its tokens
};

/// What run() tells after each step.
struct StepProgress {
  int step = 0;
  int steps = 0;
  float loss = 0;  // mean over this data rank's rows; told by the ranks that have the last stage
  /// Of a run with a loss scale: the step's, and whether it was skipped.
  std::optional<float> scale{};
  bool skipped = false;
};
using Progress = std::function<void(const StepProgress&)>;

struct RunSettings;        // run_settings.hpp
class AveragedSession;     // averaging.hpp
struct AveragingSettings;  // averaging.hpp
struct PipelineRun;        // trainer/pipeline_run.hpp
struct PipelineSinks;
struct EpochResult;  // trainer/trainer.hpp

/// What a batch did on one rank of a pipeline.
struct PipelineOutcome {
  /// Products of two matrices that the call made here; of linear layers alone, and on the host.
  std::int64_t matrix_products = 0;
  std::vector<double> losses;  // of each micro-batch, and
  std::vector<float> outputs;  // of evaluation, those of all rows: on the ranks that have the last stage
  int peak_activations = 0;    // the most (stage, micro-batch) pairs that were kept at once
};

/// One rank of a pipeline, batch by batch: for what a specification does not say, such as batches of several sizes.
class PipelineSession {
 public:
  PipelineSession() = default;
  virtual ~PipelineSession() = default;
  PipelineSession(const PipelineSession&) = delete;
  PipelineSession& operator=(const PipelineSession&) = delete;

  /// Adds to the gradients those of the mean loss over the micro-batches of `calls` such calls. They may have different
  /// numbers of rows. Collective over the pipeline.
  virtual PipelineOutcome train(const std::vector<job::RowRange>& micro_batches, int calls) = 0;
  /// Computes losses and outputs alone. Collective.
  virtual PipelineOutcome evaluate(const std::vector<job::RowRange>& micro_batches) = 0;
  /// The gradients that this rank has, of the parameters that it holds; those of tied ones are its own part.
  [[nodiscard]] virtual Gradients gradients() = 0;
  /// Forgets them, as at the end of a step.
  virtual void clear_gradients() = 0;
  /// The running statistics of this rank's stages, by name, where they have some.
  [[nodiscard]] virtual Values statistics() { return {}; }
};

/// A model whose stages hand on lists of tensors, in a type of their own: what no specification says. Each stage is two
/// linear layers around a normalisation with running statistics. Rows and weights are functions of the seed.
struct ListModel {
  bool several = true;  // activations, whole numbers, nothing, and numbers without gradient; else one tensor
  std::optional<comm::DType> wire = {};  // f16 or bf16: what travels is rounded to it
  std::string schedule = "1f1b";
  int chunks = 1;  // stages of a rank
  std::uint64_t seed = 0;
};

/// What one device computes of all its stages, micro-batch after micro-batch.
struct ListBaseline {
  Gradients gradients;
  std::vector<double> losses;  // of each micro-batch
  Values statistics;
};

/// A rank's copy of a parameter that several ranks have.
struct SharedCopy {
  std::string name;
  std::vector<int> ranks;  // that hold it, ascending
  comm::DType dtype = comm::DType::f32;
  std::vector<double> values;
  std::optional<std::vector<double>> gradient = {};  // of this rank's uses
};

/// The layers that are cut over tensor ranks. column: its outputs are cut, then gathered. row: its inputs are.
/// perceptron: column, gelu, row. block: a transformer's, attention and perceptron.
inline constexpr std::array<std::string_view, 4> kCutLayers{"column", "row", "perceptron", "block"};

/// One layer, its input, and what its outputs are multiplied by for gradients: functions of the seed.
struct CutLayer {
  std::string kind = "perceptron";
  std::int64_t width = 12;  // of inputs and outputs
  std::int64_t hidden = 25;
  std::int64_t heads = 3;
  std::uint64_t seed = 0;
};
/// All of it, row-major, wherever parts of it were computed.
struct LayerOutcome {
  std::vector<double> output, input_gradient;
  Gradients gradients;
};

class Training {
 public:
  Training() = default;
  virtual ~Training() = default;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// What computes, for a record's environment: LibTorch's version, the CPU's code path, the variables that
  /// change results.
  [[nodiscard]] virtual std::map<std::string, std::string> environment() const = 0;

  /// The devices whose memory the worlds of calls from now on may serve; null: none but the host's. Before any rank
  /// starts.
  virtual void use_devices(std::shared_ptr<device::Runtime> /*devices*/) {}

  /// Runs `spec` as rank world.rank(), on spec.run.device, and writes folder/rank<R>.safetensors, local_grad included.
  /// Collective over `world`, whose size is the specification's. Throws InvalidArgument for a specification that is
  /// impossible to run, Unsupported for settings that do not go together.
  virtual void run(const job::RunSpec& spec, comm::Communicator& world, const std::filesystem::path& folder,
                   const Progress& progress, const RunSettings& settings) = 0;

  /// A rank of the pipeline of `spec` at its given weights. Collective over `world`, which must outlive it. Throws as
  /// run().
  [[nodiscard]] virtual std::unique_ptr<PipelineSession> pipeline(const job::RunSpec& spec, comm::Communicator& world,
                                                                  const RunSettings& settings) = 0;

  /// As pipeline(), for a list model. Throws Unsupported for another wire type, NotFound and InvalidArgument for the
  /// schedule.
  [[nodiscard]] virtual std::unique_ptr<PipelineSession> list_pipeline(const ListModel&, comm::Communicator&) {
    throw Unsupported("this executor has no list models");
  }
  /// Each call's gradient is that of the mean loss over its micro-batches, divided by the number of calls.
  [[nodiscard]] virtual ListBaseline list_baseline(const ListModel&, int /*stages*/,
                                                   const std::vector<std::vector<job::RowRange>>& /*calls*/) {
    throw Unsupported("this executor has no list models");
  }
  /// Makes copies equal at first, and sums their gradients, as a pipeline does with what its stages share. Returns
  /// both. Collective over the ranks that hold any. Throws InvalidArgument for copies that cannot be shared.
  [[nodiscard]] virtual std::vector<SharedCopy> sum_shared(const std::vector<SharedCopy>&, comm::Communicator&) {
    throw Unsupported("this executor shares no parameters");
  }

  /// The layer cut over the group, in float32; its outputs and gradients are put together on all ranks. Collective over
  /// the group. Throws NotFound for an unknown kind.
  [[nodiscard]] virtual LayerOutcome cut_layer(const CutLayer&, comm::Communicator&) {
    throw Unsupported("this executor has no tensor ranks");
  }
  /// The same layer on one device, uncut.
  [[nodiscard]] virtual LayerOutcome whole_layer(const CutLayer&, Arithmetic) {
    throw Unsupported("this executor has no tensor ranks");
  }

  /// run_pipeline() of trainer/pipeline_run.hpp: a whole training run by names, one rank of it. Collective over
  /// `world`. Throws what that throws, and Unsupported where it is not part of this executor.
  virtual std::vector<EpochResult> program(const PipelineRun&, comm::Communicator&, const PipelineSinks&) {
    throw Unsupported("this executor has no training by names");
  }

  /// A rank of `spec` that averages parameters in place of gradients, as averaging.hpp says. Collective over `world`,
  /// which must outlive it. Throws what that throws, and Unsupported where it is not part of this executor.
  [[nodiscard]] virtual std::unique_ptr<AveragedSession> averaged(const job::RunSpec&, comm::Communicator&,
                                                                  const AveragingSettings&) {
    throw Unsupported("this executor averages no parameters");
  }

  /// A single device's training, step by step: what averaged runs are held against. Throws InvalidArgument for what it
  /// cannot train, and Unsupported where it is not part of this executor.
  [[nodiscard]] virtual Values alone(const job::RunSpec&, double /*rate_decay*/,
                                     const std::function<void(int step, double loss)>& /*told*/) {
    throw Unsupported("this executor trains on no single device");
  }

  /// The gradient and loss of one step at the parameter values `before`, rounded to run.dtype, of the data ranks'
  /// slices. In float32 bitwise what the executor's ranks compute of such rows, and with a backend that adds in rank
  /// order, what they use, if that is their dtype. For any layout of ranks. Throws OutOfRange for rows that are not
  /// there.
  [[nodiscard]] virtual Baseline baseline(const job::RunSpec& spec, const std::vector<Slice>& slices,
                                          const Values& before, Arithmetic arithmetic, const std::string& device) = 0;

  /// The loss and gradients of each slice alone, computed in run.dtype as the executor's ranks do with rounded
  /// parameters: the gradients are those of losses multiplied by the scale, in numbers of that type.
  [[nodiscard]] virtual std::vector<LossGradient> scaled_slices(const job::RunSpec&, const std::vector<Slice>&,
                                                                const Values&, double /*scale*/,
                                                                const std::string& /*device*/) {
    throw Unsupported("this executor has no training in 16 bits");
  }

  /// What the layers make of each slice: computed as baseline() does, or with a scale as scaled_slices() does, then
  /// divided by it.
  [[nodiscard]] virtual std::vector<SliceActivations> activations(const job::RunSpec&, const std::vector<Slice>&,
                                                                  const Values& /*before*/, Arithmetic,
                                                                  std::optional<double> /*scale*/,
                                                                  const std::string& /*device*/) {
    throw Unsupported("this executor keeps no outputs of layers");
  }

  /// The baseline's gradient of all rows of a step's batches together, each batch in one piece. Where batch
  /// normalisation is in the model this is another function of the parameters than the baseline's.
  [[nodiscard]] virtual LossGradient union_batch(const job::RunSpec& spec, int step, const Values& before,
                                                 Arithmetic arithmetic, const std::string& device) = 0;

  /// The share of labels at which the largest output of their row or token is, in [0, 1]. All rows in one piece; batch
  /// normalisation uses their statistics. Throws InvalidArgument for no rows, or rows that do not fit the
  /// model.
  [[nodiscard]] virtual double accuracy(const job::RunSpec& spec, const Values& values, const LabelledRows& rows,
                                        const std::string& device) = 0;
};

/// The module lib/plumbline/libplumbline_training.so exports one factory. The caller owns what it returns.
/// Throws nothing.
inline constexpr const char* kTrainingFactory = "plumbline_open_training";
using TrainingFactory = Training*();

// ---- The machine lacks what a run computes on. Free of LibTorch.

/// This machine lacks the requested device.
class DeviceMissing : public Unsupported {
 public:
  using Unsupported::Unsupported;
};

}  // namespace plumbline::training
