// reference/schedules/partition.hpp: which layers each pipeline stage has.
//
// Model   A partition is a list of boundaries: part p has the items [boundaries[p], boundaries[p+1]). It starts at 0,
//         ends at the number of items and never falls, so every item has exactly one owner; is_partition() says so,
//         whatever made it.
//         With several chunks (virtual stages), part c*stages + r is chunk c of rank r.
// Cost    Uniform: O(parts). Optimal: O(items x parts) time, O(items) memory.
// Sources DeepSpeed runtime/utils.py and ColossalAI builder/pipeline.py for the operations on partitions; their own
//         rules, which differ, are below. Optimal: the linear partition problem, by dynamic programming.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/comm/errors.hpp"
#include "reference/schedules/schedule.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules {

using Boundaries = std::vector<int>;

/// Parts that differ by at most one item, the larger ones first; with fewer items than parts the last ones are empty.
/// Throws InvalidArgument for parts < 1 or items < 0.
[[nodiscard]] Boundaries partition_uniform(int items, int parts);

/// What the first and the last part are to have, each on its own; nothing: as much as the others.
struct FixedEnds {
  std::optional<int> first = {};
  std::optional<int> last = {};
};
/// The same, with ends of given sizes: what is left is split evenly among the other parts. Throws InvalidArgument also
/// for a size below 0, for more items at the ends than exist, and where no part is left for the rest; with the
/// arithmetic. Source: Megatron-LM's num_layers_in_first_pipeline_stage and num_layers_in_last_pipeline_stage.
[[nodiscard]] Boundaries partition_uniform(int items, int parts, const FixedEnds& ends);

/// The partition whose heaviest part is as light as can be, and where no part is empty unless there are fewer items
/// than parts; of several, the one whose parts, from the first on, have the most items. Throws InvalidArgument
/// for parts < 1, and for a weight below 0 or not finite, with its position.
[[nodiscard]] Boundaries partition_optimal(std::span<const double> weights, int parts);
/// The weight of the heaviest part. Throws InvalidArgument unless it is a partition of the weights.
[[nodiscard]] double heaviest_part(std::span<const double> weights, const Boundaries& boundaries);

/// Whether every one of `items` has exactly one owner among `parts` parts.
[[nodiscard]] bool is_partition(const Boundaries& boundaries, int items, int parts);

/// Items [begin, end).
struct Interval {
  int begin = 0;
  int end = 0;
  bool operator==(const Interval&) const = default;
};
/// By rank, the intervals of its chunks, of which the first is chunk 0: part c*stages + r is chunk c of rank r. Throws
/// InvalidArgument unless the parts are `stages` times a whole number.
[[nodiscard]] std::vector<std::vector<Interval>> by_rank(const Boundaries& boundaries, int stages);

// ---- The partitions of ColossalAI and DeepSpeed, where they differ from ours.
//
// Model   A user who compares layer placements, or loads another system's checkpoint, needs that system's answer and
//         not the best one. Each function gives the recorded answers of its system, corners included.
// Quirks  ColossalAI: the remainder goes to the last parts, a part at a time; balanced takes a weight of 0 for 1, and
//         falls back to uniform when there are no more items than parts. DeepSpeed from 0.7 on minimises the heaviest
//         minus the lightest part, which is not the smallest heaviest part; of equal choices the last split wins.
//         DeepSpeed 0.6 leaves all of the remainder to the last part, and its bisection (to 1e-3) may leave parts
//         empty.
// Sources ColossalAI builder/pipeline.py at #94; DeepSpeed runtime/utils.py 0.19.8 and 0.6.3.

struct ColossalaiPartition {
  std::vector<std::vector<Interval>> ranks;  // by rank, an interval a chunk
  bool warned = false;                       // a stage is left without layers ("no requests")
  bool operator==(const ColossalaiPartition&) const = default;
};
/// As the source, also for numbers below 0. Throws InvalidArgument where the source divides by 0, and for items that
/// the chunks do not divide.
[[nodiscard]] ColossalaiPartition colossalai_uniform(int items, int stages, int chunks);
/// Throws also for a weight below 0, for more items than there are places where stages or chunks are below 0, and
/// OutOfRange for weights that sum up to more than 2^63 - 1.
[[nodiscard]] ColossalaiPartition colossalai_balanced(std::span<const std::int64_t> weights, int stages, int chunks);

/// As the source: fewer than no items give that number throughout, fewer than no parts no boundaries. Throws
/// InvalidArgument for items without a part (parts = 0), and for more items than parts where both are below 1.
[[nodiscard]] Boundaries deepspeed_uniform(int items, int parts);
/// O(items^2 x parts). Without weights or parts, as the source: the number of items alone. Throws InvalidArgument for
/// parts < 0, for sums of weights that are not finite, and for items^2 x parts above 2^33.
[[nodiscard]] Boundaries deepspeed_balanced(std::span<const double> weights, int parts);
/// The same, but throws InvalidArgument for fewer than no parts unless there are fewer items still.
[[nodiscard]] Boundaries deepspeed06_uniform(int items, int parts);
/// As the source, no boundaries for fewer than no parts. Throws InvalidArgument for items without a part (parts =
/// 0), for fewer than no parts without items, for sums of weights that are not finite, and where the bisection ends at
/// a bottleneck that leaves weight without a place (weights below 0). Where neighbouring numbers of the weights' size
/// lie farther apart than 1e-3 the source may never end; the bisection ends when no bound moves any more.
[[nodiscard]] Boundaries deepspeed06_balanced(std::span<const double> weights, int parts);

// ---- Partitions by the names under which DeepSpeed and ColossalAI offer them.
//
// Model   A method gives each layer a weight, by its type or its trainable parameters, and leaves the dealing to the
//         system's own rule, which is above.
// Methods DeepSpeed, in any case: `uniform`; `parameters`; `type:EXPRESSION`, where a layer in whose type the
//         expression is found, in any case, weighs 1 and any other 0. ColossalAI, as written: `layer` is uniform,
//         `parameter` balanced.
// Quirks  DeepSpeed lowers the whole method, the expression with it (\D is \d), and lets it end at the next colon, so
//         that (?:a|b) is an open parenthesis.
// Unlike  Expressions are ECMAScript's and not Python's: named groups, \A and \Z, look-behind are not known. Matching
//         takes polynomial time, so references to groups are rejected with InvalidArgument as well.
// Source  DeepSpeed runtime/pipe/module.py (0.19.8), whose partition functions of 0.6.3 are at hand as well; ColossalAI
//         builder/pipeline.py at #94.

/// What the methods look at.
struct LayerDescription {
  std::optional<std::string> type;  // "Linear"; nothing for a function without a name, which no expression finds
  std::int64_t parameters = 0;      // trainable ones
};

/// Throws InvalidArgument for a method that the source does not have, `profile` among them, NotFound for an expression
/// that is found in no type, and InvalidArgument for an invalid expression, or one longer than 256 characters, or
/// whose repetitions multiply to more than 1000; else as deepspeed_uniform() and deepspeed_balanced().
[[nodiscard]] Boundaries deepspeed_by_method(std::span<const LayerDescription> layers, int parts,
                                             std::string_view method);
/// The same over deepspeed06_uniform() and deepspeed06_balanced().
[[nodiscard]] Boundaries deepspeed06_by_method(std::span<const LayerDescription> layers, int parts,
                                               std::string_view method);

/// Throws InvalidArgument that lists the methods for another one; else as colossalai_uniform() and
/// colossalai_balanced().
[[nodiscard]] ColossalaiPartition colossalai_by_method(std::span<const LayerDescription> layers, int stages, int chunks,
                                                       std::string_view method);

/// By layer, whether the expression is found in its type, in any case. Throws as deepspeed_by_method() for the
/// expression.
[[nodiscard]] std::vector<bool> types_with(std::span<const LayerDescription> layers, std::string_view expression);

// ---- Megatron-LM's ways to say which layers a stage has.
//
// Model   A layout is a text, a character a layer: E embedding, t transformer layer, m multi-token prediction, L loss;
//         | ends a stage, commas mean nothing. Stage c x ranks + r is chunk c of rank r. Or no layout is given, and the
//         embedding or the loss is counted as one more layer of an even split, so that the stage that has it gets a
//         transformer layer fewer.
// Text    (…)*N repeats what is between the parentheses, x*N the character before it, | included: "Et*3|(tt|)*29,m|L".
//         Groups first, without nesting, then characters, each in one pass over what the text has become: "(t|)*2*3" is
//         "t|t|||", as there.
// Cost    O(characters of the repeated text), which are 2^20 at most.
// Source  Megatron-LM core 0.19 transformer/pipeline_parallel_layer_layout.py; account_for_embedding_in_pipeline_split
//         and account_for_loss_in_pipeline_split of transformer_config.py.

enum class LayerKind : char { embedding = 'E', transformer = 't', multi_token_prediction = 'm', loss = 'L' };

struct PlacedLayer {
  LayerKind kind = LayerKind::transformer;
  std::size_t character = 1;  // of the given text, from 1: where it is written
  bool operator==(const PlacedLayer&) const = default;
};

struct PipelineLayout {
  std::vector<std::vector<PlacedLayer>> stages;  // from the input to the output; one may have no layer
};

/// Throws InvalidArgument, with the character and where it stands, for what is no layout, and for more than 2^20
/// characters after repetition.
[[nodiscard]] PipelineLayout parse_pipeline_layout(std::string_view text);
/// A stage's layers as characters: "Ettt".
[[nodiscard]] std::string to_string(const std::vector<PlacedLayer>& stage);

/// What a layout has to be the layout of.
struct LayoutDemands {
  int ranks = 1;
  int transformer_layers = 0;
  std::optional<int> prediction_layers = {};  // nothing: none
};
/// Throws InvalidArgument, with the place of the layer that is wrong, unless the ranks divide the stages, the only
/// embedding is the first layer and the only loss the last, the number of layers is the demanded one, and the
/// multi-token prediction stands after every transformer layer, in one stage, and that its rank's last.
void require_layout(const PipelineLayout& layout, const LayoutDemands& demands);

/// Which of the model's layers of a kind each stage has.
[[nodiscard]] Boundaries boundaries_of(const PipelineLayout& layout, LayerKind kind);
/// Whether a rank other than the last has the multi-token prediction.
[[nodiscard]] bool has_standalone_prediction(const PipelineLayout& layout, int ranks);

/// What is counted as a layer beside the transformer layers: the embedding in the first stage, the loss in the last.
struct CountedEnds {
  bool embedding = false;
  bool loss = false;
};
/// Of the transformer layers, the boundaries of an even split of all that is counted, the larger parts first. Throws
/// InvalidArgument for parts < 1, layers < 0, and, where an end is counted, more parts than there are things to count.
[[nodiscard]] Boundaries partition_counted(int layers, int parts, const CountedEnds& counted);
/// The same for ranks x chunks parts. Throws InvalidArgument also unless the ranks divide what is counted, and the
/// chunks a rank's share of it.
[[nodiscard]] Boundaries megatron_counted(int layers, int ranks, int chunks, const CountedEnds& counted);

// ---- The partition whose slowest stage is as fast as can be, within a memory limit.
//
// Model   In its steady state a pipeline takes, for each micro-batch, as long as its slowest part: a stage's forward
//         and backward, or a boundary's message, which moves beside the computations and each way on a link of its own.
//         Stage s of p keeps its parameters and the activations of the micro-batches that the schedule keeps at
//         once, min(p-s, m) in 1F1B; both have to fit. Each stage has a layer at least, and a rank one stage.
// Exact   Of all partitions that fit none has a shorter period; times are sums in the order of the layers, so that
//         whole numbers stay whole. Bytes are counted exactly, below 2^53.
// Cost    O(layers^2 x stages) time at most, mostly O(layers^2 / stages + layers x stages); O(layers x stages) memory.
// Sources Harlap et al., arXiv:1806.03377 (PipeDream: the slowest of stages and messages, by dynamic programming);
//         Narayanan et al., arXiv:2104.04473 (what 1F1B keeps).

/// What a layer costs.
struct LayerCost {
  double forward = 0;                 // seconds on one micro-batch
  double backward = 0;                // of input and weights
  double weight_gradient = 0;         // the part of `backward` that may wait: W
  std::int64_t parameters = 0;        // trainable numbers
  std::int64_t parameter_bytes = 0;   // all that is kept throughout: weights, gradients, the optimizer's state
  std::int64_t activation_bytes = 0;  // kept of one micro-batch from its forward to its backward
  std::int64_t output_bytes = 0;      // sent to the next stage, and as a gradient back
};

struct StageLimits {
  std::vector<int> kept{};  // by stage, the number of micro-batches whose activations are kept
  std::int64_t memory = std::numeric_limits<std::int64_t>::max();  // bytes a rank
  double bandwidth = std::numeric_limits<double>::infinity();      // bytes a second between two stages, each way
};

/// min(stages - s, micro_batches) of stage s: 1F1B's. Throws InvalidArgument for numbers below 1.
[[nodiscard]] std::vector<int> kept_by_1f1b(int stages, int micro_batches);
/// What the ranks of a schedule keep; of a forward-only one, during a forward alone. Throws InvalidArgument unless each
/// rank has one stage, and what simulate() throws.
[[nodiscard]] std::vector<int> kept_by(const Schedule& schedule, bool forward_only = false);

/// No partition is within the limit. At best, with the least memory that the fullest stage can have, it is `stage` that
/// does not fit, by `missing` bytes.
class NoPartitionFits : public InvalidArgument {
 public:
  NoPartitionFits(const std::string& words, int stage, std::int64_t missing)
      : InvalidArgument(words), stage_(stage), missing_(missing) {}
  [[nodiscard]] int stage() const { return stage_; }
  [[nodiscard]] std::int64_t missing() const { return missing_; }

 private:
  int stage_;
  std::int64_t missing_;
};

/// One part per entry of `limits.kept`. Of several best partitions, the one whose stages, from the first on,
/// have the most layers. Throws NoPartitionFits; InvalidArgument for more stages than layers, no stage, numbers that
/// are negative or not finite (with the layer), a bandwidth that is not above 0, sums of bytes of 2^53 and more, and
/// for layers^2 x stages above 2^33.
[[nodiscard]] Boundaries partition_measured(std::span<const LayerCost> layers, const StageLimits& limits);

struct StageCost {
  double seconds = 0;      // forward and backward of a micro-batch
  double message = 0;      // seconds that its output is under way to the next stage; 0 of the last
  std::int64_t bytes = 0;  // parameters, and the activations that are kept
  bool operator==(const StageCost&) const = default;
};
/// Throws InvalidArgument for numbers as partition_measured(), and for boundaries of other layers or stages.
[[nodiscard]] std::vector<StageCost> stage_costs(std::span<const LayerCost> layers, const Boundaries& boundaries,
                                                 const StageLimits& limits);
/// Seconds a micro-batch in the steady state: the slowest stage's or message's.
[[nodiscard]] double period_of(std::span<const StageCost> stages);

// ---- What the choice of a partition costs: each candidate's makespan and bubble.
//
// Model   A schedule says who does what in which order; the layers of a stage say how long it takes. The same schedule
//         is simulated with the stages of each candidate: an even number of layers, even parameters, the shortest
//         period (above). Messages are those of the layer in front of each boundary, activations and
//         parameters those of all of a stage's layers.
// Note    The shortest period makes the steady state shortest, and GPipe where forward and backward are in proportion.
//         Beyond that a schedule's makespan also depends on what is first and last; the comparison says how much.
// Cost    A simulation a candidate.
// Source  Huang et al., arXiv:1811.06965 (the bubble); Harlap et al., arXiv:1806.03377 (measured layers).

/// `base` with the times, message sizes and activations of the stages that the boundaries make. Throws InvalidArgument
/// for boundaries that do not fit these layers.
[[nodiscard]] SimulationOptions options_of(std::span<const LayerCost> layers, const Boundaries& boundaries,
                                           const SimulationOptions& base = {});

struct PartitionFigures {
  std::string name;  // "uniform", "parameters", "optimal", or as given
  Boundaries boundaries;
  double slowest_stage = 0;  // seconds of forward and backward of a micro-batch
  double makespan = 0;
  double barrier_bubble = 0;  // of the busiest rank
  double idle_part = 0;       // of all ranks' time until the makespan, the part in which nothing is computed
  double peak_bytes = 0;      // of the fullest rank: its stages' parameters and the activations that it keeps at once
};
/// Throws InvalidArgument for boundaries of other layers than given or other stages than the schedule's, and what
/// simulate() throws.
[[nodiscard]] PartitionFigures figures_of(const Schedule& schedule, std::span<const LayerCost> layers,
                                          const std::string& name, const Boundaries& boundaries,
                                          const SimulationOptions& base = {});

/// "uniform", "parameters" (the heaviest stage as light as can be) and "optimal", in this order. The memory limit is
/// for "optimal" alone. Throws InvalidArgument for more stages than layers, for a limit where a rank has several
/// stages, and what partition_measured() throws.
[[nodiscard]] std::vector<PartitionFigures> compare_partitions(const Schedule& schedule,
                                                               std::span<const LayerCost> layers,
                                                               std::optional<std::int64_t> memory = {},
                                                               const SimulationOptions& base = {});

}  // namespace plumbline::schedules
