#include "reference/record/run_spec.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/record/layout.hpp"
#include "reference/schedules/names.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::job {
namespace {

using Problem = std::optional<SpecProblem>;

// "run.steps = 0; it must be at least 1".
template <class T>
Problem wrong(std::string field, const T& value, std::string_view right) {
  std::string why = fmt::format("{} = {}; it must be {}", field, value, right);
  return SpecProblem{std::move(field), std::move(why)};
}

Problem at_least(std::string field, std::int64_t value, std::int64_t least) {
  if (value >= least) return {};
  return wrong(std::move(field), value, fmt::format("at least {}", least));
}

Problem one_of(std::string field, const std::string& value, const std::vector<std::string>& right) {
  if (std::ranges::find(right, value) != right.end()) return {};
  return wrong(std::move(field), "'" + value + "'",
               fmt::format("one of {}{}", fmt::join(right, ", "), did_you_mean(value, right)));
}

// The half-open interval [least, below); infinite `below` still excludes infinity and NaN.
Problem within(std::string field, double value, double least, double below) {
  if (value >= least && value < below) return {};
  if (std::isinf(below)) return wrong(std::move(field), value, fmt::format("a finite number, at least {}", least));
  return wrong(std::move(field), value, fmt::format("at least {} and below {}", least, below));
}

Problem positive(std::string field, double value) {
  if (value > 0 && std::isfinite(value)) return {};
  return wrong(std::move(field), value, "a finite number above 0");
}

Problem first_of(std::initializer_list<Problem> problems) {
  for (const Problem& problem : problems)
    if (problem) return problem;
  return {};
}

Problem problem_of_parallel(const Parallel& parallel) {
  if (auto problem =
          first_of({at_least("parallel.pipeline", parallel.pipeline, 1), at_least("parallel.data", parallel.data, 1),
                    at_least("parallel.tensor", parallel.tensor, 1), at_least("parallel.shard", parallel.shard, 1)}))
    return problem;
  if (parallel.data % parallel.shard != 0)
    return wrong("parallel.shard", parallel.shard, fmt::format("a divisor of parallel.data = {}", parallel.data));
  constexpr std::int64_t most = 1 << 20;
  for (const auto& [field, size] :
       {std::pair{"parallel.pipeline", parallel.pipeline}, std::pair{"parallel.data", parallel.data},
        std::pair{"parallel.tensor", parallel.tensor}})
    if (size > most) return wrong(field, size, fmt::format("at most {}", most));
  if (parallel.expert < 1 || parallel.data % parallel.expert != 0)
    return wrong("parallel.expert", parallel.expert, fmt::format("a divisor of parallel.data = {}", parallel.data));
  const std::int64_t world = std::int64_t{parallel.pipeline} * parallel.data * parallel.tensor;
  if (world > most)
    return wrong("parallel.data", parallel.data, fmt::format("such that the world has at most {} ranks", most));
  std::vector<std::string> sorted = parallel.order;
  std::ranges::sort(sorted);
  if (sorted != std::vector<std::string>{"data", "pipeline", "tensor"})
    return wrong("parallel.order", fmt::format("[{}]", fmt::join(parallel.order, ", ")),
                 "pipeline, data and tensor, each once");
  return {};
}

Problem problem_of_chunks(const Run& run) {
  const auto schedule_kind = schedules::find_schedule_kind(run.schedule);
  const int needed = schedule_kind ? schedules::traits_of(*schedule_kind).stages_per_rank : 0;
  if (needed != 0 && run.chunks != needed)
    return wrong("run.chunks", run.chunks, fmt::format("{} with schedule '{}'", needed, run.schedule));
  return at_least("run.chunks", run.chunks, 1);
}

Problem problem_of_run(const RunSpec& spec) {
  const Run& run = spec.run;
  if (auto problem = first_of({at_least("run.steps", run.steps, 1), at_least("run.global_batch", run.global_batch, 1),
                               at_least("run.micro_batches", run.micro_batches, 1),
                               at_least("run.accumulation", run.accumulation, 1),
                               one_of("run.dtype", run.dtype, {"float32", "bfloat16", "float16"}),
                               one_of("run.schedule", run.schedule, schedules::names_in_specifications()),
                               problem_of_chunks(run), at_least("run.bucket_bytes", run.bucket_bytes, 0)}))
    return problem;
  const std::int64_t parts = std::int64_t{spec.parallel.data} * run.micro_batches;
  if (run.global_batch % parts != 0)
    return wrong("run.global_batch", run.global_batch,
                 fmt::format("a multiple of parallel.data x run.micro_batches = {}", parts));
  if (run.device.empty()) return wrong("run.device", "''", "a device such as cpu, cuda or cuda:1");
  return {};
}

Problem problem_of_stages(const RunSpec& spec) {
  const std::int64_t wanted = std::int64_t{spec.parallel.pipeline} * spec.run.chunks;
  const auto count = static_cast<int>(spec.layers.size());
  const std::string given = fmt::format("[{}]", fmt::join(spec.stages, ", "));
  if (static_cast<std::int64_t>(spec.stages.size()) != wanted)
    return wrong("model.stages", given,
                 fmt::format("the first layers of parallel.pipeline x run.chunks = {} stages", wanted));
  if (spec.stages.front() != 0) return wrong("model.stages", given, "a list that begins with layer 0");
  for (std::size_t i = 1; i < spec.stages.size(); ++i)
    if (spec.stages[i] <= spec.stages[i - 1]) return wrong("model.stages", given, "ascending");
  if (spec.stages.back() >= count)
    return wrong("model.stages", given, fmt::format("of layers that there are, 0 to {}", count - 1));
  return {};
}

// A stage has the outputs of its own layers, and of the one before them.
Problem problem_of_additions(const RunSpec& spec) {
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const auto* add = std::get_if<Add>(&spec.layers[i]);
    if (add == nullptr) continue;
    const int first = spec.stages[static_cast<std::size_t>(stage_of_layer(spec, static_cast<int>(i)))];
    if (add->with < first - 1)
      return wrong(fmt::format("model.layer[{}].with", i), add->with,
                   fmt::format("at least {}, the layer before its stage", first - 1));
  }
  return {};
}

// What one layer alone can have wrong; `at` is "model.layer[2]".
struct LayerRules {
  const RunSpec& spec;
  int number;
  std::string at;

  [[nodiscard]] Problem size(const char* name, std::int64_t value) const {
    return first_of({at_least(at + "." + name, value, 1),
                     value > std::int64_t{1} << 31 ? wrong(at + "." + name, value, "at most 2147483648") : Problem{}});
  }
  Problem operator()(const Linear& layer) const { return first_of({size("in", layer.in), size("out", layer.out)}); }
  Problem operator()(const Conv2d& layer) const {
    return first_of({size("in", layer.in), size("out", layer.out), size("kernel", layer.kernel),
                     size("stride", layer.stride), layer.padding == 0 ? Problem{} : size("padding", layer.padding)});
  }
  Problem operator()(const BatchNorm2d& layer) const { return size("features", layer.features); }
  Problem operator()(const LayerNorm& layer) const { return size("features", layer.features); }
  Problem operator()(const Embedding& layer) const {
    if (number != 0) return wrong(at + ".type", "'embedding'", "the first layer, which takes the integers of \"x\"");
    return first_of({size("rows", layer.rows), size("features", layer.features)});
  }
  Problem operator()(const TiedLinear& layer) const {
    const bool earlier = layer.with >= 0 && layer.with < number;
    const Layer* with = earlier ? &spec.layers[static_cast<std::size_t>(layer.with)] : nullptr;
    if (with != nullptr && (std::holds_alternative<Linear>(*with) || std::holds_alternative<Embedding>(*with)))
      return {};
    return wrong(at + ".with", layer.with, "the number of an earlier linear or embedding layer");
  }
  Problem operator()(const Attention& layer) const { return size("heads", layer.heads); }
  Problem operator()(const Moe& layer) const {
    constexpr std::int64_t most = 4096;
    if (auto problem = first_of({size("features", layer.features), size("hidden", layer.hidden),
                                 size("experts", layer.experts), size("top_k", layer.top_k)}))
      return problem;
    if (layer.experts > most) return wrong(at + ".experts", layer.experts, fmt::format("at most {}", most));
    if (layer.experts % spec.parallel.expert != 0)
      return wrong(at + ".experts", layer.experts,
                   fmt::format("a multiple of parallel.expert = {}", spec.parallel.expert));
    if (layer.top_k > layer.experts)
      return wrong(at + ".top_k", layer.top_k, fmt::format("at most {}, the experts", layer.experts));
    // Rounding decides between experts of almost equal probability: in 16 bits it often does.
    if (spec.run.dtype == "float32") return {};
    return wrong("run.dtype", "'" + spec.run.dtype + "'", "float32 with a layer of type moe");
  }
  Problem operator()(const Add& layer) const {
    if (layer.with >= 0 && layer.with < number) return {};
    return wrong(at + ".with", layer.with, "the number of an earlier layer");
  }
  template <class Plain>
  Problem operator()(const Plain&) const {
    return {};
  }
};

Problem problem_of_model(const RunSpec& spec) {
  if (spec.layers.empty())
    return SpecProblem{"model.layer", "model.layer has no entry; a model has at least one layer"};
  for (std::size_t i = 0; i < spec.layers.size(); ++i)
    if (auto problem =
            std::visit(LayerRules{spec, static_cast<int>(i), fmt::format("model.layer[{}]", i)}, spec.layers[i]))
      return problem;
  if (auto problem = problem_of_stages(spec)) return problem;
  return problem_of_additions(spec);  // which looks stages up
}

Problem problem_of_optimizer(const Optimizer& optimizer) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (const Sgd* sgd = std::get_if<Sgd>(&optimizer)) {
    if (sgd->nesterov && sgd->momentum <= 0) return wrong("optimizer.nesterov", "true", "false without momentum");
    return first_of({within("optimizer.lr", sgd->lr, 0, infinity),
                     within("optimizer.momentum", sgd->momentum, 0, infinity),
                     within("optimizer.weight_decay", sgd->weight_decay, 0, infinity)});
  }
  const Adam& adam = std::get<Adam>(optimizer);
  return first_of({within("optimizer.lr", adam.lr, 0, infinity), within("optimizer.betas[0]", adam.betas[0], 0, 1),
                   within("optimizer.betas[1]", adam.betas[1], 0, 1), positive("optimizer.eps", adam.eps)});
}

Problem problem_of_clip(const Clip& clip) {
  if (auto problem = positive("clip.max_norm", clip.max_norm)) return problem;
  if (clip.norm_type > 0) return {};
  return wrong("clip.norm_type", clip.norm_type, "a number above 0, or inf");
}

template <std::size_t N>
std::vector<std::string> listed(const std::array<std::string_view, N>& names) {
  return {names.begin(), names.end()};
}

// What replicas that differ do not have.
Problem problem_beside_averaging(const RunSpec& spec) {
  constexpr const char* none = "left out in a run with [averaging]";
  if (spec.parallel.pipeline > 1) return wrong("parallel.pipeline", spec.parallel.pipeline, "1 with [averaging]");
  if (spec.parallel.tensor > 1) return wrong("parallel.tensor", spec.parallel.tensor, "1 with [averaging]");
  if (spec.run.dtype != "float32") return wrong("run.dtype", "'" + spec.run.dtype + "'", "float32 with [averaging]");
  if (spec.row_weights) return wrong("loss.row_weights", "true", "false with [averaging]");
  if (spec.run.activations) return wrong("run.activations", "true", "false with [averaging]");
  if (spec.clip) return wrong("clip.max_norm", spec.clip->max_norm, none);
  if (spec.scaler) return wrong("scaler.init_scale", spec.scaler->init_scale, none);
  // No record has running statistics, nor do replicas that differ use each expert.
  for (std::size_t i = 0; i < spec.layers.size(); ++i)
    if (std::holds_alternative<BatchNorm2d>(spec.layers[i]) || std::holds_alternative<Moe>(spec.layers[i]))
      return wrong(fmt::format("model.layer[{}].type", i), fmt::format("'{}'", name_of(spec.layers[i])), none);
  return {};
}

Problem problem_of_averaging(const RunSpec& spec) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Averaging& averaging = *spec.averaging;
  return first_of({one_of("averaging.algorithm", averaging.algorithm, listed(kAveragingAlgorithms)),
                   at_least("averaging.period", averaging.period, 1), positive("averaging.lr", averaging.lr),
                   within("averaging.momentum", averaging.momentum, 0, infinity),
                   one_of("averaging.graph", averaging.graph, listed(kAveragingGraphs)),
                   problem_beside_averaging(spec)});
}

// Skipped steps, ranks that average, and the way that scaled or clipped gradients take, which has one rule for all
// parameters and steps: what a field such as "[lr_schedule]" has no meaning for yet.
Problem problem_beside_plain(const RunSpec& spec, const std::string& field) {
  const std::string none = "left out in a run with " + field;
  if (spec.run.dtype != "float32") return wrong("run.dtype", "'" + spec.run.dtype + "'", "float32 with " + field);
  if (spec.averaging) return wrong("averaging.algorithm", "'" + spec.averaging->algorithm + "'", none);
  if (spec.scaler) return wrong("scaler.init_scale", spec.scaler->init_scale, none);
  if (spec.clip) return wrong("clip.max_norm", spec.clip->max_norm, none);
  return {};
}

// What shards have no meaning beside yet.
Problem problem_of_shards(const RunSpec& spec) {
  if (spec.parallel.pipeline > 1) return wrong("parallel.pipeline", spec.parallel.pipeline, "1 with parallel.shard");
  if (spec.parallel.tensor > 1) return wrong("parallel.tensor", spec.parallel.tensor, "1 with parallel.shard");
  if (!spec.frozen.empty())
    return wrong("model.frozen", fmt::format("[{}]", fmt::join(spec.frozen, ", ")), "empty with parallel.shard");
  return problem_beside_plain(spec, "parallel.shard");
}

// Names of parameters, each once.
Problem problem_of_names(const RunSpec& spec, const char* field, const std::vector<std::string>& names) {
  const std::vector<Parameter> parameters = parameters_of(spec);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i), shown = "'" + names[i] + "'";
    if (std::ranges::find(parameters, names[i], &Parameter::name) == parameters.end())
      return wrong(at, shown, "a parameter of the model, such as '0.weight'");
    if (std::ranges::find(names, names[i]) != names.begin() + static_cast<std::ptrdiff_t>(i))
      return wrong(at, shown, "listed once");
  }
  return {};
}

Problem problem_of_no_decay(const RunSpec& spec) {
  if (std::holds_alternative<Adam>(spec.optimizer))
    return wrong("optimizer.type", "'adam'", "'sgd' with optimizer.no_decay");
  return first_of(
      {problem_of_names(spec, "optimizer.no_decay", spec.no_decay), problem_beside_plain(spec, "optimizer.no_decay")});
}

// Stages that back-propagate, and parts of parameters, are all of trained ones.
Problem problem_of_frozen(const RunSpec& spec) {
  if (auto problem =
          first_of({problem_of_names(spec, "model.frozen", spec.frozen), problem_beside_plain(spec, "model.frozen")}))
    return problem;
  if (spec.frozen.size() == parameters_of(spec).size())
    return wrong("model.frozen", fmt::format("[{}]", fmt::join(spec.frozen, ", ")), "some of the parameters, not all");
  if (spec.parallel.pipeline > 1) return wrong("parallel.pipeline", spec.parallel.pipeline, "1 with model.frozen");
  if (spec.parallel.tensor > 1) return wrong("parallel.tensor", spec.parallel.tensor, "1 with model.frozen");
  return {};
}

// Experts that lie on several data ranks.
Problem problem_of_expert_ranks(const RunSpec& spec) {
  const bool has_experts =
      std::ranges::any_of(spec.layers, [](const Layer& layer) { return std::holds_alternative<Moe>(layer); });
  if (!has_experts) return wrong("parallel.expert", spec.parallel.expert, "1 without a layer of type moe");
  if (spec.parallel.tensor > 1) return wrong("parallel.tensor", spec.parallel.tensor, "1 with parallel.expert");
  if (spec.parallel.shard > 1) return wrong("parallel.shard", spec.parallel.shard, "1 with parallel.expert");
  if (spec.checkpoint)
    return wrong("checkpoint.folder", "'" + spec.checkpoint->folder + "'", "left out in a run with parallel.expert");
  if (!spec.frozen.empty())
    return wrong("model.frozen", fmt::format("[{}]", fmt::join(spec.frozen, ", ")), "empty with parallel.expert");
  return problem_beside_plain(spec, "parallel.expert");
}

Problem problem_of_rate_schedule(const RunSpec& spec) {
  const RateSchedule& schedule = *spec.rate_schedule;
  if (auto problem = first_of({one_of("lr_schedule.decay", schedule.decay, listed(kRateDecays)),
                               at_least("lr_schedule.warmup_steps", schedule.warmup_steps, 0)}))
    return problem;
  if (schedule.warmup_steps >= spec.run.steps)
    return wrong("lr_schedule.warmup_steps", schedule.warmup_steps,
                 fmt::format("fewer than run.steps = {}", spec.run.steps));
  return problem_beside_plain(spec, "[lr_schedule]");
}

Problem problem_of_scaler(const Scaler& scaler) {
  if (auto problem = positive("scaler.init_scale", scaler.init_scale)) return problem;
  if (!scaler.dynamic) return {};
  if (!(scaler.growth_factor > 1) || !std::isfinite(scaler.growth_factor))
    return wrong("scaler.growth_factor", scaler.growth_factor, "a finite number above 1");
  if (!(scaler.backoff_factor > 0 && scaler.backoff_factor < 1))
    return wrong("scaler.backoff_factor", scaler.backoff_factor, "between 0 and 1");
  return at_least("scaler.growth_interval", scaler.growth_interval, 1);
}

// Ranks that average have state beside the optimizer's.
Problem problem_of_checkpoint(const RunSpec& spec) {
  const CheckpointedSteps& steps = *spec.checkpoint;
  if (steps.folder.empty()) return wrong("checkpoint.folder", "''", "the name of a folder");
  if (steps.begin < 0 || steps.begin >= spec.run.steps)
    return wrong("checkpoint.begin", steps.begin, fmt::format("a step of the run, 0 to {}", spec.run.steps - 1));
  if (steps.end <= steps.begin || steps.end > spec.run.steps)
    return wrong("checkpoint.end", steps.end,
                 fmt::format("above checkpoint.begin = {} and at most run.steps = {}", steps.begin, spec.run.steps));
  if (spec.averaging)
    return wrong("averaging.algorithm", "'" + spec.averaging->algorithm + "'", "left out in a run with [checkpoint]");
  return {};
}

Problem problem_of_injection(const RunSpec& spec, const Injection& inject, const std::string& at) {
  if (inject.step < spec.first_step() || inject.step >= spec.end_step())
    return wrong(at + ".step", inject.step,
                 fmt::format("a step of the run, {} to {}", spec.first_step(), spec.end_step() - 1));
  if (inject.rank < 0 || inject.rank >= spec.parallel.world())
    return wrong(at + ".rank", inject.rank, fmt::format("a rank of the world, 0 to {}", spec.parallel.world() - 1));
  const std::vector<Parameter> parameters = parameters_of(spec);
  const auto parameter = std::ranges::find(parameters, inject.parameter, &Parameter::name);
  if (parameter == parameters.end())
    return wrong(at + ".parameter", "'" + inject.parameter + "'", "a parameter of the model, such as '0.weight'");
  const std::vector<int> holders = holders_of(spec, *parameter);
  if (std::ranges::find(holders, coordinates_of(spec.parallel, inject.rank).pipeline) == holders.end())
    return wrong(at + ".rank", inject.rank, fmt::format("a rank that holds '{}'", inject.parameter));
  const std::int64_t elements = elements_of(parameter->shape);
  if (inject.index < 0 || inject.index >= elements)
    return wrong(at + ".index", inject.index,
                 fmt::format("an element of '{}', 0 to {}", inject.parameter, elements - 1));
  return {};
}

Problem problem_of_injections(const RunSpec& spec) {
  if (!spec.injections.empty() && !spec.scaler)
    return SpecProblem{"inject[0]",
                       "inject[0] is given without [scaler]; an injected value needs a scaler that survives it"};
  for (std::size_t i = 0; i < spec.injections.size(); ++i)
    if (auto problem = problem_of_injection(spec, spec.injections[i], fmt::format("inject[{}]", i))) return problem;
  return {};
}

}  // namespace

std::int64_t elements_of(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape)
    if (__builtin_mul_overflow(product, size, &product))
      throw InvalidArgument(fmt::format("shape {} has more elements than can be counted", text_of(shape)));
  return product;
}

std::string text_of(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string_view name_of(const Layer& layer) {
  constexpr std::array<std::string_view, std::variant_size_v<Layer>> names{
      "linear",     "relu",      "gelu",        "tanh",      "flatten", "conv2d", "batch_norm2d",
      "layer_norm", "embedding", "tied_linear", "attention", "add",     "moe"};
  return names[layer.index()];
}

std::string_view name_of(Loss loss) { return loss == Loss::cross_entropy ? "cross_entropy" : "mse"; }

std::optional<SpecProblem> problem_of(const RunSpec& spec) {
  constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();  // of a TOML integer
  if (spec.seed > largest) return wrong("seed", spec.seed, fmt::format("at most {}", largest));
  if (auto problem = problem_of_parallel(spec.parallel)) return problem;
  if (auto problem = problem_of_run(spec)) return problem;
  if (auto problem = problem_of_model(spec)) return problem;
  if (auto problem = problem_of_optimizer(spec.optimizer)) return problem;
  if (spec.parallel.shard > 1)
    if (auto problem = problem_of_shards(spec)) return problem;
  if (spec.clip)
    if (auto problem = problem_of_clip(*spec.clip)) return problem;
  if (spec.averaging)
    if (auto problem = problem_of_averaging(spec)) return problem;
  if (!spec.frozen.empty())
    if (auto problem = problem_of_frozen(spec)) return problem;
  if (!spec.no_decay.empty())
    if (auto problem = problem_of_no_decay(spec)) return problem;
  if (spec.parallel.expert > 1)
    if (auto problem = problem_of_expert_ranks(spec)) return problem;
  if (spec.rate_schedule)
    if (auto problem = problem_of_rate_schedule(spec)) return problem;
  if (spec.scaler)
    if (auto problem = problem_of_scaler(*spec.scaler)) return problem;
  if (spec.checkpoint)
    if (auto problem = problem_of_checkpoint(spec)) return problem;
  if (auto problem = problem_of_injections(spec)) return problem;
  if (spec.weights.empty()) return wrong("files.weights", "''", "the name of a file");
  if (spec.batches.empty()) return wrong("files.batches", "''", "the name of a file");
  return {};
}

}  // namespace plumbline::job
