#include "harness/trainer/pipeline_program.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/training/detail/checkpoint_tensors.hpp"
#include "reference/training/detail/rank_groups.hpp"
#include "reference/training/pipeline/batch.hpp"
#include "reference/training/pipeline/schedule_of.hpp"

namespace plumbline::training {
namespace {

job::Parallel parallel_of(const TrainerSettings& settings) {
  return {.pipeline = settings.pipeline, .data = settings.data, .tensor = settings.tensor};
}

void check(const TrainerSettings& settings, const comm::Communicator& world) {
  if (settings.tensor != 1)
    throw Unsupported(
        fmt::format("parallel.tensor = {}: models are not cut inside their layers; only 1 is run", settings.tensor));
  const std::int64_t wanted = std::int64_t{settings.pipeline} * settings.data;
  if (world.size() != wanted)
    throw InvalidArgument(
        fmt::format("parallel.pipeline = {} and parallel.data = {} make {} ranks, but {} were started",
                    settings.pipeline, settings.data, wanted, world.size()));
}

std::int64_t right_rows(const EngineResult& ran) {
  std::int64_t right = 0;
  for (std::size_t i = 0; i < ran.outputs.size(); ++i)
    right += ran.outputs[i].at(0).argmax(1).eq(ran.labels[i].at(0)).sum().item<std::int64_t>();
  return right;
}
std::int64_t all_rows(const EngineResult& ran) {
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < ran.outputs.size(); ++i) rows += ran.labels[i].at(0).numel();
  return rows;
}

std::int64_t batches_in(const char* set, const data::BatchPlan& plan) {
  try {
    return static_cast<std::int64_t>(data::batches_per_epoch(plan));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("of the {} set: {}", set, error.what()));
  }
}

std::optional<TimedPhase> timed(Timers* timers, const char* phase) {
  if (timers == nullptr) return std::nullopt;
  return std::optional<TimedPhase>(std::in_place, *timers, phase);
}

}  // namespace

UpdateBatches update_of(std::int64_t batch, std::int64_t batches, int accumulation) {
  const std::int64_t first = batch / accumulation * accumulation;
  return {first, std::min<std::int64_t>(accumulation, batches - first)};
}

std::int64_t own_batches_of(const UpdateBatches& update, std::int64_t own) {
  return std::clamp<std::int64_t>(own - update.first, 0, update.count);
}

TrainingData image_data(const data::Cifar10& images, const TrainerSettings& settings, int data_rank, bool uneven) {
  const data::BatchPlan training{.rows = images.training.size(),
                                 .batch = static_cast<std::size_t>(settings.batch_size),
                                 .seed = settings.seed,
                                 .drop_last = !settings.tensor_shape.empty(),
                                 .parts = static_cast<std::size_t>(settings.micro_batches),
                                 .rank = data_rank,
                                 .ranks = settings.data,
                                 .uneven = uneven};
  data::BatchPlan test = training;
  test.rows = images.test.size();
  test.shuffle = false;
  test.rank = 0;
  test.ranks = 1;
  data::BatchPlan longest = training, shortest = training;  // rows are dealt to rank 0 first
  longest.rank = 0;
  shortest.rank = settings.data - 1;
  (void)batches_in("training", shortest);  // every rank says so where one has none
  struct Order {
    int epoch = -1;
    std::vector<std::vector<std::size_t>> batches;
  };
  const auto order = std::make_shared<Order>();  // of the epoch that is under way
  TrainingData made{.training_batches = batches_in("training", longest),
                    .test_batches = batches_in("test", test),
                    .own_batches = batches_in("training", training)};
  made.training = [&images, training, order](int epoch, std::int64_t batch) {
    if (order->epoch != epoch) *order = {epoch, data::batches_of_epoch(training, epoch)};
    return tensors_of(data::training_batch(images.training, order->batches.at(static_cast<std::size_t>(batch)),
                                           training.seed, epoch));
  };
  made.test = [&images, batches = data::batches_of_epoch(test, 0)](std::int64_t batch) {
    return tensors_of(data::test_batch(images.test, batches.at(static_cast<std::size_t>(batch))));
  };
  return made;
}

TrainingData text_data(const data::Text& text, const TrainerSettings& settings, int data_rank, std::int64_t length,
                       std::int64_t batches) {
  const std::int64_t rows = settings.batch_size;
  // Every data rank has steps of its own, so that none has another's windows.
  const auto batch_of = [=, seed = settings.seed, ranks = settings.data](std::string_view part, std::int64_t number) {
    return tensors_of(data::text_batch(part, rows, length, seed, number * ranks + data_rank), rows);
  };
  TrainingData made{
      .training_batches = batches, .test_batches = std::max<std::int64_t>(1, batches / 10), .own_batches = batches};
  made.training = [=, part = text.training](int epoch, std::int64_t batch) {
    return batch_of(part, epoch * batches + batch);
  };
  made.test = [=, part = text.held_out](std::int64_t batch) { return batch_of(part, batch); };
  return made;
}

PipelineProgram::PipelineProgram(const TrainerSettings& settings, const PipelineTask& task, comm::Communicator& world,
                                 Timers* timers)
    : settings_(settings),
      world_((check(settings, world), world)),
      timers_(timers),
      groups_(world, groups_plan(parallel_of(settings))),
      data_(task.data(groups_.local_rank("data"))),
      device_(task.device, world, task.devices),
      store_(settings.seed, device_.computes_on()) {
  at::set_num_threads(1);
  make_stages(task);
  if (settings.data > 1) make_reducer(task.gradients);
  optimizer_ = std::make_unique<OptimizerState>(task.optimizer, parameters().size());
  set_learning_rate(settings.learning_rate);
}

PipelineProgram::~PipelineProgram() = default;

void PipelineProgram::make_stages(const PipelineTask& task) {
  const std::vector<schedules::Interval> parts = parts_of(task.blocks, settings_.pipeline, settings_.chunks, task.cut);
  const std::vector<int> ranks = schedule_of(settings_, task.schedule, settings_.micro_batches).stage_to_rank;
  std::vector<int> numbers;
  for (std::size_t stage = 0; stage < ranks.size(); ++stage)
    if (ranks[stage] == groups_.local_rank("pipeline")) numbers.push_back(static_cast<int>(stage));
  stages_ = training::make_stages(task.blocks, parts, numbers, store_);
  std::map<int, Stage*> own;
  for (const auto& [number, stage] : stages_) own[number] = stage.get();
  EngineOptions options{
      .criterion = [](const Tensors& outputs,
                      const Tensors& labels) { return at::cross_entropy_loss(outputs.at(0), labels.at(0)); },
      .device = device_};
  if (settings_.fp16 == "naive") options.wire = at::kHalf;
  if (!settings_.tensor_shape.empty()) {
    const at::Tensor sent =
        at::empty(settings_.tensor_shape, at::TensorOptions(at::kFloat).device(at::kMeta)).requires_grad_();
    options.promised = training::describe({sent});
  }
  engine_ = std::make_unique<PipelineEngine>(
      groups_.communicator("pipeline"),
      [settings = settings_, name = task.schedule](int micro_batches) {
        return schedule_of(settings, name, micro_batches);
      },
      std::move(own), std::move(options));
  share(task.blocks, parts, ranks);
}

// Whoever holds a parameter follows from the model alone: its shapes are enough.
void PipelineProgram::share(const Blocks& blocks, const std::vector<schedules::Interval>& parts,
                            const std::vector<int>& ranks_of_parts) {
  std::map<std::string, std::vector<int>> holders;
  TensorStore shapes(0, c10::DeviceType::Meta);
  for (std::size_t part = 0; part < parts.size(); ++part)
    for (const NamedTensor& parameter : make_stage(blocks, parts[part], shapes)->parameters())
      holders[parameter.name].push_back(ranks_of_parts[part]);
  std::vector<SharedParameter> shared;
  for (const NamedTensor& parameter : parameters()) {
    std::vector<int> ranks = holders.at(parameter.name);
    std::ranges::sort(ranks);
    const auto twice = std::ranges::unique(ranks);
    ranks.erase(twice.begin(), twice.end());
    if (ranks.size() > 1) shared.push_back({parameter.name, parameter.tensor, ranks});
  }
  std::ranges::sort(shared, {}, &SharedParameter::name);
  shared_ = std::make_unique<SharedParameters>(groups_.communicator("pipeline"), shared, device_);
}

TrainingProgram PipelineProgram::program() {
  TrainingProgram program{.training_batches = data_.training_batches, .test_batches = data_.test_batches};
  program.train = [this](int epoch, std::int64_t batch) { return train(epoch, batch); };
  program.test = [this](std::int64_t batch) { return agree(run(data_.test(batch), 1, false)); };
  return program;
}

void PipelineProgram::make_reducer(const GradientSettings& settings) {
  std::vector<GroupedTensor> leaves = in_one_group(parameters());
  const RankDevice where = reduced_on(device_, settings);
  const std::vector<bucketing::Gradient> gradients = gradients_of(leaves, where.device());
  const std::int64_t bucket_bytes =
      bucket_bytes_over(groups_.communicator("data"), gradients, settings.bucket_bytes, where);
  const std::vector<bucketing::MatrixShape> shapes = shapes_of(leaves);
  std::vector<at::Tensor> statistics;
  for (const NamedTensor& buffer : buffers())
    if (settings.broadcast_buffers) statistics.push_back(buffer.tensor);
  if (settings.static_graph) {
    overlapped_ = std::make_unique<AutogradReducer>(groups_.communicator("data"), parameters(),
                                                    AutogradOptions{.where = where,
                                                                    .reducer = options_of(settings, shapes),
                                                                    .bucket_bytes = bucket_bytes,
                                                                    .rebuild = true,
                                                                    .buffers = std::move(statistics)});
    return;
  }
  std::vector<int> backwards(gradients.size());
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  reducer_ = std::make_unique<TensorReducer>(std::vector{&groups_.communicator("data")}, std::move(leaves),
                                             plan_by_bytes(gradients, backwards, bucket_bytes),
                                             options_of(settings, shapes), statistics, where);
}

BatchResult PipelineProgram::train(int epoch, std::int64_t batch) {
  const UpdateBatches update = update_of(batch, data_.training_batches, settings_.accumulation);
  const bool ends = batch + 1 == update.first + update.count;
  EngineResult ran = back_propagate(epoch, batch, update);
  if (ends) reduce(own_batches_of(update, data_.own_batches) == 0);
  BatchResult result = agree(ran);
  if (ends) {
    if (std::isfinite(result.loss)) this->update();
    engine_->clear_gradients();
    if (overlapped_) overlapped_->clear();
  }
  timeline_ = {std::move(ran.actions), std::move(ran.periods)};
  return result;
}

// Nothing where this data rank has no rows for the batch.
EngineResult PipelineProgram::back_propagate(int epoch, std::int64_t batch, const UpdateBatches& update) {
  const bool ends = batch + 1 == update.first + update.count;
  const std::int64_t own = own_batches_of(update, data_.own_batches);
  if (own > 0) begin_reduction(ends);
  EngineResult ran;
  if (batch < data_.own_batches) ran = run(data_.training(epoch, batch), static_cast<int>(own), true);
  if (overlapped_) (void)overlapped_->finish();
  return ran;
}

void PipelineProgram::begin_reduction(bool ends_update) {
  const auto time = timed(timers_, "reduce");
  if (overlapped_) overlapped_->begin(ends_update);
  if (reducer_ && ends_update) reducer_->begin();
}

void PipelineProgram::set_learning_rate(double rate) {
  learning_rate_ = rate;
  optimizer_->set_learning_rate(rate);
}

EngineResult PipelineProgram::run(const BatchTensors& batch, int calls, bool training) {
  const auto time = timed(timers_, training ? "forward and backward" : "forward");
  const int parts = settings_.micro_batches;
  return engine_->run({.micro_batches = parts,
                       .inputs = micro_batches_of({batch.x}, parts, "inputs"),
                       .labels = micro_batches_of({batch.y}, parts, "labels"),
                       .forward_only = !training,
                       .return_outputs = !training,
                       .calls = calls,
                       .measure_memory = training});
}

// Everyone learns what the ranks of the last stages know.
BatchResult PipelineProgram::agree(const EngineResult& ran) {
  constexpr std::size_t kNumbers = 6;
  std::array<double, kNumbers> own{};
  if (!ran.losses.empty())
    own = {1, std::accumulate(ran.losses.begin(), ran.losses.end(), 0.0) / static_cast<double>(ran.losses.size()),
           static_cast<double>(right_rows(ran)), static_cast<double>(all_rows(ran))};
  own[4] = static_cast<double>(ran.peak_bytes);
  own[5] = ran.peak_activations;
  std::vector<double> all(kNumbers * static_cast<std::size_t>(world_.size()));
  world_.all_gather({own.data(), kNumbers, comm::DType::f64},
                    {all.data(), static_cast<std::int64_t>(all.size()), comm::DType::f64});
  BatchResult result{.loss_rank = -1};
  double losses = 0;
  for (int rank = 0; rank < world_.size(); ++rank) {
    const double* numbers = &all[kNumbers * static_cast<std::size_t>(rank)];
    result.memory.push_back({static_cast<std::int64_t>(numbers[4]), static_cast<int>(numbers[5])});
    if (numbers[0] == 0) continue;
    ++losses;
    if (result.loss_rank < 0 || (std::isfinite(result.loss) && !std::isfinite(numbers[1]))) result.loss_rank = rank;
    result.loss += numbers[1];
    result.right += static_cast<std::int64_t>(numbers[2]);
    result.rows += static_cast<std::int64_t>(numbers[3]);
  }
  result.loss /= losses;
  return result;
}

// `joins`: this data rank had no rows for the whole update.
void PipelineProgram::reduce(bool joins) {
  const auto time = timed(timers_, "reduce");
  if (!joins) shared_->reduce();
  gradients_.clear();
  for (const NamedTensor& parameter : parameters()) gradients_.push_back(parameter.tensor.grad());
  if (reducer_ && joins)
    (void)reducer_->join_step(gradients_);
  else if (reducer_)
    reducer_->reduce(gradients_);
}

void PipelineProgram::update() {
  std::vector<at::Tensor> values;
  for (const NamedTensor& parameter : parameters()) {
    values.push_back(parameter.tensor.detach());
    at::Tensor& gradient = gradients_[values.size() - 1];
    if (!gradient.defined()) gradient = at::zeros_like(values.back());
  }
  if (told_) told_(gradients_);
  const auto time = timed(timers_, "update");
  optimizer_->step(values, gradients_);
}

std::vector<NamedTensor> PipelineProgram::buffers() const {
  std::vector<NamedTensor> all;
  for (const auto& [number, stage] : stages_)
    for (const NamedTensor& buffer : stage->buffers()) all.push_back(buffer);
  return all;
}

Checkpoint PipelineProgram::checkpoint(const Configuration& configuration, const Position& at) const {
  Checkpoint made{
      .configuration = configuration, .at = at, .seed = settings_.seed, .rank = world_.rank(), .ranks = world_.size()};
  add_training(made, parameters(), buffers(), *optimizer_);
  return made;
}

void PipelineProgram::restore(const Checkpoint& checkpoint) {
  restore_training(checkpoint, parameters(), buffers(), *optimizer_);
}

}  // namespace plumbline::training
