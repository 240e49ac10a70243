// reference/bucketing/check_plan.hpp: is a plan valid, whatever made it?
//
// Model   What every plan must hold is checked always: each gradient lies in one bucket, at a place of its own inside
//         it, among gradients of its type, device and group, sparse ones alone. What a rule promises beyond that is
//         checked on request: caps, alignment, gaps, the order. Nothing here knows how plans are made.
// Cost    Linear, and a sort of each bucket's members by their places.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

/// When a bucket with a cap is closed.
enum class Closing : std::uint8_t {
  after_reaching,    // after the gradient that reaches the cap: PyTorch, Megatron
  before_exceeding,  // before the one that would exceed it, a larger one being alone: Paddle, Horovod
};

struct PlanRules {
  /// Bytes. Of each (type, device, group) the first bucket has the first one, and so on, the last one for ever; empty:
  /// no caps.
  std::vector<std::int64_t> limits{};
  Closing closing = Closing::after_reaching;
  /// Buckets were planned from the last to the first, and launched the other way round: the first limit is the last
  /// bucket's.
  bool planned_in_reverse = false;
  /// Elements: members start at multiples of the one, buckets are multiples of the other. A gap that these do not
  /// explain is a problem.
  std::int64_t member_alignment = 1, bucket_alignment = 1;
  /// The order in which gradients are planned. Members of a bucket follow it, and so do the buckets of a (type, device,
  /// group).
  std::optional<std::vector<int>> order{};
  /// The order in which gradients become ready: a bucket that is complete before one that is launched before it
  /// waits.
  std::optional<std::vector<int>> ready{};
  std::vector<int> frozen{};  // gradients that no bucket may hold
  /// Gradients that have a bucket of their own although they are dense; the bucket before one may be closed early.
  std::vector<int> alone{};
};

enum class Severity : std::uint8_t { error, warning };

enum class PlanFault : std::uint8_t {
  range,      // a gradient, or members, that do not exist; a size below 0
  missing,    // a gradient in no bucket
  doubled,    // in more than one place
  frozen,     // in a bucket though it is not trained
  overlap,    // of two members
  outside,    // a member that reaches beyond its bucket
  mixed,      // a type, device or group that is not the bucket's
  alone,      // a gradient that is to be alone, such as a sparse one, among others; sparse and dense confused
  alignment,  // a place or a size that is no multiple
  gap,        // elements of no gradient, that no alignment needs
  cap,        // closed too late or too early
  order,      // members, or buckets of one type, in another order than planned
  overflow,   // more bytes than 64 bits hold
  empty,      // a bucket without members (a warning)
  waits,      // complete before one that is launched before it (a warning)
};
[[nodiscard]] std::string_view name_of(PlanFault fault);

struct PlanProblem {
  PlanFault fault = PlanFault::range;
  Severity severity = Severity::error;
  int bucket = -1;  // -1: none in particular
  int gradient = -1;
  std::string message;
};

/// All of them, first those of the plan as a whole, then bucket by bucket. Empty for a plan that is right. Never throws
/// on a bad plan; throws InvalidArgument for rules that no plan can be held against: a limit below 0, an alignment
/// below 1, an order or frozen gradients that do not exist, and whatever require_gradients() rejects.
[[nodiscard]] std::vector<PlanProblem> check_plan(const Plan& plan, std::span<const Gradient> gradients,
                                                  const PlanRules& rules = {});

/// Whether there is no error; warnings may be.
[[nodiscard]] bool is_right(std::span<const PlanProblem> problems);

}  // namespace plumbline::bucketing
