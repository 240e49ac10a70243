// The run specification as TOML text.
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/record/write_failure.hpp"

namespace plumbline::job {
namespace {

// A basic string: TOML forbids control characters, quotes and backslashes in one.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      result += fmt::format("\\u{:04x}", byte);
    else if (c == '"' || c == '\\')
      (result += '\\') += c;
    else
      result += c;
  }
  return result + '"';
}

// As TOML wants its floats: with a point or an exponent.
std::string real(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

struct LayerWriter {
  std::string operator()(const Linear& layer) const {
    return fmt::format("in = {}\nout = {}\nbias = {}\n", layer.in, layer.out, layer.bias);
  }
  std::string operator()(const Conv2d& layer) const {
    return fmt::format("in = {}\nout = {}\nkernel = {}\nstride = {}\npadding = {}\nbias = {}\n", layer.in, layer.out,
                       layer.kernel, layer.stride, layer.padding, layer.bias);
  }
  std::string operator()(const BatchNorm2d& layer) const { return fmt::format("features = {}\n", layer.features); }
  std::string operator()(const LayerNorm& layer) const { return fmt::format("features = {}\n", layer.features); }
  std::string operator()(const Embedding& layer) const {
    return fmt::format("rows = {}\nfeatures = {}\n", layer.rows, layer.features);
  }
  std::string operator()(const TiedLinear& layer) const { return fmt::format("with = {}\n", layer.with); }
  std::string operator()(const Attention& layer) const { return fmt::format("heads = {}\n", layer.heads); }
  std::string operator()(const Add& layer) const { return fmt::format("with = {}\n", layer.with); }
  std::string operator()(const Moe& layer) const {
    return fmt::format("features = {}\nhidden = {}\nexperts = {}\ntop_k = {}\nnormalize_gates = {}\n", layer.features,
                       layer.hidden, layer.experts, layer.top_k, layer.normalize_gates);
  }
  template <class Plain>
  std::string operator()(const Plain&) const {
    return {};
  }
};

std::string toml_of(const Run& run) {
  return fmt::format(
      "\n[run]\nsteps = {}\nglobal_batch = {}\nmicro_batches = {}\naccumulation = {}\ndtype = {}\nschedule = "
      "{}\n"
      "chunks = {}\nbucket_bytes = {}\ndevice = {}\n{}",
      run.steps, run.global_batch, run.micro_batches, run.accumulation, quoted(run.dtype), quoted(run.schedule),
      run.chunks, run.bucket_bytes, quoted(run.device), run.activations ? "activations = true\n" : "");
}

std::string toml_of(const Optimizer& optimizer) {
  if (const Sgd* sgd = std::get_if<Sgd>(&optimizer))
    return fmt::format("\n[optimizer]\ntype = \"sgd\"\nlr = {}\nmomentum = {}\nnesterov = {}\nweight_decay = {}\n",
                       real(sgd->lr), real(sgd->momentum), sgd->nesterov, real(sgd->weight_decay));
  const Adam& adam = std::get<Adam>(optimizer);
  return fmt::format("\n[optimizer]\ntype = \"adam\"\nlr = {}\nbetas = [{}, {}]\neps = {}\n", real(adam.lr),
                     real(adam.betas[0]), real(adam.betas[1]), real(adam.eps));
}

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) all.push_back(quoted(name));
  return fmt::format("[{}]", fmt::join(all, ", "));
}

std::string toml_of(const Clip& clip) {
  return fmt::format("\n[clip]\nmax_norm = {}\nnorm_type = {}\n", real(clip.max_norm), real(clip.norm_type));
}

std::string toml_of(const Averaging& averaging) {
  std::string text = fmt::format("\n[averaging]\nalgorithm = {}\n", quoted(averaging.algorithm));
  text += averaging.has_rounds() ? fmt::format("period = {}\n", averaging.period)
                                 : fmt::format("graph = {}\n", quoted(averaging.graph));
  if (averaging.has_outer_step())
    text += fmt::format("lr = {}\nmomentum = {}\n", real(averaging.lr), real(averaging.momentum));
  return text;
}

std::string toml_of(const RateSchedule& schedule) {
  return fmt::format("\n[lr_schedule]\ndecay = {}\nwarmup_steps = {}\n", quoted(schedule.decay), schedule.warmup_steps);
}

std::string toml_of(const Scaler& scaler) {
  if (!scaler.dynamic)
    return fmt::format("\n[scaler]\nkind = \"constant\"\ninit_scale = {}\n", real(scaler.init_scale));
  return fmt::format(
      "\n[scaler]\nkind = \"dynamic\"\ninit_scale = {}\ngrowth_factor = {}\nbackoff_factor = "
      "{}\ngrowth_interval = {}\n",
      real(scaler.init_scale), real(scaler.growth_factor), real(scaler.backoff_factor), scaler.growth_interval);
}

std::string toml_of(const CheckpointedSteps& steps) {
  return fmt::format("\n[checkpoint]\nfolder = {}\nbegin = {}\nend = {}\n", quoted(steps.folder), steps.begin,
                     steps.end);
}

std::string toml_of(const Injection& inject) {
  return fmt::format("\n[[inject]]\nstep = {}\nrank = {}\nparameter = {}\nindex = {}\nvalue = {}\nmoment = \"{}\"\n",
                     inject.step, inject.rank, quoted(inject.parameter), inject.index,
                     std::isfinite(inject.value) ? real(inject.value) : quoted(real(inject.value)),
                     inject.reduced ? "reduced" : "local");
}

}  // namespace

std::string to_toml(const RunSpec& spec) {
  std::string text = fmt::format(
      "protocol = {}\nseed = {}\n\n[parallel]\npipeline = {}\ndata = {}\ntensor = {}\norder = {}\n", RunSpec::kProtocol,
      spec.seed, spec.parallel.pipeline, spec.parallel.data, spec.parallel.tensor, list_of(spec.parallel.order));
  if (spec.parallel.shard > 1) text += fmt::format("shard = {}\n", spec.parallel.shard);
  if (spec.parallel.expert > 1) text += fmt::format("expert = {}\n", spec.parallel.expert);
  text += toml_of(spec.run);
  text += fmt::format("\n[model]\nstages = [{}]\n", fmt::join(spec.stages, ", "));
  if (!spec.frozen.empty()) text += fmt::format("frozen = {}\n", list_of(spec.frozen));
  for (const Layer& layer : spec.layers)
    text += fmt::format("\n[[model.layer]]\ntype = \"{}\"\n{}", name_of(layer), std::visit(LayerWriter{}, layer));
  text += fmt::format("\n[loss]\ntype = \"{}\"\n", name_of(spec.loss));
  // Only where it is so: a job program of an earlier format may reject fields that it does not know.
  if (spec.row_weights) text += "row_weights = true\n";
  text += toml_of(spec.optimizer);
  if (!spec.no_decay.empty()) text += fmt::format("no_decay = {}\n", list_of(spec.no_decay));
  if (spec.clip) text += toml_of(*spec.clip);
  if (spec.averaging) text += toml_of(*spec.averaging);
  if (spec.rate_schedule) text += toml_of(*spec.rate_schedule);
  if (spec.scaler) text += toml_of(*spec.scaler);
  if (spec.checkpoint) text += toml_of(*spec.checkpoint);
  for (const Injection& inject : spec.injections) text += toml_of(inject);
  text += fmt::format("\n[files]\nweights = {}\nbatches = {}\n", quoted(spec.weights), quoted(spec.batches));
  return text;
}

void write_run_spec(const RunSpec& spec, const std::filesystem::path& file) {
  if (const auto problem = problem_of(spec)) throw InvalidArgument(problem->why);
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << to_toml(spec);
  stream.flush();
  if (!stream) throw WriteFailure(fmt::format("'{}' cannot be written", file.string()));
}

}  // namespace plumbline::job
