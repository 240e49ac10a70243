// reference/record/run_spec.hpp: what a training run shall compute, as a plain value: the job door's run
// specification.
//
// Model   A run specification says everything that decides the numbers of a run: the layout of ranks, the
//         batches, the layers, loss and optimizer. It is a TOML file beside two safetensors files (weights,
//         batches). A program that is given one writes a training record (training_record.hpp).
// Ranks   The world is pipeline x data x tensor, row-major over Parallel::order. Data rank d has coordinate d / shard
//         on the axis of replicas, and d mod shard on that of shards. Expert ranks are data ranks, too: data rank d has
//         the expert rank d modulo Parallel::expert.
// Rows    Step S uses batches S*accumulation .. (S+1)*accumulation-1; data rank d of D takes the d-th of D
//         equal consecutive slices of a batch, cut into micro_batches equal consecutive parts. With row_weights the
//         gradient of a step is the sum of weight x gradient over all its rows, over the sum of the weights. With
//         averaging a step's gradient is each data rank's own.
// Errors  A specification that cannot be run is an InvalidArgument of one line: file:line:column, the field,
//         its value, and what would be right.
// Source  Layers, losses and optimizers are those of torch.nn and torch.optim at their defaults.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace plumbline::job {

using Shape = std::vector<std::int64_t>;

/// The number of elements of a shape; 1 for []. Throws InvalidArgument beyond 2^63.
[[nodiscard]] std::int64_t elements_of(const Shape& shape);
/// "[32, 64]".
[[nodiscard]] std::string text_of(const Shape& shape);

struct Parallel {
  int pipeline = 1;
  int data = 1;
  int tensor = 1;
  std::vector<std::string> order{"pipeline", "data", "tensor"};  // slowest first
  int shard = 1;   // consecutive data ranks that hold a copy of the parameters together, each its shard
  int expert = 1;  // expert ranks: consecutive data ranks that together hold all experts, each a part
  [[nodiscard]] int world() const { return pipeline * data * tensor; }
  /// Copies of the parameters.
  [[nodiscard]] int replicas() const { return data / shard; }
};

struct Run {
  int steps = 1;
  std::int64_t global_batch = 1;  // rows of one batch
  int micro_batches = 1;          // of one data rank's rows of one batch
  int accumulation = 1;           // batches of one step
  std::string dtype = "float32";  // of forward and backward: float32, bfloat16, float16
  std::string schedule = "1f1b";
  int chunks = 1;                        // stages of a pipeline rank
  std::int64_t bucket_bytes = 25 << 20;  // 0: the program chooses
  std::string device = "cpu";
  bool activations = false;  // the record shall have outputs of layers, and their gradients
};

// Layers. Sizes are counts of features or channels; kernel, stride and padding are the same in both
// directions.
struct Linear {
  std::int64_t in = 0, out = 0;
  bool bias = true;
};
struct Relu {};
struct Gelu {};  // the exact one
struct Tanh {};
struct Flatten {};  // all but the rows
struct Conv2d {
  std::int64_t in = 0, out = 0, kernel = 0, stride = 1, padding = 0;
  bool bias = true;
};
struct BatchNorm2d {
  std::int64_t features = 0;
};
struct LayerNorm {
  std::int64_t features = 0;  // the last dimension
};
struct Embedding {
  std::int64_t rows = 0, features = 0;
};
struct TiedLinear {
  int with = 0;  // the earlier linear or embedding layer whose weight it multiplies by
};
struct Attention {
  std::int64_t heads = 0;  // each has its query, key and value one after the other in a token's features
};
struct Add {
  int with = 0;  // the earlier layer whose output it adds: one of its stage, or what the stage is given
};
/// A mixture of experts. The router, linear without bias, and a softmax give each token a probability for each expert.
/// The output is the sum of those of the top_k experts with the largest ones, of equal ones the first, each times its
/// gate: the probability, with normalize_gates over the sum of the chosen ones. An expert is a perceptron without
/// biases: linear, gelu, linear. It takes all tokens that choose it.
/// Source: Shazeer et al., arXiv:1701.06538; Jiang et al., Mixtral of Experts, arXiv:2401.04088.
struct Moe {
  std::int64_t features = 0, hidden = 0, experts = 0;
  std::int64_t top_k = 2;
  bool normalize_gates = true;
};
using Layer = std::variant<Linear, Relu, Gelu, Tanh, Flatten, Conv2d, BatchNorm2d, LayerNorm, Embedding, TiedLinear,
                           Attention, Add, Moe>;

enum class Loss { cross_entropy, mse };

struct Sgd {
  double lr = 0;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};
struct Adam {
  double lr = 0;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
};
using Optimizer = std::variant<Sgd, Adam>;

struct Scaler {
  bool dynamic = true;  // else constant: only init_scale counts
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int growth_interval = 2000;
};

/// Gradients are multiplied by max_norm over the norm of the whole model's gradient, where that is larger.
struct Clip {
  double max_norm = 1;
  double norm_type = 2;  // or infinity
};

/// The algorithms by which ranks average parameters, and the graphs of sgp.
inline constexpr std::array<std::string_view, 4> kAveragingAlgorithms{"localsgd", "slowmo", "diloco", "sgp"};
inline constexpr std::array<std::string_view, 4> kAveragingGraphs{"n-peer-exponential", "ring", "star", "complete"};

/// Each rank trains on its own gradients, and ranks average parameters after each round.
struct Averaging {
  std::string algorithm = "localsgd";  // of kAveragingAlgorithms
  int period = 1;                      // steps of a round; of sgp one
  double lr = 1;                       // of the outer step of slowmo and diloco, and
  double momentum = 0;                 // its momentum
  std::string graph = "star";          // of sgp, of kAveragingGraphs
  [[nodiscard]] bool has_rounds() const { return algorithm != "sgp"; }
  [[nodiscard]] bool has_outer_step() const { return algorithm == "slowmo" || algorithm == "diloco"; }
};

/// The decays of a learning rate.
inline constexpr std::array<std::string_view, 2> kRateDecays{"linear", "cosine"};

/// The learning rate of a step is the optimizer's times a factor.
struct RateSchedule {
  std::string decay = "linear";  // of kRateDecays: from warmup_steps on, to 0 after the last step
  int warmup_steps = 0;          // over which the factor grows linearly, from 0
};

/// A run in two parts, each in a layout of its own: the first saves a checkpoint, from which the second continues.
struct CheckpointedSteps {
  std::string folder = "checkpoint";  // its path, or that from the specification's
  int begin = 0;                      // the first step that is trained; above 0 from the checkpoint of what was before
  int end = 1;                        // the step before which training ends; below run.steps a checkpoint is saved
};

/// A value written into a gradient on purpose.
struct Injection {
  int step = 0;
  int rank = 0;           // global rank that holds the parameter
  std::string parameter;  // "2.weight"
  std::int64_t index = 0;
  double value = 0;
  bool reduced = false;  // after the reductions; else before them, after the last micro-batch's backward
};

struct RunSpec {
  static constexpr int kProtocol = 1;

  std::uint64_t seed = 0;
  Parallel parallel;
  Run run;
  std::vector<int> stages{0};  // first layer of each stage
  std::vector<Layer> layers;
  std::vector<std::string> frozen{};  // parameters that do not train
  Loss loss = Loss::cross_entropy;
  bool row_weights = false;  // batches have "w", the weights of rows: the mean is a weighted one
  Optimizer optimizer;
  std::vector<std::string> no_decay{};  // parameters that weight decay leaves out
  std::optional<Clip> clip;
  std::optional<Averaging> averaging;
  std::optional<RateSchedule> rate_schedule;
  std::optional<Scaler> scaler;
  std::optional<CheckpointedSteps> checkpoint;
  std::vector<Injection> injections;
  std::string weights = "weights.safetensors";  // relative to `folder`
  std::string batches = "batches.safetensors";
  std::filesystem::path folder;  // where the file lies; not part of it

  [[nodiscard]] std::filesystem::path weights_file() const { return folder / weights; }
  [[nodiscard]] std::filesystem::path batches_file() const { return folder / batches; }
  [[nodiscard]] std::filesystem::path checkpoint_folder() const { return folder / checkpoint->folder; }
  /// The steps that the program trains and records: all but in a run in two parts.
  [[nodiscard]] int first_step() const { return checkpoint ? checkpoint->begin : 0; }
  [[nodiscard]] int end_step() const { return checkpoint ? checkpoint->end : run.steps; }
};

/// "linear", "batch_norm2d", …: the word for a layer in the file.
[[nodiscard]] std::string_view name_of(const Layer& layer);
/// "cross_entropy", "mse".
[[nodiscard]] std::string_view name_of(Loss loss);

/// What is wrong with a specification: the field ("run.global_batch", "model.layer[2].in") and the whole
/// sentence.
struct SpecProblem {
  std::string field;
  std::string why;
};
/// The first thing that makes `spec` impossible to run, or nothing. Files are not looked at (run_files.hpp).
[[nodiscard]] std::optional<SpecProblem> problem_of(const RunSpec& spec);

/// Reads a file. Fields with a default may be left out; unknown ones are errors. The result passes
/// problem_of(). Throws InvalidArgument; NotFound where there is no such file.
[[nodiscard]] RunSpec read_run_spec(const std::filesystem::path& file);
/// Parses a specification from its text; `origin` stands for the file in errors, and its folder is the specification's.
[[nodiscard]] RunSpec parse_run_spec(std::string_view text, const std::filesystem::path& origin);
/// The file's text, every field written out.
[[nodiscard]] std::string to_toml(const RunSpec& spec);
/// Writes it. Throws InvalidArgument for a specification that cannot be run, RuntimeFailure where it cannot
/// be written.
void write_run_spec(const RunSpec& spec, const std::filesystem::path& file);

}  // namespace plumbline::job
