// reference/training/pipeline/rank.hpp: one rank of a specification's pipeline: its stages, engine and shared
// parameters.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/groups/parallel_context.hpp"
#include "reference/record/run_files.hpp"
#include "reference/training/detail/model.hpp"
#include "reference/training/detail/rank_device.hpp"
#include "reference/training/pipeline/engine.hpp"
#include "reference/training/pipeline/schedule_of.hpp"
#include "reference/training/pipeline/shared.hpp"
#include "reference/training/pipeline/spec_stage.hpp"
#include "reference/training/run_settings.hpp"
#include "reference/training/scaler/optimizer.hpp"
#include "reference/training/tensor/sharding.hpp"

namespace plumbline::training {

class PipelineRank {
 public:
  /// Collective over `world`. The specification and the settings must outlive it. Throws as Training::run().
  PipelineRank(const job::RunSpec& spec, comm::Communicator& world, const RunSettings& settings,
               const RankDevice& device);

  /// Adds the gradients of the mean loss of these rows' micro-batches over `calls` such calls, times the scale; or, in
  /// evaluation, nothing. With a divisor, those of the sum of their losses over it. Collective over the pipeline and
  /// the tensor group.
  EngineResult run(const std::vector<job::RowRange>& micro_batches, int calls, bool forward_only, double loss_scale = 1,
                   double divisor = 0);
  /// Where the specification asks for them, the outputs of layers in the last run(), and their gradients, times the
  /// scale; micro-batches count in that run.
  [[nodiscard]] std::vector<KeptActivation> take_activations() { return tape_.take(); }
  /// Sums the gradients of shared parameters. Collective over the pipeline.
  void reduce_shared() { shared_->reduce(); }
  void clear_gradients() { engine_->clear_gradients(); }

  /// The parameters that this rank holds, in the order of job::parameters_of(), as its record has them: of one that is
  /// cut the part. Their values as given, where layers use them rounded, and as
  /// they use them.
  [[nodiscard]] const std::vector<job::Parameter>& list() const { return list_; }
  /// The same uncut, and which part of the i-th this rank has.
  [[nodiscard]] const std::vector<job::Parameter>& whole() const { return whole_; }
  [[nodiscard]] Shard shard(std::size_t i) const {
    return shard_of(spec_, linear_forms(spec_), whole_[i], place_.tensor);
  }
  [[nodiscard]] const std::vector<at::Tensor>& given() const { return given_; }
  [[nodiscard]] const std::vector<at::Tensor>& leaves() const { return leaves_; }
  /// Zeros for a leaf without a gradient.
  [[nodiscard]] std::vector<at::Tensor> gradients() const;
  /// Writes what the specification injects on this rank in that step: before any reduction into the leaves' own
  /// gradients, after them into those that are given.
  void inject_local(int step);
  void inject_reduced(int step, std::vector<at::Tensor>& gradients) const;

  [[nodiscard]] const job::RunFiles& files() const { return files_; }
  [[nodiscard]] const job::Coordinates& place() const { return place_; }
  [[nodiscard]] bool has_last_stage() const { return job::last_pipeline_rank(spec_) == place_.pipeline; }
  /// Over which gradients are averaged: the data group and, of experts that lie on several ranks, those ranks that hold
  /// the same ones.
  [[nodiscard]] comm::Communicator& data_group() { return groups_.communicator("data"); }
  [[nodiscard]] comm::Communicator* expert_data_group() {
    return groups_.has("expert_data") ? &groups_.communicator("expert_data") : nullptr;
  }
  /// Null for a group of one.
  [[nodiscard]] scaler::ScalerGroups scaler_groups() const;
  /// What an optimizer needs to know of the leaves.
  [[nodiscard]] std::vector<ScaledLeaf> scaled_leaves() const;

 private:
  void make_parameters(const Values& values);
  void inject(int step, bool reduced, std::vector<at::Tensor>& gradients) const;
  void make_stages();
  void make_shared_parameters();
  [[nodiscard]] schedules::AroundComputation around();
  [[nodiscard]] std::vector<NamedTensor> used_by(int first, int end) const;

  const job::RunSpec& spec_;
  const RunSettings& settings_;
  job::RunFiles files_;
  job::Coordinates place_;
  RankDevice device_;
  groups::ParallelContext groups_;
  std::vector<job::Parameter> whole_;  // as list_, uncut
  std::vector<job::Parameter> list_;
  std::vector<at::Tensor> given_;
  std::vector<at::Tensor> leaves_;
  ActivationTape tape_;
  std::unique_ptr<Model> model_;
  std::map<int, std::unique_ptr<SpecStage>> stages_;
  std::unique_ptr<PipelineEngine> engine_;
  std::unique_ptr<SharedParameters> shared_;
};

}  // namespace plumbline::training
