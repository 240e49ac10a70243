// reference/bucketing/reducer_steps.hpp: what decides the numbers of a reducer, as functions.
//
// Model   A value made without arguments has the right ones; a reducer with another one in place of one of them is wrong in
//         one known way, which is how the checks are tested.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/sparse_rows.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::bucketing {

/// A division in two parts, whose product is the number of ranks.
struct Split {
  int before = 1;
  int after = 1;
};

/// What decides how values are scaled.
struct Scaling {
  bool average = true;
  std::optional<Split> split{};
  int ranks = 1;            // of the group
  int present = 0;          // of them that have rows, where it is to be divided by that; else 0
  int passes = 1;           // of this step
  bool is_integer = false;  // values that cannot be divided
};

/// How values are scaled: each rank's before the sum, the sum afterwards.
struct Divisors {
  comm::ReduceOp op = comm::ReduceOp::sum;
  double before = 1;
  double after = 1;
};
/// avg; or with a split, or with ranks that are not there, sum and divisions around it.
[[nodiscard]] Divisors divisors_of(const Scaling& scaling);

/// A bucket that might be started.
struct Waiting {
  int members = 0;
  int missing = 0;  // of them
};

/// Where a member lies when it is copied into its bucket, or out: its first element. `member` counts in the bucket.
[[nodiscard]] std::int64_t place_of(const Plan& plan, const Bucket& bucket, int member);
/// The first number whose magnitude is above `largest`, or that is no number. Throws Unsupported for integers.
[[nodiscard]] std::optional<std::int64_t> first_outside(comm::ConstBuffer values, double largest);
/// The part-th of so many equal parts.
[[nodiscard]] comm::Buffer equal_part(comm::Buffer whole, int part, int parts);
/// 0, 1, 2, …
[[nodiscard]] std::vector<int> order_of(const Plan& plan, const comm::Communicator& group);
/// rank 0's, on every rank.
void take_order_of_rank_0(comm::Communicator& group, std::span<std::int64_t> order, comm::Timeout timeout);
struct ReducerSteps {
  /// Whether a pass reduces.
  std::function<bool(bool synchronise, int passes_before)> reduces = [](bool synchronise, int) { return synchronise; };
  /// Whether a pass broadcasts the buffers.
  std::function<bool(bool synchronise)> broadcasts_buffers = [](bool synchronise) { return synchronise; };
  /// Whether initial values are broadcast: asked when a reducer is made, and when its first pass begins.
  std::function<bool(bool first_pass)> broadcasts_initial = [](bool first_pass) { return first_pass; };
  /// The order in which buckets are started.
  std::function<std::vector<int>(const Plan& plan, const comm::Communicator& group)> order = order_of;
  /// Whether a bucket may be started.
  std::function<bool(const Waiting& bucket)> may_start = [](const Waiting& bucket) { return bucket.missing == 0; };
  std::function<Divisors(const Scaling& scaling)> divisors = divisors_of;
  std::function<std::int64_t(const Plan& plan, const Bucket& bucket, int member)> place_in = place_of;
  std::function<std::int64_t(const Plan& plan, const Bucket& bucket, int member)> place_out = place_of;
  /// Whether memory that is handed in must be copied to the view.
  std::function<bool(bool is_view, int steps_before)> copies_in = [](bool is_view, int) { return !is_view; };
  /// Whether a gradient that was ready so many times in a pass comes again, where it was learned how often it comes.
  std::function<bool(int times, int learned)> comes_again = [](int times, int learned) { return times < learned; };
  /// What is done with the place of a gradient that this rank lacks.
  std::function<void(BucketMemory& memory, comm::Buffer place)> mark_unused;  // zeros
  /// Whether a gradient is there, given the ranks that have it.
  std::function<bool(int ranks)> is_produced = [](int ranks) { return ranks > 0; };
  /// Whether memory that is handed in is a gradient's.
  std::function<bool(bool same_count, bool same_type)> fits = [](bool same_count, bool same_type) {
    return same_count && same_type;
  };
  /// Begins a reduction whose results are shared out: this rank's part is in place.
  std::function<comm::Work(comm::Communicator& group, comm::Buffer values, comm::ReduceOp op)> start_sharded;
  /// Which of the equal parts is a rank's.
  std::function<int(int rank, int ranks)> part_of_rank = [](int rank, int) { return rank; };
  /// Whether memory that is handed in, and that stays the caller's, is taken, given whether another gradient of the step lies
  /// in a part of it.
  std::function<bool(bool is_shared)> takes_memory = [](bool is_shared) { return !is_shared; };
  /// Whether a bucket of so many gradients is reduced where the caller has them.
  std::function<bool(int members)> reduces_in_place = [](int members) { return members == 1; };
  /// Whether a bucket's memory is given back when its results are where its gradients are, given whether all are this rank's.
  std::function<bool(bool has_all)> gives_back = [](bool has_all) { return has_all; };
  /// What is reduced across instances of a bucket, of this rank's part and the whole; empty: nothing is.
  std::function<comm::Buffer(comm::Buffer part, comm::Buffer whole)> inter_instance = [](comm::Buffer part,
                                                                                         comm::Buffer) { return part; };
  /// The first of a gradient's numbers that are not to be reduced: see first_outside().
  std::function<std::optional<std::int64_t>(comm::ConstBuffer values, double largest)> outside;
  /// Whether the caller is told of a bucket, when it is started and when its results are there.
  std::function<bool(bool is_reduced)> tells = [](bool is_reduced) { return is_reduced; };
  /// Whether a bucket may be completed as soon as its exchange is over, which no two ranks see at once: a hook that finishes it
  /// may exchange more.
  std::function<bool(bool hook_finishes)> may_complete_early = [](bool hook_finishes) { return !hook_finishes; };
  /// Whether a pass may end although so many gradients never got ready.
  std::function<bool(int late)> may_end = [](int late) { return late == 0; };
  /// The part of a bucket that is exchanged.
  std::function<comm::Buffer(comm::Buffer bucket, int members)> exchanged = [](comm::Buffer bucket, int) {
    return bucket;
  };
  std::function<comm::Work(comm::Communicator& group, comm::Buffer values, comm::ReduceOp op)> start;  // in place
  SparseSteps sparse;  // of the sums of sparse gradients
  std::function<void(int bucket, int buckets, comm::Work& work, comm::Timeout timeout)> wait =
      [](int, int, comm::Work& work, comm::Timeout timeout) { work.wait(timeout); };
  /// Whether values that were accumulated go with their gradient into the new plan.
  std::function<bool(int passes_before)> carries = [](int) { return true; };
  /// The order of a new plan, of this rank's.
  std::function<void(comm::Communicator& group, std::span<std::int64_t> order, comm::Timeout timeout)> agree_on_order =
      take_order_of_rank_0;
  std::function<void(comm::Communicator& group, const Plan& plan, std::span<const Gradient> gradients,
                     std::span<const std::string> names, comm::Timeout timeout)>
      agree;  // verify_agreement()
  /// Which wire buffer the bucket takes that is started as the how-manieth of the step, and of all.
  std::function<int(int of_step, std::int64_t of_all, int buffers)> wire_buffer =
      [](int, std::int64_t of_all, int buffers) { return static_cast<int>(of_all % buffers); };
  /// Whether the bucket that a wire buffer is still in use for is completed before another one takes it.
  std::function<bool(int in_use, int buffers)> waits_for_wire = [](int, int) { return true; };

  ReducerSteps();
};

}  // namespace plumbline::bucketing
