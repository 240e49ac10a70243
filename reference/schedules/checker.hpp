// reference/schedules/checker.hpp: proves that a schedule is right, or names what is wrong with it.
//
// Model   check() reads actions alone; it knows no generator. It demands, for every stage and micro-batch:
//           complete    one F, and one B or one I with one W, on the stage's rank; nothing twice, nothing left out
//           in order    B and I after F, W after I, B and I after the next stage's, F after the F of the stage before;
//                       nothing after the stage's REDUCE_GRAD; nothing while its parameters are given up (RESHARD)
//           messages    between stages on different ranks, one send and one receive of each output and each gradient:
//                       the send after what makes it, the receive before what uses it; metadata before what it
//                       describes. Stages on one rank hand over without messages; those that a schedule sends there
//                       must meet too
//           no deadlock each rank takes its actions one after the other; joined ones are posted at once. Under
//                       rendezvous a message is over when both sides have posted it; buffered, a send is over at once.
//                       A schedule that needs buffers is not valid, but the report says that they save it
//         waits       where a schedule waits for sends (WAIT_SEND), for each of an output or a gradient once, and
//                     after it.
//                     Such a send does not hold its rank up, its wait does until the receive is posted
//         Messages meet by name. Where first-in-first-out matching between two ranks would deliver another message,
//         that is a warning, or an error when it is the requested matching.
//         A schedule without messages is first proved free of cycles between its computations; then, when nothing else
//         is wrong, it is lowered (lower() in lowering.hpp) and its messages are proved as well. Positions of their
//         problems are then those in the lowered rows.
//         Anything that satisfies this is valid, in whatever order.
// Peak    An activation lives from its F to the end of its B or W. Of two computations at once, the forward comes
//         first. Without a backward (forward_only) it lives while its F runs.
// Cost    O(actions + stages x micro-batches); a million actions in about 0.1 s.
// Sources The rules of torch.distributed.pipelining's _validate_schedule, made strict; deadlock: every rank's program
//         is sequential, so which messages complete does not depend on timing, and one execution proves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules {

enum class ProblemKind : std::uint8_t {
  range,            // a stage or micro-batch that does not exist
  wrong_rank,       // on another rank than the stage's
  doubled,          // done before, or back-propagated twice
  missing,          // a computation, or a reduction that other stages have, is not there
  dependency,       // before what it needs, on the same rank
  after_reduction,  // after the stage's gradients were reduced for the optimizer
  resharded,        // while the stage's parameters are given up
  no_neighbour,     // a message beyond the first or last stage
  missing_send,     // a receive without its send
  missing_receive,  // a send without its receive
  missing_wait,     // a send without a wait, where others have one
  activations,      // more of them at once than the limit
  cycle,            // computations of several ranks wait for each other
  deadlock,         // messages do
  fifo_order        // first-in-first-out matching would deliver another message
};
[[nodiscard]] std::string_view name_of(ProblemKind kind);

enum class ProblemSeverity : std::uint8_t { warning, error };
[[nodiscard]] std::string_view name_of(ProblemSeverity severity);

inline constexpr int kNoPosition = -1;

/// Where an action stands: its index in its rank's list (two computations at once are two). An action that is not there
/// has no position.
struct Place {
  int rank = 0;
  int position = kNoPosition;
  Action action;
  bool operator==(const Place&) const = default;
};

struct Problem {
  ProblemKind kind = ProblemKind::range;
  ProblemSeverity severity = ProblemSeverity::error;
  Place place;
  std::string message;
  /// Of cycle and deadlock: each waits for something that comes after the next one, the last for the first.
  std::vector<Place> cycle;
};
/// "error dependency: rank 1, position 4 (1B0): …", a line, the cycle included.
[[nodiscard]] std::string to_string(const Problem& problem);

enum class Matching : std::uint8_t { name, fifo };

struct CheckOptions {
  Matching matching = Matching::name;
  /// No backward is demanded.
  bool forward_only = false;
  /// The most activations at once, by rank; empty: any number.
  std::vector<int> activation_limits{};
  /// Most problems of a kind that are reported; the rest are counted.
  std::size_t most_of_a_kind = 20;
};

struct CheckReport {
  std::vector<Problem> problems;
  std::size_t omitted = 0;               // problems beyond most_of_a_kind
  std::size_t errors = 0, warnings = 0;  // all of them, omitted ones included
  /// False also where other problems leave it unproved.
  bool deadlock_free_buffered = false;
  bool deadlock_free_rendezvous = false;
  std::vector<int> peak_activations;  // by rank, in chunks: of one stage and micro-batch
  /// Whether there is no error: warnings do not count.
  [[nodiscard]] bool valid() const;
};

/// Throws InvalidArgument for an invalid schedule: fewer than one stage or micro-batch, stage_to_rank or limits of
/// another length than they must have or with ranks that do not exist, more than 2^27 pairs of stage and micro-batch.
[[nodiscard]] CheckReport check(const Schedule& schedule, const CheckOptions& options = {});

}  // namespace plumbline::schedules
