#include "reference/training/slowmo/averaged_run.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <span>

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/record/run_files.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/detail/checkpoint_tensors.hpp"
#include "reference/training/detail/gradients.hpp"
#include "reference/training/detail/model.hpp"
#include "reference/training/detail/on_this_thread.hpp"
#include "reference/training/detail/optimizer.hpp"
#include "reference/training/run_settings.hpp"
#include "reference/training/slowmo/averaged_module.hpp"

namespace plumbline::training {
namespace {

// Gradients of float16 below its smallest number would be lost; a power of 2 costs no bits.
constexpr double kLossScale = 1024;

at::ScalarType type_of(const std::string& dtype) {
  if (dtype == "float16") return at::kHalf;
  return dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

void append(std::vector<float>& flat, const at::Tensor& tensor) {
  const std::vector<float> values = to_floats(tensor);
  flat.insert(flat.end(), values.begin(), values.end());
}
std::vector<float> flat_of(const std::vector<at::Tensor>& tensors) {
  std::vector<float> flat;
  for (const at::Tensor& tensor : tensors) append(flat, tensor);
  return flat;
}
std::vector<float> flat_of(const std::vector<NamedTensor>& tensors) {
  std::vector<float> flat;
  for (const NamedTensor& one : tensors) append(flat, one.tensor);
  return flat;
}

// The layers of a specification with the running statistics of its batch normalisations, as torch.nn keeps them.
class RunningModel {
 public:
  RunningModel(const job::RunSpec& spec, std::vector<at::Tensor> leaves, const RankDevice& where)
      : spec_(spec), leaves_(std::move(leaves)), model_(spec, leaves_) {
    const std::vector<job::Parameter> list = job::parameters_of(spec);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto* norm = std::get_if<job::BatchNorm2d>(&spec.layers[static_cast<std::size_t>(list[i].layer)]);
      if (norm == nullptr) continue;
      Norm& own = norms_[list[i].layer];
      (list[i].name.ends_with(".bias") ? own.bias : own.weight) = leaves_[i];
      if (own.mean.defined()) continue;
      const at::TensorOptions options = leaves_[i].options().requires_grad(false);
      own.mean = where.placed(at::zeros({norm->features}, options));
      own.variance = where.placed(at::full({norm->features}, 1, options));
      own.batches = where.placed(at::zeros({}, at::kLong));
    }
  }

  at::Tensor forward(const at::Tensor& x, bool training) {
    at::Tensor value = x;
    Model::Outputs outputs;
    for (int layer = 0; layer < static_cast<int>(spec_.layers.size()); ++layer) {
      const auto norm = norms_.find(layer);
      value = norm == norms_.end() ? model_.forward(value, layer, layer + 1, {}, outputs)
                                   : normalised(value, norm->second, training);
      outputs[layer] = value;
    }
    return value;
  }
  [[nodiscard]] std::vector<NamedTensor> buffers() const {
    std::vector<NamedTensor> list;
    for (const auto& [layer, norm] : norms_) {
      list.push_back({fmt::format("{}.running_mean", layer), norm.mean});
      list.push_back({fmt::format("{}.running_var", layer), norm.variance});
      list.push_back({fmt::format("{}.num_batches_tracked", layer), norm.batches});
    }
    return list;
  }

 private:
  struct Norm {
    at::Tensor weight, bias, mean, variance, batches;
  };
  static at::Tensor normalised(const at::Tensor& x, const Norm& norm, bool training) {
    if (training) norm.batches.detach().add_(1);
    return at::batch_norm(x, norm.weight, norm.bias, norm.mean, norm.variance, training, 0.1, 1e-5, true);
  }

  const job::RunSpec& spec_;
  std::vector<at::Tensor> leaves_;
  Model model_;
  std::map<int, Norm> norms_;  // by layer
};

StoredTensor stored(const std::vector<double>& values) {
  StoredTensor tensor{.dtype = comm::DType::f64,
                      .shape = {static_cast<std::int64_t>(values.size())},
                      .bytes = std::vector<std::byte>(values.size() * sizeof(double))};
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

// What is between ranks, in a checkpoint: numbers as texts that keep every bit.
class SlowMoStates {
 public:
  static void add(const slowmo::Checkpoint& from, Checkpoint& to) {
    if (from.push_sum_weight) to.states["slowmo.weight"] = fmt::format("{:a}", *from.push_sum_weight);
    if (from.is_numerator) to.states["slowmo.numerator"] = *from.is_numerator ? "1" : "0";
    if (from.steps) to.states["slowmo.steps"] = std::to_string(*from.steps);
    if (from.round) to.states["slowmo.round"] = std::to_string(*from.round);
    if (!from.slow) return;
    to.states["slowmo.begin"] = std::to_string(from.slow->range.begin);
    to.states["slowmo.end"] = std::to_string(from.slow->range.end);
    to.tensors["slow/parameters"] = stored(from.slow->old_parameters);
    to.tensors["slow/momentum"] = stored(from.slow->momentum);
  }
  static slowmo::Checkpoint from(const Checkpoint& checkpoint) {
    slowmo::Checkpoint found;
    if (const std::string* text = state(checkpoint, "slowmo.weight")) found.push_sum_weight = weight_of(*text);
    if (const std::string* text = state(checkpoint, "slowmo.numerator")) found.is_numerator = *text == "1";
    if (const std::string* text = state(checkpoint, "slowmo.steps")) found.steps = whole(*text, "slowmo.steps");
    if (const std::string* text = state(checkpoint, "slowmo.round")) found.round = whole(*text, "slowmo.round");
    const std::string* begin = state(checkpoint, "slowmo.begin");
    const std::string* end = state(checkpoint, "slowmo.end");
    if (begin != nullptr && end != nullptr)
      found.slow = slowmo::SlowState{.range = {whole(*begin, "slowmo.begin"), whole(*end, "slowmo.end")},
                                     .old_parameters = values(checkpoint, "slow/parameters"),
                                     .momentum = values(checkpoint, "slow/momentum")};
    return found;
  }

 private:
  static const std::string* state(const Checkpoint& checkpoint, const char* name) {
    const auto found = checkpoint.states.find(name);
    return found == checkpoint.states.end() ? nullptr : &found->second;
  }
  static double weight_of(const std::string& text) {
    char* end = nullptr;
    const double weight = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0' || !(weight > 0))
      throw InvalidArgument(fmt::format("the checkpoint's slowmo.weight is '{}'; it must be a number above 0", text));
    return weight;
  }
  static std::int64_t whole(const std::string& text, const char* name) {
    std::int64_t value = -1;
    const char* end = text.data() + text.size();
    if (std::from_chars(text.data(), end, value) != std::from_chars_result{end, {}} || value < 0)
      throw InvalidArgument(fmt::format("the checkpoint's {} is '{}'; it must be a whole number", name, text));
    return value;
  }
  static std::vector<double> values(const Checkpoint& checkpoint, const char* name) {
    const auto found = checkpoint.tensors.find(name);
    if (found == checkpoint.tensors.end() || found->second.dtype != comm::DType::f64)
      throw InvalidArgument(fmt::format("the checkpoint has no '{}' of f64", name));
    std::vector<double> list(found->second.bytes.size() / sizeof(double));
    if (!list.empty()) std::memcpy(list.data(), found->second.bytes.data(), found->second.bytes.size());
    return list;
  }
};

class AveragedRun final : public AveragedSession {
 public:
  AveragedRun(const job::RunSpec& spec, comm::Communicator& world, const AveragingSettings& settings,
              const RankDevice& where)
      : spec_(spec),
        settings_(settings),
        world_(world),
        files_(spec_),
        list_(job::parameters_of(spec_)),
        where_(where),
        values_(given_values(spec_, where)),
        leaves_(leaves_of(values_, type_of(spec.run.dtype), where)),
        model_(spec_, leaves_, where),
        optimizer_(spec.optimizer, list_.size()) {
    ModuleTensors tensors{
        .parameters = named(leaves_), .buffers = model_.buffers(), .master_weights = {}, .where = where};
    if (has_master_weights()) tensors.master_weights = values_;
    module_.emplace(
        world, std::move(tensors),
        [this](const at::Tensor& x, bool training) {
          if (training) buffers_seen_ = flat_of(model_.buffers());
          return model_.forward(x, training);
        },
        [this] { return std::vector<OptimizedTensors>{{values_, rate_of(spec_, settings_, step_)}}; },
        options_of(settings, world.size()));
  }

  AveragedStep step(int step) override {
    step_ = step;
    module_->train();
    optimizer_.set_learning_rate(rate_of(spec_, settings_, step));
    AveragedStep done{.before = flat_of(values_),
                      .seen = {},
                      .gradient = {},
                      .updated = {},
                      .after = {},
                      .weight_before = module_->averaging().push_sum_weight()};
    const std::vector<at::Tensor> gradients = back_propagate(step, done);
    done.gradient = flat_of(gradients);
    if (module_->averaging().setting().overlap) done.mixed = flat_of(values_);
    optimizer_.step(values_, gradients);
    if (has_master_weights())
      for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i].detach().copy_(values_[i]);
    done.updated = flat_of(values_);
    module_->perform_slowmo();
    done.after = flat_of(values_);
    if (has_master_weights()) done.halves = flat_of(leaves_);
    done.weight = module_->averaging().push_sum_weight();
    ++steps_done_;
    return done;
  }

  double evaluate(const LabelledRows& rows) override {
    const at::Tensor x = tensor_of(spec_, rows);
    const c10::AutoGradMode without_gradients(false);
    module_->evaluate();
    const at::ScalarType type = x.is_floating_point() ? leaves_.front().scalar_type() : x.scalar_type();
    const at::Tensor outputs = module_->forward(x.to(leaves_.front().device(), type));
    module_->perform_slowmo();  // as after each batch
    return share_of_right(outputs, rows);
  }

  std::vector<float> estimate() const override {
    std::vector<float> values = flat_of(has_master_weights() ? leaves_ : values_);
    const slowmo::SlowMo& averaging = module_->averaging();
    // Numerators are what the optimizer and the averages left; a forward puts estimates in their place.
    if (!averaging.setting().sgp || averaging.is_lazy()) return values;
    if (!averaging.is_numerator()) return values;
    const auto weight = static_cast<float>(averaging.push_sum_weight());
    for (float& value : values) value /= weight;
    return values;
  }

  std::int64_t slow_buffer_bytes() const override { return module_->averaging().slow_buffer_bytes(); }

  void save(const std::filesystem::path& folder) override {
    const slowmo::Checkpoint between = module_->checkpoint();  // first: it adds to the values what is under way
    Checkpoint checkpoint{.configuration = configuration(),
                          .at = {.step = steps_done_},
                          .seed = spec_.seed,
                          .states = {},
                          .tensors = {},
                          .rank = world_.rank(),
                          .ranks = world_.size()};
    add_training(checkpoint, named(values_), model_.buffers(), optimizer_);
    if (has_master_weights()) add_tensors(checkpoint, "half", named(leaves_));
    SlowMoStates::add(between, checkpoint);
    (void)write_checkpoint(checkpoint, folder);
  }
  void load(const std::filesystem::path& folder, int steps) override {
    const Checkpoint checkpoint =
        read_checkpoint(checkpoint_file(folder, steps, world_.rank()), configuration(), world_.rank(), world_.size());
    const slowmo::Checkpoint between = SlowMoStates::from(checkpoint);
    restore_training(checkpoint, named(values_), model_.buffers(), optimizer_);
    if (has_master_weights()) restore_tensors(checkpoint, "half", named(leaves_));
    module_->load(between);
    steps_done_ = checkpoint.at.step;
  }

 private:
  static std::vector<at::Tensor> given_values(const job::RunSpec& spec, const RankDevice& where) {
    std::vector<at::Tensor> values = parameters_on(spec, given_weights(spec), Arithmetic::float32, where.computes_on());
    for (at::Tensor& value : values) value = where.placed(value);
    return values;
  }
  // Of float32: leaves over the values' memory.
  static std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& values, at::ScalarType type,
                                           const RankDevice& where) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& value : values) {
      const at::Tensor own = type == at::kFloat ? value.detach() : where.placed(value.detach().to(type));
      leaves.push_back(own.requires_grad_());
    }
    return leaves;
  }
  [[nodiscard]] bool has_master_weights() const { return leaves_.front().scalar_type() != at::kFloat; }
  [[nodiscard]] std::vector<NamedTensor> named(const std::vector<at::Tensor>& tensors) const {
    std::vector<NamedTensor> list;
    for (std::size_t i = 0; i < tensors.size(); ++i) list.push_back({list_[i].name, tensors[i]});
    return list;
  }
  [[nodiscard]] Configuration configuration() const { return configuration_of(spec_, settings_); }

  std::vector<at::Tensor> back_propagate(int step, AveragedStep& done) {
    const std::vector<job::RowRange> parts = job::micro_batches_of(spec_, step, world_.rank());
    const double scale = leaves_.front().scalar_type() == at::kHalf ? kLossScale : 1;
    const double divisor = micro_batches_of_a_step(spec_);
    for (const at::Tensor& leaf : leaves_) leaf.mutable_grad().reset();
    std::vector<double> losses;
    for (const job::RowRange& part : parts) {
      const Rows rows = read_rows(files_, part, leaves_.front().scalar_type());
      const at::Tensor output = module_->forward(rows.x.to(where_.computes_on()), &part == &parts.back());
      done.seen = flat_of(leaves_);
      if (&part == &parts.front()) done.buffers_seen = buffers_seen_;
      const at::Tensor loss = loss_of(spec_, output.to(at::kFloat), rows.y.to(where_.computes_on()));
      losses.push_back(loss.item<double>());
      const OnThisThread here;
      loss.div(divisor).mul(scale).backward();
    }
    done.buffers = flat_of(model_.buffers());
    done.loss = mean_loss(files_, parts, losses);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& leaf : leaves_) gradients.push_back(leaf.grad().to(at::kFloat).div(scale));
    return gradients;
  }

  const job::RunSpec spec_;
  const AveragingSettings settings_;
  comm::Communicator& world_;
  job::RunFiles files_;
  std::vector<job::Parameter> list_;
  RankDevice where_;
  std::vector<at::Tensor> values_;  // what the optimizer changes
  std::vector<at::Tensor> leaves_;  // the same memory, or of 16 bits
  RunningModel model_;
  OptimizerState optimizer_;
  std::optional<AveragedModule> module_;
  std::vector<float> buffers_seen_;
  int step_ = 0;
  std::int64_t steps_done_ = 0;
};

void add_step(const job::RunSpec& spec, int step, const AveragedStep& done, job::RecordWriter& record) {
  const std::pair<job::Moment, const std::vector<float>*> lists[] = {{job::Moment::before, &done.before},
                                                                     {job::Moment::seen, &done.seen},
                                                                     {job::Moment::grad, &done.gradient},
                                                                     {job::Moment::updated, &done.updated},
                                                                     {job::Moment::after, &done.after}};
  for (const auto& [moment, list] : lists) {
    std::span<const float> rest = *list;
    for (const job::Parameter& parameter : job::parameters_of(spec)) {
      const auto count = static_cast<std::size_t>(job::elements_of(parameter.shape));
      if (job::needs_moment(spec, moment)) record.add(step, moment, parameter, rest.first(count));
      rest = rest.subspan(count);
    }
  }
  record.add_loss(step, static_cast<float>(done.loss));
  if (job::has_push_sum(spec)) record.add_weight(step, static_cast<float>(done.weight));
}

}  // namespace

std::unique_ptr<AveragedSession> averaged_run(const job::RunSpec& spec, comm::Communicator& world,
                                              const AveragingSettings& settings,
                                              const std::shared_ptr<device::Runtime>& devices) {
  require_averageable(spec);
  require_together(spec, settings);
  if (world.size() != spec.parallel.data)
    throw InvalidArgument(
        fmt::format("parallel.data = {}, but {} ranks were started", spec.parallel.data, world.size()));
  const RankDevice where(spec.run.device, world, devices);
  if (!where.computes_on().is_cpu() && where.computing_place().is_host())
    throw Unsupported(fmt::format(
        "device '{}': parameters there are averaged by kernels of module cuda, which is not here", spec.run.device));
  return std::make_unique<AveragedRun>(spec, world, settings, where);
}

void run_averaged_specification(const job::RunSpec& spec, comm::Communicator& world,
                                const std::filesystem::path& folder, const Progress& progress,
                                const std::shared_ptr<device::Runtime>& devices) {
  const auto session = averaged_run(spec, world, settings_of(spec.averaging.value()), devices);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RuntimeFailure(fmt::format("'{}' cannot be made a folder: {}", folder.string(), error.message()));
  job::RecordWriter record(spec, world.rank(), "plumbline", PLUMBLINE_VERSION);
  for (int step = 0; step < spec.run.steps; ++step) {
    const AveragedStep done = session->step(step);
    add_step(spec, step, done, record);
    if (progress) progress({.step = step, .steps = spec.run.steps, .loss = static_cast<float>(done.loss)});
  }
  record.write(folder);
}

}  // namespace plumbline::training
