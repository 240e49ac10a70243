#include "reference/training/executor.hpp"

#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/record/run_files.hpp"
#include "reference/training/device.hpp"
#include "reference/training/gradients.hpp"
#include "reference/training/optimizer.hpp"

namespace plumbline::training {
namespace {

void refuse_unless(bool supported, const std::string& field, const std::string& only) {
  if (!supported) throw Unsupported(fmt::format("{}: the reference's executor runs only {}", field, only));
}

void check(const job::RunSpec& spec, const comm::Communicator& world) {
  refuse_unless(spec.parallel.pipeline == 1, fmt::format("parallel.pipeline = {}", spec.parallel.pipeline), "1");
  refuse_unless(spec.parallel.tensor == 1, fmt::format("parallel.tensor = {}", spec.parallel.tensor), "1");
  refuse_unless(spec.run.dtype == "float32", fmt::format("run.dtype = '{}'", spec.run.dtype), "float32");
  refuse_unless(!spec.scaler, "[scaler]", "without one");
  if (world.size() != spec.parallel.data)
    throw InvalidArgument(
        fmt::format("parallel.data = {}, but {} ranks were started", spec.parallel.data, world.size()));
}

// Reduces the gradients over the data group, in place: all of them as one bucket.
void reduce(const ExecutorSteps& steps, const job::RunSpec& spec, comm::Communicator& group,
            const std::vector<job::Parameter>& list, std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& gradient : gradients) flat.push_back(gradient.reshape({-1}));
  const at::Tensor memory = at::cat(flat).cpu();
  Bucket bucket{.values = {memory.data_ptr<float>(), static_cast<std::size_t>(memory.numel())}, .parts = {}};
  std::size_t begin = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto count = static_cast<std::size_t>(gradients[i].numel());
    bucket.parts.push_back({list[i], bucket.values.subspan(begin, count), !gradients[i].is_contiguous()});
    begin += count;
  }
  steps.reduce(spec, group, bucket);
  std::int64_t first = 0;
  for (at::Tensor& gradient : gradients) {
    const at::Tensor reduced = memory.narrow(0, first, gradient.numel());
    first += gradient.numel();
    gradient = reduced.view(gradient.sizes()).to(gradient.device(), gradient.scalar_type(), false, true);
  }
}

// The states of one rank's run, step after step.
class DataParallelRun {
 public:
  DataParallelRun(const job::RunSpec& spec, comm::Communicator& group, const ExecutorSteps& steps)
      : spec_(spec),
        group_(group),
        steps_(steps),
        files_(spec),
        list_(job::parameters_of(spec)),
        values_(parameters_on(spec, steps.weights(spec, group.rank()), Arithmetic::float32,
                              device_of(spec.run.device, group.rank()))),
        optimizer_(steps.optimizer(spec, group.rank()), list_.size()),
        record_(spec, group.rank(), "plumbline", PLUMBLINE_VERSION) {}

  /// Returns the loss over this rank's rows.
  float step(int step) {
    note(step, job::Moment::before, values_);
    TensorGradient local =
        gradient_of(spec_, files_, values_, steps_.rows(spec_, step, group_.rank()), steps_.divisor(spec_));
    note(step, job::Moment::local_grad, local.gradients);
    reduce(steps_, spec_, group_, list_, local.gradients);
    note(step, job::Moment::grad, local.gradients);
    optimizer_.step(values_, local.gradients);
    note(step, job::Moment::after, values_);
    const auto loss = static_cast<float>(steps_.loss(local.losses));
    record_.add_loss(step, loss);
    return loss;
  }
  void write(const std::filesystem::path& folder) const { record_.write(folder); }

 private:
  void note(int step, job::Moment moment, std::span<const at::Tensor> tensors) {
    for (std::size_t i = 0; i < list_.size(); ++i) steps_.note(record_, step, moment, list_[i], to_floats(tensors[i]));
  }

  const job::RunSpec& spec_;
  comm::Communicator& group_;
  const ExecutorSteps& steps_;
  job::RunFiles files_;
  std::vector<job::Parameter> list_;
  std::vector<at::Tensor> values_;
  OptimizerState optimizer_;
  job::RecordWriter record_;
};

}  // namespace

void run_data_parallel(const job::RunSpec& spec, comm::Communicator& world, const std::filesystem::path& folder,
                       const Progress& progress, const ExecutorSteps& steps) {
  check(spec, world);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RuntimeFailure(fmt::format("'{}' cannot be made a folder: {}", folder.string(), error.message()));
  DataParallelRun run(spec, world, steps);
  for (int step = 0; step < spec.run.steps; ++step) {
    const float loss = run.step(step);
    if (progress) progress({step, spec.run.steps, loss});
  }
  run.write(folder);
}

}  // namespace plumbline::training
