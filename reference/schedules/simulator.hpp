// reference/schedules/simulator.hpp: when each action of a schedule happens, what it costs in idle time, and why.
//
// Model   A rank takes its computations one after the other. One begins as soon as the rank is free and what it needs
//         has arrived: a forward's input, a backward's gradient, which stages on one rank have at once, others when the
//         message arrives. Computations that are joined begin together, when all may, and end together. Idle cells and
//         everything that is neither computation nor message take no time.
//         Messages move beside the computations. A link is an ordered pair of ranks; it takes its messages in the order
//         in which the sender sends them, one after the other: a message of n bytes begins when it is sent and the link
//         is free, occupies the link for n / bandwidth, and arrives `latency` later. Under rendezvous it does not begin
//         before the receiver has come to its receive; messages then follow each other as they meet. In a schedule
//         without messages each result is sent as soon as it is computed. Metadata take no time.
// Bubbles The work of a rank is the time that it computes. Its barrier bubble is makespan - work: a step ends for all
//         at once. Its span bubble is (its last end - its first start) - work.
// Peak    As checker.hpp counts activations: from F to the end of B or W.
// Exact   Times are sums and maxima of the given numbers, nothing else: where those are whole numbers, so are all
//         times.
// Cost    O(actions), about 7 ns each while they are in the cache, and two numbers a stage and micro-batch;
//         attribute_idle_time() O(actions + the actions that others take while a rank is idle).
// Sources The closed forms: README.md. The model of a link: LogGP (Alexandrov et al. 1995). Bubbles: GPipe (barrier),
//         zero-bubble schedules (span).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules {

/// Seconds of the computations of a stage on one micro-batch.
struct StageTimes {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  /// Of both halves at once; their sum unless given.
  std::optional<double> backward = {};
  [[nodiscard]] double of(ActionKind kind) const;  // 0 for what is no computation
};

struct Links {
  double latency = 0;                                          // seconds
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes a second
};

struct SimulationOptions {
  /// Of each stage, or one entry for all.
  std::vector<StageTimes> stages = std::vector<StageTimes>(1);
  /// Of joined computations: the group takes this part of the sum of its times.
  double overlap = 1;
  Links links{};
  /// Bytes of a stage's output, and of its gradient: one number for all boundaries, or one for each.
  std::vector<double> message_bytes = std::vector<double>(1, 0);
  /// Bytes of a stage's activations for one micro-batch: one number, or one for each stage.
  std::vector<double> activation_bytes = std::vector<double>(1, 1);
  bool rendezvous = false;
  /// An activation is kept during its forward alone.
  bool forward_only = false;
  /// What the times of a rank's computations are multiplied by; empty: 1.
  std::vector<double> rank_slowdown{};
  /// Each computation takes up to this part longer, evenly distributed, by stage, micro-batch, kind and seed alone.
  double jitter = 0;
  std::uint64_t seed = 0;
};

/// From when to when. Of a computation, while it runs; of a send, from when its message moves until it has arrived; of
/// anything else, the moment at which the rank comes to it, twice.
struct Period {
  double start = 0;
  double end = 0;
  bool operator==(const Period&) const = default;
};

struct RankTimes {
  double work = 0;
  double first_start = 0;  // of a computation; 0 without any
  double last_end = 0;
  double barrier_bubble = 0;
  double span_bubble = 0;
  int peak_activations = 0;  // in chunks: of one stage and micro-batch
  double peak_activation_bytes = 0;
};

struct LinkTraffic {
  int from = 0;
  int to = 0;
  std::int64_t messages = 0;
  double bytes = 0;
  bool operator==(const LinkTraffic&) const = default;
};

/// Elements come without a value: of a vector that is written in whole before it is read.
template <class T>
struct ValuelessAllocator : std::allocator<T> {
  template <class... Arguments>
  void construct(T* element, Arguments&&... arguments) const {
    if constexpr (sizeof...(Arguments) > 0) std::construct_at(element, std::forward<Arguments>(arguments)...);
  }
};

struct Timeline {
  double makespan = 0;
  std::vector<Period, ValuelessAllocator<Period>> periods;  // of every action, rank by rank
  std::vector<std::size_t> offsets;                         // where each rank's periods begin, and the end
  std::vector<RankTimes> ranks;
  std::vector<LinkTraffic> links;  // those that were used, by sender, then receiver

  [[nodiscard]] std::span<const Period> of_rank(int rank) const;
  /// The barrier bubble of the busiest rank: with equal ranks, that of each.
  [[nodiscard]] double barrier_bubble() const;
  /// A bubble over makespan (GPipe's ratio), and over the rank's work (Megatron-LM's). 0 for a rank without work.
  [[nodiscard]] double ratio_of_total(int rank) const;
  [[nodiscard]] double ratio_of_work(int rank) const;
};

/// Throws InvalidArgument for times, sizes, factors that are negative or NaN, times whose sum overflows,
/// lists of the wrong length, more than 2^27 pairs of stage and micro-batch, and a schedule that deadlocks: the message
/// says which ranks wait for what. Of the rest, see check().
[[nodiscard]] Timeline simulate(const Schedule& schedule, const SimulationOptions& options = {});

/// A timeline from measured periods, one list a rank, an entry an action: what simulate() says of it otherwise. Joined
/// computations have the period of all of them. Links are left out. Throws InvalidArgument for lists of other lengths
/// than the schedule's, for periods that start below 0 or end before they start, and for actions of other stages or
/// micro-batches.
[[nodiscard]] Timeline timeline_of(const Schedule& schedule, const std::vector<std::vector<Period>>& periods,
                                   const SimulationOptions& options = {});

/// Why a rank is idle, in seconds that sum to its barrier bubble. Whenever a rank is idle, it waits for a chain: for a
/// message, for the computation that made it, for what that had to wait for, and so on, back to the moment when the
/// rank became idle. Each moment of the idle time is named after what the chain does at that moment:
struct IdleTime {
  double transfer = 0;    // a message moves, or waits for its link
  double sent_late = 0;   // what the message has is computed, and the sender does something else before it sends
  double straggler = 0;   // a computation runs past its nominal time: the rank is slow, or jitters
  double imbalance = 0;   // a computation runs past the longest that the idle rank's own stages take for such a one
  double fill = 0;        // anything else is computed, before the idle rank's first computation
  double drain = 0;       // after its last
  double dependency = 0;  // between two of its own
  double overhead = 0;    // of a measured timeline: a rank has what it needs and computes nothing yet
  [[nodiscard]] double sum() const {
    return transfer + sent_late + straggler + imbalance + fill + drain + dependency + overhead;
  }
};
/// The parts of an IdleTime by name, as figures have them.
struct IdleCause {
  const char* name;
  double IdleTime::* seconds;
};
inline constexpr std::array<IdleCause, 8> kIdleCauses{{{"fill", &IdleTime::fill},
                                                       {"drain", &IdleTime::drain},
                                                       {"dependency", &IdleTime::dependency},
                                                       {"transfer", &IdleTime::transfer},
                                                       {"sent_late", &IdleTime::sent_late},
                                                       {"imbalance", &IdleTime::imbalance},
                                                       {"straggler", &IdleTime::straggler},
                                                       {"overhead", &IdleTime::overhead}}};
/// Those of a simulated timeline: all but the overhead.
inline constexpr auto kSimulatedIdleCauses = std::span(kIdleCauses).first<kIdleCauses.size() - 1>();
/// By rank. `timeline` is that of simulate() with the same arguments. Rounding aside, sum() is the rank's barrier
/// bubble.
[[nodiscard]] std::vector<IdleTime> attribute_idle_time(const Schedule& schedule, const SimulationOptions& options,
                                                        const Timeline& timeline);
/// The idle time of a measured timeline, that of timeline_of(), by one clock. Nothing is known of a message but the
/// computations before and after it: from the end of the first, or of what the receiver computed meanwhile, whichever
/// is later, it is `transfer` or the receiver's `overhead`. The nominal times are those of `options`, in the timeline's
/// unit. Throws InvalidArgument for a schedule that simulate() rejects.
[[nodiscard]] std::vector<IdleTime> attribute_measured_idle_time(const Schedule& schedule,
                                                                 const SimulationOptions& options,
                                                                 const Timeline& timeline);

// ---- In which buffer each activation is kept.
//
// Model   What a stage keeps of a micro-batch is in a slot of its rank from its forward to the end of its backward or
//         weight gradient. A forward takes the lowest slot that is free; of computations at once, forwards come first.
//         A rank needs one slot per activation that it keeps at its peak, and no more: intervals on a line.
// Cost    O(actions x log slots).

inline constexpr int kNoSlot = -1;

struct ActivationSlots {
  std::vector<int> counts;  // by rank: the number of slots that it needs
  std::vector<std::vector<int>>
      slots;  // of each action of each rank: where its computation's activation is; kNoSlot of
              // what is no computation
  bool operator==(const ActivationSlots&) const = default;
};

/// Without a backward (`forward_only`) an activation is kept while its forward runs. Throws InvalidArgument, with rank
/// and position, for a forward whose activation is still there, and for anything else whose activation is not.
[[nodiscard]] ActivationSlots activation_slots(const Schedule& schedule, bool forward_only = false);

}  // namespace plumbline::schedules
