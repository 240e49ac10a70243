#include "harness/trainer/oracles/one_device.hpp"

#include <cmath>
#include <memory>
#include <variant>
#include <vector>

#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "reference/record/run_files.hpp"
#include "reference/training/detail/device.hpp"
#include "reference/training/detail/gradients.hpp"
#include "reference/training/detail/model.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::training {
namespace {

std::unique_ptr<torch::optim::Optimizer> optimizer_over(const std::vector<at::Tensor>& leaves,
                                                        const job::Optimizer& rule) {
  if (const auto* sgd = std::get_if<job::Sgd>(&rule))
    return std::make_unique<torch::optim::SGD>(leaves, torch::optim::SGDOptions(sgd->lr)
                                                           .momentum(sgd->momentum)
                                                           .nesterov(sgd->nesterov)
                                                           .weight_decay(sgd->weight_decay));
  const auto& adam = std::get<job::Adam>(rule);
  return std::make_unique<torch::optim::Adam>(
      leaves, torch::optim::AdamOptions(adam.lr).betas({adam.betas[0], adam.betas[1]}).eps(adam.eps));
}

// Every row of the step's batches.
std::vector<job::RowRange> all_rows(job::RunSpec spec, int step) {
  spec.parallel = {};
  return job::micro_batches_of(spec, step, 0);
}

}  // namespace

Values train_on_one_device(const job::RunSpec& spec, double rate_decay,
                           const std::function<void(int step, double loss)>& told) {
  const job::RunFiles files(spec);
  std::vector<at::Tensor> leaves =
      parameters_on(spec, given_weights(spec), Arithmetic::float32, device_of(spec.run.device, 0));
  for (at::Tensor& leaf : leaves) leaf.requires_grad_();
  const Model model(spec, leaves);
  const auto optimizer = optimizer_over(leaves, spec.optimizer);
  torch::optim::OptimizerOptions& options = optimizer->param_groups().front().options();
  const double rate = options.get_lr();
  for (int step = 0; step < spec.run.steps; ++step) {
    options.set_lr(rate * std::pow(rate_decay, step));
    optimizer->zero_grad();
    const std::vector<job::RowRange> parts = all_rows(spec, step);
    double loss = 0;
    for (const job::RowRange& part : parts) {
      const Rows rows = read_rows(files, part, at::kFloat);
      const at::Tensor share = model.loss(rows.x.to(leaves.front().device()), rows.y.to(leaves.front().device()))
                                   .div(static_cast<double>(parts.size()));
      share.backward();
      loss += share.item<double>();
    }
    optimizer->step();
    told(step, loss);
  }
  Values values;
  const std::vector<job::Parameter> list = job::parameters_of(spec);
  for (std::size_t i = 0; i < list.size(); ++i) values[list[i].name] = to_floats(leaves[i]);
  return values;
}

}  // namespace plumbline::training
