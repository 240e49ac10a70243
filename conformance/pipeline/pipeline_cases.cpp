#include "conformance/pipeline/pipeline_cases.hpp"

#include "reference/record/layout.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

using suite::Context;

std::string id_of(std::string_view citation) { return std::string(suite::id_of_citation(citation)); }

std::filesystem::path folder_of(Context& context, const char* name) {
  return std::filesystem::path(context.scratch()) / name;
}

int number_or(const suite::Parameters& parameters, const char* name, int otherwise) {
  return parameters.has(name) ? static_cast<int>(parameters.number(name)) : otherwise;
}

std::string text_or(const suite::Parameters& parameters, const char* name, const char* otherwise) {
  return parameters.has(name) ? parameters.text(name) : otherwise;
}

int data_of(const suite::Parameters& parameters) { return number_or(parameters, "data", 1); }
int pipeline_of(const suite::Parameters& parameters) { return parameters.world() / data_of(parameters); }

int micro_batches_of(const suite::Parameters& parameters) {
  const std::string named = text_or(parameters, "micro_batches", "2p");
  const int ranks = pipeline_of(parameters);
  if (named == "1") return 1;
  return named == "p-1" ? ranks - 1 : named == "p" ? ranks : named == "p+1" ? ranks + 1 : 2 * ranks;
}

int chunks_of(const suite::Parameters& parameters) {
  const std::string schedule = parameters.text("schedule");
  const bool has_two = schedule == "interleaved-1f1b" || schedule == "looped-bfs" || schedule == "interleaved-zb" ||
                       job::goes_back(schedule);
  return number_or(parameters, "chunks", has_two ? 2 : 1);
}

training::DigitsRun settings_of(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  const int micro_batches = micro_batches_of(parameters);
  const std::string model = text_or(parameters, "model", "mlp");
  const std::string optimizer = text_or(parameters, "optimizer", "plain_sgd");
  const std::int64_t rows = number_or(parameters, "rows", 3);  // of a micro-batch
  return {.model = model.starts_with("tied") ? "tied" : model,
          .optimizer = optimizer == "plain_sgd" ? "sgd" : optimizer,
          .data = data_of(parameters),
          .steps = optimizer == "plain_sgd" ? 3 : 5,  // what an optimizer keeps needs some to show
          .global_batch = rows * data_of(parameters) * micro_batches,
          .micro_batches = micro_batches,
          .accumulation = number_or(parameters, "accumulation", 1),
          .seed = context.seed() & INT64_MAX,  // a specification's seed has 63 bits
          .device = context.device(),
          .pipeline = pipeline_of(parameters),
          .chunks = chunks_of(parameters),
          .schedule = parameters.text("schedule"),
          .tied_uses = model == "tied_thrice" ? 3 : 2};
}

job::RunSpec written(Context& context, const training::DigitsRun& settings, const std::filesystem::path& folder) {
  const suite::Parameters& parameters = context.parameters();
  job::RunSpec spec = training::write_digits_run(settings, training::digits(), folder);
  if (text_or(parameters, "optimizer", "plain_sgd") == "plain_sgd") spec.optimizer = job::Sgd{.lr = 0.1};
  if (text_or(parameters, "order", "") == "data_first") spec.parallel.order = {"data", "pipeline", "tensor"};
  // Both uses of the tied weight on the second stage; whatever follows on a third.
  if (text_or(parameters, "model", "mlp") == "tied_within")
    for (std::size_t stage = 2; stage < spec.stages.size(); ++stage)
      spec.stages[stage] = static_cast<int>(spec.layers.size() - spec.stages.size() + stage);
  if (text_or(parameters, "model", "mlp") == "tied_within") spec.stages[1] = 2;
  job::write_run_spec(spec, folder / "spec.toml");
  return spec;
}

job::RunSpec prepared(Context& context, const training::DigitsRun& settings) {
  const std::filesystem::path folder = folder_of(context, "run");
  if (context.rank() == kJudge) (void)written(context, settings, folder);
  context.world().barrier();
  return job::read_run_spec(folder / "spec.toml");
}

suite::Axis schedules_axis(std::vector<std::string> names) { return {"schedule", std::move(names)}; }

}  // namespace plumbline::conformance
