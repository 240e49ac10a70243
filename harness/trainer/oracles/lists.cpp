#include "harness/trainer/oracles/lists.hpp"

#include <map>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/tanh.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "reference/comm/errors.hpp"
#include "reference/training/detail/gradients.hpp"
#include "reference/training/detail/random.hpp"
#include "reference/training/pipeline/counting.hpp"
#include "reference/training/pipeline/deferred.hpp"
#include "reference/training/pipeline/engine.hpp"
#include "reference/training/pipeline/schedule_of.hpp"
#include "reference/training/pipeline/shared.hpp"

namespace plumbline::training {
namespace {

constexpr std::int64_t kWidth = 6;

at::Tensor random_tensor(const std::vector<std::int64_t>& shape, Random random) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions(at::kFloat));
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<float>()[i] = random.uniform(1);
  return tensor;
}

at::ScalarType scalar_type_of(comm::DType dtype) {
  switch (dtype) {
    case comm::DType::f16:
      return at::kHalf;
    case comm::DType::bf16:
      return at::kBFloat16;
    case comm::DType::f32:
      return at::kFloat;
    case comm::DType::f64:
      return at::kDouble;
    default:
      throw Unsupported(fmt::format("{}: only floating-point numbers are rounded or have gradients", name_of(dtype)));
  }
}

WireType wire_of(const ListModel& model) { return model.wire ? WireType(scalar_type_of(*model.wire)) : WireType(); }

// ---- stages ----

class ListStage final : public Stage {
 public:
  ListStage(const ListModel& model, int stage, int stages)
      : model_(model),
        stage_(stage),
        stages_(stages),
        hidden_(model.several ? 2 * kWidth : kWidth),
        name_(std::to_string(stage)),
        first_(weight("first", hidden_)),
        second_(weight("second", kWidth)),
        mean_(at::full({hidden_}, 0.0, at::TensorOptions(at::kFloat))),
        variance_(at::full({hidden_}, 1.0, at::TensorOptions(at::kFloat))) {}

  Tensors forward(const Tensors& in, const Pass& pass) override {
    constexpr double momentum = 0.1, eps = 1e-5;
    const bool several_came = model_.several && stage_ > 0;
    const at::Tensor x = several_came ? in.at(0) + in.at(1).mul(in.at(2).unsqueeze(1)) : in.at(0);
    const at::Tensor hidden = at::tanh(
        at::batch_norm(linear(x, first_, {}, pass), {}, {}, mean_, variance_, pass.training, momentum, eps, false));
    if (!model_.several) return {linear(hidden, second_, {}, pass)};
    const Tensors halves = hidden.split(kWidth, 1);
    const at::Tensor second = linear(halves[1], second_, {}, pass);
    if (stage_ + 1 == stages_) return {halves[0] + second};
    const at::Tensor& numbers = in.at(stage_ == 0 ? 1 : 2);
    return {halves[0], second, numbers, at::empty({0, 3}, at::TensorOptions(at::kFloat)), numbers.to(at::kFloat)};
  }
  std::vector<NamedTensor> parameters() const override {
    return {{name_ + ".first", first_}, {name_ + ".second", second_}};
  }
  std::vector<NamedTensor> buffers() const override {
    return {{name_ + ".mean", mean_}, {name_ + ".variance", variance_}};
  }

 private:
  at::Tensor weight(const char* which, std::int64_t out) const {
    return random_tensor({out, kWidth}, Random(model_.seed, stream_of(name_ + which))).requires_grad_();
  }

  ListModel model_;
  int stage_, stages_;
  std::int64_t hidden_;
  std::string name_;
  at::Tensor first_, second_, mean_, variance_;
};

// ---- rows ----

struct ListRows {
  Tensors inputs, labels;
};
ListRows rows_of(const ListModel& model, const job::RowRange& range) {
  ListRows rows{{at::empty({range.rows, kWidth}, at::TensorOptions(at::kFloat)),
                 at::empty({range.rows}, at::TensorOptions(at::kLong))},
                {at::empty({range.rows, kWidth}, at::TensorOptions(at::kFloat))}};
  for (std::int64_t i = 0; i < range.rows; ++i) {
    Random random(model.seed, stream_of(fmt::format("batch {}, row {}", range.batch, range.first_row + i)));
    rows.inputs[1].data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(random.below(3));
    for (at::Tensor* tensor : {rows.inputs.data(), rows.labels.data()})
      for (std::int64_t k = 0; k < kWidth; ++k) tensor->data_ptr<float>()[i * kWidth + k] = random.uniform(1);
  }
  return rows;
}

at::Tensor loss_of_lists(const Tensors& outputs, const Tensors& labels) {
  return at::mse_loss(outputs.at(0), labels.at(0));
}

Values values_of(const std::vector<NamedTensor>& tensors) {
  Values values;
  for (const auto& [name, tensor] : tensors) values[name] = to_floats(tensor);
  return values;
}

// ---- a rank ----

class ListSession final : public PipelineSession {
 public:
  ListSession(const ListModel& model, comm::Communicator& world) : model_(model) {
    const auto schedule_for = [model, ranks = world.size()](int micro_batches) {
      return schedule_named(model.schedule,
                            {.ranks = ranks, .micro_batches = micro_batches, .stages_per_rank = model.chunks});
    };
    const schedules::Schedule shape = schedule_for(2 * world.size());
    std::map<int, Stage*> own;
    for (int stage = 0; stage < shape.stages; ++stage) {
      if (shape.stage_to_rank[static_cast<std::size_t>(stage)] != world.rank()) continue;
      stages_[stage] = std::make_unique<ListStage>(model, stage, shape.stages);
      own[stage] = stages_[stage].get();
    }
    first_ = own.contains(0), last_ = own.contains(shape.stages - 1);
    engine_ = std::make_unique<PipelineEngine>(world, schedule_for, std::move(own),
                                               EngineOptions{.criterion = loss_of_lists, .wire = wire_of(model)});
  }

  PipelineOutcome train(const std::vector<job::RowRange>& micro_batches, int calls) override {
    return run(micro_batches, calls, false);
  }
  PipelineOutcome evaluate(const std::vector<job::RowRange>& micro_batches) override {
    return run(micro_batches, 1, true);
  }
  Gradients gradients() override {
    Gradients gradients;
    for (const auto& [name, tensor] : engine_->parameters())
      gradients[name] = tensor.grad().defined() ? to_doubles(tensor.grad())
                                                : std::vector<double>(static_cast<std::size_t>(tensor.numel()));
    return gradients;
  }
  void clear_gradients() override { engine_->clear_gradients(); }
  Values statistics() override {
    Values values;
    for (const auto& [number, stage] : stages_) values.merge(values_of(stage->buffers()));
    return values;
  }

 private:
  PipelineOutcome run(const std::vector<job::RowRange>& micro_batches, int calls, bool forward_only) {
    EngineCall call{
        .micro_batches = static_cast<int>(micro_batches.size()), .forward_only = forward_only, .calls = calls};
    for (const job::RowRange& range : micro_batches) {
      ListRows rows = rows_of(model_, range);
      if (first_) call.inputs.push_back(std::move(rows.inputs));
      if (last_) call.labels.push_back(std::move(rows.labels));
    }
    const OperationCounter counter;
    const EngineResult result = engine_->run(call);
    return {.matrix_products = counter.products(),
            .losses = result.losses,
            .outputs = {},
            .peak_activations = result.peak_activations};
  }

  ListModel model_;
  std::map<int, std::unique_ptr<ListStage>> stages_;
  bool first_ = false, last_ = false;
  std::unique_ptr<PipelineEngine> engine_;
};

// What arrives of what is handed on; its gradient is rounded on the way back.
Tensors carried(Tensors tensors, WireType wire) {
  if (wire)
    for (at::Tensor& tensor : tensors)
      if (tensor.is_floating_point()) tensor = tensor.to(*wire).to(tensor.scalar_type());
  return tensors;
}

}  // namespace

std::unique_ptr<PipelineSession> list_pipeline(const ListModel& model, comm::Communicator& world) {
  return std::make_unique<ListSession>(model, world);
}

ListBaseline list_baseline(const ListModel& model, int stages, const std::vector<std::vector<job::RowRange>>& calls) {
  std::vector<std::unique_ptr<ListStage>> chain;
  for (int stage = 0; stage < stages; ++stage) chain.push_back(std::make_unique<ListStage>(model, stage, stages));
  ListBaseline result;
  for (const std::vector<job::RowRange>& call : calls)
    for (const job::RowRange& range : call) {
      const ListRows rows = rows_of(model, range);
      Tensors values = rows.inputs;
      for (const auto& stage : chain)
        values = carried(stage->forward(values, {}), stage == chain.back() ? WireType() : wire_of(model));
      const at::Tensor loss = loss_of_lists(values, rows.labels);
      torch::autograd::backward({loss.div(static_cast<double>(call.size() * calls.size()))}, {});
      result.losses.push_back(loss.item<double>());
    }
  for (const auto& stage : chain) {
    for (const auto& [name, tensor] : stage->parameters()) result.gradients[name] = to_doubles(tensor.grad());
    result.statistics.merge(values_of(stage->buffers()));
  }
  return result;
}

std::vector<SharedCopy> sum_shared(const std::vector<SharedCopy>& copies, comm::Communicator& group) {
  const auto tensor_of = [](const std::vector<double>& values, comm::DType dtype) {
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::TensorOptions(at::kDouble));
    std::ranges::copy(values, tensor.data_ptr<double>());
    return tensor.to(scalar_type_of(dtype));
  };
  std::vector<SharedParameter> parameters;
  for (const SharedCopy& copy : copies)
    parameters.push_back({copy.name, tensor_of(copy.values, copy.dtype).requires_grad_(), copy.ranks});
  SharedParameters shared(group, parameters);
  for (std::size_t i = 0; i < copies.size(); ++i)
    if (copies[i].gradient) parameters[i].tensor.mutable_grad() = tensor_of(*copies[i].gradient, copies[i].dtype);
  shared.reduce();
  std::vector<SharedCopy> summed = copies;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    summed[i].values = to_doubles(parameters[i].tensor);
    const at::Tensor& gradient = parameters[i].tensor.grad();
    summed[i].gradient = gradient.defined() ? std::optional(to_doubles(gradient)) : std::nullopt;
  }
  return summed;
}

}  // namespace plumbline::training
