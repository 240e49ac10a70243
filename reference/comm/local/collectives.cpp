// The collectives of one rank.
#include "reference/comm/local/collectives.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local/parts.hpp"

namespace plumbline::comm::local {

Collectives::Collectives(Endpoint& self)
    : self_(self),
      group_(*self.group),
      stream_(group_.stream(self.rank)),
      in_(static_cast<std::size_t>(self.size())),
      out_(in_.size()),
      parts_(in_.size()) {
  for (int other = 0; other < self_.size(); ++other) cursors_.push_back(group_.stream(other).begin());
}

void Collectives::run(const Call& call, Timeout timeout) {
  Pending pending = post(call, Shape::of(call, self_.size()), true);
  Deadline limit = self_.deadline(timeout);
  complete_last(pending, limit);
}

void Collectives::run_scaled(const Call& call, const Call& products, Timeout timeout) {
  Shape shape = Shape::of(products, self_.size());
  shape.scaled = call.dtype();
  Pending pending = post(products, shape, true);
  Deadline limit = self_.deadline(timeout);
  complete_last(pending, limit);
}

// The newest, and first all that were started before it.
void Collectives::complete_last(Pending& pending, Deadline& deadline) {
  if (!pending_.empty()) complete_until(pending.sequence - 1, deadline);
  complete(pending, deadline);
}

std::uint64_t Collectives::start(const Call& call, std::vector<Launched>& launched) {
  Pending& pending = pending_.emplace_back(post(call, Shape::of(call, self_.size()), false));
  pending.launched = &launched;
  return pending.sequence;
}

// ---- posting ----

Collectives::Pending Collectives::post(const Call& call, const Shape& shape, bool blocking) {
  if (group_.failed()) self_.throw_failure(stream_.published() + 1, false);
  const std::size_t given = shape.given_bytes();
  const bool is_inline = !shape.on_device && given <= group_.options.inline_bytes;
  // First: a runtime that refuses refuses before anything is posted.
  const auto ready = shape.on_device ? self_.mark(call.device()) : nullptr;
  Slot& mine = stream_.next_slot(consumed_by_all_);
  mine.signature = Signature(shape);
  mine.consumed = consumed_;
  mine.in = nullptr;
  mine.out = call.uses_out(self_.rank) ? static_cast<std::byte*>(call.out.data) : nullptr;
  if (shape.gives(self_.rank))
    mine.in = static_cast<const std::byte*>(call.operation == Operation::broadcast ? call.out.data : call.in.data);
  if (is_inline) {
    post_payload(mine, given);
  } else {
    // A rank that has gone on, or is not running, leaves its part to others; else each part is warmest at its owner.
    const bool open = shape.on_device || !blocking || self_.size() > group_.options.cores ||
                      shape.bytes() >= group_.options.block_bytes;
    mine.next_block.store(open ? 0 : Slot::kClosed, std::memory_order_relaxed);
    mine.blocks_done.store(0, std::memory_order_relaxed);
  }
  if (shape.on_device) {
    mine.on_device = &group_.device_posting(self_.rank, consumed_by_all_);
    *mine.on_device = {.sequence = stream_.published() + 1, .device = call.device(), .ready = ready};
  }
  return {shape, mine.out, stream_.publish(), is_inline};
}

// What a small call gives travels in its posting.
void Collectives::post_payload(Slot& mine, std::size_t given) {
  if (mine.in == nullptr) return;
  std::byte* payload = given <= mine.line.size() ? mine.line.data() : stream_.payload();
  std::memcpy(payload, mine.in, given);
  mine.in = payload;
}

// ---- completing ----

void Collectives::complete_until(std::uint64_t sequence, Deadline& deadline) {
  while (!pending_.empty() && pending_.front().sequence <= sequence) {
    complete(pending_.front(), deadline);
    pending_.pop_front();
  }
  refuse_given_up(sequence);
}

bool Collectives::try_complete_until(std::uint64_t sequence) {
  while (!pending_.empty() && pending_.front().sequence <= sequence) {
    if (!try_complete(pending_.front())) return false;
    pending_.pop_front();
  }
  refuse_given_up(sequence);
  return true;
}

void Collectives::complete(Pending& pending, Deadline& deadline) {
  if (!pending.joined) {
    await_arrivals(pending, deadline);
    join(pending);
  }
  if (!pending.is_inline) {
    wait_until(
        group_.policy,
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

bool Collectives::try_complete(Pending& pending) {
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

bool Collectives::all_arrived(const Pending& pending) const {
  for (std::size_t member = 0; member < cursors_.size(); ++member)
    if (!arrived(member, pending.sequence)) return false;
  return true;
}

void Collectives::await_arrivals(const Pending& pending, Deadline& deadline) {
  for (std::size_t member = 0; member < cursors_.size(); ++member) {
    if (arrived(member, pending.sequence)) continue;
    wait_until(
        group_.policy, [&] { return arrived(member, pending.sequence); },
        [&](Clock::time_point now) {
          watch(pending);
          if (deadline.has_passed(now)) time_out(pending, deadline);
        },
        [&] {
          const int core = group_.note_core(self_.rank);
          for (std::size_t other = member; other < cursors_.size(); ++other)
            if (group_.last_core(static_cast<int>(other)) == core && !arrived(other, pending.sequence)) return false;
          return true;
        });
  }
}

void Collectives::compare_signatures(const Pending& pending) {
  const Signature mine = slot(static_cast<std::size_t>(self_.rank)).signature;
  for (std::size_t member = 0; member < cursors_.size(); ++member) {
    if (!arrived(member, pending.sequence) || slot(member).signature == mine) continue;
    std::string calls;
    for (std::size_t other = 0; other < cursors_.size(); ++other) {
      std::string made = "has not arrived yet";
      if (arrived(other, pending.sequence)) {
        const Signature theirs = slot(other).signature;
        made = theirs.describe(self_.size());
        if (group_.lane != nullptr) made += theirs.on_device() ? " in memory of a device" : " in memory of the host";
      }
      calls += fmt::format("{}rank {}: {}", other == 0 ? "" : "; ", other, made);
    }
    self_.fail({.kind = Failure::Kind::mismatch,
                .sequence = pending.sequence,
                .message = fmt::format("call #{} on {}: the ranks disagree: {}", pending.sequence,
                                       describe(group_.identity), calls)});
  }
}

void Collectives::join(Pending& pending) {
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
    if (shape_.elements != 0) pull(shape_, in_, self_.rank, pending.out);
    return;
  }
  cut_into_parts();
  if (!group_.enter(self_.rank)) {
    if (all_parts_done()) return;  // by the others, before a later call of theirs failed
    self_.throw_failure(pending.sequence, true);
  }
  work_on(self_.rank);
  group_.leave(self_.rank);
  help();
}

void Collectives::cut_into_parts() {
  const std::size_t touched = 2 * shape_.bytes() * static_cast<std::size_t>(self_.size());
  streaming_ = touched >= group_.options.cache_bytes && !std::ranges::equal(in_, out_);
  const std::size_t block = elements_of_block();
  if (shape_.on_device) {  // one part of one block, the first member's: its launch
    std::ranges::fill(parts_, Part{0, 0});
    parts_[0] = {1, 1};
    return;
  }
  for (int part = 0; part < self_.size(); ++part) {
    const std::size_t length = part_length(shape_, part);
    parts_[static_cast<std::size_t>(part)] = {length, static_cast<std::uint32_t>((length + block - 1) / block)};
  }
}

// Takes blocks of a part, as long as there are any, and does them. A closed part is done by its owner in one go.
void Collectives::work_on(int part) {
  Slot& owners = slot(static_cast<std::size_t>(part));
  const auto [length, blocks] = parts_[static_cast<std::size_t>(part)];
  const Addresses at{in_, out_, streaming_};
  if (owners.next_block.load(std::memory_order_relaxed) >= Slot::kClosed) {
    if (part != self_.rank) return;
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

bool Collectives::all_parts_done() const {
  for (std::size_t part = 0; part < parts_.size(); ++part)
    if (!is_done(part)) return false;
  return true;
}

// Looks once at all other parts for blocks that nobody has taken.
void Collectives::help() {
  bool open = false;
  for (int part = 0; part < self_.size() && !open; ++part)
    open = part != self_.rank && slot(static_cast<std::size_t>(part)).next_block.load(std::memory_order_relaxed) <
                                     parts_[static_cast<std::size_t>(part)].blocks;
  if (!open || !group_.enter(self_.rank)) return;
  for (int step = 1; step < self_.size(); ++step) work_on((self_.rank + step) % self_.size());
  group_.leave(self_.rank);
}

void Collectives::finish(const Pending& pending) {
  if (pending.shape.on_device) return finish_launched(pending);
  advance();
}

void Collectives::advance() {
  for (Cursor& cursor : cursors_) cursor.advance();
  ++consumed_;
}

// ---- failures ----

std::string Collectives::describe_call(const Pending& pending) const {
  return fmt::format("{} #{} on {}", Signature(pending.shape).describe(self_.size()), pending.sequence, self_.name());
}

// What a rank that waits for a collective looks at now and then.
void Collectives::watch(const Pending& pending) {
  if (group_.failed()) {
    // A later call may have failed it, after the others completed this one.
    if (pending.joined ? all_parts_done() : all_arrived(pending)) return;
    self_.throw_failure(pending.sequence, true);
  }
  if (pending.joined) return;
  compare_signatures(pending);
  if (!group_.anyone_departed()) return;
  std::vector<int> left;
  for (int member = 0; member < self_.size(); ++member)
    // In this order: a member may have arrived just before it left.
    if (group_.departed(member) && !arrived(static_cast<std::size_t>(member), pending.sequence)) left.push_back(member);
  if (!left.empty()) self_.fail_deserted(describe_call(pending), pending.sequence, left);
}

void Collectives::time_out(const Pending& pending, const Deadline& deadline) {
  std::vector<int> missing;
  for (int member = 0; member < self_.size(); ++member) {
    const auto index = static_cast<std::size_t>(member);
    if (!(pending.joined ? is_done(index) : arrived(index, pending.sequence))) missing.push_back(member);
  }
  if (missing.empty()) return;  // they have just come
  self_.fail_late(describe_call(pending), pending.sequence, deadline, missing);
}

// Throws when this rank has given up a collective up to `sequence`.
void Collectives::refuse_given_up(std::uint64_t sequence) {
  if (consumed_ < sequence) self_.throw_failure(kNoSequence, true);
}

}  // namespace plumbline::comm::local
