// reference/bucketing/reducer.hpp: the gradients of a step, reduced over the ranks bucket by bucket while backward
// runs.
//
// Model   The caller says when a backward pass begins, when each gradient is ready, and when the pass is over. A
//         bucket's reduction is started as soon as its last gradient is ready and those of all buckets before it in the
//         plan are started: in every run and on every rank in the plan's order. finish() waits for all.
// Step    One or several passes, then clear(). Only a pass that synchronises reduces, and it is the step's last; those
//         before it accumulate. Their number may differ from step to step and from rank to rank.
// Memory  The reducer owns the buckets. GradientMemory::views: a gradient is its place in the bucket, view(i); who
//         hands in other memory has it copied there, and must use the view from then on. copies: gradients stay in the
//         caller's memory, which is read when they are ready and written by finish(), until clear(); a bucket of one is
//         reduced right there, without a copy, unless it travels compressed or through a hook: ready() says what that
//         asks for.
// Devices Buckets lie in ReducerOptions::place, the host's memory or a device's: gradients are then there, too, the
//         groups serve it, and all is done in the order of the groups' stream. What a pass tells and agrees on beside
//         gradients goes through host memory. Hooks, sparse gradients and ReducerOptions::largest are of the host's
//         memory.
// Sparse  A gradient that is planned as sparse has a bucket of its own, without memory, and no view: its rows are
//         handed in, copied, and their sum is in rows() until clear(). It takes no hook and no wire.
// Lacking A gradient that this rank has not in this step counts as zeros where another rank has it: the result is in
//         view(i). What no rank has is absent: Outcome::produced, and the caller's memory is not written.
// Numbers The default average is the communicator's: the sum, then one division. A split divides each rank's values
//         before and the sum after. A bucket compressed on the wire is divided before it is rounded.
// Errors  InvalidArgument, StateError and OutOfRange name the parameters; a bucket's TimeoutError and PeerFailed say
//         which gradients it holds. After an error in a pass that synchronises the groups cannot be used any more.
// Threads One at a time.
// Source  Li et al., PyTorch Distributed, VLDB 2020; ColossalAI's gradient handlers, which are plans of several groups;
//         Megatron-LM's distributed optimizer (sharded results, also among instances), and its checks before
//         of a reduction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::bucketing {

// ---- Gradients of which only some rows are present, added over ranks.
//
// Model   A gradient of rows of equally many numbers is a list of rows by index; others are zero. An index may come
//         several times: its rows are added. Ranks may have other indices, other numbers of rows, and none. Each rank
//         adds up its own rows of an index, in their order; then all gather the rows of all ranks, padded to the length
//         of the longest list, and add them in rank order, divide once, and have each index once, in ascending order.
//         So the sum is the dense gradients', bit for bit where those are added in rank order, but for the sign of
//         zero.
// Types   f32 and f64, in which they are added.
// Source  PyTorch: torch.nn.Embedding(sparse=True) under DistributedDataParallel, whose sums are coalesced in the same
//         way.

struct SparseRows {
  std::span<const std::int64_t> indices{};  // of the rows
  comm::ConstBuffer values{};               // [indices][numbers of a row]
};

/// The sum of one gradient. Serves one step after the other.
class SparseSum {
 public:
  /// Of `elements` numbers. Throws Unsupported for other types than f32 and f64.
  SparseSum(std::int64_t elements, comm::DType dtype);
  ~SparseSum();
  SparseSum(SparseSum&&) noexcept;
  SparseSum& operator=(SparseSum&&) noexcept;

  /// This rank's rows, which are copied; none unless it is called. Throws InvalidArgument for another type, numbers
  /// that are not equally many a row or do not divide the gradient's, and an index below 0 or beyond the last row.
  void take(const SparseRows& rows);
  /// Exchanges the number of rows of each rank. Collective, with finish().
  [[nodiscard]] comm::Work start(comm::Communicator& group);
  /// Gathers them when that is complete, and adds: each rank's divided by `before`, the sum by `after`. Throws
  /// MismatchError, naming the ranks, where rows are not of equally many numbers.
  void finish(comm::Communicator& group, double before, double after, comm::Timeout timeout = {});
  /// The sum, until clear(); after take() and before finish(), this rank's rows, each index once.
  [[nodiscard]] SparseRows rows() const;
  /// No rank has any.
  void clear();

 private:
  class Impl;
  template <class T>
  class Of;
  std::unique_ptr<Impl> impl_;
};

// ---- Reducers, and what they are made with.

/// A division in two parts, whose product is the number of ranks.
struct Split {
  int before = 1;
  int after = 1;
};

enum class GradientMemory : std::uint8_t { views, copies };

/// How ranks learn which gradients a step has.
enum class Unused : std::uint8_t {
  none,         // every pass that synchronises produces all; one that is missing is an error
  zeros,        // the pass says which it does not produce; no other rank hears of it, and all have a result afterwards
  find_unused,  // the pass says which it does not produce; all ranks tell each other (PyTorch's find_unused_parameters)
  static_graph  // those that the first pass did not produce; one that is produced later is an error
};

/// Who divides after some ranks have run out of rows.
enum class JoinDivisor : std::uint8_t { initial_world, present_ranks };

/// What a bucket's reduction leaves where.
enum class Results : std::uint8_t {
  everywhere,  // all of it on every rank: all-reduce
  sharded      // of equal parts, one per rank, the r-th on rank r alone: reduce-scatter
};

/// What a hook is given of a bucket.
struct HookedBucket {
  int index = 0;                           // in the plan
  comm::Buffer values{};                   // numbers
  std::span<const Member> members{};       // where its gradients lie, in elements
  std::int8_t components_per_element = 1;  // in an element
  std::span<const Gradient> gradients{};   // all of the reducer, by number
};

/// An exchange of the caller's in place of the all-reduce; nothing is divided around it. compression.hpp has some.
struct CommunicationHook {
  /// Starts the exchange of a bucket's values. Called in launch order.
  std::function<comm::Work(comm::Communicator& group, const HookedBucket& bucket)> start;
  /// Makes the results of it, in the same place, when the work is complete; may be empty. Called in launch order, on
  /// every rank between the same exchanges, so that it may exchange more.
  std::function<void(comm::Communicator& group, const HookedBucket& bucket)> finish;
};

struct ReducerOptions {
  std::vector<std::string> names{};       // of the gradients, for messages; else they are numbered
  std::shared_ptr<BucketMemory> place{};  // where gradients and buckets lie; none: the host's memory
  GradientMemory memory = GradientMemory::views;
  /// With copies: a bucket has memory from its first gradient of a pass that synchronises until its results are where
  /// the gradients are, or until clear() where this rank lacks one of them; a bucket that is reduced in the caller's
  /// memory, none.
  bool lazy = false;
  bool average = true;           // else sum
  std::optional<Split> split{};  // of an average: its product is the size of every group
  /// By what an average divides the sum, for each group: the number of ranks that had the samples. Empty: the groups'
  /// sizes. The ranks that hold an expert are fewer than those whose samples it saw.
  std::vector<int> divisors{};
  Unused unused = Unused::none;
  /// Sharded, for optimizers that hold a part of their state on each rank: views alone, of buckets that are padded
  /// to equal parts. The set of used gradients is not examined then: Unused::none or zeros.
  Results results = Results::everywhere;
  /// Of sharded results, where each group is one instance of several that hold the same parts: for each
  /// group, that of the ranks with this rank's part. What an instance has reduced is then reduced across: two levels,
  /// and the mean is of all ranks, whose number a split multiplies to.
  std::vector<comm::Communicator*> inter_instance{};
  bool overlap = true;  // else reductions start when the pass is over, one after the other
  /// Floating buckets travel as this type.
  std::optional<comm::DType> wire{};
  int wire_buffers = 2;  // the most buckets that are compressed at once
  CommunicationHook hook{};
  /// A plan from the order in which rank 0's gradients were first ready; every rank makes the same. For one group.
  std::function<Plan(std::span<const int> order)> rebuild{};
  /// What rank 0 broadcasts when a pass that synchronises begins, such as running statistics.
  std::vector<comm::Buffer> buffers{};
  /// What rank 0 broadcasts once, when the first pass begins, such as parameters.
  std::vector<comm::Buffer> initial{};
  bool join = false;  // join() will be called on every rank: passes that synchronise begin with counting the ranks
  JoinDivisor join_divisor = JoinDivisor::initial_world;
  comm::Timeout timeout{};
  /// Gradients of floating types with an element larger than that in magnitude, or NaN, are an error before
  /// of their reduction; the largest finite number lets all finite ones pass.
  std::optional<double> largest{};
  /// Told of each bucket of a pass that synchronises, in launch order, as soon as it is seen that its results are where
  /// its gradients lie: in any call of the pass, begin(), mark_unused() and join_step() too. What an optimizer does
  /// with them then overlaps with what is still under way. Not where only finish() knows which gradients are used:
  /// Unused::find_unused and static_graph. May call plan(), view(), rows() and results(), and nothing else of the
  /// reducer.
  std::function<void(int bucket)> reduced{};
};

/// One backward pass.
struct Pass {
  bool synchronise = true;
  std::vector<int> unused{};  // with Unused::zeros and find_unused, gradients that it will not produce
};

/// A collective that was started, in the order of starting.
struct Launch {
  enum class What : std::uint8_t { presence, order, buffer, bucket, used, initial } what = What::bucket;
  int bucket = -1;
  int group = 0;
  comm::DType dtype = comm::DType::f32;
  std::int64_t elements = 0;  // of what is reduced, also where a part of it remains
  int ready_before = 0;       // gradients that were there then: what comes after it overlaps
  [[nodiscard]] std::int64_t bytes() const { return elements * static_cast<std::int64_t>(comm::size_of(dtype)); }
  friend bool operator==(const Launch&, const Launch&) = default;
};

/// What a pass came to.
struct Outcome {
  bool synchronised = false;
  std::vector<bool> produced{};    // by any rank in this step, per gradient; empty unless synchronised
  std::vector<Launch> launches{};  // this rank's, of this pass
  std::int64_t copied_in = 0;      // bytes into buckets
  std::int64_t copied_out = 0;     // and out of them
  std::int64_t most_memory = 0;    // bytes that buckets had at once
  int present = 0;                 // ranks that have rows, where ranks join
};

class Reducer {
 public:
  /// `groups[g]` reduces gradients of group g. They must outlive it. Throws InvalidArgument for a plan that does not
  /// fit the gradients, splits that are no group's size, names of another number, and options that exclude each other;
  /// Unsupported for sparse gradients of other types than f32 and f64, or with a hook or sharded results,
  /// memory of another device than ReducerOptions::place, what a device's memory has not, and averages of integers.
  Reducer(std::vector<comm::Communicator*> groups, std::vector<Gradient> gradients, Plan plan,
          ReducerOptions options = {});
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// A pass begins. Collective if it synchronises and there is something to agree on: a plan that no rank has seen yet,
  /// buffers, ranks that join; the first one, too, where there are initial values. Throws StateError while a pass is
  /// under way, and after one that synchronised in this step;
  /// MismatchError where the ranks' plans differ.
  void begin(const Pass& pass = {});
  /// Marks a gradient as ready in its view. Throws OutOfRange for an index that does not exist, StateError outside a
  /// pass, for one that was ready, or unused, and InvalidArgument for one that no bucket holds.
  void ready(int gradient);
  /// Marks a gradient as ready that the step has accumulated so far in `values`. With GradientMemory::views they are
  /// copied before this returns. With copies they must stay where they are, and in a pass that synchronises as they
  /// are, until finish() returns: the gradient of a bucket of one is reduced there, by other ranks' additions too,
  /// while others are still made. So no two gradients of a step may share memory then. Throws also InvalidArgument for
  /// another number of elements or type than the gradient has, for memory in which another gradient of the step lies,
  /// and with ReducerOptions::largest, naming the element, for numbers that are not to be reduced; ready(gradient)
  /// throws that, too.
  void ready(int gradient, comm::Buffer values);
  /// Marks a sparse gradient as ready, with the rows that the step has accumulated so far. Throws also InvalidArgument
  /// for one that is planned as dense, and what SparseSum::take() throws, naming the gradient.
  void ready(int gradient, const SparseRows& rows);
  /// A gradient will not be produced in this pass: Pass::unused, said when it is known. Throws as ready(), and
  /// InvalidArgument where that is not looked at.
  void mark_unused(int gradient);
  /// The pass is over. Throws StateError, naming them, for gradients that were not ready.
  const Outcome& finish();
  /// The step is over: all gradients are absent.
  void clear();

  /// This rank has no rows for a step: takes part in the others' reductions with zeros, in place of a pass. Returns
  /// false, and nothing is reduced, where no rank has rows. Else the results are in the views, until clear().
  bool join_step();
  /// This rank has no more rows: join_step() until none has rows left; `after_each` is called after each step. Returns
  /// the steps.
  int join(const std::function<void(const Outcome&)>& after_each = {});

  /// The sum of a sparse gradient, from when it is reduced until clear(). Throws OutOfRange for an index out of
  /// range, and InvalidArgument for a dense one.
  [[nodiscard]] SparseRows rows(int gradient) const;
  /// The place of a gradient in its bucket. Throws InvalidArgument for a sparse one, StateError where the bucket has no
  /// memory.
  [[nodiscard]] comm::Buffer view(int gradient) const;
  /// The part of a bucket that this rank has the results of: all of it, unless they are sharded. Throws OutOfRange
  /// for a bucket that does not exist, InvalidArgument for a sparse gradient's, which has rows(), and StateError for
  /// one without memory.
  [[nodiscard]] comm::Buffer results(int bucket) const;
  /// Bytes that buckets have now.
  [[nodiscard]] std::int64_t bucket_memory() const;
  /// Another plan of the same gradients, between passes; what was accumulated is kept. Views are others afterwards.
  void use(Plan plan);
  [[nodiscard]] const Plan& plan() const;
  [[nodiscard]] bool has_rebuilt() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline::bucketing
