// reference/training/pipeline/spec_stage.hpp: a stage of a run specification.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reference/record/run_spec.hpp"
#include "reference/training/detail/model.hpp"
#include "reference/training/pipeline/stage.hpp"
#include "reference/training/scaler/autocast.hpp"

namespace plumbline::training {

/// Layers of a model, which must outlive it. One tensor goes in, and one comes out. Batch normalisation uses the
/// statistics of the rows that it is given, also in evaluation: a specification has no running ones.
class SpecStage final : public Stage {
 public:
  /// Layers first .. end-1; `parameters` are those of `model` that they use. `autocast`, where it is
  /// defined, is the type to which LibTorch may round what they take.
  SpecStage(const Model& model, int first, int end, std::vector<NamedTensor> parameters,
            at::ScalarType autocast = at::ScalarType::Undefined)
      : model_(model), first_(first), end_(end), parameters_(std::move(parameters)), autocast_(autocast) {}

  [[nodiscard]] Tensors forward(const Tensors& inputs, const Pass& pass) override {
    std::optional<Autocast> cast;
    if (autocast_ != at::ScalarType::Undefined) cast.emplace(inputs.at(0).device().type(), autocast_);
    return {model_.forward(inputs.at(0), first_, end_, pass)};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return parameters_; }

 private:
  const Model& model_;
  int first_, end_;
  std::vector<NamedTensor> parameters_;
  at::ScalarType autocast_;
};

}  // namespace plumbline::training
