// One rank's handle on a local group: posts calls, waits for the others', does its share.
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local/group.hpp"
#include "reference/comm/local/parts.hpp"
#include "reference/comm/local/wait.hpp"

namespace plumbline::comm::local {
namespace {

constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};  // of calls that are not numbered: messages

std::string milliseconds(std::chrono::nanoseconds duration) {
  return fmt::format("{} ms", std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

class LocalCommunicator;

/// A pair exchange of a rank.
struct Joined {
  PairExchangeQueue* place;
  HeldSlot exchange_slot;
  int peer;
  std::size_t side;
};

/// A started batch, whose collectives end in order, so that the last one's number stands for all, and whose messages
/// end one by one; or a pair exchange.
class LocalWork final : public Work::State {
 public:
  explicit LocalWork(LocalCommunicator& communicator) : communicator_(&communicator) {}
  ~LocalWork() override;
  bool test() override;
  void wait(Timeout timeout) override;
  [[nodiscard]] bool outlasts_wait() const override { return device_calls != nullptr; }

  // Its collectives; none where the last is 0.
  std::uint64_t first_collective = 0, last_collective = 0;
  [[nodiscard]] bool contains(std::uint64_t sequence) const {
    return first_collective <= sequence && sequence <= last_collective;
  }
  /// Of a collective on memory of a device that is launched: where it is done.
  struct Launched {
    Device device;
    std::shared_ptr<const DeviceCalls::Mark> done;
  };
  std::vector<Launched> launched;
  std::shared_ptr<DeviceCalls> device_calls;  // of a batch with calls on memory of devices
  std::vector<std::pair<Channel*, std::shared_ptr<Message>>> messages;
  std::optional<Joined> joined;
  /// Whether holds(state) of each message.
  [[nodiscard]] bool each_message(const auto& holds) const {
    return std::ranges::all_of(
        messages, [&](const auto& entry) { return holds(entry.second->state.load(std::memory_order_acquire)); });
  }

 private:
  friend class LocalCommunicator;
  bool is_complete();
  /// Whether the devices are done, too.
  [[nodiscard]] bool is_reached() const;
  bool complete_ = false;
  bool is_ordered_ = false;          // a stream of the caller's waits for the devices, or they are done
  LocalCommunicator* communicator_;  // null once that is gone
  std::string orphaned_;             // then: whose it was
};

class alignas(kApart) LocalCommunicator final : public Communicator, private PairExchanges {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int member);
  ~LocalCommunicator() override;
  [[nodiscard]] const Capabilities& capabilities() const override { return group_->capabilities(); }
  void use_stream(void* stream) override { caller_stream_ = stream; }
  void abort(const std::string& reason) noexcept override { group_->abort(reason); }
  [[nodiscard]] PairExchanges* pair_exchanges() override { return this; }

  // For LocalWork.
  void attach(LocalWork* work) { works_.push_back(work); }
  void detach(LocalWork* work) { std::erase(works_, work); }
  /// Whether nothing of a batch is under way any more: later calls complete earlier ones, so nobody need have waited.
  [[nodiscard]] bool is_finished(const LocalWork& work) const;
  /// Whether it is finished without an error.
  [[nodiscard]] bool is_complete(const LocalWork& work) const;
  [[nodiscard]] Deadline deadline(Timeout timeout) const { return Deadline(timeout.value_or(group_->options.timeout)); }
  /// Completes all collectives up to `sequence`.
  void complete_until(std::uint64_t sequence, Deadline& deadline);
  bool try_complete_until(std::uint64_t sequence);
  void complete_message(Channel& channel, const std::shared_ptr<Message>& message, Deadline& deadline);
  bool try_complete_message(Channel& channel, const std::shared_ptr<Message>& message);
  /// Lets the caller's stream wait for all of a batch that devices do.
  void follow(const LocalWork& work);
  void complete_exchange(const Joined& joined, Deadline& deadline);
  bool try_complete_exchange(const Joined& joined);
  void end_exchange(const Joined& joined) noexcept;
  /// Makes sure that nobody touches buffers of the calls under way, at the price of the group.
  void give_up(const std::string& why) noexcept;

 private:
  // A posted collective that this rank has not finished.
  struct Pending {
    Shape shape;
    std::byte* out;
    std::uint64_t sequence;
    bool is_inline;
    bool joined = false;  // all have arrived and this rank did its share
  };

  void do_run(const Call& call, Timeout timeout) override;
  Work do_start(std::span<const Call> calls) override;
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override;
  [[nodiscard]] const Communicator& of_group() const override { return *this; }
  Work do_start(const PairExchange& exchange) override;

  Pending post(const Call& call, bool blocking);
  void post_message(const Call& call, Channel& channel, const std::shared_ptr<Message>& message);
  void refuse_unsupported(const Call& call) const;

  void complete(Pending& pending, Deadline& deadline);
  bool try_complete(Pending& pending);
  [[nodiscard]] bool arrived(std::size_t member, std::uint64_t sequence) const {
    return slot(member).sequence.load(std::memory_order_acquire) == sequence;
  }
  void await_arrivals(const Pending& pending, Deadline& deadline);
  [[nodiscard]] bool all_arrived(const Pending& pending) const;
  void compare_signatures(const Pending& pending);
  void join(Pending& pending);
  void work_on(int part);
  [[nodiscard]] bool all_parts_done() const;
  void help();
  void finish(const Pending& pending);
  void advance();

  // Calls on memory of devices.
  void launch();
  void finish_launched(const Pending& pending);
  void follow(Device device, const DeviceCalls::Mark& done);
  void follow(const Message& message);
  void follow_lane() noexcept;
  [[nodiscard]] DeviceCalls& device_calls() const { return *group_->options.device_calls; }

  [[nodiscard]] std::size_t elements_of_block() const {
    return std::max<std::size_t>(1, group_->options.block_bytes / size_of(shape_.dtype));
  }
  [[nodiscard]] Slot& slot(std::size_t member) const { return cursors_[member].slot(); }
  [[nodiscard]] bool is_done(std::size_t part) const {
    return slot(part).blocks_done.load(std::memory_order_acquire) == parts_[part].blocks;
  }
  void cut_into_parts();

  // These throw, the first four where there is a reason.
  void watch(const Pending& pending);
  void watch(Channel& channel, const std::shared_ptr<Message>& message);
  void watch(const Joined& joined);
  void refuse_given_up(std::uint64_t sequence);
  void time_out(const Pending& pending, const Deadline& deadline);
  [[noreturn]] void fail(const Failure& failure);  // ours, whatever failed the group first
  [[noreturn]] void throw_failure(std::uint64_t sequence, bool had_arrived);
  [[nodiscard]] std::string place(const Pending& pending) const;
  [[nodiscard]] std::string place(const Call& message) const;
  [[nodiscard]] std::string place(const Joined& joined) const;

  const std::shared_ptr<LocalGroup> group_;
  PostingStream& stream_;
  std::vector<Cursor> cursors_;        // of this rank, in every member's stream: at the call to be finished next
  std::uint64_t consumed_ = 0;         // number of the last finished collective
  std::uint64_t consumed_by_all_ = 0;  // as the others' postings told
  std::deque<Pending> pending_;        // started, not finished, in order
  std::vector<LocalWork*> works_;      // that would outlive this communicator
  bool told_ = false;                  // this rank knows why the group failed: later calls get PeerFailed
  void* caller_stream_ = nullptr;      // of calls on memory of devices
  std::optional<Device> device_;       // of the last of them

  // The collective at hand, as all have posted it.
  struct Part {
    std::size_t length;  // in elements
    std::uint32_t blocks;
  };
  Shape shape_{};
  bool streaming_ = false;
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;
  std::vector<Part> parts_;
};

LocalCommunicator::LocalCommunicator(std::shared_ptr<LocalGroup> group, int member)
    : Communicator(member, group->identity),
      group_(std::move(group)),
      stream_(group_->stream(member)),
      in_(group_->identity.ranks.size()),
      out_(in_.size()),
      parts_(in_.size()) {
  for (int other = 0; other < size(); ++other) cursors_.push_back(group_->stream(other).begin());
}

LocalCommunicator::~LocalCommunicator() {
  const auto is_unfinished = [this](const LocalWork* work) { return !is_finished(*work); };
  if (!pending_.empty() || std::ranges::any_of(works_, is_unfinished)) give_up("left with unfinished calls");
  if (!works_.empty()) follow_lane();  // of messages that are complete, and were not waited for
  for (LocalWork* work : works_) {
    work->complete_ = work->complete_ || is_complete(*work);
    work->joined.reset();
    work->orphaned_ = fmt::format("{}, rank {}", describe(group_->identity), rank());
    work->communicator_ = nullptr;
  }
  group_->depart(rank());
}

// ---- calls ----

void LocalCommunicator::refuse_unsupported(const Call& call) const {
  const bool has_devices = group_->lane != nullptr;
  for (const Device device : {call.in.device, call.out.device})
    if (device.kind != Device::Kind::cpu && (!has_devices || device.kind != device_calls().kind()))
      throw Unsupported(fmt::format("{}: memory on {} is not supported by backend local here, only cpu{}",
                                    name_of(call.operation), name_of(device),
                                    has_devices ? fmt::format(" and {}", name_of(device_calls().kind())) : ""));
  if (has_devices) device_calls().expect_memory(call, rank());
  if (has_devices && is_reduction(call.operation) && call.device().kind != Device::Kind::cpu &&
      size() > device_calls().most_added())
    throw Unsupported(fmt::format("{} on {}: {} ranks; there are {} at most", name_of(call.operation),
                                  name_of(call.device()), size(), device_calls().most_added()));
  if (call.elements(size()) > kMaxElements)
    throw Unsupported(fmt::format("{}: {} elements; backend local takes at most {}", name_of(call.operation),
                                  call.elements(size()), kMaxElements));
}

void LocalCommunicator::do_run(const Call& call, Timeout timeout) {
  refuse_unsupported(call);
  if (is_point_to_point(call.operation)) {
    const bool sends = call.operation == Operation::send;
    Channel& channel = sends ? group_->channel(rank(), call.root) : group_->channel(call.root, rank());
    const auto message = std::make_shared<Message>();
    post_message(call, channel, message);
    Deadline limit = deadline(timeout);
    complete_message(channel, message, limit);
    return follow(*message);
  }
  Pending pending = post(call, true);
  Deadline limit = deadline(timeout);
  if (!pending_.empty()) complete_until(pending.sequence - 1, limit);
  complete(pending, limit);
}

Work LocalCommunicator::do_start(std::span<const Call> calls) {
  for (const Call& call : calls) refuse_unsupported(call);
  auto work = std::make_unique<LocalWork>(*this);
  attach(work.get());  // first: when the group fails half-way, what has been posted is taken back
  for (const Call& call : calls) {
    if (call.device().kind != Device::Kind::cpu) work->device_calls = group_->options.device_calls;
    if (is_point_to_point(call.operation)) {
      const bool sends = call.operation == Operation::send;
      Channel& channel = sends ? group_->channel(rank(), call.root) : group_->channel(call.root, rank());
      const auto message = std::make_shared<Message>();
      post_message(call, channel, message);
      work->messages.emplace_back(&channel, message);
    } else {
      pending_.push_back(post(call, false));
      work->last_collective = pending_.back().sequence;
      if (work->first_collective == 0) work->first_collective = work->last_collective;
    }
  }
  return Work(std::move(work));
}

Work LocalCommunicator::do_start(const PairExchange& exchange) {
  if (group_->failed()) throw_failure(kNoSequence, false);
  const bool is_lower = rank() < exchange.peer;
  const std::size_t side = is_lower ? PairExchangeSlot::kLower : PairExchangeSlot::kHigher;
  PairExchangeQueue& place =
      is_lower ? group_->meeting_place(rank(), exchange.peer) : group_->meeting_place(exchange.peer, rank());
  auto work = std::make_unique<LocalWork>(*this);
  attach(work.get());
  work->joined = Joined{&place, place.come(side, exchange, group_->policy), exchange.peer, side};
  return Work(std::move(work));
}

std::unique_ptr<Communicator> LocalCommunicator::do_create_group(std::span<const int> ranks) {
  std::vector<int> world_ranks;
  int member = 0;
  for (const int rank : ranks) {
    if (rank == this->rank()) member = static_cast<int>(world_ranks.size());
    world_ranks.push_back(group().ranks[static_cast<std::size_t>(rank)]);
  }
  auto made = std::make_unique<LocalCommunicator>(group_->subgroup(this->rank(), std::move(world_ranks)), member);
  made->use_stream(caller_stream_);
  return made;
}

// ---- posting ----

LocalCommunicator::Pending LocalCommunicator::post(const Call& call, bool blocking) {
  if (group_->failed()) throw_failure(stream_.published() + 1, false);
  const Shape shape = Shape::of(call, size());
  const std::size_t given = shape.given_bytes();
  const bool is_inline = !shape.on_device && given <= group_->options.inline_bytes;
  // First: a runtime that refuses refuses before anything is posted.
  const auto ready = shape.on_device ? device_calls().mark(call.device(), caller_stream_) : nullptr;
  Slot& mine = stream_.next_slot(consumed_by_all_);
  mine.signature = Signature(shape);
  mine.consumed = consumed_;
  mine.in = nullptr;
  mine.out = call.uses_out(rank()) ? static_cast<std::byte*>(call.out.data) : nullptr;
  if (shape.gives(rank()))
    mine.in = static_cast<const std::byte*>(call.operation == Operation::broadcast ? call.out.data : call.in.data);
  if (is_inline) {
    if (mine.in != nullptr) {
      std::byte* payload = given <= mine.line.size() ? mine.line.data() : stream_.payload();
      std::memcpy(payload, mine.in, given);
      mine.in = payload;
    }
  } else {
    // A rank that has gone on, or is not running, leaves its part to others; else each part is warmest at its owner.
    const bool open =
        shape.on_device || !blocking || size() > group_->options.cores || shape.bytes() >= group_->options.block_bytes;
    mine.next_block.store(open ? 0 : Slot::kClosed, std::memory_order_relaxed);
    mine.blocks_done.store(0, std::memory_order_relaxed);
  }
  if (shape.on_device) {
    device_ = call.device();
    mine.on_device = &group_->device_posting(rank(), consumed_by_all_);
    *mine.on_device = {.sequence = stream_.published() + 1, .device = call.device(), .ready = ready};
  }
  return {shape, mine.out, stream_.publish(), is_inline};
}

void LocalCommunicator::post_message(const Call& call, Channel& channel, const std::shared_ptr<Message>& message) {
  if (group_->failed()) throw_failure(kNoSequence, false);
  message->call = call;
  if (call.device().kind != Device::Kind::cpu) {
    device_ = call.device();
    message->ready = device_calls().mark(call.device(), caller_stream_);
  }
  if (call.operation == Operation::send)
    channel.send(message);
  else
    channel.receive(message);
}

// ---- completing collectives ----

void LocalCommunicator::complete_until(std::uint64_t sequence, Deadline& deadline) {
  while (!pending_.empty() && pending_.front().sequence <= sequence) {
    complete(pending_.front(), deadline);
    pending_.pop_front();
  }
  refuse_given_up(sequence);
}

bool LocalCommunicator::try_complete_until(std::uint64_t sequence) {
  while (!pending_.empty() && pending_.front().sequence <= sequence) {
    if (!try_complete(pending_.front())) return false;
    pending_.pop_front();
  }
  refuse_given_up(sequence);
  return true;
}

void LocalCommunicator::complete(Pending& pending, Deadline& deadline) {
  if (!pending.joined) {
    await_arrivals(pending, deadline);
    join(pending);
  }
  if (!pending.is_inline) {
    wait_until(
        group_->policy,
        [&] {
          if (all_parts_done()) return true;
          help();
          return all_parts_done();
        },
        [&](Clock::time_point now) {
          watch(pending);
          if (deadline.has_passed(now)) time_out(pending, deadline);
        });
  }
  finish(pending);
}

bool LocalCommunicator::try_complete(Pending& pending) {
  if (!pending.joined) {
    if (!all_arrived(pending)) {
      watch(pending);
      return false;
    }
    join(pending);
  }
  if (!pending.is_inline && !all_parts_done()) {
    watch(pending);
    return false;
  }
  finish(pending);
  return true;
}

bool LocalCommunicator::all_arrived(const Pending& pending) const {
  for (std::size_t member = 0; member < cursors_.size(); ++member)
    if (!arrived(member, pending.sequence)) return false;
  return true;
}

void LocalCommunicator::await_arrivals(const Pending& pending, Deadline& deadline) {
  for (std::size_t member = 0; member < cursors_.size(); ++member) {
    if (arrived(member, pending.sequence)) continue;
    wait_until(
        group_->policy, [&] { return arrived(member, pending.sequence); },
        [&](Clock::time_point now) {
          watch(pending);
          if (deadline.has_passed(now)) time_out(pending, deadline);
        },
        [&] {
          const int core = group_->note_core(rank());
          for (std::size_t other = member; other < cursors_.size(); ++other)
            if (group_->last_core(static_cast<int>(other)) == core && !arrived(other, pending.sequence)) return false;
          return true;
        });
  }
}

void LocalCommunicator::compare_signatures(const Pending& pending) {
  const Signature mine = slot(static_cast<std::size_t>(rank())).signature;
  for (std::size_t member = 0; member < cursors_.size(); ++member) {
    if (!arrived(member, pending.sequence) || slot(member).signature == mine) continue;
    std::string calls;
    for (std::size_t other = 0; other < cursors_.size(); ++other) {
      std::string made = "has not arrived yet";
      if (arrived(other, pending.sequence)) {
        const Signature theirs = slot(other).signature;
        made = describe(theirs.call(size()), size());
        if (group_->lane != nullptr) made += theirs.on_device() ? " in memory of a device" : " in memory of the host";
      }
      calls += fmt::format("{}rank {}: {}", other == 0 ? "" : "; ", other, made);
    }
    fail({.kind = Failure::Kind::mismatch,
          .sequence = pending.sequence,
          .message = fmt::format("call #{} on {}: the ranks disagree: {}", pending.sequence, describe(group_->identity),
                                 calls)});
  }
}

void LocalCommunicator::join(Pending& pending) {
  shape_ = pending.shape;
  consumed_by_all_ = pending.sequence;
  const Signature mine(pending.shape);
  for (std::size_t member = 0; member < cursors_.size(); ++member) {
    const Slot& posted = slot(member);
    if (posted.signature != mine) compare_signatures(pending);
    in_[member] = posted.in;
    out_[member] = posted.out;
    consumed_by_all_ = std::min(consumed_by_all_, posted.consumed);
  }
  pending.joined = true;
  if (pending.is_inline) {
    if (shape_.elements != 0) pull(shape_, in_, rank(), pending.out);
    return;
  }
  cut_into_parts();
  if (!group_->enter(rank())) {
    if (all_parts_done()) return;  // by the others, before a later call of theirs failed
    throw_failure(pending.sequence, true);
  }
  work_on(rank());
  group_->leave(rank());
  help();
}

void LocalCommunicator::cut_into_parts() {
  const std::size_t touched = 2 * shape_.bytes() * static_cast<std::size_t>(size());
  streaming_ = touched >= group_->options.cache_bytes && !std::ranges::equal(in_, out_);
  const std::size_t block = elements_of_block();
  if (shape_.on_device) {  // one part of one block, the first member's: its launch
    std::ranges::fill(parts_, Part{0, 0});
    parts_[0] = {1, 1};
    return;
  }
  for (int part = 0; part < size(); ++part) {
    const std::size_t length = part_length(shape_, part);
    parts_[static_cast<std::size_t>(part)] = {length, static_cast<std::uint32_t>((length + block - 1) / block)};
  }
}

// Takes blocks of a part, as long as there are any, and does them. A closed part is done by its owner in one go.
void LocalCommunicator::work_on(int part) {
  Slot& owners = slot(static_cast<std::size_t>(part));
  const auto [length, blocks] = parts_[static_cast<std::size_t>(part)];
  const Addresses at{in_, out_, streaming_};
  if (owners.next_block.load(std::memory_order_relaxed) >= Slot::kClosed) {
    if (part != rank()) return;
    if (length != 0) work_on_part(shape_, at, part, 0, length);
    owners.blocks_done.store(blocks, std::memory_order_release);
    return;
  }
  const std::size_t block = elements_of_block();
  while (owners.next_block.load(std::memory_order_relaxed) < blocks) {
    const std::uint32_t taken = owners.next_block.fetch_add(1, std::memory_order_relaxed);
    if (taken >= blocks) return;
    if (shape_.on_device)
      launch();
    else
      work_on_part(shape_, at, part, taken * block, std::min(block, length - taken * block));
    owners.blocks_done.fetch_add(1, std::memory_order_acq_rel);
  }
}

bool LocalCommunicator::all_parts_done() const {
  for (std::size_t part = 0; part < parts_.size(); ++part)
    if (!is_done(part)) return false;
  return true;
}

// Looks once at all other parts for blocks that nobody has taken.
void LocalCommunicator::help() {
  bool open = false;
  for (int part = 0; part < size() && !open; ++part)
    open = part != rank() && slot(static_cast<std::size_t>(part)).next_block.load(std::memory_order_relaxed) <
                                 parts_[static_cast<std::size_t>(part)].blocks;
  if (!open || !group_->enter(rank())) return;
  for (int step = 1; step < size(); ++step) work_on((rank() + step) % size());
  group_->leave(rank());
}

void LocalCommunicator::finish(const Pending& pending) {
  if (pending.shape.on_device) return finish_launched(pending);
  advance();
}

void LocalCommunicator::advance() {
  for (Cursor& cursor : cursors_) cursor.advance();
  ++consumed_;
}

// ---- calls on memory of devices ----

// The whole call, which all have posted.
void LocalCommunicator::launch() {
  try {
    std::vector<DeviceCalls::Member> members;
    for (std::size_t member = 0; member < cursors_.size(); ++member) {
      const DevicePosting& posting = *slot(member).on_device;
      members.push_back({.device = posting.device, .in = in_[member], .out = out_[member], .ready = posting.ready});
    }
    slot(0).on_device->done = group_->lane->launch({.operation = shape_.operation,
                                                    .op = shape_.op,
                                                    .dtype = shape_.dtype,
                                                    .root = shape_.root,
                                                    .elements = shape_.elements,
                                                    .members = members});
  } catch (const std::exception& error) {
    group_->leave(rank());
    const std::string why =
        fmt::format("rank {} could not launch {}: {}", rank(), name_of(shape_.operation), error.what());
    group_->fail({.kind = Failure::Kind::peer, .message = why});
    follow_lane();  // a part of it may be under way
    told_ = true;
    throw RuntimeFailure(why);
  }
}

// The stream of who makes a blocking call follows at once. A Work keeps the mark: the stream at its wait does.
void LocalCommunicator::finish_launched(const Pending& pending) {
  const std::shared_ptr<const DeviceCalls::Mark> done = slot(0).on_device->done;
  const Device device = slot(static_cast<std::size_t>(rank())).on_device->device;
  advance();
  const auto holder =
      std::ranges::find_if(works_, [&](const LocalWork* work) { return work->contains(pending.sequence); });
  if (holder == works_.end()) return follow(device, *done);
  (*holder)->launched.push_back({device, done});
}

void LocalCommunicator::follow(Device device, const DeviceCalls::Mark& done) {
  try {
    device_calls().follow(device, caller_stream_, done);
  } catch (const std::exception& error) {
    const std::string why = fmt::format("{}, rank {}: its stream on {} cannot wait for a call: {}",
                                        describe(group_->identity), rank(), name_of(device), error.what());
    group_->fail({.kind = Failure::Kind::peer, .message = why});
    told_ = true;
    throw RuntimeFailure(why);
  }
}

void LocalCommunicator::follow(const Message& message) {
  if (message.done != nullptr) follow(message.call.device(), *message.done);
}

void LocalCommunicator::follow(const LocalWork& work) {
  for (const auto& [device, done] : work.launched) follow(device, *done);
  for (const auto& [channel, message] : work.messages)
    if (message->state.load(std::memory_order_acquire) == Message::State::complete) follow(*message);
}

// After this what the caller's stream does touches no buffer that a call of this group still uses.
void LocalCommunicator::follow_lane() noexcept {
  if (!device_) return;
  try {
    device_calls().follow(*device_, caller_stream_, *group_->lane->mark());
  } catch (const std::exception&) {
    // The runtime does nothing any more; whoever asks it next is told why.
  }
}

// ---- messages ----

bool LocalCommunicator::try_complete_message(Channel& channel, const std::shared_ptr<Message>& message) {
  const Message::State state = message->state.load(std::memory_order_acquire);
  if (state == Message::State::waiting) {
    watch(channel, message);
    return false;
  }
  if (state == Message::State::complete) return true;
  if (state == Message::State::withdrawn) throw_failure(kNoSequence, true);  // the group has failed before
  fail({.kind = message->broken ? Failure::Kind::peer : Failure::Kind::mismatch,
        .sequence = kNoSequence,
        .message = fmt::format("{}, rank {}: {}", describe(group_->identity), rank(), message->mismatch)});
}

void LocalCommunicator::complete_message(Channel& channel, const std::shared_ptr<Message>& message,
                                         Deadline& deadline) {
  const Call& call = message->call;
  const auto arrived = [&] { return message->state.load(std::memory_order_acquire) != Message::State::waiting; };
  wait_until(group_->policy, arrived, [&](Clock::time_point now) {
    watch(channel, message);
    if (!deadline.has_passed(now) || !channel.withdraw(message)) return;
    fail({Failure::Kind::timeout, kNoSequence,
          fmt::format("{}: waited {} for rank {}", place(call), milliseconds(deadline.limit()), call.root)});
  });
  (void)try_complete_message(channel, message);
}

// What a rank that waits for a message looks at now and then: one that cannot come any more is taken back.
void LocalCommunicator::watch(Channel& channel, const std::shared_ptr<Message>& message) {
  const Call& call = message->call;
  const bool left = call.root != rank() && group_->departed(call.root);
  if (!left && !group_->failed()) return;
  if (!channel.withdraw(message)) return;  // it is being moved: its state is about to change
  if (group_->failed()) throw_failure(kNoSequence, true);
  fail({Failure::Kind::peer, kNoSequence, fmt::format("{}: rank {} has left the group", place(call), call.root)});
}

// ---- pair exchanges ----

// Behind the meeting nothing can fail any more.
bool LocalCommunicator::try_complete_exchange(const Joined& joined) {
  PairExchangeSlot& exchange_slot = *joined.exchange_slot;
  switch (exchange_slot.state()) {
    case PairExchangeSlot::State::met:
      exchange_slot.work(joined.side, group_->policy);
      return exchange_slot.is_complete();
    case PairExchangeSlot::State::waiting:
      watch(joined);
      return false;
    case PairExchangeSlot::State::withdrawn:
      throw_failure(kNoSequence, true);  // the group has failed before
    case PairExchangeSlot::State::mismatched:
      break;
  }
  fail({.kind = Failure::Kind::mismatch,
        .sequence = kNoSequence,
        .message = fmt::format("{}: {}", place(joined), exchange_slot.mismatch())});
}

void LocalCommunicator::complete_exchange(const Joined& joined, Deadline& deadline) {
  const PairExchangeSlot& exchange_slot = *joined.exchange_slot;
  wait_until(
      group_->policy, [&] { return exchange_slot.state() != PairExchangeSlot::State::waiting; },
      [&](Clock::time_point now) {
        watch(joined);
        if (!deadline.has_passed(now) || !joined.place->withdraw(*joined.exchange_slot)) return;
        fail({Failure::Kind::timeout, kNoSequence,
              fmt::format("{}: waited {} for rank {}", place(joined), milliseconds(deadline.limit()), joined.peer)});
      });
  if (try_complete_exchange(joined)) return;
  wait_until(group_->policy, [&] { return exchange_slot.is_complete(); }, [](Clock::time_point) {});
}

// Takes it back, or makes it where it was met.
void LocalCommunicator::end_exchange(const Joined& joined) noexcept {
  PairExchangeSlot& exchange_slot = *joined.exchange_slot;
  if (joined.place->withdraw(*joined.exchange_slot)) return;
  wait_until(
      group_->policy, [&] { return exchange_slot.state() != PairExchangeSlot::State::waiting; },
      [](Clock::time_point) {});
  if (exchange_slot.state() != PairExchangeSlot::State::met) return;
  exchange_slot.work(joined.side, group_->policy);
  wait_until(group_->policy, [&] { return exchange_slot.is_complete(); }, [](Clock::time_point) {});
}

void LocalCommunicator::watch(const Joined& joined) {
  const bool left = group_->departed(joined.peer);
  if (!left && !group_->failed()) return;
  if (!joined.place->withdraw(*joined.exchange_slot)) return;  // it was met
  if (group_->failed()) throw_failure(kNoSequence, true);
  fail({Failure::Kind::peer, kNoSequence, fmt::format("{}: rank {} has left the group", place(joined), joined.peer)});
}

std::string LocalCommunicator::place(const Joined& joined) const {
  return fmt::format("pair exchange with {} on {}, rank {}", joined.peer, describe(group_->identity), rank());
}

// ---- failures ----

std::string LocalCommunicator::place(const Call& message) const {
  return fmt::format("{} on {}, rank {}", describe(message, size()), describe(group_->identity), rank());
}

std::string LocalCommunicator::place(const Pending& pending) const {
  return fmt::format("{} #{} on {}, rank {}", describe(Signature(pending.shape).call(size()), size()), pending.sequence,
                     describe(group_->identity), rank());
}

// What a rank that waits for a collective looks at now and then.
void LocalCommunicator::watch(const Pending& pending) {
  if (group_->failed()) {
    // A later call may have failed it, after the others completed this one.
    if (pending.joined ? all_parts_done() : all_arrived(pending)) return;
    throw_failure(pending.sequence, true);
  }
  if (pending.joined) return;
  compare_signatures(pending);
  if (!group_->anyone_departed()) return;
  std::vector<int> left;
  for (int member = 0; member < size(); ++member)
    // In this order: a member may have arrived just before it left.
    if (group_->departed(member) && !arrived(static_cast<std::size_t>(member), pending.sequence))
      left.push_back(member);
  if (!left.empty())
    fail({Failure::Kind::peer, pending.sequence,
          fmt::format("{}: rank {} has left the group", place(pending), fmt::join(left, ", "))});
}

void LocalCommunicator::time_out(const Pending& pending, const Deadline& deadline) {
  std::vector<int> missing;
  for (int member = 0; member < size(); ++member) {
    const auto index = static_cast<std::size_t>(member);
    if (!(pending.joined ? is_done(index) : arrived(index, pending.sequence))) missing.push_back(member);
  }
  if (missing.empty()) return;  // they have just come
  fail({Failure::Kind::timeout, pending.sequence,
        fmt::format("{}: waited {} for rank {}", place(pending), milliseconds(deadline.limit()),
                    fmt::join(missing, ", "))});
}

// Throws when this rank has given up a collective up to `sequence`.
void LocalCommunicator::refuse_given_up(std::uint64_t sequence) {
  if (consumed_ < sequence) throw_failure(kNoSequence, true);
}

void LocalCommunicator::fail(const Failure& failure) {
  group_->fail(failure);
  group_->await_nobody_inside(rank());
  follow_lane();
  told_ = true;
  if (failure.kind == Failure::Kind::mismatch) throw MismatchError(failure.message);
  if (failure.kind == Failure::Kind::timeout) throw TimeoutError(failure.message);
  throw PeerFailed(failure.message);
}

void LocalCommunicator::throw_failure(std::uint64_t sequence, bool had_arrived) {
  group_->await_nobody_inside(rank());
  follow_lane();
  const Failure failure = group_->failure();
  const bool same = failure.sequence == sequence && sequence != kNoSequence && !told_;
  told_ = true;
  if (same && failure.kind == Failure::Kind::mismatch) throw MismatchError(failure.message);
  if (same && had_arrived && failure.kind == Failure::Kind::timeout) throw TimeoutError(failure.message);
  throw PeerFailed(
      fmt::format("{}, rank {}: the group has failed: {}", describe(group_->identity), rank(), failure.message));
}

void LocalCommunicator::give_up(const std::string& why) noexcept {
  group_->fail({.kind = Failure::Kind::peer, .message = fmt::format("rank {} {}", rank(), why)});
  group_->await_nobody_inside(rank());
  pending_.clear();  // nor may this rank itself, completing a later call
  for (const LocalWork* work : works_)
    for (const auto& [channel, message] : work->messages)
      if (!channel->withdraw(message))
        wait_until(
            group_->policy, [&] { return message->state.load(std::memory_order_acquire) != Message::State::waiting; },
            [](Clock::time_point) {});
  follow_lane();
  for (const LocalWork* work : works_)
    if (work->joined) end_exchange(*work->joined);
}

// ---- LocalWork ----

bool LocalCommunicator::is_finished(const LocalWork& work) const {
  if (work.joined && !work.joined->exchange_slot->is_over()) return false;
  return work.last_collective <= consumed_ &&
         work.each_message([](Message::State state) { return state != Message::State::waiting; });
}

bool LocalCommunicator::is_complete(const LocalWork& work) const {
  if (work.joined && !work.joined->exchange_slot->is_complete()) return false;
  return work.last_collective <= consumed_ &&
         work.each_message([](Message::State state) { return state == Message::State::complete; });
}

LocalWork::~LocalWork() {
  if (communicator_ == nullptr) return;
  if (!complete_ && !communicator_->is_finished(*this)) {
    communicator_->give_up("dropped an unfinished call");
  } else if (device_calls != nullptr && !is_ordered_) {
    try {
      communicator_->follow(*this);
    } catch (const std::exception&) {
      // The group has failed; the next call says why.
    }
  }
  communicator_->detach(this);
}

bool LocalWork::is_reached() const {
  const auto is_done = [&](const auto& mark) { return mark == nullptr || device_calls->is_reached(*mark); };
  return device_calls == nullptr ||
         (std::ranges::all_of(launched, is_done, &Launched::done) &&
          std::ranges::all_of(messages, [&](const auto& entry) { return is_done(entry.second->done); }));
}

bool LocalWork::is_complete() {
  if (!complete_ && communicator_ == nullptr)
    throw PeerFailed(fmt::format("{}: the call is unfinished, and its communicator is gone", orphaned_));
  return complete_;
}

bool LocalWork::test() {
  if (!is_complete()) {
    bool all = communicator_->try_complete_until(last_collective);
    for (const auto& [channel, message] : messages) all = communicator_->try_complete_message(*channel, message) && all;
    if (joined) all = communicator_->try_complete_exchange(*joined) && all;
    complete_ = all;
  }
  if (!complete_ || !is_reached()) return false;
  return is_ordered_ = true;
}

void LocalWork::wait(Timeout timeout) {
  if (!is_complete()) {
    Deadline limit = communicator_->deadline(timeout);
    communicator_->complete_until(last_collective, limit);
    for (const auto& [channel, message] : messages) communicator_->complete_message(*channel, message, limit);
    if (joined) communicator_->complete_exchange(*joined, limit);
    complete_ = true;
  }
  // Also of a call that another has completed, or that was waited for in another stream.
  if (device_calls == nullptr || communicator_ == nullptr) return;
  communicator_->follow(*this);
  is_ordered_ = true;
}

}  // namespace

std::unique_ptr<Communicator> make_local_communicator(std::shared_ptr<LocalGroup> group, int member) {
  return std::make_unique<LocalCommunicator>(std::move(group), member);
}

}  // namespace plumbline::comm::local
