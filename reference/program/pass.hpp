// reference/program/pass.hpp: the data-parallel pass: prune scaling, overlap, fuse, and say what depends on what.
//
// Model   A program computes a gradient, sums it over its ring of ranks, and scales it by one over the ring's size. The
//         pass takes the scaling out where another number can hold the factor, puts the reductions on a stream of their
//         own, and makes one reduction of many. Nothing that is trained may change by it. Each step is a function of
//         its own, from program to program; apply_data_parallel_pass() makes them one after the other and keeps what
//         each one made.
// Conventions  `paddle` does what the source does, defects included; `plumbline` keeps what a program computes.
//              README.md
//         lists where they differ, each with the program that the source breaks.
// Errors  PassError, which says in which step.
// Source  PaddlePaddle 3.3.1, auto_parallel_data_parallel_optimization.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/comm/errors.hpp"
#include "reference/program/program.hpp"

namespace plumbline::program {

enum class Convention : std::uint8_t { plumbline, paddle };

/// Twelve times 2048 squared: the weights of one transformer layer of hidden size 2048. Elements, whatever their type.
inline constexpr std::int64_t kMostFusedElements = 12LL * 2048 * 2048;
/// Each ring may have a stream of its own.
inline constexpr int kMostOverlappedRings = 16;
/// Scope of reductions and scalings that data parallelism put into a program; it may stand inside a longer one.
inline constexpr std::string_view kDataParallelScope = "auto_parallel/data_parallel";
/// The stream that reductions are issued on.
inline constexpr std::string_view kGradientStream = "gradient_sync_stream";
/// Fused variables are called coalesce_grad_<group, from the end>_<number>.
inline constexpr std::string_view kFusedPrefix = "coalesce_grad";

struct PassOptions {
  Convention convention = Convention::plumbline;
  bool gradient_scale = true;  // whether scaling may be pruned
  bool use_sharding = false;   // of parameters: neither overlap nor fusion
  std::int64_t max_fuse_numel = kMostFusedElements;
  int max_overlap_rings = kMostOverlappedRings;
  /// The executor runs ops one by one, and has no use for dependencies.
  bool sequential_run = false;
  /// Where nothing is to be done: without a context, with a rank that is not an integer (nothing) or is below 0,
  /// or after passes that this one does not follow.
  bool has_context = true;
  std::optional<std::int64_t> global_rank = 0;
  std::vector<std::string> context_passes{};
  friend bool operator==(const PassOptions&, const PassOptions&) = default;
};

// ---- recognition ----

/// A sum or an average of a gradient over its data-parallel ring.
[[nodiscard]] bool is_data_parallel_reduction(const Op& op);
/// The scaling after a reduction.
[[nodiscard]] bool is_data_parallel_scale(const Op& op);
/// Whether the program, other blocks included, differentiates gradients.
[[nodiscard]] bool has_higher_order_gradients(const Program& program);

// ---- errors ----

enum class Stage : std::uint8_t { analyze, prune, overlap, group_grads, update_program, add_dependencies };
[[nodiscard]] std::string_view name_of(Stage stage);

/// A program that the pass cannot be applied to.
class PassError : public InvalidArgument {
 public:
  PassError(Stage stage, std::string source_class, const std::string& message);
  [[nodiscard]] Stage stage() const noexcept { return stage_; }
  /// What the source would have thrown: "AssertionError", "KeyError" or "AttributeError".
  [[nodiscard]] const std::string& source_class() const noexcept { return source_class_; }

 private:
  Stage stage_;
  std::string source_class_;
};

// ---- the steps ----

struct Analysis {
  std::vector<std::pair<std::string, RingId>> ring_of;                // each gradient's first ring, as gradients come
  std::vector<std::pair<RingId, std::vector<std::string>>> grads_of;  // the same by ring, as rings come
  bool supports_rescale = false;                                      // an optimizer takes a factor for its gradients
  bool is_applied = false;                                            // there is a data-parallel reduction
  bool same_degree = false;                                           // all rings have one size
  bool prunable = false, overlappable = false, fusible = false;
  /// Lines that begin with what is not done: "pruning: …", "overlap: 17 rings, at most 16", "fusion: parameters are
  /// sharded".
  std::vector<std::string> refused{};
  [[nodiscard]] std::optional<RingId> find(std::string_view gradient) const;
  friend bool operator==(const Analysis&, const Analysis&) = default;
};
/// Throws PassError: a reduction without a ring or with an unknown one, a gradient that is scaled and not
/// reduced.
[[nodiscard]] Analysis analyze(const Program& program, const Rings& rings, const PassOptions& options);

/// The scale ops' factor goes into the gradient of the loss or into the optimizer's rescale_grad, and the ops are gone;
/// unchanged where that is not possible.
[[nodiscard]] Program prune_scaling(const Program& program, const Analysis& analysis, const Rings& rings,
                                    const PassOptions& options);

/// Reductions leave the calculation stream, each with a wait for the calculation before it; the default also puts in
/// the waits of readers, where no later step orders them.
[[nodiscard]] Program overlap(const Program& program, const Analysis& analysis, const PassOptions& options);

/// Before an op all communication of a ring must have ended.
struct CommunicationWait {
  int position = 0;  // of the op
  RingId ring = 0;
  std::vector<std::string> gradients{};  // that ops of other streams touch, too, which have to wait for this wait
};
/// An op that touches a gradient waits for all of its ring that were reduced so far. Each reduction has a ring.
[[nodiscard]] std::vector<CommunicationWait> communication_waits(const Program& program);

/// Why a group takes no more gradients.
enum class Closed : std::uint8_t {
  end,        // there are no more
  ring,       // the next gradient is reduced over another one
  type,       // it has another type
  limit,      // it would be too much
  reduction,  // it is reduced otherwise
  alone,      // one of the two cannot be fused
  op          // one reads or writes a member
};
/// "end", "ring", …
[[nodiscard]] std::string_view name_of(Closed why);

/// Gradients that are reduced as one. Positions are those in the program that they were grouped in.
struct GradientGroup {
  std::vector<std::string> gradients;  // in the order of their reductions
  std::int64_t numel = 0;
  DataType dtype = DataType::f32;
  RingId ring = 0;
  int coalesce_op = -1;   // before which their memory is made one
  int reduction_op = -1;  // that is kept, the last gradient's
  int scale_op = -1;      // that is kept, if any
  std::vector<int> removed_waits, removed_reductions, removed_scales;
  Closed closed_by = Closed::end;
  int closed_at = -1;            // the op, or the reduction that does not join; -1: the end
  bool is_fused = false;         // of more than one gradient
  std::string fused_variable{};  // the gradient itself where it is alone; set by fuse()
  friend bool operator==(const GradientGroup&, const GradientGroup&) = default;
};
/// In program order. Throws PassError where the convention `paddle` finds no place for a group.
[[nodiscard]] std::vector<GradientGroup> group_gradients(const Program& program, const PassOptions& options);

/// One reduction a group. Sets the groups' is_fused and fused_variable.
[[nodiscard]] Program fuse(const Program& program, std::vector<GradientGroup>& groups, const PassOptions& options);

/// Ops that say what a fused reduction waits for and who waits for it; reductions go to the gradient stream, waits that
/// are not needed any more are gone. Unchanged without groups.
[[nodiscard]] Program add_dependencies(const Program& program, const std::vector<GradientGroup>& groups,
                                       const PassOptions& options);

/// What a log says.
struct Summary {
  std::vector<std::string> info, debug;                        // lines; the second lists the members of each group
  std::optional<int> reductions, fused_reductions, not_fused;  // nothing without groups
  friend bool operator==(const Summary&, const Summary&) = default;
};
[[nodiscard]] Summary summarize(const Analysis& analysis, const std::vector<GradientGroup>& groups);

// ---- all of them ----

struct PassResult {
  std::string skipped;  // why nothing was done; empty: it was
  Analysis analysis;
  std::vector<GradientGroup> groups;
  Summary summary;
  Program after_prune, after_overlap, after_fuse;  // those that were not made are as before
  Program program;                                 // at the end
};
/// Why nothing is to be done, or "".
[[nodiscard]] std::string reason_to_skip(const PassOptions& options);
/// Throws PassError, and InvalidProgram where an op names an unknown variable or a shape is invalid.
[[nodiscard]] PassResult apply_data_parallel_pass(const Program& program, const Rings& rings,
                                                  const PassOptions& options = {});

}  // namespace plumbline::program
