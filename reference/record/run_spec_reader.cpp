// The run specification out of TOML text.
#include <array>
#include <fstream>

#include "reference/record/run_spec.hpp"
#include "reference/record/spec_fields.hpp"
#include "reference/schedules/names.hpp"
#include "reference/support/toml_fields.hpp"

namespace plumbline::job {
namespace {

void need_required(const Fields& fields, std::string_view table) {
  for (const SpecField& field : spec_fields())
    if (field.table == table && field.kinds.empty() && field.initial.empty()) fields.need(field.name);
}

Parallel parallel_of(Fields fields) {
  Parallel parallel;
  fields.integer("pipeline", parallel.pipeline);
  fields.integer("data", parallel.data);
  fields.integer("tensor", parallel.tensor);
  fields.integer("shard", parallel.shard);
  fields.list("order", parallel.order, "a list of pipeline, data and tensor");
  fields.integer("expert", parallel.expert);
  fields.done();
  return parallel;
}

Run run_of(Fields fields) {
  Run run;
  need_required(fields, "run");
  fields.integer("steps", run.steps);
  fields.integer("global_batch", run.global_batch);
  fields.integer("micro_batches", run.micro_batches);
  fields.integer("accumulation", run.accumulation);
  fields.text("dtype", run.dtype);
  fields.text("schedule", run.schedule);
  run.schedule = schedules::as_in_specifications(run.schedule);
  fields.integer("chunks", run.chunks);
  fields.integer("bucket_bytes", run.bucket_bytes);
  fields.text("device", run.device);
  fields.truth("activations", run.activations);
  fields.done();
  return run;
}

// Reads the fields of one kind of layer.
struct LayerReader {
  Fields& fields;

  void size(std::string_view name, std::int64_t& value) const {
    fields.need(name);
    fields.integer(name, value);
  }
  void operator()(Linear& layer) const {
    size("in", layer.in);
    size("out", layer.out);
    fields.truth("bias", layer.bias);
  }
  void operator()(Conv2d& layer) const {
    size("in", layer.in);
    size("out", layer.out);
    size("kernel", layer.kernel);
    fields.integer("stride", layer.stride);
    fields.integer("padding", layer.padding);
    fields.truth("bias", layer.bias);
  }
  void operator()(BatchNorm2d& layer) const { size("features", layer.features); }
  void operator()(LayerNorm& layer) const { size("features", layer.features); }
  void operator()(Embedding& layer) const {
    size("rows", layer.rows);
    size("features", layer.features);
  }
  void operator()(TiedLinear& layer) const {
    fields.need("with");
    fields.integer("with", layer.with);
  }
  void operator()(Attention& layer) const { size("heads", layer.heads); }
  void operator()(Moe& layer) const {
    size("features", layer.features);
    size("hidden", layer.hidden);
    size("experts", layer.experts);
    fields.integer("top_k", layer.top_k);
    fields.truth("normalize_gates", layer.normalize_gates);
  }
  void operator()(Add& layer) const {
    fields.need("with");
    fields.integer("with", layer.with);
  }
  template <class Plain>
  void operator()(Plain&) const {}
};

template <std::size_t... I>
std::vector<Layer> one_of_each(std::index_sequence<I...>) {
  return {Layer(std::in_place_index<I>)...};
}

Layer layer_of(Fields fields) {
  const std::vector<Layer> kinds = one_of_each(std::make_index_sequence<std::variant_size_v<Layer>>{});
  std::vector<std::string> words;
  for (const Layer& kind : kinds) words.emplace_back(name_of(kind));
  need_required(fields, "model.layer");
  Layer layer = kinds[fields.word("type", words)];
  std::visit(LayerReader{fields}, layer);
  fields.done();
  return layer;
}

void read_model(Fields fields, RunSpec& spec) {
  fields.list("stages", spec.stages, "a list of layer numbers");
  fields.list("frozen", spec.frozen, "a list of parameters");
  fields.need("layer");
  for (Fields& layer : fields.tables("layer")) spec.layers.push_back(layer_of(std::move(layer)));
  fields.done();
}

void read_loss(Fields fields, RunSpec& spec) {
  need_required(fields, "loss");
  spec.loss = fields.word("type", {"cross_entropy", "mse"}) == 0 ? Loss::cross_entropy : Loss::mse;
  fields.truth("row_weights", spec.row_weights);
  fields.done();
}

Optimizer optimizer_of(Fields fields, std::vector<std::string>& no_decay) {
  need_required(fields, "optimizer");
  if (fields.word("type", {"sgd", "adam"}) == 0) {
    Sgd sgd;
    fields.number("lr", sgd.lr);
    fields.number("momentum", sgd.momentum);
    fields.truth("nesterov", sgd.nesterov);
    fields.number("weight_decay", sgd.weight_decay);
    fields.list("no_decay", no_decay, "a list of parameters");
    fields.done();
    return sgd;
  }
  Adam adam;
  fields.number("lr", adam.lr);
  std::vector<double> betas(adam.betas.begin(), adam.betas.end());
  fields.list("betas", betas, "a list of two numbers");
  if (betas.size() != 2) fields.wrong("betas", "a list of two numbers");
  std::ranges::copy(betas, adam.betas.begin());
  fields.number("eps", adam.eps);
  fields.done();
  return adam;
}

Clip clip_of(Fields fields) {
  Clip clip;
  need_required(fields, "clip");
  fields.number("max_norm", clip.max_norm);
  fields.number("norm_type", clip.norm_type);
  fields.done();
  return clip;
}

Averaging averaging_of(Fields fields) {
  Averaging averaging;
  need_required(fields, "averaging");
  averaging.algorithm = kAveragingAlgorithms[fields.word(
      "algorithm", std::vector<std::string>(kAveragingAlgorithms.begin(), kAveragingAlgorithms.end()))];
  const auto number = [&fields](std::string_view name, double& value) {
    fields.need(name);
    fields.number(name, value);
  };
  if (averaging.has_rounds()) {
    fields.need("period");
    fields.integer("period", averaging.period);
  } else {
    fields.need("graph");
    fields.text("graph", averaging.graph);
  }
  if (averaging.has_outer_step()) {
    number("lr", averaging.lr);
    number("momentum", averaging.momentum);
  }
  fields.done();
  return averaging;
}

RateSchedule rate_schedule_of(Fields fields) {
  RateSchedule schedule;
  need_required(fields, "lr_schedule");
  schedule.decay = kRateDecays[fields.word("decay", {kRateDecays.begin(), kRateDecays.end()})];
  fields.integer("warmup_steps", schedule.warmup_steps);
  fields.done();
  return schedule;
}

Scaler scaler_of(Fields fields) {
  Scaler scaler;
  need_required(fields, "scaler");
  scaler.dynamic = fields.word("kind", {"dynamic", "constant"}) == 0;
  fields.number("init_scale", scaler.init_scale);
  if (scaler.dynamic) {
    fields.number("growth_factor", scaler.growth_factor);
    fields.number("backoff_factor", scaler.backoff_factor);
    fields.integer("growth_interval", scaler.growth_interval);
  }
  fields.done();
  return scaler;
}

CheckpointedSteps checkpoint_of(Fields fields) {
  CheckpointedSteps steps;
  need_required(fields, "checkpoint");
  fields.text("folder", steps.folder);
  fields.integer("begin", steps.begin);
  fields.integer("end", steps.end);
  fields.done();
  return steps;
}

// "inf", "-inf", "nan" as texts, or a number.
double injected_value(Fields& fields) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr std::array values{infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
  double value = 0;
  if (fields.is_text("value")) return values[fields.word("value", {"inf", "-inf", "nan"})];
  fields.number("value", value);
  return value;
}

Injection injection_of(Fields fields) {
  Injection injection;
  need_required(fields, "inject");
  fields.integer("step", injection.step);
  fields.integer("rank", injection.rank);
  fields.text("parameter", injection.parameter);
  fields.integer("index", injection.index);
  injection.value = injected_value(fields);
  injection.reduced = fields.word("moment", {"local", "reduced"}) == 1;
  fields.done();
  return injection;
}

void read_files(Fields fields, RunSpec& spec) {
  fields.text("weights", spec.weights);
  fields.text("batches", spec.batches);
  fields.done();
}

RunSpec spec_of(Fields fields) {
  int protocol = 0;
  need_required(fields, "");
  fields.integer("protocol", protocol);
  if (protocol != RunSpec::kProtocol) fields.wrong("protocol", fmt::format("{}", RunSpec::kProtocol));
  RunSpec spec;
  fields.integer("seed", spec.seed);
  for (const char* name : {"run", "model", "loss", "optimizer"}) fields.need(name);
  if (auto table = fields.table("parallel")) spec.parallel = parallel_of(std::move(*table));
  spec.run = run_of(*fields.table("run"));
  read_model(*fields.table("model"), spec);
  read_loss(*fields.table("loss"), spec);
  spec.optimizer = optimizer_of(*fields.table("optimizer"), spec.no_decay);
  if (auto table = fields.table("clip")) spec.clip = clip_of(std::move(*table));
  if (auto table = fields.table("averaging")) spec.averaging = averaging_of(std::move(*table));
  if (auto table = fields.table("lr_schedule")) spec.rate_schedule = rate_schedule_of(std::move(*table));
  if (auto table = fields.table("scaler")) spec.scaler = scaler_of(std::move(*table));
  if (auto table = fields.table("checkpoint")) spec.checkpoint = checkpoint_of(std::move(*table));
  for (Fields& table : fields.tables("inject")) spec.injections.push_back(injection_of(std::move(table)));
  if (auto table = fields.table("files")) read_files(std::move(*table), spec);
  fields.done();
  return spec;
}

// The place of a field; of a field that was left out, that of the table which would hold it.
toml::source_region place_of(const toml::table& file, std::string field) {
  while (!field.empty()) {
    if (const auto view = toml::at_path(file, field)) return view.node()->source();
    const auto end = field.find_last_of(".[");
    field.resize(end == std::string::npos ? 0 : end);
  }
  return file.source();
}

}  // namespace

RunSpec parse_run_spec(std::string_view text, const std::filesystem::path& origin) {
  const std::string name = origin.string();
  toml::table file;
  try {
    file = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    refuse(name, error.source(), std::string(error.description()));
  }
  RunSpec spec = spec_of(Fields(file, "", name));
  if (const auto problem = problem_of(spec)) refuse(name, place_of(file, problem->field), problem->why);
  spec.folder = origin.parent_path();
  return spec;
}

RunSpec read_run_spec(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (std::filesystem::is_directory(file) || !stream || !(text << stream.rdbuf()))
    throw NotFound(
        fmt::format("'{}' cannot be read; a run specification is a TOML file with [run], [model], …", file.string()));
  return parse_run_spec(text.str(), file);
}

}  // namespace plumbline::job
