// reference/training/averaging.hpp: training whose ranks average parameters: settings, a run step by step, and its
// files.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/slowmo/options.hpp"
#include "reference/slowmo/slowmo.hpp"
#include "reference/training/checkpoint.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

// ---- Training whose ranks agree on parameters now and then, by names. Free of LibTorch.
//
// Model   What a run specification does not say: which algorithm of reference/slowmo stands in the place of the
//         all-reduce of gradients, and how often it does something.
//           localsgd       parameters are averaged every local_sgd_frequency steps
//           post-localsgd  the same, after local_sgd_begin steps that average each
//           sgp            every step mixes a little with the peers of a graph: stochastic gradient push
//           slowmo         slow momentum every slow_frequency steps, on localsgd, sgp or nothing between them (`base`)
//           diloco         Nesterov's outer step every slow_frequency steps, nothing between them
// Errors  InvalidArgument of one line: the setting in the words of the command line, its value, what would be right.

inline constexpr std::array<std::string_view, 5> kAveragings{"localsgd", "post-localsgd", "sgp", "slowmo", "diloco"};
inline constexpr std::array<std::string_view, 3> kAveragingBases{"localsgd", "sgp", "none"};

struct AveragingSettings {
  std::string algorithm = "slowmo";  // of kAveragings
  std::string base = "localsgd";     // of slowmo, of kAveragingBases
  int ranks_per_node = 1;
  int local_sgd_frequency = 3;               // steps
  int local_sgd_begin = 50;                  // steps; of post-localsgd
  int slow_frequency = 48;                   // steps; of slowmo and diloco
  double slow_momentum = 0.5;                // of slowmo, and
  double slow_learning_rate = 1;             //
  double outer_momentum = 0.9;               // of diloco, and
  double outer_learning_rate = 0.7;          //
  bool memory_efficient = true;              // slow momentum buffers in shards
  int shards = 32;                           // at most
  std::string graph = "n-peer-exponential";  // of nodes; gossip::parse_graph_kind()
  int peers = 0;                             // a round; 0: the graph's own number
  bool push_sum = true;                      // else push-pull
  bool average_at_slow_steps = false;        // of slowmo over sgp: all parameters in place of gossip
  bool overlap = false;                      // gossip beside the forward and backward, on a thread
  int overlap_lag = 0;                       // steps that it takes then; slowmo::Options::synch_freq
  int checkpoint_steps = 0;  // of a run that lags: after this number of steps it waits for what is under way; 0: never
  double rate_decay = 1;     // the optimizer's rate in step S is rate x rate_decay^S
  friend bool operator==(const AveragingSettings&, const AveragingSettings&) = default;
};

/// What a specification says of it. LocalSGD stands between slow steps of momentum 0 and rate 1, which are an average.
[[nodiscard]] AveragingSettings settings_of(const job::Averaging& averaging);
/// Throws InvalidArgument for settings that make no run of `world` ranks.
void require_possible(const AveragingSettings& settings, int world);
/// Throws InvalidArgument for a run specification that cannot be trained so: pipelines, tensor parallelism, scalers,
/// injected values.
void require_averageable(const job::RunSpec& spec);
/// Throws InvalidArgument for what a specification and settings do not make together: learning rates that float32 does
/// not hold in some step.
void require_together(const job::RunSpec& spec, const AveragingSettings& settings);
/// Whether a round of gossip may be under way between steps.
[[nodiscard]] bool lags(const AveragingSettings& settings);
/// The optimizer's rate in a step.
[[nodiscard]] double rate_of(const job::RunSpec& spec, const AveragingSettings& settings, int step);
/// The options for reference/slowmo. Throws InvalidArgument as require_possible().
[[nodiscard]] slowmo::Options options_of(const AveragingSettings& settings, int world);
/// What must be the same where a run continues from a checkpoint: all of these, and of the specification the model, the
/// optimizer, the type, the seed and how rows are cut.
[[nodiscard]] Configuration configuration_of(const job::RunSpec& spec, const AveragingSettings& settings);

// ---- One rank of training that averages parameters, step by step. Free of LibTorch.
//
// Model   The model, batches and optimizer are those of a run specification; what is between ranks is reference/slowmo,
//         bound to the model by averaged_module.hpp. Data rank d of D computes on its slice of each batch, as in
//         data-parallel training, but changes its own parameters with its own gradients.
// Types   run.dtype float32: forward, backward and optimizer work on the parameters. float16 and bfloat16: forward and
//         backward do, the optimizer works on fp32 master weights. Gradients of float16 are those of 1024 times the
//         loss.
// Memory  Batch normalisations keep running statistics, for evaluation: the model's buffers, those of rank 0 in each
//         forward.

/// What one rank had in a step. Values are of all parameters, one after the other in the order of
/// job::parameters_of(), each row-major; "the optimizer's" are the parameters, or their fp32 master weights.
struct AveragedStep {
  std::vector<float> before;          // the optimizer's: numerators
  std::vector<float> seen;            // the parameters in the forward and backward: the estimate
  std::vector<float> gradient;        // that the optimizer uses
  std::vector<float> mixed{};         // where gossip overlaps: the optimizer's, before its step
  std::vector<float> updated;         // the optimizer's, after its step
  std::vector<float> after;           // the same, after averages, gossip and slow momentum
  std::vector<float> halves{};        // parameters of 16 bits then
  std::vector<float> buffers_seen{};  // running statistics in the step's first forward, and
  std::vector<float> buffers{};       // after its last
  double weight_before = 1;           // push-sum's, and
  double weight = 1;                  // after the step
  double loss = 0;                    // mean over this rank's rows
  friend bool operator==(const AveragedStep&, const AveragedStep&) = default;
};

class AveragedSession {
 public:
  AveragedSession() = default;
  virtual ~AveragedSession() = default;
  AveragedSession(const AveragedSession&) = delete;
  AveragedSession& operator=(const AveragedSession&) = delete;

  /// Trains on a step's batches. Collective.
  virtual AveragedStep step(int step) = 0;
  /// The share of rows whose largest output is at their label, in evaluation: with this rank's estimate and running
  /// statistics. Collective, as a forward in training is. Throws InvalidArgument for no rows.
  [[nodiscard]] virtual double evaluate(const LabelledRows& rows) = 0;
  /// Numerators divided by their weight, in the order of AveragedStep.
  [[nodiscard]] virtual std::vector<float> estimate() const = 0;
  /// What slow momentum buffers take on this rank.
  [[nodiscard]] virtual std::int64_t slow_buffer_bytes() const = 0;

  /// Writes folder/step-<S>/rank<R>.safetensors, S being the steps done: all that a bit-identical continuation needs.
  virtual void save(const std::filesystem::path& folder) = 0;
  /// Continues from a checkpoint after `steps` steps. Throws InvalidArgument for one of another run, NotFound.
  virtual void load(const std::filesystem::path& folder, int steps) = 0;
};

/// A rank's model after a step: fp16 or bf16 parameters where the run has some, else numerators, divided by the weight.
[[nodiscard]] std::vector<float> model_behind(const AveragedStep& step);

/// How far ranks are from their mean, in the 2-norm.
struct ConsensusDistance {
  double largest = 0;
  double mean = 0;
};
/// Of one vector a rank. Collective.
[[nodiscard]] ConsensusDistance consensus_distance(comm::Communicator& world, const std::vector<float>& estimate);
/// The consensus distance of all ranks' vectors at once, which have the same length.
[[nodiscard]] ConsensusDistance consensus_distance(const std::vector<std::vector<float>>& estimates);

// ---- What ranks that average had in each step, as files. Free of LibTorch.
//
// Model   A safetensors file a rank, folder/averaging<R>.safetensors: step<S>/before, seen, gradient, updated, after,
//         and where there are some mixed, halves, buffers_seen and buffers, F32 of one dimension; step<S>/numbers, F64:
//         loss, weight before, weight after the step.
// Errors  InvalidArgument, NotFound, RuntimeFailure: the file and what is wrong.

[[nodiscard]] std::filesystem::path averaging_file(const std::filesystem::path& folder, int rank);
void write_averaged_steps(const std::vector<AveragedStep>& steps, const std::filesystem::path& folder, int rank);
/// One entry per step of the file.
[[nodiscard]] std::vector<AveragedStep> read_averaged_steps(const std::filesystem::path& folder, int rank);

}  // namespace plumbline::training
