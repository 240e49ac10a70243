// reference/training/pipeline/rank.hpp: one rank of a specification's pipeline: its stages, engine and shared parameters.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/record/run_files.hpp"
#include "reference/training/model.hpp"
#include "reference/training/pipeline/engine.hpp"
#include "reference/training/pipeline/schedule_of.hpp"
#include "reference/training/pipeline/shared.hpp"
#include "reference/training/pipeline/spec_stage.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::training {

class PipelineRank {
 public:
  /// Collective over `world`. The specification and the steps must outlive it. Throws as Training::run().
  PipelineRank(const job::RunSpec& spec, comm::Communicator& world, const ExecutorSteps& steps);

  /// Adds the gradients of the mean loss of these rows' micro-batches over `calls` such calls; or, in evaluation,
  /// nothing. Collective over the pipeline.
  EngineResult run(const std::vector<job::RowRange>& micro_batches, int calls, bool forward_only);
  /// Sums the gradients of shared parameters. Collective over the pipeline.
  void reduce_shared() { shared_->reduce(); }
  void clear_gradients() { engine_->clear_gradients(); }

  /// The parameters that this rank holds, in the order of job::parameters_of(), and their values.
  [[nodiscard]] const std::vector<job::Parameter>& list() const { return list_; }
  [[nodiscard]] const std::vector<at::Tensor>& leaves() const { return leaves_; }
  /// Zeros where there is none.
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

  [[nodiscard]] const job::Coordinates& place() const { return place_; }
  [[nodiscard]] bool has_last_stage() const { return job::last_pipeline_rank(spec_) == place_.pipeline; }
  [[nodiscard]] comm::Communicator& data_group() { return *data_; }

 private:
  void make_parameters(const Values& values);
  void make_stages();
  void make_shared_parameters();
  [[nodiscard]] std::vector<NamedTensor> used_by(int first, int end) const;

  const job::RunSpec& spec_;
  const ExecutorSteps& steps_;
  job::RunFiles files_;
  job::Coordinates place_;
  c10::Device device_;
  std::unique_ptr<comm::Communicator> pipeline_;
  std::unique_ptr<comm::Communicator> data_;
  std::vector<job::Parameter> list_;
  std::vector<at::Tensor> leaves_;
  std::unique_ptr<Model> model_;
  std::map<int, std::unique_ptr<SpecStage>> stages_;
  std::unique_ptr<PipelineEngine> engine_;
  std::unique_ptr<SharedParameters> shared_;
};

}  // namespace plumbline::training
