#include "reference/training/pipeline/rank.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/detail/gradients.hpp"
#include "reference/training/detail/rank_groups.hpp"

namespace plumbline::training {
namespace {

// The numbers in which layers compute, outside autocast.
at::ScalarType type_of(const job::RunSpec& spec, const PrecisionSettings& settings) {
  return settings.autocast ? at::kFloat : compute_type(spec);
}

// A mixed run looks for infinities in a whole model.
bool needs_model_group(const job::RunSpec& spec, const PrecisionSettings& settings) {
  return is_mixed(spec, settings) && spec.parallel.tensor * spec.parallel.pipeline > 1;
}

// Null for a group of one, and for a rank without a group.
comm::Communicator* unless_alone(const groups::ParallelContext& groups, std::string_view mode) {
  return groups.has(mode) && groups.size(mode) > 1 ? &groups.communicator(mode) : nullptr;
}

int end_of_stage(const job::RunSpec& spec, int stage) {
  const auto next = static_cast<std::size_t>(stage) + 1;
  return next < spec.stages.size() ? spec.stages[next] : static_cast<int>(spec.layers.size());
}

// The layer whose weight a layer multiplies by.
int layer_of_weight(const job::RunSpec& spec, int layer) {
  const auto* tied = std::get_if<job::TiedLinear>(&spec.layers[static_cast<std::size_t>(layer)]);
  return tied == nullptr ? layer : tied->with;
}

}  // namespace

PipelineRank::PipelineRank(const job::RunSpec& spec, comm::Communicator& world, const RunSettings& settings,
                           const RankDevice& device)
    : spec_(spec),
      settings_(settings),
      files_(spec),
      place_(job::coordinates_of(spec.parallel, world.rank())),
      device_(device),
      groups_(world, groups_plan(spec.parallel, needs_model_group(spec, settings.precision))) {
  make_parameters(given_weights(spec));
  make_stages();
  make_shared_parameters();
}

void PipelineRank::make_parameters(const Values& values) {
  const std::vector<job::Parameter> all = job::parameters_of(spec_);
  const std::vector<LinearForm> forms = linear_forms(spec_);
  const at::ScalarType type = type_of(spec_, settings_.precision);
  std::vector<at::Tensor> tensors = parameters_on(spec_, values, Arithmetic::float32, device_.computes_on());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::ranges::count(job::holders_of(spec_, all[i]), place_.pipeline) == 0 ||
        !job::is_on_data_rank(spec_, all[i], place_.data)) {
      tensors[i] = at::Tensor();
      continue;
    }
    const Shard shard = shard_of(spec_, forms, all[i], place_.tensor);
    whole_.push_back(all[i]);
    list_.push_back(recorded(all[i], shard));
    const at::Tensor own = narrowed(tensors[i], shard);
    if (type != at::kFloat) given_.push_back(own);
    tensors[i] = own.to(type).requires_grad_();
    leaves_.push_back(tensors[i]);
  }
  const auto group_of = [this](std::string_view mode) {
    comm::Communicator* const group = unless_alone(groups_, mode);
    return group == nullptr ? std::nullopt : std::optional(TensorGroup{group, device_});
  };
  model_ = std::make_unique<Model>(spec_, tensors, group_of("tensor"), group_of("expert"));
  if (spec_.run.activations) model_->observe(tape_.observer());
}

// The tape is told which micro-batch comes.
schedules::AroundComputation PipelineRank::around() {
  if (!spec_.run.activations) return settings_.around;
  return [this](const schedules::Action& computation, const std::function<void()>& compute) {
    tape_.begin(computation.micro_batch);
    if (settings_.around)
      settings_.around(computation, compute);
    else
      compute();
  };
}

std::vector<NamedTensor> PipelineRank::used_by(int first, int end) const {
  std::vector<NamedTensor> used;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    const bool is_weight = whole_[i].name.ends_with(".weight");
    for (int layer = first; layer < end; ++layer) {
      if ((is_weight ? layer_of_weight(spec_, layer) : layer) != list_[i].layer) continue;
      used.push_back({list_[i].name, leaves_[i]});
      break;
    }
  }
  return used;
}

void PipelineRank::make_stages() {
  std::map<int, Stage*> own;
  for (int stage = 0; stage < static_cast<int>(spec_.stages.size()); ++stage) {
    if (job::pipeline_rank_of_stage(spec_, stage) != place_.pipeline) continue;
    const int first = spec_.stages[static_cast<std::size_t>(stage)], end = end_of_stage(spec_, stage);
    const at::ScalarType autocast = settings_.precision.autocast ? compute_type(spec_) : at::ScalarType::Undefined;
    stages_[stage] = std::make_unique<SpecStage>(*model_, first, end, used_by(first, end), autocast);
    own[stage] = stages_[stage].get();
  }
  EngineOptions options;
  options.criterion = [this](const Tensors& outputs, const Tensors& labels) {
    return loss_of(spec_, outputs.at(0), labels.at(0), labels.size() > 1 ? labels[1] : at::Tensor());
  };
  options.device = device_;
  options.executor.around = around();
  engine_ = std::make_unique<PipelineEngine>(
      groups_.communicator("pipeline"), [this](int micro_batches) { return schedule_of(spec_, micro_batches); },
      std::move(own), std::move(options));
}

void PipelineRank::make_shared_parameters() {
  std::vector<SharedParameter> shared;
  for (std::size_t i = 0; i < list_.size(); ++i)
    if (std::vector<int> ranks = job::holders_of(spec_, whole_[i]); ranks.size() > 1)
      shared.push_back({list_[i].name, leaves_[i], std::move(ranks)});
  shared_ = std::make_unique<SharedParameters>(groups_.communicator("pipeline"), shared, device_);
}

EngineResult PipelineRank::run(const std::vector<job::RowRange>& micro_batches, int calls, bool forward_only,
                               double loss_scale, double divisor) {
  EngineCall call{.micro_batches = static_cast<int>(micro_batches.size()),
                  .forward_only = forward_only,
                  .return_outputs = forward_only,
                  .calls = calls,
                  .divisor = divisor,
                  .loss_scale = loss_scale};
  const bool first = stages_.contains(0), last = has_last_stage();
  for (const job::RowRange& range : micro_batches) {
    if (!first && !last) break;
    // On the host: the engine moves what it uses.
    Rows rows = read_rows(files_, range, at::kFloat);
    const at::ScalarType type = rows.x.is_floating_point() ? type_of(spec_, settings_.precision) : rows.x.scalar_type();
    if (first) call.inputs.push_back({rows.x.to(type)});
    if (!last) continue;
    call.labels.push_back({std::move(rows.y)});
    if (rows.w.defined()) call.labels.back().push_back(std::move(rows.w));
  }
  return engine_->run(call);
}

std::vector<at::Tensor> PipelineRank::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : leaves_)
    gradients.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf).detach());
  return gradients;
}

void PipelineRank::inject(int step, bool reduced, std::vector<at::Tensor>& gradients) const {
  const c10::AutoGradMode without_gradients(false);
  for (const job::Injection& one : spec_.injections) {
    if (one.step != step || one.reduced != reduced || job::coordinates_of(spec_.parallel, one.rank) != place_) continue;
    const auto at = std::ranges::find(whole_, one.parameter, &job::Parameter::name) - whole_.begin();
    at::Tensor& gradient = gradients[static_cast<std::size_t>(at)];
    at::Tensor row_major = gradient.contiguous();
    // Rounded as a copy is: filling refuses a number that the type does not have, on some devices.
    row_major.view({-1}).select(0, one.index).copy_(at::scalar_tensor(one.value, at::kDouble));
    if (!row_major.is_alias_of(gradient)) gradient.copy_(row_major);
  }
}

void PipelineRank::inject_local(int step) {
  std::vector<at::Tensor> own = gradients();
  inject(step, false, own);
  for (std::size_t i = 0; i < own.size(); ++i)
    if (!leaves_[i].grad().defined()) leaves_[i].mutable_grad() = own[i];
}

void PipelineRank::inject_reduced(int step, std::vector<at::Tensor>& gradients) const { inject(step, true, gradients); }

scaler::ScalerGroups PipelineRank::scaler_groups() const {
  return {.tensor = unless_alone(groups_, "tensor"),
          .pipeline = unless_alone(groups_, "pipeline"),
          .model = unless_alone(groups_, "model"),
          .data = unless_alone(groups_, "data")};
}

std::vector<ScaledLeaf> PipelineRank::scaled_leaves() const {
  std::vector<ScaledLeaf> all;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    all.push_back({.name = list_[i].name,
                   .leaf = leaves_[i],
                   .replicated = list_[i].name == whole_[i].name,
                   .tied_copy = job::holders_of(spec_, whole_[i]).front() != place_.pipeline});
  return all;
}

}  // namespace plumbline::training
