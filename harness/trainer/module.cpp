// The training module: training.hpp implemented with LibTorch.
#include <cstdlib>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "harness/trainer/oracles/cut_layer.hpp"
#include "harness/trainer/oracles/lists.hpp"
#include "harness/trainer/oracles/one_device.hpp"
#include "harness/trainer/pipeline_run.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/interface.hpp"
#include "reference/record/run_files.hpp"
#include "reference/training/detail/device.hpp"
#include "reference/training/detail/executor.hpp"
#include "reference/training/detail/gradients.hpp"
#include "reference/training/detail/model.hpp"
#include "reference/training/pipeline/counting.hpp"
#include "reference/training/pipeline/rank.hpp"
#include "reference/training/run_settings.hpp"
#include "reference/training/slowmo/averaged_run.hpp"

namespace plumbline::training {
namespace {

// Runs `body` as every call here does: on one thread, with LibTorch's errors as ours.
template <class Body>
auto guarded(const Body& body) {
  at::set_num_threads(1);
  try {
    return body();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    throw RuntimeFailure(fmt::format("LibTorch: {}", message.substr(0, message.find('\n'))));
  }
}

LossGradient on_host(const job::RunSpec& spec, const job::RunFiles& files, const Slice& rows,
                     const TensorGradient& result) {
  LossGradient host{.gradients = {}, .loss = mean_loss(files, rows, result.losses)};
  const std::vector<job::Parameter> list = job::parameters_of(spec);
  for (std::size_t i = 0; i < list.size(); ++i) host.gradients[list[i].name] = to_doubles(result.gradients[i]);
  return host;
}

// Of each slice's losses: its parts, or with row weights the slices' mean weight, so that their plain mean is weighted.
double divisor_of_slices(const job::RunSpec& spec, const job::RunFiles& files, const std::vector<Slice>& slices,
                         const Slice& own) {
  if (!spec.row_weights) return static_cast<double>(own.size());
  double sum = 0;
  for (const Slice& slice : slices) sum += files.weight_of(slice);
  return sum / static_cast<double>(slices.size());
}

// Rounds to float after each operation where that is the arithmetic.
double rounded(double value, Arithmetic arithmetic) {
  return arithmetic == Arithmetic::float32 ? static_cast<double>(static_cast<float>(value)) : value;
}

LossGradient mean_in_rank_order(const std::vector<LossGradient>& slices, Arithmetic arithmetic) {
  const auto count = static_cast<double>(slices.size());
  LossGradient mean = slices.front();
  for (std::size_t rank = 1; rank < slices.size(); ++rank) {
    mean.loss += slices[rank].loss;
    for (auto& [name, sum] : mean.gradients) {
      const std::vector<double>& slice = slices[rank].gradients.at(name);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = rounded(sum[i] + slice[i], arithmetic);
    }
  }
  mean.loss /= count;
  for (auto& [name, sum] : mean.gradients)
    for (double& value : sum) value = rounded(value / count, arithmetic);
  return mean;
}

// Of a layer whose output the loss does not depend on the gradient is 0.
SliceActivations on_host(const std::vector<KeptActivation>& kept, std::size_t micro_batches, double scale) {
  SliceActivations all(micro_batches);
  for (const KeptActivation& one : kept) {
    LayerActivation& layer = all[static_cast<std::size_t>(one.micro_batch)].emplace_back();
    layer.shape = one.output.sizes().vec();
    layer.output = to_doubles(one.output);
    layer.gradient.resize(layer.output.size());
    if (one.gradient.defined()) layer.gradient = to_doubles(one.gradient);
    for (double& value : layer.gradient) value /= scale;
  }
  return all;
}

// Each batch of the step in one piece.
std::vector<job::RowRange> whole_batches(const job::RunSpec& spec, int step) {
  std::vector<job::RowRange> list;
  for (int i = 0; i < spec.run.accumulation; ++i)
    list.push_back({.batch = std::int64_t{step} * spec.run.accumulation + i, .rows = spec.run.global_batch});
  return list;
}

void check_step(const job::RunSpec& spec, int step) {
  if (step < 0 || step >= spec.run.steps)
    throw OutOfRange(fmt::format("step {}; the run has steps 0 to {}", step, spec.run.steps - 1));
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Keeps what its rank refers to.
class TorchSession final : public PipelineSession {
 public:
  TorchSession(const job::RunSpec& spec, comm::Communicator& world, const RunSettings& settings,
               const std::shared_ptr<device::Runtime>& devices)
      : spec_(spec), settings_(settings), rank_(make(spec_, world, settings_, devices)) {}

  PipelineOutcome train(const std::vector<job::RowRange>& micro_batches, int calls) override {
    return guarded([&] {
      const OperationCounter counter;
      const EngineResult result = rank_->run(micro_batches, calls, false);
      return PipelineOutcome{.matrix_products = counter.products(),
                             .losses = result.losses,
                             .outputs = {},
                             .peak_activations = result.peak_activations};
    });
  }
  PipelineOutcome evaluate(const std::vector<job::RowRange>& micro_batches) override {
    return guarded([&] {
      const EngineResult result = rank_->run(micro_batches, 1, true);
      PipelineOutcome evaluated{.losses = result.losses, .peak_activations = result.peak_activations};
      for (const Tensors& outputs : result.outputs)
        for (const float value : to_floats(outputs.at(0))) evaluated.outputs.push_back(value);
      return evaluated;
    });
  }
  Gradients gradients() override {
    return guarded([&] {
      Gradients gradients;
      const std::vector<at::Tensor> tensors = rank_->gradients();
      for (std::size_t i = 0; i < tensors.size(); ++i) gradients[rank_->list()[i].name] = to_doubles(tensors[i]);
      return gradients;
    });
  }
  void clear_gradients() override { rank_->clear_gradients(); }

 private:
  static std::unique_ptr<PipelineRank> make(const job::RunSpec& spec, comm::Communicator& world,
                                            const RunSettings& settings,
                                            const std::shared_ptr<device::Runtime>& devices) {
    require_runnable(spec, world, settings);
    return std::make_unique<PipelineRank>(spec, world, settings, RankDevice(spec.run.device, world, devices));
  }

  job::RunSpec spec_;
  RunSettings settings_;
  std::unique_ptr<PipelineRank> rank_;
};

class GuardedSession final : public PipelineSession {
 public:
  explicit GuardedSession(std::unique_ptr<PipelineSession> inner) : inner_(std::move(inner)) {}
  PipelineOutcome train(const std::vector<job::RowRange>& micro_batches, int calls) override {
    return guarded([&] { return inner_->train(micro_batches, calls); });
  }
  PipelineOutcome evaluate(const std::vector<job::RowRange>& micro_batches) override {
    return guarded([&] { return inner_->evaluate(micro_batches); });
  }
  Gradients gradients() override {
    return guarded([&] { return inner_->gradients(); });
  }
  void clear_gradients() override { inner_->clear_gradients(); }
  Values statistics() override {
    return guarded([&] { return inner_->statistics(); });
  }

 private:
  std::unique_ptr<PipelineSession> inner_;
};

class GuardedAveragedSession final : public AveragedSession {
 public:
  explicit GuardedAveragedSession(std::unique_ptr<AveragedSession> inner) : inner_(std::move(inner)) {}
  AveragedStep step(int step) override {
    return guarded([&] { return inner_->step(step); });
  }
  double evaluate(const LabelledRows& rows) override {
    return guarded([&] { return inner_->evaluate(rows); });
  }
  std::vector<float> estimate() const override {
    return guarded([&] { return inner_->estimate(); });
  }
  std::int64_t slow_buffer_bytes() const override { return inner_->slow_buffer_bytes(); }
  void save(const std::filesystem::path& folder) override {
    guarded([&] { inner_->save(folder); });
  }
  void load(const std::filesystem::path& folder, int steps) override {
    guarded([&] { inner_->load(folder, steps); });
  }

 private:
  std::unique_ptr<AveragedSession> inner_;
};

class TorchTraining final : public Training {
 public:
  TorchTraining() { make_deterministic(); }

  std::map<std::string, std::string> environment() const override {
    return {{"libtorch", PLUMBLINE_TORCH_VERSION},
            {"cpu_capability", at::get_cpu_capability()},
            {"OMP_NUM_THREADS", variable("OMP_NUM_THREADS")},
            {"MKL_CBWR", variable("MKL_CBWR")},
            {"ATEN_CPU_CAPABILITY", variable("ATEN_CPU_CAPABILITY")}};
  }

  void use_devices(std::shared_ptr<device::Runtime> devices) override { devices_ = std::move(devices); }

  void run(const job::RunSpec& spec, comm::Communicator& world, const std::filesystem::path& folder,
           const Progress& progress, const RunSettings& settings) override {
    guarded([&] {
      if (!spec.averaging) return run_specification(spec, world, folder, progress, settings, devices_);
      refuse_impossible(spec);
      require_possible(spec, settings.gradients, settings.precision);
      run_averaged_specification(spec, world, folder, progress, devices_);
    });
  }

  std::unique_ptr<PipelineSession> pipeline(const job::RunSpec& spec, comm::Communicator& world,
                                            const RunSettings& settings) override {
    return guarded([&] { return std::make_unique<TorchSession>(spec, world, settings, devices_); });
  }

  std::unique_ptr<PipelineSession> list_pipeline(const ListModel& model, comm::Communicator& world) override {
    return guarded([&] { return std::make_unique<GuardedSession>(training::list_pipeline(model, world)); });
  }
  ListBaseline list_baseline(const ListModel& model, int stages,
                             const std::vector<std::vector<job::RowRange>>& calls) override {
    return guarded([&] { return training::list_baseline(model, stages, calls); });
  }
  std::vector<SharedCopy> sum_shared(const std::vector<SharedCopy>& copies, comm::Communicator& group) override {
    return guarded([&] { return training::sum_shared(copies, group); });
  }

  LayerOutcome cut_layer(const CutLayer& layer, comm::Communicator& group) override {
    return guarded([&] {
      const TensorGroup over{&group};
      return outcome_of(layer, &over, Arithmetic::float32);
    });
  }
  LayerOutcome whole_layer(const CutLayer& layer, Arithmetic arithmetic) override {
    return guarded([&] { return outcome_of(layer, nullptr, arithmetic); });
  }

  std::vector<EpochResult> program(const PipelineRun& run, comm::Communicator& world,
                                   const PipelineSinks& sinks) override {
    return guarded([&] { return run_pipeline(run, world, sinks, devices_); });
  }

  std::unique_ptr<AveragedSession> averaged(const job::RunSpec& spec, comm::Communicator& world,
                                            const AveragingSettings& settings) override {
    return guarded(
        [&] { return std::make_unique<GuardedAveragedSession>(averaged_run(spec, world, settings, devices_)); });
  }

  Values alone(const job::RunSpec& spec, double rate_decay,
               const std::function<void(int step, double loss)>& told) override {
    return guarded([&] { return train_on_one_device(spec, rate_decay, told); });
  }

  Baseline baseline(const job::RunSpec& spec, const std::vector<Slice>& slices, const Values& before,
                    Arithmetic arithmetic, const std::string& device) override {
    return guarded([&] {
      const job::RunFiles files(spec);
      const std::vector<at::Tensor> parameters =
          rounded_parameters(spec, parameters_on(spec, before, arithmetic, device_of(device, 0)));
      Baseline result;
      for (const Slice& slice : slices)
        result.slices.push_back(
            on_host(spec, files, slice,
                    gradient_of(spec, files, parameters, slice, divisor_of_slices(spec, files, slices, slice))));
      result.mean = mean_in_rank_order(result.slices, arithmetic);
      return result;
    });
  }

  std::vector<LossGradient> scaled_slices(const job::RunSpec& spec, const std::vector<Slice>& slices,
                                          const Values& before, double scale, const std::string& device) override {
    return guarded([&] {
      const job::RunFiles files(spec);
      std::vector<at::Tensor> parameters = parameters_on(spec, before, Arithmetic::float32, device_of(device, 0));
      for (at::Tensor& one : parameters) one = one.to(compute_type(spec));
      std::vector<LossGradient> results;
      for (const Slice& slice : slices)
        results.push_back(
            on_host(spec, files, slice,
                    gradient_of(spec, files, parameters, slice, divisor_of_slices(spec, files, slices, slice), scale)));
      return results;
    });
  }

  std::vector<SliceActivations> activations(const job::RunSpec& spec, const std::vector<Slice>& slices,
                                            const Values& before, Arithmetic arithmetic, std::optional<double> scale,
                                            const std::string& device) override {
    return guarded([&] {
      const job::RunFiles files(spec);
      std::vector<at::Tensor> parameters = parameters_on(spec, before, arithmetic, device_of(device, 0));
      if (!scale) parameters = rounded_parameters(spec, std::move(parameters));
      for (at::Tensor& one : parameters)
        if (scale) one = one.to(compute_type(spec));
      std::vector<SliceActivations> all;
      for (const Slice& slice : slices) {
        ActivationTape tape;
        (void)gradient_of(spec, files, parameters, slice, divisor_of_slices(spec, files, slices, slice),
                          scale.value_or(1), &tape);
        all.push_back(on_host(tape.take(), slice.size(), scale.value_or(1)));
      }
      return all;
    });
  }

  LossGradient union_batch(const job::RunSpec& spec, int step, const Values& before, Arithmetic arithmetic,
                           const std::string& device) override {
    check_step(spec, step);
    return guarded([&] {
      const job::RunFiles files(spec);
      const std::vector<at::Tensor> parameters =
          rounded_parameters(spec, parameters_on(spec, before, arithmetic, device_of(device, 0)));
      const std::vector<job::RowRange> batches = whole_batches(spec, step);
      const double divisor = spec.row_weights ? files.weight_of(batches) : static_cast<double>(batches.size());
      return on_host(spec, files, batches, gradient_of(spec, files, parameters, batches, divisor));
    });
  }

  double accuracy(const job::RunSpec& spec, const Values& values, const LabelledRows& rows,
                  const std::string& device) override {
    return guarded([&] {
      const at::Tensor x = tensor_of(spec, rows);
      const c10::InferenceMode without_gradients;
      const std::vector<at::Tensor> parameters = parameters_on(spec, values, Arithmetic::float32, device_of(device, 0));
      return share_of_right(Model(spec, parameters).forward(x.to(parameters.front().device())), rows);
    });
  }

 private:
  std::shared_ptr<device::Runtime> devices_;
};

}  // namespace
}  // namespace plumbline::training

PLUMBLINE_EXPORT plumbline::training::Training* plumbline_open_training() {
  return new plumbline::training::TorchTraining;
}
