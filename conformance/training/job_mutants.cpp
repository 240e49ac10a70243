#include "conformance/training/job_mutants.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "conformance/training/training_mutants.hpp"

namespace plumbline::mutants {

using job::RunSpec;

namespace {

// The stage of a recorded parameter, "step0/grad/2.weight"; nothing for other tensors.
std::optional<int> stage_of(const RunSpec& spec, const RecordedTensor& tensor) {
  const std::string name = tensor.name.substr(tensor.name.rfind('/') + 1);
  for (const job::Parameter& parameter : job::parameters_of(spec))
    if (parameter.name == name) return job::stage_of_layer(spec, parameter.layer);
  return std::nullopt;
}

bool is_injected_elsewhere(const RunSpec& spec, int rank, const std::string& name) {
  return std::ranges::any_of(spec.injections, [&](const job::Injection& one) {
    return one.rank != rank && name == fmt::format("step{}/skipped", one.step);
  });
}

}  // namespace

void scale_gradients_for_two(const RunSpec& spec, int, RecordedTensor& tensor) {
  if (!is_of(tensor, job::Moment::grad)) return;
  for (float& value : tensor.values) value *= static_cast<float>(spec.parallel.data) / 2;
}

void drift_on_rank_2(const RunSpec&, int rank, RecordedTensor& tensor) {
  if (rank != 2 || !is_of(tensor, job::Moment::after)) return;
  for (float& value : tensor.values) value *= 1.001f;
}

void exchange_dimensions(const RunSpec&, int, RecordedTensor& tensor) {
  if (tensor.shape.size() == 2) std::swap(tensor.shape[0], tensor.shape[1]);
}

void repeat_first_micro_batch(const RunSpec& spec, const std::filesystem::path& folder) {
  std::map<std::pair<int, std::string>, std::vector<float>> first;  // by rank, and the name up to the micro-batch
  const auto place_of = [](const std::string& name) { return name.substr(0, name.rfind('/')); };
  const auto is_output = [](const RecordedTensor& tensor) {
    return tensor.name.find("/activation/") != std::string::npos;
  };
  with_tensors([&](const RunSpec&, int rank, const RecordedTensor& tensor) {
    const std::string number = tensor.name.substr(tensor.name.rfind('/') + 1);
    if (is_output(tensor) && number.substr(0, number.find('@')) == "0")
      first[{rank, place_of(tensor.name)}] = tensor.values;
  })(spec, folder);
  with_tensors([&](const RunSpec&, int rank, RecordedTensor& tensor) {
    if (is_output(tensor)) tensor.values = first.at({rank, place_of(tensor.name)});
  })(spec, folder);
}

void multiply_activation_gradients(const RunSpec& spec, int, RecordedTensor& tensor) {
  if (tensor.name.find("/activation_grad/") == std::string::npos) return;
  for (float& value : tensor.values) value *= static_cast<float>(spec.run.micro_batches);
}

void omit_last_gradients(const RunSpec& spec, int, RecordedTensor& tensor) {
  if (is_of(tensor, job::Moment::grad) && tensor.name.starts_with(fmt::format("step{}/", spec.run.steps - 1)))
    tensor.name.clear();
}

void leave_out_last_decay(const RunSpec& spec, int, RecordedTensor& tensor) {
  const auto* sgd = std::get_if<job::Sgd>(&spec.optimizer);
  const std::string last = fmt::format("step{}/", spec.run.steps - 1);
  if (sgd == nullptr || !is_of(tensor, job::Moment::after) || !tensor.name.starts_with(last)) return;
  const auto without = static_cast<float>(1 + sgd->lr * sgd->weight_decay);
  for (float& value : tensor.values) value *= without;
}

void skip_by_own_gradients(const RunSpec& spec, int rank, RecordedBytes& bytes) {
  if (is_injected_elsewhere(spec, rank, bytes.name)) bytes.values.front() = 0;
}

void scale_first_stage_again(const RunSpec& spec, int, RecordedTensor& tensor) {
  if (!is_of(tensor, job::Moment::grad) || stage_of(spec, tensor) != 0) return;
  for (float& value : tensor.values) value /= static_cast<float>(spec.run.micro_batches);
}

void omit_later_chunks(const RunSpec& spec, int, RecordedTensor& tensor) {
  if (stage_of(spec, tensor).value_or(0) >= spec.parallel.pipeline) tensor.name.clear();
}

void exchange_ranks(const RunSpec& spec, const std::filesystem::path& folder) {
  const job::Parallel usual{spec.parallel.pipeline, spec.parallel.data, spec.parallel.tensor};
  const auto aside = [&](int rank) { return job::record_file(folder, rank).concat(".aside"); };
  for (int rank = 0; rank < spec.parallel.world(); ++rank)
    std::filesystem::rename(job::record_file(folder, rank), aside(rank));
  for (int rank = 0; rank < spec.parallel.world(); ++rank)
    std::filesystem::rename(aside(job::rank_of(spec.parallel, job::coordinates_of(usual, rank))),
                            job::record_file(folder, rank));
}

std::vector<Mutant> job_mutants() {
  const std::string two = "training.job.single_device[model=mlp,optimizer=sgd,micro_batches=1,accumulation=1,world=2]";
  const std::string three =
      "training.job.single_device[model=mlp,optimizer=sgd_momentum,micro_batches=2,accumulation=3,world=3]";
  const std::string decay =
      "training.job.single_device[model=mlp,optimizer=sgd_decay,micro_batches=1,accumulation=3,world=4]";
  return {
      {"job.divided_by_two", "TRAIN-006", "the sum of the gradients is divided by two, whatever the data ranks",
       "RED-01", three, two, "there are two data ranks", with_tensors(scale_gradients_for_two)},
      {"job.rank_2_drifts", "TRAIN-004", "rank 2's values after each step are off by a thousandth",
       "an update that one kind of device computes otherwise", three, two, "there is no rank 2",
       with_tensors(drift_on_rank_2)},
      {"job.last_decay_left_out", "TRAIN-009", "the last step's values are those of an update without weight decay",
       "groups of parameters of which one lacks the setting", decay, two, "there is no decay",
       with_tensors(leave_out_last_decay)},
      {"job.wrong_shape", "TRAIN-001", "matrices are recorded with their dimensions exchanged",
       "weights of a framework that multiplies from the other side", two, "",
       "every model has a matrix that is not square", with_tensors(exchange_dimensions)},
      {"job.skips_by_own_gradients", "SCALER-091", "a rank skips by what is written into its own gradients alone",
       "AMP-02", "scaler.job.one_replica[precision=fp16,moment=local,grid=1x1x3,world=3]",
       "scaler.job.single_device[precision=fp16,overflow=scale,grid=1x1x3,world=3]", "all ranks overflow",
       with_tensors([](const RunSpec&, int, RecordedTensor&) {}, skip_by_own_gradients)},
      {"job.first_micro_batch_again", "TRAIN-030", "layers have the first micro-batch's output for all of them",
       "buffers of a pipeline that are used again too early",
       "training.job.activations[grid=1x3x1,layers=mlp,micro_batches=3,accumulation=2,world=3]",
       "training.job.activations[grid=1x1x3,layers=conv_norm,micro_batches=1,accumulation=1,world=3]",
       "there is one micro-batch", ChangeRecord(repeat_first_micro_batch)},
      {"job.activation_gradients_multiplied", "TRAIN-030",
       "gradients of outputs are larger by the number of micro-batches", "deepspeedai/DeepSpeed#7773",
       "training.job.activations[grid=3x1x1,layers=pairs,micro_batches=2,accumulation=1,world=3]",
       "training.job.activations[grid=2x1x1,layers=pairs,micro_batches=1,accumulation=2,world=2]",
       "a batch is one micro-batch", with_tensors(multiply_activation_gradients)},
      {"job.last_gradients_missing", "TRAIN-001", "the gradients of the last step are missing",
       "a record that is written before the last step is complete", two, "", "every run has a last step",
       with_tensors(omit_last_gradients)},
  };
}

}  // namespace plumbline::mutants
