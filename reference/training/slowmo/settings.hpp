// reference/training/slowmo/settings.hpp: training whose ranks agree on parameters now and then, by names. Free of LibTorch.
//
// Model   What a run specification does not say: which algorithm of reference/slowmo stands in the place of the all-reduce of
//         gradients, and how often it does something.
//           localsgd       parameters are averaged every local_sgd_frequency steps
//           post-localsgd  the same, behind local_sgd_begin steps that average each
//           sgp            every step mixes a little with the peers of a graph: stochastic gradient push
//           slowmo         slow momentum every slow_frequency steps, on localsgd, sgp or nothing between them (`base`)
//           diloco         Nesterov's outer step every slow_frequency steps, nothing between them
// Errors  InvalidArgument of one line: the setting in the words of the command line, its value, what would be right.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "reference/record/run_spec.hpp"
#include "reference/slowmo/options.hpp"
#include "reference/training/checkpoint.hpp"

namespace plumbline::training {

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
  bool memory_efficient = true;              // slow buffers in shards
  int shards = 32;                           // at most
  std::string graph = "n-peer-exponential";  // of nodes; gossip::parse_graph_kind()
  int peers = 0;                             // a round; 0: the graph's own number
  bool push_sum = true;                      // else push-pull
  bool average_at_slow_steps = false;        // of slowmo over sgp: all parameters in place of gossip
  bool overlap = false;                      // gossip beside the forward and backward, on a thread
  int overlap_lag = 0;                       // steps that it takes then; slowmo::Options::synch_freq
  int checkpoint_steps = 0;  // of a run that lags: each so many it waits for what is under way; 0: never
  double rate_decay = 1;     // the optimizer's rate in step S is rate x rate_decay^S
  friend bool operator==(const AveragingSettings&, const AveragingSettings&) = default;
};

/// Throws InvalidArgument for settings that make no run of so many ranks.
void require_possible(const AveragingSettings& settings, int world);
/// Throws InvalidArgument for a run specification that cannot be trained so: pipelines, tensor parallelism, scalers, injected
/// values.
void require_averageable(const job::RunSpec& spec);
/// Throws InvalidArgument for what a specification and settings do not make together: learning rates that float32 does not
/// hold in some step.
void require_together(const job::RunSpec& spec, const AveragingSettings& settings);
/// Whether a round of gossip may be under way between steps.
[[nodiscard]] bool lags(const AveragingSettings& settings);
/// The optimizer's rate in a step.
[[nodiscard]] double rate_of(const job::RunSpec& spec, const AveragingSettings& settings, int step);
/// What reference/slowmo is asked for. Throws InvalidArgument as require_possible().
[[nodiscard]] slowmo::Options options_of(const AveragingSettings& settings, int world);
/// What must be the same where a run goes on from a checkpoint: all of these, and of the specification the model, the
/// optimizer, the type, the seed and how rows are cut.
[[nodiscard]] Configuration configuration_of(const job::RunSpec& spec, const AveragingSettings& settings);

}  // namespace plumbline::training
