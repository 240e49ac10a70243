// A test double of NCCL's C interface: what libplumbline_nccl.so opens in its tests, on machines without a GPU.
//
// It proves our side of the interface and nothing of NCCL: that we ask in the right order, group what must go together,
// poll, abort, and say what went wrong. It is strict where NCCL leaves things undefined: a call on a communicator that
// is still at work on the last one is refused.
//
// Model   Memory and streams are those of emulated devices (reference/device/runtimes.hpp). The ranks of a communicator
//         share a file in /dev/shm with a pipe for each ordered pair; what one group call holds is one "kernel", put
//         into the stream. Sends and receives of a kernel go on beside each other; two kernels of a stream one after
//         the other: a send of more than a pipe holds waits for its receiver, as NCCL's do.
//         Communicators do not block: making one, splitting one, and each group call on one are through after some
//         looks; the kernels of the first call are launched then, those of others at once.
// Faults  Of this process, chosen with nccl_double_fault():
//           async_error       the kernels launched meanwhile never end, and an asynchronous error is reported
//           hidden_error      the same, and it is not reported
//           device_error      as async_error, the error being one of CUDA
//           refuse_init       communicators cannot be made: two ranks on one GPU
//           operator_under_way  an operator of a sum with factors is not made at once
//           slow_abort        ncclCommAbort takes a second
//           slow_connect      the first call on a communicator is not through as long as this is chosen
//           slow_calls        no call is
//         NCCL_DOUBLE_VERSION is what it says of itself. Built with NCCL_DOUBLE_BARE it has only what the module cannot
//         do without.
// Mutants NCCL_DOUBLE_MUTANT, of this process: what NCCL would make of a module that is wrong in one way. ../README.md
//         has a row for each fault and each mutant, with the test that meets it; ../mutants_test.py runs them.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/subject/nccl/declarations.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/device/runtimes.hpp"

namespace {

using plumbline::subject::nccl::Config;
using plumbline::subject::nccl::DataType;
using plumbline::subject::nccl::RedOp;
using plumbline::subject::nccl::Result;
using plumbline::subject::nccl::ScalarResidence;
using plumbline::subject::nccl::UniqueId;
namespace comm = plumbline::comm;

// Bytes. A rank may wait for its turn on a busy core after each filling: 100 MB of gradients are not to take thousands.
constexpr std::size_t kPipe = 256 * 1024;
constexpr int kLooks = 5;                 // until something asynchronous is through
constexpr std::size_t kOwnOperators = 8;  // that a communicator has at once

std::atomic<const char*> chosen_fault{""};
std::string_view fault() { return chosen_fault.load(); }

constexpr std::array<std::string_view, 9> kMutants{"never_asks",    "never_aborts", "abort_waits",
                                                   "aborts_all",    "ungrouped",    "blocks",
                                                   "keys_reversed", "words_lost",   "plain_sums"};

bool is_mutant(std::string_view name) {
  static const std::string chosen = [] {
    const char* text = std::getenv("NCCL_DOUBLE_MUTANT");
    std::string mutant = text == nullptr ? "" : text;
    if (mutant.empty() || std::ranges::count(kMutants, mutant) > 0) return mutant;
    std::fprintf(stderr, "NCCL_DOUBLE_MUTANT='%s' is none of the double's mutants\n", text);
    std::exit(2);
  }();
  return chosen == name;
}

thread_local std::string last_error;
Result refuse(Result result, std::string why) {
  last_error = std::move(why);
  return result;
}

// ---- what ranks share ----

struct Pipe {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  std::byte data[kPipe];
};

struct Shared {
  alignas(64) std::atomic<int> attached;
  Pipe pipes[];
};

class Segment {
 public:
  Segment(const std::string& name, int ranks)
      : bytes_(sizeof(Shared) + static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks) * sizeof(Pipe)),
        ranks_(ranks),
        name_(name) {
    const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_)) != 0) std::abort();
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (data_ == MAP_FAILED) std::abort();
    if (shared().attached.fetch_add(1) + 1 == ranks) ::shm_unlink(name.c_str());
  }
  ~Segment() {
    ::munmap(data_, bytes_);
    ::shm_unlink(name_.c_str());  // where not all came
  }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  [[nodiscard]] bool is_whole() const { return shared().attached.load() == ranks_; }
  [[nodiscard]] Pipe& pipe(int from, int to) const { return shared().pipes[from * ranks_ + to]; }

 private:
  [[nodiscard]] Shared& shared() const { return *static_cast<Shared*>(data_); }
  std::size_t bytes_;
  int ranks_;
  std::string name_;
  void* data_;
};

// ---- arithmetic: every operation rounds to the element's type ----

template <class T>
struct Plain {
  using Element = T;
  static T load(Element x) { return x; }
  static Element store(T x) { return x; }
};
struct Half {
  using Element = comm::Float16;
  static float load(Element x) { return comm::to_float(x); }
  static Element store(float x) { return comm::to_float16(x); }
};
struct Brain {
  using Element = comm::BFloat16;
  static float load(Element x) { return comm::to_float(x); }
  static Element store(float x) { return comm::to_bfloat16(x); }
};

template <class Type, class Value>
Value fold_one(RedOp op, Value a, Value b) {
  if constexpr (std::is_integral_v<Value>) {
    using Bits = std::make_unsigned_t<Value>;
    const auto x = static_cast<std::uint64_t>(static_cast<Bits>(a)),
               y = static_cast<std::uint64_t>(static_cast<Bits>(b));
    if (op == RedOp::sum) return static_cast<Value>(x + y);
    if (op == RedOp::product) return static_cast<Value>(x * y);
  }
  if (op == RedOp::product) return static_cast<Value>(a * b);
  if (op == RedOp::min) return b < a || b != b ? b : a;
  if (op == RedOp::max) return b > a || b != b ? b : a;
  return static_cast<Value>(a + b);
}

template <class Type>
void fold(RedOp op, std::byte* into, const std::byte* from, std::size_t count) {
  using Element = typename Type::Element;
  for (std::size_t i = 0; i < count; ++i) {
    Element a, b;
    std::memcpy(&a, into + i * sizeof a, sizeof a);
    std::memcpy(&b, from + i * sizeof b, sizeof b);
    a = Type::store(fold_one<Type>(op, Type::load(a), Type::load(b)));
    std::memcpy(into + i * sizeof a, &a, sizeof a);
  }
}

template <class Type>
void scale(std::byte* data, typename Type::Element factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    typename Type::Element a;
    std::memcpy(&a, data + i * sizeof a, sizeof a);
    a = Type::store(Type::load(a) * Type::load(factor));
    std::memcpy(data + i * sizeof a, &a, sizeof a);
  }
}

template <class Body>
void with_type(DataType type, const Body& body) {
  if (type == DataType::float16) return body(Half{});
  if (type == DataType::bfloat16) return body(Brain{});
  if (type == DataType::float32) return body(Plain<float>{});
  if (type == DataType::float64) return body(Plain<double>{});
  if (type == DataType::int32) return body(Plain<std::int32_t>{});
  if (type == DataType::int64) return body(Plain<std::int64_t>{});
  body(Plain<std::uint8_t>{});
}

std::size_t size_of(DataType type) {
  if (type == DataType::float16 || type == DataType::bfloat16) return 2;
  if (type == DataType::float32 || type == DataType::int32 || type == DataType::uint32) return 4;
  if (type == DataType::float8e4m3 || type == DataType::float8e5m2) return 1;
  return type == DataType::uint8 || type == DataType::int8 ? 1 : 8;
}

// An operator as a collective keeps it: NCCL's, or one of a communicator's own, a sum of products.
struct Operator {
  RedOp op = RedOp::sum;
  bool is_own = false;
  DataType type{};  // of its factor
  std::array<std::byte, sizeof(double)> factor{};

  /// What is done to a rank's elements before they are added.
  void scale_input(std::byte* data, int ranks, std::size_t count, DataType of) const {
    with_type(of, [&](auto t) {
      using Type = decltype(t);
      using Value = decltype(Type::load({}));
      if constexpr (!std::is_integral_v<Value>) {
        typename Type::Element by;
        if (op == RedOp::avg) return scale<Type>(data, Type::store(Value{1} / static_cast<Value>(ranks)), count);
        if (!is_own || is_mutant("plain_sums")) return;
        std::memcpy(&by, factor.data(), sizeof by);
        scale<Type>(data, by, count);
      }
    });
  }
};

}  // namespace

// ---- communicators ----

namespace plumbline::subject::nccl {

struct Registered {
  void* memory;
  std::size_t bytes;
};

// Owns itself until it is destroyed or aborted; a kernel that waits in its stream keeps it longer.
struct OpaqueComm : std::enable_shared_from_this<OpaqueComm> {
  OpaqueComm(const std::string& name_, int ranks_, int rank_)
      : name(name_), ranks(ranks_), rank(rank_), segment(name_, ranks_) {}

  const std::string name;
  const int ranks;
  const int rank;
  const Segment segment;
  std::atomic<bool> aborted{false};
  std::atomic<int> waiting{0};  // kernels that were launched and have not ended
  std::atomic<int> running{0};  // those of them that have begun
  std::atomic<int> error{0};    // asynchronous
  bool is_connected = false;
  int looks_left = 0;                           // until it is through with what it was asked for
  std::vector<std::function<void()>> launches;  // then
  int splits = 0;
  std::vector<std::unique_ptr<Registered>> registered;
  std::array<std::optional<Operator>, kOwnOperators> operators;  // the first has the value after NCCL's last
  std::shared_ptr<OpaqueComm> self;

  [[nodiscard]] bool is_at_work() const { return !segment.is_whole() || looks_left > 0; }
};

}  // namespace plumbline::subject::nccl

namespace {

using plumbline::subject::nccl::OpaqueComm;
using plumbline::subject::nccl::Registered;
using Comm = OpaqueComm*;

std::vector<std::weak_ptr<OpaqueComm>> made_here;  // in the mutant that ends them all

Comm make_comm(const std::string& name, int ranks, int rank) {
  auto made = std::make_shared<OpaqueComm>(name, ranks, rank);
  made->self = made;
  if (is_mutant("aborts_all")) made_here.push_back(made);
  return made.get();
}

// One transfer of a kernel: some bytes through a pipe, a piece at a time.
struct Transfer {
  Pipe* pipe;
  std::byte* data;
  std::size_t left;
  bool is_send;

  bool advance() {
    const std::uint64_t written = pipe->written.load(std::memory_order_acquire),
                        read = pipe->read.load(std::memory_order_acquire);
    const std::size_t room = is_send ? kPipe - (written - read) : written - read;
    const std::size_t at = (is_send ? written : read) % kPipe;
    const std::size_t piece = std::min({left, room, kPipe - at});
    if (piece == 0) return false;
    if (is_send)
      std::memcpy(pipe->data + at, data, piece);
    else
      std::memcpy(data, pipe->data + at, piece);
    (is_send ? pipe->written : pipe->read).fetch_add(piece, std::memory_order_release);
    data += piece;
    left -= piece;
    return true;
  }
};

// Runs on the stream's thread.
class Kernel {
 public:
  explicit Kernel(Comm comm) : comm_(comm) {}

  void send(const void* data, std::size_t bytes, int to) { add(data, bytes, to, true); }
  void receive(void* data, std::size_t bytes, int from) { add(data, bytes, from, false); }
  /// All that was added, beside each other. False when the communicator was aborted.
  bool run() {
    constexpr int kLooksBeforeSleep = 100;  // several ranks share a core here
    for (int idle = 0; !transfers_.empty();) {
      if (comm_->aborted) return false;
      bool moved = false;
      for (Transfer& transfer : transfers_) moved |= transfer.advance();
      std::erase_if(transfers_, [](const Transfer& transfer) { return transfer.left == 0; });
      idle = moved ? 0 : idle + 1;
      if (idle > kLooksBeforeSleep)
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      else if (!moved)
        sched_yield();
    }
    return true;
  }

 private:
  void add(const void* data, std::size_t bytes, int peer, bool is_send) {
    if (bytes == 0) return;
    Pipe& pipe = is_send ? comm_->segment.pipe(comm_->rank, peer) : comm_->segment.pipe(peer, comm_->rank);
    transfers_.push_back({&pipe, static_cast<std::byte*>(const_cast<void*>(data)), bytes, is_send});
  }
  Comm comm_;
  std::vector<Transfer> transfers_;
};

using Bytes = std::vector<std::byte>;

// Everybody's elements to rank 0, which adds them in the order of the ranks; `all` is the result there.
bool fold_at_zero(Comm comm, const void* in, std::size_t count, DataType type, const Operator& op, Bytes& all) {
  const std::size_t bytes = count * size_of(type);
  all.assign(static_cast<const std::byte*>(in), static_cast<const std::byte*>(in) + bytes);
  op.scale_input(all.data(), comm->ranks, count, type);
  Kernel kernel(comm);
  if (comm->rank != 0) {
    kernel.send(all.data(), bytes, 0);
    return kernel.run();
  }
  Bytes one(bytes);
  for (int rank = 1; rank < comm->ranks; ++rank) {
    kernel.receive(one.data(), bytes, rank);
    if (!kernel.run()) return false;
    with_type(type, [&](auto t) { fold<decltype(t)>(op.op, all.data(), one.data(), count); });
  }
  return true;
}

void give_all(Comm comm, const Bytes& all, void* out, std::size_t bytes, std::size_t step) {
  Kernel kernel(comm);
  if (comm->rank != 0) {
    kernel.receive(out, bytes, 0);
  } else {
    for (int rank = 1; rank < comm->ranks; ++rank)
      kernel.send(all.data() + static_cast<std::size_t>(rank) * step, bytes, rank);
    std::memcpy(out, all.data(), bytes);
  }
  (void)kernel.run();
}

void do_reduce(Comm comm, const void* in, void* out, std::size_t count, DataType type, const Operator& op, int root) {
  Bytes all;
  if (!fold_at_zero(comm, in, count, type, op, all)) return;
  Kernel kernel(comm);
  if (comm->rank == root && root == 0) std::memcpy(out, all.data(), all.size());
  if (comm->rank == 0 && root != 0) kernel.send(all.data(), all.size(), root);
  if (comm->rank == root && root != 0) kernel.receive(out, all.size(), 0);
  (void)kernel.run();
}

void do_broadcast(Comm comm, const void* in, void* out, std::size_t bytes, int root) {
  Kernel kernel(comm);
  for (int rank = 0; rank < comm->ranks && comm->rank == root; ++rank)
    if (rank != root) kernel.send(in, bytes, rank);
  if (comm->rank != root) kernel.receive(out, bytes, root);
  if (comm->rank == root && in != out) std::memcpy(out, in, bytes);
  (void)kernel.run();
}

void do_all_gather(Comm comm, const void* in, void* out, std::size_t bytes) {
  auto* const blocks = static_cast<std::byte*>(out);
  Kernel kernel(comm);
  for (int rank = 0; rank < comm->ranks; ++rank) {
    if (rank == comm->rank) continue;
    kernel.send(in, bytes, rank);
    kernel.receive(blocks + static_cast<std::size_t>(rank) * bytes, bytes, rank);
  }
  std::byte* const own = blocks + static_cast<std::size_t>(comm->rank) * bytes;
  if (own != in) std::memcpy(own, in, bytes);
  (void)kernel.run();
}

// ---- group calls ----

struct Message {
  void* data;
  std::size_t bytes;
  int peer;
  bool is_send;
};
struct Pending {
  Comm comm;
  void* stream;
  std::vector<Message> messages;
  std::vector<std::function<void()>> collectives;
};
thread_local int depth = 0;
thread_local std::vector<Pending> pending;

void launch(const Pending& group) {
  const Comm comm = group.comm;
  const std::string_view what = fault();
  const bool is_of_device = what == "device_error";
  const bool tells = what == "async_error" || is_of_device;
  const bool fails = tells || what == "hidden_error";
  ++comm->waiting;
  static_cast<plumbline::device::EmulatedQueue*>(group.stream)
      ->put([group, owner = comm->shared_from_this(), fails, tells, is_of_device] {
        OpaqueComm& comm = *owner;
        ++comm.running;
        if (tells && !comm.aborted)
          comm.error = static_cast<int>(is_of_device ? Result::unhandled_cuda_error : Result::remote_error);
        while (fails && !comm.aborted) sched_yield();
        Kernel kernel(&comm);
        for (const Message& message : group.messages)
          message.is_send ? kernel.send(message.data, message.bytes, message.peer)
                          : kernel.receive(message.data, message.bytes, message.peer);
        if (!comm.aborted && kernel.run())
          for (const auto& collective : group.collectives)
            if (!comm.aborted) collective();
        --comm.running;
        --comm.waiting;
      });
  while (is_mutant("blocks") && comm->waiting > 0) sched_yield();
}

Result end_group() {
  if (--depth > 0) return Result::success;
  Result result = Result::success;
  for (Pending& group : std::exchange(pending, {})) {
    group.comm->looks_left = kLooks;
    if (std::exchange(group.comm->is_connected, true))
      launch(group);
    else
      group.comm->launches.push_back([group] { launch(group); });
    result = Result::in_progress;
  }
  return result;
}

template <class Add>
Result enqueue(Comm comm, void* stream, const Add& add) {
  if (comm == nullptr || stream == nullptr) return refuse(Result::invalid_argument, "no communicator or no stream");
  if (comm->is_at_work()) return refuse(Result::invalid_usage, "the communicator is still at work");
  ++depth;
  Pending* mine = nullptr;
  for (Pending& group : pending)
    if (group.comm == comm) mine = &group;
  if (mine == nullptr) mine = &pending.emplace_back(Pending{comm, stream, {}, {}});
  add(*mine);
  return end_group();
}

Result message(Comm comm, void* data, std::size_t count, DataType type, int peer, void* stream, bool is_send) {
  if (comm != nullptr && (peer < 0 || peer >= comm->ranks || peer == comm->rank))
    return refuse(Result::invalid_argument, "a peer that the double has not");
  return enqueue(comm, stream,
                 [&](Pending& group) { group.messages.push_back({data, count * size_of(type), peer, is_send}); });
}

Result collective(Comm comm, void* stream, std::function<void()> body) {
  return enqueue(comm, stream, [&](Pending& group) { group.collectives.push_back(std::move(body)); });
}

std::atomic<int> registrations_made{0}, registrations_ended{0};

constexpr int kNcclsOperators = static_cast<int>(RedOp::avg) + 1;

// Where a communicator keeps an operator of its own; null: it has none of that value.
std::optional<Operator>* own_operator(Comm comm, RedOp op) {
  const int index = static_cast<int>(op) - kNcclsOperators;
  if (comm == nullptr || index < 0 || index >= static_cast<int>(kOwnOperators)) return nullptr;
  auto& place = comm->operators[static_cast<std::size_t>(index)];
  return place ? &place : nullptr;
}

// The operator may be gone before the stream comes to the reduction: body(operator) gets it as it is now.
Result reduction(Comm comm, void* stream, DataType type, RedOp op, std::function<void(const Operator&)> body) {
  Operator kept{.op = op};
  if (static_cast<int>(op) >= kNcclsOperators) {
    const auto* const own = own_operator(comm, op);
    if (own == nullptr) return refuse(Result::invalid_argument, "an operator that the communicator has not");
    if ((*own)->type != type) return refuse(Result::invalid_argument, "an operator of another type than the data");
    kept = **own;
  }
  return collective(comm, stream, [kept, body = std::move(body)] { body(kept); });
}

}  // namespace

// ---- the interface ----

#define NCCL_DOUBLE extern "C" __attribute__((visibility("default")))
#ifdef NCCL_DOUBLE_BARE
#define NCCL_DOUBLE_OPTIONAL extern "C" __attribute__((visibility("hidden")))
#else
#define NCCL_DOUBLE_OPTIONAL NCCL_DOUBLE
#endif

/// Not NCCL's: chooses a fault, or with "" none, until the next call. The name is kept where it is.
NCCL_DOUBLE void nccl_double_fault(const char* name) { chosen_fault = name; }

NCCL_DOUBLE Result ncclGetVersion(int* version) {
  const char* text = std::getenv("NCCL_DOUBLE_VERSION");
  *version = text == nullptr ? 22703 : std::atoi(text);
  return Result::success;
}

NCCL_DOUBLE Result ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> number{0};
  std::memset(id, 0, sizeof *id);
  const std::string name = "/nccl-double-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
  std::memcpy(id->internal, name.data(), name.size());
  return Result::success;
}

NCCL_DOUBLE Result ncclCommInitRankConfig(Comm* made, int ranks, UniqueId id, int rank, Config* config) {
  if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0 || rank < 0 || rank >= ranks)
    return refuse(Result::invalid_argument, "a configuration that the double does not serve");
  if (fault() == "refuse_init")
    return refuse(Result::invalid_usage, "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000");
  *made = make_comm(id.internal, ranks, rank);
  return Result::in_progress;
}

// All ranks into one, in the order of their keys, which count from 0.
NCCL_DOUBLE_OPTIONAL Result ncclCommSplit(Comm comm, int color, int key, Comm* made, Config* config) {
  if (comm->is_at_work()) return refuse(Result::invalid_usage, "the communicator is still at work");
  if (color != 0 || key < 0 || key >= comm->ranks || config == nullptr || config->blocking != 0)
    return refuse(Result::invalid_argument, "a split that the double does not serve");
  // As NCCL does: the new one is given when the old one is through.
  *made = nullptr;
  comm->looks_left = kLooks;
  const int rank = is_mutant("keys_reversed") ? comm->ranks - 1 - key : key;
  comm->launches.push_back(
      [comm, made, rank] { *made = make_comm(comm->name + "-" + std::to_string(++comm->splits), comm->ranks, rank); });
  return Result::in_progress;
}

NCCL_DOUBLE Result ncclCommGetAsyncError(Comm comm, Result* error) {
  *error = is_mutant("never_asks") ? Result::success : static_cast<Result>(comm->error.load());
  if (*error != Result::success) return Result::success;
  const bool is_slow = fault() == "slow_calls" || (fault() == "slow_connect" && !comm->launches.empty());
  if (comm->looks_left > (is_slow ? 1 : 0) && --comm->looks_left == 0)
    for (const auto& one : std::exchange(comm->launches, {})) one();
  if (comm->is_at_work()) *error = Result::in_progress;
  return Result::success;
}

NCCL_DOUBLE_OPTIONAL Result ncclCommFinalize(Comm comm) {
  return comm->is_at_work() ? refuse(Result::invalid_usage, "the communicator is still at work") : Result::success;
}

NCCL_DOUBLE Result ncclCommDestroy(Comm comm) {
  if (!comm->registered.empty()) return refuse(Result::invalid_usage, "memory is registered still");
  comm->self.reset();
  return Result::success;
}

// What has begun no longer touches its buffers afterwards; what has not never will.
NCCL_DOUBLE Result ncclCommAbort(Comm comm) {
  if (is_mutant("never_aborts")) return Result::success;
  while (is_mutant("abort_waits") && comm->waiting > 0) sched_yield();
  for (const auto& one : made_here)
    if (const auto other = one.lock()) other->aborted = true;
  comm->aborted = true;
  if (fault() == "slow_abort") std::this_thread::sleep_for(std::chrono::seconds(1));
  while (comm->running > 0) sched_yield();
  comm->self.reset();
  return Result::success;
}

NCCL_DOUBLE const char* ncclGetErrorString(Result result) {
  switch (result) {
    case Result::success:
      return "no error";
    case Result::unhandled_cuda_error:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case Result::invalid_argument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case Result::invalid_usage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case Result::remote_error:
      return "remote process exited or there was a network error";
    default:
      return "another error";
  }
}

NCCL_DOUBLE_OPTIONAL const char* ncclGetLastError(Comm) { return is_mutant("words_lost") ? "" : last_error.c_str(); }

/// Not NCCL's: how many registrations this process has made, and how many of them have ended.
NCCL_DOUBLE void nccl_double_registrations(int* made, int* ended) {
  *made = registrations_made;
  *ended = registrations_ended;
}

NCCL_DOUBLE_OPTIONAL Result ncclCommRegister(Comm comm, void* memory, std::size_t bytes, void** handle) {
  if (comm == nullptr || memory == nullptr || bytes == 0 || handle == nullptr)
    return refuse(Result::invalid_argument, "no communicator or no memory");
  if (comm->is_at_work()) return refuse(Result::invalid_usage, "the communicator is still at work");
  comm->registered.push_back(std::make_unique<Registered>(Registered{memory, bytes}));
  *handle = comm->registered.back().get();
  ++registrations_made;
  return Result::success;
}

NCCL_DOUBLE_OPTIONAL Result ncclCommDeregister(Comm comm, void* handle) {
  if (comm == nullptr || std::erase_if(comm->registered, [&](const auto& one) { return one.get() == handle; }) == 0)
    return refuse(Result::invalid_argument, "a registration that the communicator has not");
  ++registrations_ended;
  return Result::success;
}

// The factor is read now.
NCCL_DOUBLE_OPTIONAL Result ncclRedOpCreatePreMulSum(RedOp* op, void* factor, DataType type, ScalarResidence residence,
                                                     Comm comm) {
  if (comm == nullptr || factor == nullptr || residence != ScalarResidence::host_immediate)
    return refuse(Result::invalid_argument, "an operator that the double does not serve");
  if (fault() == "operator_under_way") return Result::in_progress;
  if (comm->is_at_work()) return refuse(Result::invalid_usage, "the communicator is still at work");
  const auto place = std::ranges::find_if(comm->operators, [](const auto& one) { return !one.has_value(); });
  if (place == comm->operators.end()) return refuse(Result::invalid_usage, "too many operators that nobody destroyed");
  Operator made{.is_own = true, .type = type};
  std::memcpy(made.factor.data(), factor, size_of(type));
  *place = made;
  *op = static_cast<RedOp>(kNcclsOperators + (place - comm->operators.begin()));
  return Result::success;
}

NCCL_DOUBLE_OPTIONAL Result ncclRedOpDestroy(RedOp op, Comm comm) {
  auto* const own = own_operator(comm, op);
  if (own == nullptr) return refuse(Result::invalid_argument, "an operator that the communicator has not");
  own->reset();
  return Result::success;
}

NCCL_DOUBLE Result ncclAllReduce(const void* in, void* out, std::size_t count, DataType type, RedOp op, Comm comm,
                                 void* stream) {
  return reduction(comm, stream, type, op, [=](const Operator& by) {
    Bytes all;
    if (fold_at_zero(comm, in, count, type, by, all)) give_all(comm, all, out, all.size(), 0);
  });
}

NCCL_DOUBLE_OPTIONAL Result ncclReduce(const void* in, void* out, std::size_t count, DataType type, RedOp op, int root,
                                       Comm comm, void* stream) {
  return reduction(comm, stream, type, op,
                   [=](const Operator& by) { do_reduce(comm, in, out, count, type, by, root); });
}

NCCL_DOUBLE_OPTIONAL Result ncclReduceScatter(const void* in, void* out, std::size_t count, DataType type, RedOp op,
                                              Comm comm, void* stream) {
  return reduction(comm, stream, type, op, [=](const Operator& by) {
    Bytes all;
    const std::size_t bytes = count * size_of(type);
    if (fold_at_zero(comm, in, count * static_cast<std::size_t>(comm->ranks), type, by, all))
      give_all(comm, all, out, bytes, bytes);
  });
}

NCCL_DOUBLE_OPTIONAL Result ncclBroadcast(const void* in, void* out, std::size_t count, DataType type, int root,
                                          Comm comm, void* stream) {
  return collective(comm, stream, [=] { do_broadcast(comm, in, out, count * size_of(type), root); });
}

NCCL_DOUBLE_OPTIONAL Result ncclAllGather(const void* in, void* out, std::size_t count, DataType type, Comm comm,
                                          void* stream) {
  return collective(comm, stream, [=] { do_all_gather(comm, in, out, count * size_of(type)); });
}

NCCL_DOUBLE_OPTIONAL Result ncclSend(const void* in, std::size_t count, DataType type, int peer, Comm comm,
                                     void* stream) {
  return message(comm, const_cast<void*>(in), count, type, peer, stream, true);
}

NCCL_DOUBLE_OPTIONAL Result ncclRecv(void* out, std::size_t count, DataType type, int peer, Comm comm, void* stream) {
  return message(comm, out, count, type, peer, stream, false);
}

NCCL_DOUBLE Result ncclGroupStart() {
  if (is_mutant("ungrouped")) return Result::success;
  ++depth;
  return Result::success;
}

NCCL_DOUBLE Result ncclGroupEnd() {
  if (is_mutant("ungrouped")) return Result::success;
  if (depth == 0) return refuse(Result::invalid_usage, "no group call is open");
  return end_group();
}
