#include "reference/training/pipeline/rank.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/device.hpp"
#include "reference/training/gradients.hpp"

namespace plumbline::training {
namespace {

std::unique_ptr<comm::Communicator> group_along(const job::RunSpec& spec, comm::Communicator& world,
                                                job::Coordinates at, int job::Coordinates::* axis, int size) {
  std::vector<int> ranks;
  for (at.*axis = 0; at.*axis < size; ++(at.*axis)) ranks.push_back(job::rank_of(spec.parallel, at));
  return world.create_group(ranks);
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

PipelineRank::PipelineRank(const job::RunSpec& spec, comm::Communicator& world, const ExecutorSteps& steps)
    : spec_(spec),
      steps_(steps),
      files_(spec),
      place_(job::coordinates_of(spec.parallel, world.rank())),
      device_(device_of(spec.run.device, world.rank())),
      pipeline_(group_along(spec, world, place_, &job::Coordinates::pipeline, spec.parallel.pipeline)),
      data_(group_along(spec, world, place_, &job::Coordinates::data, spec.parallel.data)) {
  make_parameters(steps.weights(spec, world.rank()));
  make_stages();
  make_shared_parameters();
}

void PipelineRank::make_parameters(const Values& values) {
  const std::vector<job::Parameter> all = job::parameters_of(spec_);
  std::vector<at::Tensor> tensors = parameters_on(spec_, values, Arithmetic::float32, device_);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::ranges::count(job::holders_of(spec_, all[i]), place_.pipeline) == 0) {
      tensors[i] = at::Tensor();
      continue;
    }
    list_.push_back(all[i]);
    leaves_.push_back(tensors[i].requires_grad_());
  }
  model_ = std::make_unique<Model>(spec_, tensors);
}

std::vector<NamedTensor> PipelineRank::used_by(int first, int end) const {
  std::vector<NamedTensor> used;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    const bool is_weight = list_[i].name.ends_with(".weight");
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
    stages_[stage] = std::make_unique<SpecStage>(*model_, first, end, used_by(first, end));
    own[stage] = stages_[stage].get();
  }
  EngineOptions options;
  options.criterion = [this](const Tensors& outputs, const Tensors& labels) {
    return loss_of(spec_, outputs.at(0), labels.at(0));
  };
  options.device = device_;
  engine_ = std::make_unique<PipelineEngine>(
      *pipeline_, [this](int micro_batches) { return schedule_of(spec_, micro_batches); }, std::move(own),
      std::move(options), steps_.pipeline);
}

void PipelineRank::make_shared_parameters() {
  std::vector<SharedParameter> shared;
  for (std::size_t i = 0; i < list_.size(); ++i)
    if (std::vector<int> ranks = job::holders_of(spec_, list_[i]); ranks.size() > 1)
      shared.push_back({list_[i].name, leaves_[i], std::move(ranks)});
  shared_ = std::make_unique<SharedParameters>(*pipeline_, shared, steps_.pipeline);
}

EngineResult PipelineRank::run(const std::vector<job::RowRange>& micro_batches, int calls, bool forward_only) {
  EngineCall call{.micro_batches = static_cast<int>(micro_batches.size()),
                  .forward_only = forward_only,
                  .return_outputs = forward_only,
                  .calls = calls};
  const bool first = stages_.contains(0), last = has_last_stage();
  for (const job::RowRange& range : micro_batches) {
    if (!first && !last) break;
    // On the host: the engine moves what it uses.
    Rows rows = read_rows(files_, range, at::kFloat);
    if (first) call.inputs.push_back({std::move(rows.x)});
    if (last) call.labels.push_back({std::move(rows.y)});
  }
  return engine_->run(call);
}

std::vector<at::Tensor> PipelineRank::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : leaves_)
    gradients.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf).detach());
  return gradients;
}

}  // namespace plumbline::training
