// reference/comm/communicator.hpp: the one interface between algorithms and backends.
//
// Model   A Communicator is one rank's handle on a group. Ranks in calls are positions in the group, [0, size()).
//         Collectives must be entered by all members in the same order; a call returns when this rank's buffers may be
//         used again (for send: reused; for all others: also filled). start() does not block; its Work is waited for.
//         A blocking and a non-blocking call of the same collective match each other, and so do one with a time limit
//         and one without, unless a note of the backend's capabilities says that they do not (MPI's do not).
// Threads One thread at a time per Communicator; different Communicators may be used at once.
// Memory  The caller owns all buffers and keeps them alive until the call is complete. Dropping an unfinished Work, or
//         giving a call up with an error, fails the group. Whether the buffers are no longer accessed from then on
//         depends on the backend: local promises it; where a note says that calls cannot be taken back (MPI's
//         collectives), they must stay until the process ends.
//         A Work that outlives its communicator throws PeerFailed, unless its call is complete or the backend can
//         still complete it.
// Devices A call on memory of a device is done in the order of the caller's stream: it starts when all members' streams
//         have reached their calls, and what is put into the stream afterwards meets the result. The host waits for the
//         other members to make the call, never for the device: run() and wait() return when the stream is going to
//         wait, and the buffers may be used again in the stream's order. test() of a Work is true when the device is
//         done. The stream is the device's default one, or that of use_stream(). A barrier orders hosts, not streams.
// Errors  InvalidArgument and Unsupported before anything happened; MismatchError, TimeoutError, PeerFailed,
//         RuntimeFailure afterwards: then the group is unusable, and every later call on it throws PeerFailed.
// Rounding Each backend declares its accumulator (Capabilities::accumulator). avg is the sum, then one division in the
//         accumulator. Integer sums and products wrap. min and max hand on NaN.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/call.hpp"

namespace plumbline::comm {

/// How long a wait may take; nothing means the communicator's own limit.
using Timeout = std::optional<std::chrono::nanoseconds>;

/// A group's identity. `ranks` are world ranks in group order; `id` is equal on all members and differs between groups.
struct Group {
  std::string name;  // "world", or "[0 2 4]", with "#2" when its parent made the same list a second time
  std::vector<int> ranks;
  std::uint64_t id = 0;
};

/// The hash of a rank list with the index of the creation of that list in its parent and the parent's id (FNV-1a): what
/// names a group in flight rings. All members compute the same value, whatever other threads make from other groups
/// meanwhile.
[[nodiscard]] std::uint64_t group_id(std::uint64_t parent, std::span<const int> world_ranks, int creation);
inline constexpr std::uint64_t kNoParent = 0;  // of a world

/// What register_memory() returns; 0 names none.
using Registration = std::uint64_t;

/// What a backend says that it can do. A claimed capability that fails is a fault of the backend.
enum class Capability : std::uint8_t {
  nonblocking,        // start() returns before the call is complete
  coalescing,         // start() takes several calls
  groups,             // create_group()
  point_to_point,     // send and recv with tags
  wait_timeout,       // Work::wait() keeps its limit
  blocking_timeout,   // blocking calls keep theirs
  names_missing,      // a TimeoutError names exactly the ranks that never arrived
  misuse_detection,   // members that disagree on a call all get MismatchError
  failure_detection,  // a member that failed or left gives PeerFailed at once
  rank_order,         // reductions add in rank order: bitwise reproducible
  equal_results,      // a reduction's result has the same bits on all ranks
  thread_multiple,    // several Communicators of one process may be used by several threads at once
  all_gather_v,       // run_uneven() of that operation: blocks of different lengths
  reduce_scatter_v,
  all_to_all_v,
  bool_reductions,    // min and max of bool, where it has bool
  float8_reductions,  // reductions of f8_e4m3 and f8_e5m2, of those that it has
  scaled_sums,        // run_scaled(): inputs that are multiplied before they are added
  shrink,             // shrink(): a group of those that are left when members have ended
  complex_sums,       // sum and avg of c64 and c128, of those that it has
  complex_products,   // products of them
  strided,            // run_strided(): buffers whose rows have gaps between them
  windows,            // create_window(): memory that the other members put data into, with signals
  registered_memory,  // register_memory(): memory of the caller's that is prepared for calls
  allocated_memory,   // allocate(): memory of the backend's own
  grow,               // grow() and join(): a group that takes in ranks which were no members
};
inline constexpr int kCapabilityCount = 26;
[[nodiscard]] std::string_view name_of(Capability capability);
[[nodiscard]] std::optional<Capability> parse_capability(std::string_view name);

struct Capabilities {
  std::string backend;  // "local", "mpi"
  std::string version;
  std::set<Capability> claims;
  std::set<DType> dtypes{kAllDTypes.begin(), kAllDTypes.end()};
  std::vector<Device::Kind> devices{Device::Kind::cpu};
  /// Formats of 16 and 8 bits are summed in their own precision, rounding at each addition (else in f32, rounded once).
  bool rounds_each_half_addition = false;
  /// Things that it cannot do, and why, a line each.
  std::vector<std::string> notes;

  [[nodiscard]] bool has(Capability capability) const { return claims.contains(capability); }
  [[nodiscard]] bool supports(DType dtype) const { return dtypes.contains(dtype); }
  /// Whether it reduces elements of a type that it has by that op: of the optional ones only where it claims that.
  [[nodiscard]] bool reduces(DType dtype, ReduceOp op) const;
  /// The type in which `op` on `dtype` is accumulated.
  [[nodiscard]] DType accumulator(DType dtype, ReduceOp op) const;
};

/// A call under way. Move-only. Waiting twice is allowed; the second wait returns without a wait for others.
class [[nodiscard]] Work {
 public:
  class State {
   public:
    virtual ~State() = default;  // of an unfinished call: aborts the group
    /// True when complete; never blocks. Throws as wait() does.
    virtual bool test() = 0;
    virtual void wait(Timeout timeout) = 0;
    /// Whether it is needed after wait(): of calls on memory of a device, which may still be at them then.
    [[nodiscard]] virtual bool outlasts_wait() const { return false; }
  };

  Work() = default;
  explicit Work(std::unique_ptr<State> state) : state_(std::move(state)) {}

  /// Whether the call is complete, without blocking. A Work without a call is complete.
  [[nodiscard]] bool test();
  /// Returns when complete; of calls on memory of a device, when the stream that is the caller's now is going to wait
  /// for them, also at a second wait. Throws TimeoutError, naming whom it waited for, MismatchError, PeerFailed,
  /// RuntimeFailure.
  void wait(Timeout timeout = {});

 private:
  std::unique_ptr<State> state_;
};

class PairExchanges;
class Window;

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const Group& group() const { return group_; }
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;

  /// The group of `ranks` (ranks of this group, in the order that the new one shall have). Collective over the members
  /// of the new group only; all give the same list. Throws InvalidArgument for an empty list, a repeated rank, a rank
  /// out of range, or a list without the caller.
  [[nodiscard]] std::unique_ptr<Communicator> create_group(std::span<const int> ranks);
  /// A fresh group of the same ranks. Collective.
  [[nodiscard]] std::unique_ptr<Communicator> duplicate();
  /// The group of those that are left: all members but `excluded` (ranks of this group), in their order. Collective
  /// over those that are left, which give the same list in any order. Of a group that has failed, too: this is how a
  /// job continues without members that have ended. This group stays as it is, and abort() of it does not end a
  /// shrink() under way. Throws InvalidArgument for an empty list, a repeated rank, a rank out of range, or a list with
  /// the caller; Unsupported without the claim; PeerFailed if another member ends first; TimeoutError for a late one.
  [[nodiscard]] std::unique_ptr<Communicator> shrink(std::span<const int> excluded);

  /// Words by which ranks that are no members join a group that is made from this one. One member asks for them, and
  /// all who take part get them from it by any means. They serve one grow(), and no other member need call.
  [[nodiscard]] std::string invite();
  /// The group of all members, in their order, and after them the newcomers (world ranks, none of them a member), in
  /// the order of the list. Collective over both: members call grow(), newcomers join(), all with the same words and
  /// list. This group stays as it is; one that has failed is shrunk first. Throws InvalidArgument for an empty list, a
  /// repeated rank or one of a member, and for words that are no invitation or one that has served; Unsupported without
  /// the claim; PeerFailed of a group that has failed; TimeoutError for a rank that does not come.
  [[nodiscard]] std::unique_ptr<Communicator> grow(const std::string& invitation, std::span<const int> newcomers);
  /// The newcomer's side, on any communicator that it has; that one stays as it is. Throws as grow() does, and
  /// InvalidArgument for a list without the caller.
  [[nodiscard]] std::unique_ptr<Communicator> join(const std::string& invitation, std::span<const int> newcomers);

  /// Prepares the caller's memory for calls of this group: a backend may pin it, map it elsewhere or show it to a
  /// network. No other member need do the same, and calls on all or a part of it do what they do on other memory.
  /// Memory may be registered more than once; each registration ends by itself, or with the communicator. Throws
  /// InvalidArgument for no elements or a null pointer, Unsupported without the claim.
  [[nodiscard]] Registration register_memory(Buffer memory);
  /// Ends a registration; no call on the memory may be under way. Afterwards the memory is as before: its owner may
  /// use it in calls, free it, or register it again. Throws InvalidArgument for what is no registration of this
  /// communicator, or has ended.
  void deregister(Registration registration);

  /// `bytes` of memory for calls of this group, where the backend has it best, aligned for every dtype, of any content.
  /// It lies where the backend's calls do: on its own device, where it has one, otherwise on the host. Throws
  /// InvalidArgument for no bytes, Unsupported without the claim, RuntimeFailure when there is no memory left.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// Gives back what allocate() of this communicator returned; no call on it may be under way. Null is nothing.
  void deallocate(void* memory);

  /// Makes the call and returns when it is complete.
  void run(const Call& call, Timeout timeout = {});
  /// Begins the call.
  Work start(const Call& call) { return start(std::span(&call, 1)); }
  /// Begins several calls as one: they are posted together, so an exchange of sends and receives in one batch cannot
  /// deadlock, and one Work stands for all. The calls take effect in their order.
  Work start(std::span<const Call> calls);

  // The calls by name. Shapes: call.hpp.
  void all_reduce(ConstBuffer in, Buffer out, ReduceOp op, Timeout timeout = {});
  void reduce(ConstBuffer in, Buffer out, ReduceOp op, int root, Timeout timeout = {});
  void broadcast(Buffer buffer, int root, Timeout timeout = {});
  void reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op, Timeout timeout = {});
  void all_gather(ConstBuffer in, Buffer out, Timeout timeout = {});
  void all_to_all(ConstBuffer in, Buffer out, Timeout timeout = {});
  void gather(ConstBuffer in, Buffer out, int root, Timeout timeout = {});
  void scatter(ConstBuffer in, Buffer out, int root, Timeout timeout = {});
  void barrier(Timeout timeout = {});
  void send(ConstBuffer in, int to, int tag = 0, Timeout timeout = {});
  void recv(Buffer out, int from, int tag = 0, Timeout timeout = {});

  /// Makes a collective of blocks of different lengths and returns when it is complete. It has its place in the order
  /// of the group's collectives. Throws Unsupported where the backend does not claim the operation.
  void run_uneven(const UnevenCall& call, Timeout timeout = {});

  /// Makes a sum (all_reduce, reduce or reduce_scatter of op sum) of inputs that each member multiplies by a factor of
  /// its own, Inf and NaN too. Factors and products are rounded to the dtype at most. It returns when it is complete,
  /// has its place in the order of the group's collectives, and all members make it by this function. Throws
  /// InvalidArgument for another call, and for a finite factor beyond the dtype's largest number; Unsupported for a
  /// dtype that is not f16, bf16, f32 or f64, and where the backend does not claim scaled_sums.
  void run_scaled(const Call& call, double factor, Timeout timeout = {});

  /// Makes a call on rows that have gaps between them, and returns when it is complete. Members agree on the count, and
  /// each has rows of its own, or none. A collective has its place in the order of the group's, and all members make it
  /// by this function; a message matches every other. Throws Unsupported where the backend does not claim it.
  void run_strided(const StridedCall& call, Timeout timeout = {});

  /// Makes a window (see Window) of the members' memory, each of its own length, 0 included. Collective, in the order
  /// of the group's collectives. The memory stays until the window is closed, and the window ends before this
  /// communicator.
  /// Throws InvalidArgument for a negative count and a null pointer with a count; Unsupported where the backend does
  /// not claim windows.
  [[nodiscard]] std::unique_ptr<Window> create_window(Buffer memory, Timeout timeout = {});

  /// The stream in whose order calls on device memory are done from now on: the runtime's own handle (a cudaStream_t),
  /// of the device that holds the buffers; null: that device's default stream. It must outlive the calls made in it.
  /// Groups made from this one begin with it. Of calls on the host's memory, and of backends that know no other, it
  /// changes nothing.
  virtual void use_stream(void* /*stream*/) {}

  /// Exchanges of two members in place (PairExchanges), as part of this group, or null if the backend has none: then
  /// messages do the same. Which members have them may differ, as their decorators do: who uses them asks all first.
  [[nodiscard]] virtual PairExchanges* pair_exchanges() { return nullptr; }

  /// Makes every call of this group, and of groups made from it, fail with PeerFailed(reason) on all members that the
  /// backend can reach. Never blocks; may be called from any thread.
  virtual void abort(const std::string& reason) noexcept = 0;

 protected:
  Communicator(int rank, Group group);
  /// The ranks of this group that are not in the list.
  [[nodiscard]] std::vector<int> ranks_without(std::span<const int> excluded) const;

 private:
  friend class CommunicatorDecorator;
  // The calls have passed validate().
  virtual void do_run(const Call& call, Timeout timeout) = 0;
  virtual Work do_start(std::span<const Call> calls) = 0;
  virtual std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) = 0;
  // Of backends that claim one of the operations.
  virtual void do_run_uneven(const UnevenCall& call, Timeout timeout);
  // Of backends that claim it.
  virtual void do_run_scaled(const Call& call, double factor, Timeout timeout);
  // Of backends that claim it.
  virtual void do_run_strided(const StridedCall& call, Timeout timeout);
  // Of backends that claim it.
  virtual std::unique_ptr<Window> do_create_window(Buffer memory, Timeout timeout);
  // Of backends that claim it. The list has passed the checks.
  virtual std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded);
  // Of backends that claim grow. The list has passed the checks.
  virtual std::string do_invite();
  virtual std::unique_ptr<Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers);
  virtual std::unique_ptr<Communicator> do_join(const std::string& invitation, std::span<const int> newcomers);
  // Of backends that claim registered_memory.
  virtual Registration do_register(Buffer memory);
  virtual void do_deregister(Registration registration);
  // Of backends that claim allocated_memory.
  virtual void* do_allocate(std::size_t bytes);
  virtual void do_deallocate(void* memory);
  void expect_claim(Capability capability, const char* function) const;

  int rank_;
  int size_;
  Group group_;
};

// ---- Windows: memory of each member, which the others put data into.
//
// Model   A member puts elements into another's memory at an offset, and signals that member; neither needs a call of
//         the other. Signals are counted for each pair of members and each context. Who waits for a number of signals
//         takes that number, and finds in its memory all data that the other put before the last of them in that
//         context. Between contexts, and between members, there is no order.
// Memory  The caller's. What is read while another member puts there, before its signal, has any value. Two members
//         that put into the same place without a signal between them leave any value there.
// Threads One thread at a time for each window and its communicator.
// Errors  InvalidArgument and StateError (after close()) before anything happened; afterwards those of Communicator:
//         then its group has failed.
// Source  NCCL 2.29: ncclCommWindowRegister, ncclPutSignal, ncclSignal, ncclWaitSignal; MPI-3.1 chapter 11;
//         NVSHMEM: nvshmem_putmem_signal and nvshmem_signal_wait_until.

class Window {
 public:
  static constexpr int kContexts = 4;

  /// Of one that is not closed: fails the group.
  virtual ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// The length of the memory of `rank`, in bytes.
  [[nodiscard]] std::int64_t bytes(int rank) const { return bytes_.at(static_cast<std::size_t>(rank)); }

  /// Puts elements at byte `offset` of the memory of `to`, which may be the caller. Returns when `in` may be used
  /// again.
  /// Throws InvalidArgument for elements that are not within that memory, a null pointer with a count, a rank that the
  /// group does not have, and a context that is not in [0, kContexts); Unsupported for a device's memory.
  void put(ConstBuffer in, int to, std::int64_t offset, int context = 0);
  /// Signals `to`, which may be the caller, after all that was put there in that context.
  void signal(int to, int context = 0);
  /// Takes that number of signals of `from`, and waits until it has sent them. TimeoutError names `from`. Throws
  /// InvalidArgument for a number that is less than 1.
  void wait(int from, std::int64_t signals = 1, int context = 0, Timeout timeout = {});
  /// Collective, as a barrier is: when it returns, no member puts or signals any more, and the memory may go. Signals
  /// that no wait has taken are lost.
  void close(Timeout timeout = {});

 protected:
  /// The lengths of all members' memory.
  explicit Window(std::vector<std::int64_t> bytes);
  [[nodiscard]] bool is_closed() const { return is_closed_; }

 private:
  void check(const char* function, int peer, int context) const;
  // The arguments have passed the checks.
  virtual void do_put(ConstBuffer in, int to, std::int64_t offset, int context) = 0;
  virtual void do_signal(int to, int context) = 0;
  virtual void do_wait(int from, std::int64_t signals, int context, Timeout timeout) = 0;
  virtual void do_close(Timeout timeout) = 0;

  std::vector<std::int64_t> bytes_;
  bool is_closed_ = false;
};

// ---- Decorators.

/// A Communicator around another: what recorders and mutants derive from. Forwards everything by default, but pair
/// exchanges: who uses them sends messages instead, which the decorator sees.
class CommunicatorDecorator : public Communicator {
 public:
  explicit CommunicatorDecorator(std::unique_ptr<Communicator> inner);
  [[nodiscard]] const Capabilities& capabilities() const override { return inner_->capabilities(); }
  void use_stream(void* stream) override { inner_->use_stream(stream); }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 protected:
  [[nodiscard]] Communicator& inner() { return *inner_; }
  void do_run(const Call& call, Timeout timeout) override { inner_->do_run(call, timeout); }
  Work do_start(std::span<const Call> calls) override { return inner_->do_start(calls); }
  void do_run_uneven(const UnevenCall& call, Timeout timeout) override { inner_->do_run_uneven(call, timeout); }
  void do_run_scaled(const Call& call, double factor, Timeout timeout) override {
    inner_->do_run_scaled(call, factor, timeout);
  }
  void do_run_strided(const StridedCall& call, Timeout timeout) override { inner_->do_run_strided(call, timeout); }
  std::unique_ptr<Window> do_create_window(Buffer memory, Timeout timeout) override {
    return inner_->do_create_window(memory, timeout);
  }
  /// Groups made from a decorated communicator are decorated in the same way.
  virtual std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) = 0;
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override {
    return decorate(inner_->do_create_group(ranks));
  }
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    return decorate(inner_->do_shrink(excluded));
  }
  std::string do_invite() override { return inner_->do_invite(); }
  std::unique_ptr<Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers) override {
    return decorate(inner_->do_grow(invitation, newcomers));
  }
  std::unique_ptr<Communicator> do_join(const std::string& invitation, std::span<const int> newcomers) override {
    return decorate(inner_->do_join(invitation, newcomers));
  }
  Registration do_register(Buffer memory) override { return inner_->do_register(memory); }
  void do_deregister(Registration registration) override { inner_->do_deregister(registration); }
  void* do_allocate(std::size_t bytes) override { return inner_->do_allocate(bytes); }
  void do_deallocate(void* memory) override { inner_->do_deallocate(memory); }

 private:
  std::unique_ptr<Communicator> inner_;
};

// ---- An exchange of two members in place, which some backends have.
//
// Model   Two members bring values: the same number of parts, of the same types and counts. After the exchange every
//         element of both is what `update` makes of the two before it, as if each had sent its values to the other and
//         worked out its new ones from its own and from those that came. Both name the same tag and update; exchanges
//         of one tag meet in their order, and never meet messages.
// Whole   It is made on both sides or on neither: where a wait ends with an error, nothing has changed on either.
// Cost    Over shared memory each element of both sides is read once and written once, and copied nowhere. Each member
//         does half of both sides, in every exchange the same half, which so stays in its cache; a member that is
//         elsewhere leaves its half to the other.
// Where   Communicator::pair_exchanges(). Backends and decorators have none unless they say so: there messages do the
//         same, and decorators see them.
// Threads, memory, errors  As those of started calls.

/// Numbers that an update is given of either side.
using PairFactors = std::array<double, 3>;

/// One of the buffers that a member brings. Parts of one member do not overlap.
struct PairPart {
  Buffer x;
  PairFactors factors{1, 1, 1};
};

/// Replaces a[i] and b[i] for all i below `count`, each pair computed from nothing but itself and the factors. `a` is
/// of the member of the lower rank. Called for pieces, by either member's thread. Does not throw.
using PairUpdate = void (*)(DType dtype, void* a, const PairFactors& of_a, void* b, const PairFactors& of_b,
                            std::int64_t count);

struct PairExchange {
  int peer = kNoRoot;               // its rank in the group, not the caller's own
  int tag = 0;                      // 0 or more
  std::span<const PairPart> parts;  // stay valid until the exchange is complete, as their buffers do
  PairUpdate update = nullptr;
};

/// How records write an exchange down: as messages, of each part one to the peer and one back, naming the same buffer.
/// They say what moves between whom. To be made they are not: they would read and write one buffer at once, and nothing
/// would update it.
[[nodiscard]] std::vector<Call> messages_of(const PairExchange& exchange);

class PairExchanges {
 public:
  virtual ~PairExchanges() = default;

  /// Begins the exchange. Throws InvalidArgument for a peer that is no other rank of the group, a negative tag, no
  /// update, or a part that has elements and no memory; Unsupported for memory that is not the host's. Its Work throws
  /// MismatchError where the two members bring different parts or updates.
  Work start(const PairExchange& exchange);

 protected:
  PairExchanges() = default;
  PairExchanges(const PairExchanges&) = default;
  PairExchanges& operator=(const PairExchanges&) = default;

 private:
  [[nodiscard]] virtual const Communicator& of_group() const = 0;
  // The exchange has passed the checks.
  virtual Work do_start(const PairExchange& exchange) = 0;
};

}  // namespace plumbline::comm
