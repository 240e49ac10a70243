#include "reference/training/detail/executor.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>
#include <variant>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/record/run_files.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/bucketing/autograd.hpp"
#include "reference/training/detail/activations.hpp"
#include "reference/training/detail/flat_shards.hpp"
#include "reference/training/detail/gradients.hpp"
#include "reference/training/detail/model.hpp"
#include "reference/training/detail/on_this_thread.hpp"
#include "reference/training/detail/optimizer.hpp"
#include "reference/training/detail/rank_device.hpp"
#include "reference/training/detail/reduction.hpp"
#include "reference/training/detail/run_checkpoint.hpp"
#include "reference/training/pipeline/rank.hpp"
#include "reference/training/scaler/optimizer.hpp"
#include "reference/training/tensor/sharding.hpp"

namespace plumbline::training {
namespace {

void refuse_unless(bool supported, const std::string& field, const std::string& only) {
  if (!supported) throw Unsupported(fmt::format("{}: the reference's executor runs only {}", field, only));
}

// Gradients in buckets, averaged while back-propagation runs.
class BucketedGradients {
 public:
  /// `values` are the parameters, which an optimizer changes in place; frozen ones have no gradient and no bucket.
  BucketedGradients(const job::RunSpec& spec, const job::RunFiles& files, comm::Communicator& group,
                    const std::vector<job::Parameter>& list, const std::vector<at::Tensor>& values,
                    const RunSettings& settings, const RankDevice& where)
      : spec_(spec),
        files_(files),
        leaves_some_unused_(leaves_some_unused(spec)),
        all_(leaves_of(spec, list, values)),
        model_(spec, all_) {
    std::vector<NamedTensor> named;
    for (std::size_t i = 0; i < list.size(); ++i)
      if (all_[i].requires_grad()) named.push_back({list[i].name, leaves_.emplace_back(all_[i])});
    local_.resize(named.size());
    const std::vector<bucketing::Gradient> gradients = gradients_of(in_one_group(named), where.device());
    AutogradOptions options{
        .where = where,
        .reducer = options_of(settings.gradients, shapes_of(in_one_group(named))),
        .bucket_bytes = bucket_bytes_over(group, gradients, spec.run.bucket_bytes, where),
        .rebuild = settings.gradients.static_graph,
        .before_reduction = [this](std::size_t leaf, const at::Tensor& own) { local_[leaf] = own.clone(); }};
    if (leaves_some_unused_) options.reducer.unused = bucketing::Unused::find_unused;
    reducer_.emplace(group, std::move(named), std::move(options));
  }

  /// The rank's own gradient, as gradient_of() makes it.
  [[nodiscard]] TensorGradient back_propagate(std::span<const job::RowRange> parts, double divisor,
                                              ActivationTape* tape) {
    reducer_->clear();
    model_.observe(tape == nullptr ? LayerObserver() : tape->observer());
    TensorGradient own;
    for (const job::RowRange& part : parts) {
      if (tape != nullptr) tape->begin(static_cast<int>(&part - parts.data()));
      const Rows rows = read_rows(files_, part, leaves_.front().scalar_type());
      const c10::Device device = leaves_.front().device();
      const at::Tensor w = rows.w.defined() ? rows.w.to(device) : rows.w;
      const at::Tensor loss = model_.loss(rows.x.to(device), rows.y.to(device), w);
      const bool is_last = &part == &parts.back();
      if (is_last && leaves_some_unused_) local_ = accumulated();
      reducer_->begin(is_last, {loss});
      const OnThisThread here;
      loss.div(divisor).backward();
      (void)reducer_->finish();
      own.losses.push_back(loss.item<double>());
    }
    own.gradients = local_;
    return own;
  }
  /// The averages, of what trains.
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& leaf : leaves_) all.push_back(leaf.grad());
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!all[i].defined()) all[i] = at::zeros_like(leaves_[i]);
    return all;
  }

 private:
  // Copies of what the parts so far have: of what the last one does not use, the rank's own gradient.
  [[nodiscard]] std::vector<at::Tensor> accumulated() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& leaf : leaves_)
      all.push_back(leaf.grad().defined() ? leaf.grad().clone() : at::zeros_like(leaf));
    return all;
  }
  static std::vector<at::Tensor> leaves_of(const job::RunSpec& spec, const std::vector<job::Parameter>& list,
                                           const std::vector<at::Tensor>& values) {
    std::vector<at::Tensor> leaves;
    for (std::size_t i = 0; i < list.size(); ++i)
      leaves.push_back(values[i].detach().requires_grad_(job::trains(spec, list[i])));
    return leaves;
  }

  const job::RunSpec& spec_;
  const job::RunFiles& files_;
  bool leaves_some_unused_;
  std::vector<at::Tensor> all_;
  Model model_;
  std::vector<at::Tensor> leaves_;  // those that train
  std::vector<at::Tensor> local_;
  std::optional<AutogradReducer> reducer_;
};

// Of a step, from 0: after the warm-up it falls to 0 after the last step.
double learning_rate_of(const job::RunSpec& spec, int step) {
  const double rate = std::visit([](const auto& rule) { return rule.lr; }, spec.optimizer);
  if (!spec.rate_schedule) return rate;
  const int warmup = spec.rate_schedule->warmup_steps;
  if (step < warmup) return rate * step / warmup;
  const double done = static_cast<double>(step - warmup) / (spec.run.steps - warmup);
  if (spec.rate_schedule->decay == "cosine") return rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
  return rate * (1 - done);
}

// The optimizer of these parameters, parts of some of which are this rank's: "2.weight@1".
OptimizerState grouped_optimizer(const job::RunSpec& spec, const std::vector<job::Parameter>& list) {
  OptimizerState optimizer(spec.optimizer, list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string whole = list[i].name.substr(0, list[i].name.find('@'));
    if (std::ranges::find(spec.no_decay, whole) != spec.no_decay.end()) optimizer.exempt_from_decay(i);
  }
  return optimizer;
}

std::vector<job::Parameter> trained_of(const job::RunSpec& spec, std::vector<job::Parameter> list) {
  std::erase_if(list, [&](const job::Parameter& one) { return !job::trains(spec, one); });
  return list;
}

// The outputs of layers in a step, and their gradients divided by the loss's scale.
void note_activations(const job::RunSpec& spec, int step, const std::vector<KeptActivation>& kept, double loss_scale,
                      job::RecordWriter& record) {
  const std::vector<bool> in_parts = puts_out_parts(spec);
  for (const KeptActivation& one : kept) {
    const auto add = [&](job::Direction direction, const at::Tensor& tensor) {
      const bool is_part = in_parts[static_cast<std::size_t>(one.layer)];
      record.add({step, direction, one.layer, one.micro_batch},
                 is_part ? std::optional(static_cast<int>(tensor.dim()) - 1) : std::nullopt, tensor.sizes().vec(),
                 to_floats(tensor));
    };
    add(job::Direction::forward, one.output);
    if (one.gradient.defined()) add(job::Direction::backward, one.gradient.to(at::kFloat).div(loss_scale));
  }
}

OptimizerState::Moments on_device_of(const at::Tensor& value, OptimizerState::Moments moments) {
  for (at::Tensor* one : {&moments.first, &moments.second})
    if (one->defined()) *one = one->to(value.device());
  return moments;
}

// Copies the saved values into these, and returns the moments.
std::vector<OptimizerState::Moments> restored(const SavedRun& saved, std::vector<at::Tensor>& values) {
  std::vector<OptimizerState::Moments> moments;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i].copy_(saved.parts[i].value);
    moments.push_back(on_device_of(values[i], saved.parts[i].moments));
  }
  return moments;
}

// The states of one rank's run, step after step.
class DataParallelRun {
 public:
  DataParallelRun(const job::RunSpec& spec, comm::Communicator& group, const RunSettings& settings,
                  const RankDevice& rank)
      : spec_(spec),
        group_(group),
        files_(spec),
        list_(job::parameters_of(spec)),
        trained_(trained_of(spec, list_)),
        optimizer_(grouped_optimizer(spec, trained_)),
        record_(spec, group.rank(), "plumbline", PLUMBLINE_VERSION) {
    values_ = parameters_on(spec, given_weights(spec), Arithmetic::float32, rank.computes_on());
    trained_values_ = only_trained(values_);
    const RankDevice where = reduced_on(rank, settings.gradients);
    if (where.is_shared())
      buckets_.emplace(spec, files_, group, list_, values_, settings, where);
    else
      reduction_.emplace(group, spec, settings, trained_, trained_values_, rank);
  }

  StepProgress step(int step) {
    note(step, job::Moment::before, values_);
    // 1. The gradient of the rank's own rows: the mean over its micro-batches, g_r = 1/m sum_i g(rows_i).
    const std::vector<job::RowRange> rows = job::micro_batches_of(spec_, step, group_.rank());
    TensorGradient local = back_propagate(step, rows);
    note_activations(spec_, step, tape_.take(), 1, record_);
    note(step, job::Moment::local_grad, local.gradients);
    // 2. Its average over the data ranks, g = 1/n sum_r g_r.
    average(local.gradients);
    note(step, job::Moment::grad, local.gradients);
    // 3. The update, the same on every rank.
    optimizer_.set_learning_rate(learning_rate_of(spec_, step));
    optimizer_.step(trained_values_, local.gradients);
    note(step, job::Moment::after, values_);
    const auto loss = static_cast<float>(mean_loss(files_, rows, local.losses));
    record_.add_loss(step, loss);
    return {.step = step, .steps = spec_.run.steps, .loss = loss};
  }
  void write(const std::filesystem::path& folder) const { record_.write(folder); }

  [[nodiscard]] SavedRun saved() const {
    SavedRun saved{.optimizer_steps = optimizer_.steps(), .parts = {}};
    std::size_t trained = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      saved.parts.push_back({.whole = list_[i], .value = values_[i]});
      if (job::trains(spec_, list_[i])) saved.parts.back().moments = optimizer_.moments()[trained++];
    }
    return saved;
  }
  void restore(const SavedRun& saved) {
    const std::vector<OptimizerState::Moments> all = restored(saved, values_);
    std::vector<OptimizerState::Moments> trained;
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (job::trains(spec_, list_[i])) trained.push_back(all[i]);
    optimizer_.restore(saved.optimizer_steps, std::move(trained));
  }

 private:
  TensorGradient back_propagate(int step, std::span<const job::RowRange> rows) {
    const double divisor = divisor_of(spec_, files_, step);
    ActivationTape* const tape = spec_.run.activations ? &tape_ : nullptr;
    if (buckets_) return buckets_->back_propagate(rows, divisor, tape);
    TensorGradient own = gradient_of(spec_, files_, values_, rows, divisor, 1, tape);
    own.gradients = only_trained(own.gradients);
    return own;
  }
  // Those in buckets were averaged while back-propagation ran.
  void average(std::vector<at::Tensor>& gradients) {
    if (buckets_)
      gradients = buckets_->gradients();
    else
      reduction_->reduce(gradients);
  }
  void note(int step, job::Moment moment, std::span<const at::Tensor> tensors) {
    const bool is_gradient = moment == job::Moment::grad || moment == job::Moment::local_grad;
    const std::vector<job::Parameter>& list = is_gradient ? trained_ : list_;
    for (std::size_t i = 0; i < list.size(); ++i) record_.add(step, moment, list[i], to_floats(tensors[i]));
  }
  [[nodiscard]] std::vector<at::Tensor> only_trained(const std::vector<at::Tensor>& all) const {
    std::vector<at::Tensor> some;
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (job::trains(spec_, list_[i])) some.push_back(all[i]);
    return some;
  }

  const job::RunSpec& spec_;
  comm::Communicator& group_;
  job::RunFiles files_;
  std::vector<job::Parameter> list_, trained_;
  std::vector<at::Tensor> values_, trained_values_;  // the latter share memory with the former
  OptimizerState optimizer_;
  job::RecordWriter record_;
  ActivationTape tape_;
  std::optional<BucketedGradients> buckets_;
  std::optional<DataReduction> reduction_;  // in place of those
};

// The same of data ranks that hold shards: they have whole parameters from the gather at the start of a step to the
// reduction of its gradients.
class ShardedRun {
 public:
  ShardedRun(const job::RunSpec& spec, comm::Communicator& world, const RunSettings&, const RankDevice& rank)
      : spec_(spec),
        data_rank_(job::coordinates_of(spec.parallel, world.rank()).data),
        files_(spec),
        list_(job::parameters_of(spec)),
        shards_(spec, world),
        optimizer_(grouped_optimizer(spec, shards_.parts())),
        record_(spec, world.rank(), "plumbline", PLUMBLINE_VERSION) {
    const std::vector<at::Tensor> whole =
        parameters_on(spec, given_weights(spec), Arithmetic::float32, rank.computes_on());
    for (std::size_t i = 0; i < list_.size(); ++i) parts_.push_back(shards_.cut(i, whole[i]));
  }

  StepProgress step(int step) {
    keep(step, job::Moment::before, shards_.parts(), parts_);
    // 1. All of the parameters, from the ranks of the replica.
    std::vector<at::Tensor> whole;
    for (std::size_t i = 0; i < list_.size(); ++i) whole.push_back(shards_.gathered(i, parts_[i]));
    // 2. The gradient of the rank's own rows.
    const std::vector<job::RowRange> rows = job::micro_batches_of(spec_, step, data_rank_);
    const double divisor = divisor_of(spec_, files_, step);
    const TensorGradient own =
        gradient_of(spec_, files_, whole, rows, divisor, 1, spec_.run.activations ? &tape_ : nullptr);
    note_activations(spec_, step, tape_.take(), 1, record_);
    keep(step, job::Moment::local_grad, list_, own.gradients);
    // 3. Its part of the average over all data ranks.
    std::vector<at::Tensor> gradients;
    for (std::size_t i = 0; i < list_.size(); ++i) gradients.push_back(shards_.reduced(i, own.gradients[i]));
    keep(step, job::Moment::grad, shards_.parts(), gradients);
    // 4. The update of the part, which has the optimizer's state of it alone.
    optimizer_.set_learning_rate(learning_rate_of(spec_, step));
    optimizer_.step(parts_, gradients);
    keep(step, job::Moment::after, shards_.parts(), parts_);
    const auto loss = static_cast<float>(mean_loss(files_, rows, own.losses));
    record_.add_loss(step, loss);
    return {.step = step, .steps = spec_.run.steps, .loss = loss};
  }
  void write(const std::filesystem::path& folder) const { record_.write(folder); }

  [[nodiscard]] SavedRun saved() const {
    SavedRun saved{.optimizer_steps = optimizer_.steps(), .parts = {}};
    for (std::size_t i = 0; i < list_.size(); ++i)
      saved.parts.push_back({list_[i], shards_.shard(i), parts_[i], optimizer_.moments()[i]});
    return saved;
  }
  void restore(const SavedRun& saved) { optimizer_.restore(saved.optimizer_steps, restored(saved, parts_)); }

 private:
  void keep(int step, job::Moment moment, const std::vector<job::Parameter>& list, std::span<const at::Tensor> values) {
    for (std::size_t i = 0; i < list.size(); ++i) record_.add(step, moment, list[i], to_floats(values[i]));
  }

  const job::RunSpec& spec_;
  int data_rank_;
  job::RunFiles files_;
  std::vector<job::Parameter> list_;
  FlatShards shards_;
  std::vector<at::Tensor> parts_;
  OptimizerState optimizer_;
  job::RecordWriter record_;
  ActivationTape tape_;
};

// Replicas that were reduced have the same gradients, unless something is written into one of them afterwards.
scaler::Deciding deciding_of(const job::RunSpec& spec) {
  const bool parts = std::ranges::any_of(spec.injections, &job::Injection::reduced);
  return parts ? scaler::Deciding::model_and_data : scaler::Deciding::model;
}

// What stands between the gradients of a run in 16 bits and its optimizer.
std::unique_ptr<ScaledOptimizer> scaled_optimizer(const job::RunSpec& spec, const PipelineRank& rank,
                                                  const RunSettings& settings) {
  const Scaling scaling{.options = {.scale = loss_scale_of(spec.scaler),
                                    .deciding = deciding_of(spec),
                                    .clip_norm = settings.precision.clip_norm,
                                    .norm_type = settings.precision.norm_type,
                                    .skips_overflows = spec.scaler.has_value()},
                        .groups = rank.scaler_groups()};
  if (settings.precision.autocast) return autocast_optimizer(rank.scaled_leaves(), spec.optimizer, scaling);
  return rounded_optimizer(rank.scaled_leaves(), rank.given(), spec.optimizer, scaling);
}

// Its inner optimizer's state is the number of steps, then both moments of each parameter.
void add_state_of(const ScaledOptimizer& optimizer, SavedRun& saved) {
  const scaler::Fp16State state = optimizer.state();
  if (const auto* torch = std::get_if<scaler::TorchScale>(&state.scale)) saved.scale = *torch;
  saved.optimizer_steps = static_cast<int>(state.inner.front().front());
  for (std::size_t i = 0; i < saved.parts.size(); ++i) {
    const auto moment = [&](std::size_t which) {
      const std::vector<float>& values = state.inner[1 + 2 * i + which];
      return values.empty()
                 ? at::Tensor()
                 : at::from_blob(const_cast<float*>(values.data()), saved.parts[i].value.sizes(), at::kFloat).clone();
    };
    saved.parts[i].moments = {moment(0), moment(1)};
  }
}
void load_state_of(const SavedRun& saved, ScaledOptimizer& optimizer) {
  scaler::Fp16State state{
      .scale = optimizer.state().scale, .master_weights = {}, .inner = {{static_cast<float>(saved.optimizer_steps)}}};
  if (saved.scale) state.scale = *saved.scale;
  for (const SavedPart& part : saved.parts) {
    state.master_weights.push_back(to_floats(part.value));
    for (const at::Tensor& moment : {part.moments.first, part.moments.second})
      state.inner.push_back(moment.defined() ? to_floats(moment) : std::vector<float>());
  }
  optimizer.load(state);
}

// The same of a rank whose model is cut, or computes in 16 bits: a call of the engine for each batch of a step.
class StagedRun {
 public:
  StagedRun(const job::RunSpec& spec, comm::Communicator& world, const RunSettings& settings, const RankDevice& rank)
      : spec_(spec),
        rank_(spec, world, settings, rank),
        optimizer_(grouped_optimizer(spec, rank_.list())),
        record_(spec, world.rank(), "plumbline", PLUMBLINE_VERSION) {
    for (const at::Tensor& leaf : rank_.leaves()) values_.push_back(leaf.detach());
    reduction_.emplace(rank_.data_group(), spec, settings, rank_.list(), values_, rank, rank_.expert_data_group());
    if (!is_mixed(spec, settings.precision)) return;
    scaled_ = scaled_optimizer(spec, rank_, settings);
    values_ = scaled_->values();
  }

  /// Told by the ranks that have the last stage.
  std::optional<StepProgress> step(int step) {
    StepProgress progress{.step = step, .steps = spec_.run.steps};
    note(step, job::Moment::before, values_);
    // 1. The gradients of the rank's stages, over the micro-batches of the step's calls.
    rank_.clear_gradients();
    std::vector<KeptActivation> activations;
    const std::vector<double> losses = back_propagate(step, activations);
    note_activations(spec_, step, activations, scaled_ ? scaled_->scale() : 1, record_);
    if (!spec_.injections.empty()) rank_.inject_local(step);
    // 2. Of what stages on several ranks share, the sum of all uses.
    rank_.reduce_shared();
    // 3. The average over the data ranks, and the update.
    if (scaled_)
      update_scaled(progress);
    else
      update(step);
    if (!rank_.has_last_stage()) return {};
    const std::vector<job::RowRange> own = job::micro_batches_of(spec_, step, rank_.place().data);
    progress.loss = static_cast<float>(mean_loss(rank_.files(), own, losses));
    record_.add_loss(step, progress.loss);
    return progress;
  }
  void write(const std::filesystem::path& folder) const { record_.write(folder); }

  [[nodiscard]] SavedRun saved() const {
    SavedRun saved{.optimizer_steps = optimizer_.steps(), .parts = {}};
    for (std::size_t i = 0; i < values_.size(); ++i)
      saved.parts.push_back({rank_.whole()[i], rank_.shard(i), values_[i], optimizer_.moments()[i]});
    if (scaled_) add_state_of(*scaled_, saved);
    return saved;
  }
  void restore(const SavedRun& saved) {
    if (scaled_) {
      load_state_of(saved, *scaled_);
      return;
    }
    optimizer_.restore(saved.optimizer_steps, restored(saved, values_));
  }

 private:
  std::vector<double> back_propagate(int step, std::vector<KeptActivation>& activations) {
    const std::vector<job::RowRange> rows = job::micro_batches_of(spec_, step, rank_.place().data);
    const std::ptrdiff_t of_call = spec_.run.micro_batches;
    const double divisor = spec_.row_weights ? divisor_of(spec_, rank_.files(), step) : 0;
    std::vector<double> losses;
    for (auto begin = rows.begin(); rows.end() - begin >= of_call; begin += of_call) {
      const EngineResult result =
          rank_.run({begin, begin + of_call}, spec_.run.accumulation, false, scaled_ ? scaled_->scale() : 1, divisor);
      losses.insert(losses.end(), result.losses.begin(), result.losses.end());
      for (KeptActivation& one : rank_.take_activations()) {
        one.micro_batch += static_cast<int>(begin - rows.begin());
        activations.push_back(std::move(one));
      }
    }
    return losses;
  }
  void update(int step) {
    std::vector<at::Tensor> gradients = rank_.gradients();
    note(step, job::Moment::local_grad, gradients);
    reduction_->reduce(gradients);
    note(step, job::Moment::grad, gradients);
    optimizer_.set_learning_rate(learning_rate_of(spec_, step));
    optimizer_.step(values_, gradients);
    note(step, job::Moment::after, values_);
  }
  // The record has gradients as if losses had not been multiplied.
  void update_scaled(StepProgress& progress) {
    const int step = progress.step;
    std::vector<at::Tensor> gradients = rank_.gradients();
    std::vector<at::Tensor> unscaled;
    const double inverse = static_cast<double>(scaler::inverse_of(scaled_->scale()));
    for (const at::Tensor& own : gradients) unscaled.push_back(own.to(at::kFloat).mul(inverse));
    note(step, job::Moment::local_grad, unscaled);
    reduction_->reduce(gradients);
    rank_.inject_reduced(step, gradients);
    const scaler::StepOutcome outcome = scaled_->step(gradients);
    note(step, job::Moment::grad, scaled_->gradients());
    note(step, job::Moment::after, values_);
    if (!spec_.scaler) return;
    progress.scale = static_cast<float>(outcome.scale);
    progress.skipped = !outcome.stepped;
    record_.add_scale(step, *progress.scale);
    record_.add_skipped(step, progress.skipped);
  }
  void note(int step, job::Moment moment, std::span<const at::Tensor> tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      // An expert's gradient before the reduction is not of this rank's rows, but of the tokens of several ranks.
      const bool is_of_others = spec_.parallel.expert > 1 && rank_.list()[i].expert >= 0;
      if (moment == job::Moment::local_grad && is_of_others) continue;
      record_.add(step, moment, rank_.list()[i], to_floats(tensors[i]));
    }
  }

  const job::RunSpec& spec_;
  PipelineRank rank_;
  std::vector<at::Tensor> values_;
  std::optional<DataReduction> reduction_;
  OptimizerState optimizer_;
  std::unique_ptr<ScaledOptimizer> scaled_;  // in place of that, where the run is mixed
  job::RecordWriter record_;
};

// Throws for an element that the part of the rank does not have.
void require_injections(const job::RunSpec& spec) {
  const std::vector<job::Parameter> all = job::parameters_of(spec);
  const std::vector<LinearForm> forms = linear_forms(spec);
  for (const job::Injection& one : spec.injections) {
    const job::Parameter& whole = *std::ranges::find(all, one.parameter, &job::Parameter::name);
    const int tensor = job::coordinates_of(spec.parallel, one.rank).tensor;
    const job::Parameter own = recorded(whole, shard_of(spec, forms, whole, tensor));
    if (one.index >= job::elements_of(own.shape))
      throw InvalidArgument(fmt::format("an injection at element {} of '{}'; rank {} has {} of them, '{}'", one.index,
                                        one.parameter, one.rank, job::elements_of(own.shape), own.name));
  }
}

template <class Run>
void run_steps(const job::RunSpec& spec, comm::Communicator& world, const std::filesystem::path& folder,
               const Progress& progress, const RunSettings& settings, const RankDevice& rank) {
  Run run(spec, world, settings, rank);
  if (spec.first_step() > 0) {
    SavedRun saved = run.saved();
    load_run(spec, saved);
    run.restore(saved);
  }
  for (int step = spec.first_step(); step < spec.end_step(); ++step) {
    const std::optional<StepProgress> told = run.step(step);
    if (progress && told) progress(*told);
  }
  if (spec.end_step() < spec.run.steps) save_run(spec, world.rank(), run.saved());
  run.write(folder);
}

}  // namespace

void require_runnable(const job::RunSpec& spec, const comm::Communicator& world, const RunSettings& settings) {
  refuse_impossible(spec);
  require_possible(settings.gradients);
  require_possible(spec, settings.precision);
  require_possible(spec, settings.gradients, settings.precision);
  require_injections(spec);
  refuse_unless(settings.gradients.join.empty(), fmt::format("join '{}'", settings.gradients.join),
                "equally many rows on all ranks");
  if (world.size() == spec.parallel.world()) return;
  const std::string pipeline =
      spec.parallel.pipeline == 1 ? "" : fmt::format("parallel.pipeline = {}, ", spec.parallel.pipeline);
  throw InvalidArgument(
      fmt::format("{}parallel.data = {}, but {} ranks were started", pipeline, spec.parallel.data, world.size()));
}

void run_specification(const job::RunSpec& spec, comm::Communicator& world, const std::filesystem::path& folder,
                       const Progress& progress, const RunSettings& given,
                       const std::shared_ptr<device::Runtime>& devices) {
  RunSettings settings = given;
  settings.precision = with_clip_of(spec, given.precision);
  require_runnable(spec, world, settings);
  const RankDevice rank(spec.run.device, world, devices);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RuntimeFailure(fmt::format("'{}' cannot be made a folder: {}", folder.string(), error.message()));
  if (spec.parallel.shard > 1)
    run_steps<ShardedRun>(spec, world, folder, progress, settings, rank);
  else if (is_staged(spec, settings.precision))
    run_steps<StagedRun>(spec, world, folder, progress, settings, rank);
  else
    run_steps<DataParallelRun>(spec, world, folder, progress, settings, rank);
}

}  // namespace plumbline::training
