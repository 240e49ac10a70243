#include "reference/training/digits_run.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/safetensors.hpp"
#include "reference/schedules/names.hpp"
#include "reference/training/detail/random.hpp"

namespace plumbline::training {
namespace {

constexpr std::int64_t kPixels = 64;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kTokens = 4;  // of a row
constexpr std::int64_t kVocabulary = 16;

// Layers, and the first of each stage.
struct Layout {
  std::vector<job::Layer> layers;
  std::vector<int> stages;
};

// One linear layer with its tanh after the other. `hidden` ones have as many outputs as inputs; so many more have the
// weight of the first of these.
std::vector<job::Layer> perceptron_of(int hidden, int tied) {
  using namespace job;
  constexpr std::int64_t width = 32;
  std::vector<Layer> layers{Linear{kPixels, width}, Tanh{}};
  for (int i = 0; i < hidden; ++i) layers.insert(layers.end(), {Linear{width, width}, Tanh{}});
  for (int i = 0; i < tied; ++i) layers.insert(layers.end(), {TiedLinear{2}, Tanh{}});
  layers.emplace_back(Linear{width, kClasses});
  return layers;
}

std::vector<int> every_second_layer(int stages) {
  std::vector<int> first;
  for (int stage = 0; stage < stages; ++stage) first.push_back(2 * stage);
  return first;
}

Layout mlp(int stages) {
  if (stages <= 2)
    return {{job::Linear{kPixels, 128}, job::Relu{}, job::Linear{128, kClasses}}, every_second_layer(stages)};
  return {perceptron_of(stages - 2, 0), every_second_layer(stages)};
}

// Where there are more stages than uses, or two of each, the last tied layer begins the last stage, and none is on the
// stage of the layer whose weight it has. Of fewer stages the last one has several uses.
Layout tied(int stages, int uses) {
  Layout layout{perceptron_of(std::max(1, stages - uses), uses - 1), every_second_layer(stages)};
  if (stages == 2) layout.stages = {0, 4};
  return layout;
}

Layout convolutions(bool norm, int stages) {
  using namespace job;
  Layout layout{{Conv2d{.in = 1, .out = 8, .kernel = 3, .stride = 1, .padding = 1}}, {}};
  if (norm) layout.layers.emplace_back(BatchNorm2d{8});
  layout.layers.insert(layout.layers.end(), {Relu{}, Conv2d{.in = 8, .out = 16, .kernel = 3, .stride = 2, .padding = 1},
                                             Relu{}, Flatten{}, Linear{16 * 4 * 4, kClasses}});
  const int count = static_cast<int>(layout.layers.size());
  if (stages > count)
    throw InvalidArgument(
        fmt::format("{} stages; model '{}' has {} layers", stages, norm ? "conv_norm" : "conv", count));
  for (int stage = 0; stage < stages; ++stage) layout.stages.push_back(stage * count / stages);
  return layout;
}

// A pair of linear layers a stage.
Layout pairs(int stages) {
  using namespace job;
  constexpr std::int64_t hidden = 25, width = 24;
  Layout layout;
  for (int stage = 0; stage < stages; ++stage) {
    const bool is_last = stage + 1 == stages;
    layout.stages.push_back(static_cast<int>(layout.layers.size()));
    layout.layers.insert(layout.layers.end(), {Linear{stage == 0 ? kPixels : width, hidden}, Gelu{},
                                               Linear{hidden, is_last ? kClasses : width}});
    if (!is_last) layout.layers.insert(layout.layers.end(), {LayerNorm{width}, Tanh{}});
  }
  return layout;
}

// Attention with two heads and a perceptron, or experts, each of which adds to what came in.
void add_block(std::vector<job::Layer>& layers, const std::vector<job::Layer>& perceptron) {
  using namespace job;
  constexpr std::int64_t width = 8;
  const int in = static_cast<int>(layers.size()) - 1, attended = in + 5;
  layers.insert(layers.end(), {LayerNorm{width}, Linear{width, 3 * width}, Attention{2}, Linear{width, width}, Add{in},
                               LayerNorm{width}});
  layers.insert(layers.end(), perceptron.begin(), perceptron.end());
  layers.emplace_back(Add{attended});
}

Layout transformer(int stages, bool has_experts) {
  using namespace job;
  constexpr std::int64_t width = 8, hidden = 16;
  Layout layout{{Embedding{kVocabulary, width}}, {0}};
  for (int block = 0; block < std::max(2, stages); ++block) {
    if (block > 0 && block < stages) layout.stages.push_back(static_cast<int>(layout.layers.size()));
    const Moe experts{.features = width, .hidden = hidden, .experts = 6, .normalize_gates = block % 2 == 0};
    add_block(layout.layers, has_experts ? std::vector<Layer>{experts}
                                         : std::vector<Layer>{Linear{width, hidden}, Gelu{}, Linear{hidden, width}});
  }
  layout.layers.insert(layout.layers.end(), {job::LayerNorm{width}, job::TiedLinear{0}});
  return layout;
}

Layout layout_of(const std::string& model, int stages, int tied_uses) {
  if (model == "mlp") return mlp(stages);
  if (model == "tied") return tied(stages, tied_uses);
  if (model == "pairs") return pairs(stages);
  if (model == "transformer" || model == "moe") return transformer(stages, model == "moe");
  return convolutions(model == "conv_norm", stages);
}

void check_name(const char* setting, const std::string& value, std::span<const std::string_view> known) {
  if (std::ranges::find(known, value) == known.end())
    throw InvalidArgument(fmt::format("{} '{}'; it must be {}", setting, value, fmt::join(known, ", ")));
}

// Nothing for a rank that does not exist.
std::string first_parameter_of(const job::RunSpec& spec, int rank) {
  if (rank < 0 || rank >= spec.parallel.world()) return "";
  for (const job::Parameter& parameter : job::parameters_of(spec))
    for (const int pipeline : job::holders_of(spec, parameter))
      if (pipeline == job::coordinates_of(spec.parallel, rank).pipeline) return parameter.name;
  return "";
}

bool is_frozen(const std::string& frozen, const job::Parameter& parameter, int first_layer) {
  return frozen == "first_layer" ? parameter.layer == first_layer
                                 : frozen == "biases" && parameter.name.ends_with(".bias");
}

job::RunSpec spec_of(const DigitsRun& settings, std::size_t training_rows, const std::filesystem::path& folder) {
  check_name("model", settings.model, kDigitsModels);
  check_name("optimizer", settings.optimizer, kDigitsOptimizers);
  check_name("rows", settings.rows, kDigitsRows);
  check_name("frozen", settings.frozen, kDigitsFrozen);
  if (settings.global_batch > static_cast<std::int64_t>(training_rows))
    throw InvalidArgument(
        fmt::format("global batch {}; there are {} rows to train on", settings.global_batch, training_rows));
  if (settings.pipeline < 1 || settings.chunks < 1)
    throw InvalidArgument(fmt::format("{} pipeline ranks of {} chunks; there must be at least 1 of each",
                                      settings.pipeline, settings.chunks));
  if (settings.tied_uses < 2)
    throw InvalidArgument(fmt::format("{} uses of a tied weight; it has two at least", settings.tied_uses));
  constexpr int most_stages = 1024;
  if (settings.pipeline > most_stages / settings.chunks)
    throw InvalidArgument(fmt::format("{} pipeline ranks of {} chunks; at most {} stages are made", settings.pipeline,
                                      settings.chunks, most_stages));
  job::RunSpec spec;
  spec.seed = settings.seed;
  spec.parallel.pipeline = settings.pipeline;
  spec.parallel.data = settings.data;
  spec.parallel.tensor = settings.tensor;
  spec.parallel.shard = settings.shard;
  spec.parallel.expert = settings.expert;
  spec.run = {.steps = settings.steps,
              .global_batch = settings.global_batch,
              .micro_batches = settings.micro_batches,
              .accumulation = settings.accumulation,
              .dtype = settings.dtype,
              .schedule = schedules::as_in_specifications(settings.schedule),
              .chunks = settings.chunks,
              .bucket_bytes = settings.bucket_bytes,
              .device = settings.device};
  Layout layout = layout_of(settings.model, settings.pipeline * settings.chunks, settings.tied_uses);
  spec.layers = std::move(layout.layers);
  spec.stages = std::move(layout.stages);
  if (settings.optimizer == "adam")
    spec.optimizer = job::Adam{.lr = 0.01};
  else if (settings.optimizer == "sgd_decay")
    spec.optimizer = job::Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-3};
  else
    spec.optimizer = job::Sgd{.lr = 0.1, .momentum = 0.9};
  spec.row_weights = settings.rows != "equal";
  spec.clip = settings.clip;
  spec.rate_schedule = settings.rate_schedule;
  for (const job::Parameter& parameter : job::parameters_of(spec))
    if (settings.decays_matrices_alone && parameter.shape.size() < 2) spec.no_decay.push_back(parameter.name);
  const int first_layer = job::parameters_of(spec).front().layer;
  for (const job::Parameter& parameter : job::parameters_of(spec))
    if (is_frozen(settings.frozen, parameter, first_layer)) spec.frozen.push_back(parameter.name);
  spec.scaler = settings.scaler;
  for (job::Injection one : settings.injections) {
    if (one.parameter.empty()) one.parameter = first_parameter_of(spec, one.rank);
    spec.injections.push_back(one);
  }
  spec.folder = folder;
  if (const auto problem = job::problem_of(spec)) throw InvalidArgument(problem->why);
  return spec;
}

// Inputs that one output of a layer is a sum of.
double fan_in(const job::Shape& weight) {
  return static_cast<double>(job::elements_of(weight)) / static_cast<double>(weight.front());
}

// As torch.nn does: uniform within 1/sqrt(fan-in), the scale of a normalisation 1 and its shift 0.
void write_weights(const job::RunSpec& spec) {
  Random random(spec.seed, 1);
  job::SafetensorsWriter writer;
  double bound = 0;  // a bias has that of its weight, which comes before it
  for (const job::Parameter& parameter : job::parameters_of(spec)) {
    const bool is_bias = parameter.name.ends_with(".bias");
    std::vector<float> values(static_cast<std::size_t>(job::elements_of(parameter.shape)));
    const job::Layer& layer = spec.layers[static_cast<std::size_t>(parameter.layer)];
    if (std::holds_alternative<job::BatchNorm2d>(layer) || std::holds_alternative<job::LayerNorm>(layer)) {
      std::ranges::fill(values, is_bias ? 0.0f : 1.0f);
    } else {
      if (!is_bias) bound = 1 / std::sqrt(fan_in(parameter.shape));
      std::ranges::generate(values, [&] { return random.uniform(bound); });
    }
    writer.add<float>(parameter.name, parameter.shape, values);
  }
  writer.write(spec.weights_file());
}

bool takes_tokens(const job::RunSpec& spec) { return std::holds_alternative<job::Embedding>(spec.layers.front()); }

job::Shape row_of(const job::RunSpec& spec) {
  if (takes_tokens(spec)) return {kTokens};
  return std::holds_alternative<job::Conv2d>(spec.layers.front()) ? job::Shape{1, 8, 8} : job::Shape{kPixels};
}

// Of a transformer five pixels in the middle of the fifth line: the first four, and the one after each of them.
void append(const job::RunSpec& spec, const Digit& digit, std::vector<float>& x, std::vector<std::int64_t>& y) {
  if (!takes_tokens(spec)) {
    for (const std::uint8_t pixel : digit.pixels) x.push_back(static_cast<float>(pixel) / 16);
    y.push_back(digit.label);
    return;
  }
  constexpr std::size_t first = 33;
  const auto token = [&](std::int64_t i) {
    return std::min<std::int64_t>(digit.pixels[first + static_cast<std::size_t>(i)], kVocabulary - 1);
  };
  for (std::int64_t i = 0; i < kTokens; ++i) {
    x.push_back(static_cast<float>(token(i)));
    y.push_back(token(i + 1));
  }
}

// [batches, global_batch], as kDigitsRows says.
std::vector<float> weights_of_rows(const job::RunSpec& spec, bool all_one) {
  Random random(spec.seed, 3);
  std::vector<float> weights(static_cast<std::size_t>(spec.run.steps * spec.run.accumulation * spec.run.global_batch));
  for (int step = 0; step < spec.run.steps; ++step)
    for (int data = 0; data < spec.parallel.data; ++data) {
      std::uint64_t least = 1;  // row that is no padding, in the first of these
      for (const job::RowRange& part : job::micro_batches_of(spec, step, data)) {
        const auto rows = static_cast<std::uint64_t>(part.rows);
        const std::uint64_t valid = least + random.below(rows + 1 - least);
        least = 0;
        for (std::uint64_t row = 0; row < valid; ++row)
          weights[static_cast<std::size_t>(part.batch * spec.run.global_batch + part.first_row) + row] =
              all_one ? 1.0f : std::ldexp(0.25f, static_cast<int>(random.below(4)));
      }
    }
  return weights;
}

void write_batches(const job::RunSpec& spec, const std::string& kind, const std::vector<Digit>& rows) {
  Random random(spec.seed, 2);
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto batch = static_cast<std::size_t>(spec.run.global_batch);
  const std::int64_t batches = std::int64_t{spec.run.steps} * spec.run.accumulation;
  std::vector<float> x;
  std::vector<std::int64_t> y;
  std::size_t next = order.size();
  for (std::int64_t i = 0; i < batches; ++i) {
    if (next + batch > order.size()) {
      shuffle(order, random);
      next = 0;
    }
    for (std::size_t row = 0; row < batch; ++row) append(spec, rows[order[next++]], x, y);
  }
  job::Shape shape{batches, spec.run.global_batch};
  const job::Shape row = row_of(spec);
  job::Shape x_shape = shape;
  x_shape.insert(x_shape.end(), row.begin(), row.end());
  job::SafetensorsWriter writer;
  if (takes_tokens(spec))
    writer.add<std::int64_t>("x", x_shape, std::vector<std::int64_t>(x.begin(), x.end()));
  else
    writer.add<float>("x", x_shape, x);
  writer.add<std::int64_t>("y", takes_tokens(spec) ? x_shape : shape, y);
  if (spec.row_weights) writer.add<float>("w", shape, weights_of_rows(spec, kind == "padding"));
  writer.write(spec.batches_file());
}

}  // namespace

job::RunSpec write_digits_run(const DigitsRun& settings, const Digits& digits, const std::filesystem::path& folder) {
  job::RunSpec spec = spec_of(settings, digits.training.size(), folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RuntimeFailure(fmt::format("'{}' cannot be made a folder: {}", folder.string(), error.message()));
  write_weights(spec);
  write_batches(spec, settings.rows, digits.training);
  job::write_run_spec(spec, folder / "spec.toml");
  return spec;
}

LabelledRows held_out_rows(const job::RunSpec& spec, const Digits& digits) {
  LabelledRows rows{.row = row_of(spec), .x = {}, .labels = {}};
  for (const Digit& digit : digits.held_out) append(spec, digit, rows.x, rows.labels);
  return rows;
}

}  // namespace plumbline::training
