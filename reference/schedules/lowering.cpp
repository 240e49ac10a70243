// Our own order of sends and receives.
//
// Between two computations of a rank lies a gap: the sends of what was computed, and the receives of what will be. A
// gap's messages are posted together, and the rank goes on when all of them have met their counterparts. The ranks are
// followed through their rows, each as far as it can go. When none can, every rank is in a gap; those whose sends
// nobody receives yet are helped: the receive is posted in the gap in which the receiver is. What is left in the gaps
// then are receives only. Take, of all computations not yet done, one that depends on none of the others: what it needs
// has been computed, hence sent, hence received, so its rank goes on. So if nobody does, the computations wait for each
// other in a circle.
//
// Messages meet at one moment on both sides, and a gap's messages are written in the order in which they met; so two
// ranks have their messages of one direction in one order.
//
// Shapes come in a gap of their own in front, since a receive needs its shape. Where a receive would have to move
// forward, its shape is not there yet; then PyTorch's order, in which every receive follows its send, takes the shapes
// in as well.
#include "reference/schedules/lowering.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/lowering_parts.hpp"

namespace plumbline::schedules {
namespace {

using detail::Message;
using detail::Routes;

// Of each stage, the micro-batch whose forward is first.
std::vector<std::int32_t> first_forwards(const Schedule& schedule) {
  std::vector<std::int32_t> first(static_cast<std::size_t>(schedule.stages), kNoMicroBatch);
  for (const auto& actions : schedule.ranks)
    for (const Action& action : actions) {
      std::int32_t& micro_batch = first[static_cast<std::size_t>(action.stage)];
      if (action.kind == ActionKind::forward && micro_batch == kNoMicroBatch) micro_batch = action.micro_batch;
    }
  return first;
}

// Which messages have their shape sent ahead.
class Shapes {
 public:
  Shapes(const Schedule& schedule, Metadata metadata) : metadata_(metadata) {
    if (metadata == Metadata::once) first_ = first_forwards(schedule);
  }
  [[nodiscard]] bool any() const { return metadata_ != Metadata::none; }
  [[nodiscard]] bool ahead_of(const Message& message) const {
    if (!message.forward() || metadata_ == Metadata::none) return false;
    return metadata_ == Metadata::each || first_of(message.sender()) == message.micro_batch;
  }
  /// Whether the shape that is sent once comes ahead of the first receive.
  [[nodiscard]] bool in_order(const Routes& routes) const {
    for (std::int32_t stage = 1; stage < static_cast<std::int32_t>(first_.size()); ++stage)
      if (routes.rank_of(stage - 1) != routes.rank_of(stage) && first_of(stage - 1) != first_of(stage)) return false;
    return true;
  }

 private:
  [[nodiscard]] std::int32_t first_of(std::int32_t stage) const { return first_[static_cast<std::size_t>(stage)]; }

  Metadata metadata_;
  std::vector<std::int32_t> first_;  // by stage
};

Action metadata_of(Action message) {
  message.kind = is_send(message.kind) ? ActionKind::send_metadata : ActionKind::recv_metadata;
  return message;
}

// What is known of the messages into each stage: for each micro-batch, of its input, its gradient and its input's
// shape, whether it was sent, whether it is awaited, and when both came together.
class Meetings {
 public:
  Meetings(const Routes& routes, bool shapes)
      : routes_(routes), size_(routes.table_size()), entries_((shapes ? 3 : 2) * size_) {}

  [[nodiscard]] std::uint32_t& of(const Message& message, bool shape) {
    const std::size_t table = shape ? 2 * size_ : (message.forward() ? size_ : 0);
    return entries_[table + routes_.index(message)];
  }
  /// Of an action that sends or receives.
  [[nodiscard]] std::uint32_t when(const Action& action) {
    const bool shape = action.kind == ActionKind::send_metadata || action.kind == ActionKind::recv_metadata;
    return of(message_of(action), shape) / kStep;
  }
  void meet(std::uint32_t& entry) { entry |= kSent | kAwaited | (last_ += kStep); }

  static constexpr std::uint32_t kSent = 1, kAwaited = 2;

 private:
  static constexpr std::uint32_t kStep = 4;

  static Message message_of(const Action& action) {
    const bool forward = action.kind != ActionKind::send_backward && action.kind != ActionKind::recv_backward;
    const int direction = forward ? 1 : -1;
    return {.micro_batch = action.micro_batch,
            .direction = direction,
            .receiver = is_send(action.kind) ? action.stage + direction : action.stage};
  }

  const Routes& routes_;
  std::size_t size_;  // of a table
  std::vector<std::uint32_t> entries_;
  std::uint32_t last_ = 0;
};

// Follows the ranks through their rows.
template <bool kHasShapes>
class Follower {
 public:
  Follower(const Schedule& schedule, std::span<const std::size_t> sizes, const Shapes& shapes)
      : result_(detail::with_empty_rows(schedule)),
        routes_(schedule),
        shapes_(shapes),
        meetings_(routes_, kHasShapes),
        ranks_(schedule.ranks.size()) {
    going_.reserve(ranks_.size());
    for (std::size_t number = 0; number < sizes.size(); ++number) {
      result_.ranks[number].reserve(sizes[number]);
      const std::vector<Action>& row = schedule.ranks[number];
      Rank& rank = ranks_[number];
      rank.next = rank.last = rank.last_end = row.data();
      rank.end = row.data() + row.size();
      rank.out = &result_.ranks[number];
    }
  }

  /// Nothing where a receive would have to move in front of its shape.
  std::optional<Schedule> run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].skip_idle();
      ranks_[rank].at_shapes = kHasShapes;
      post(rank);
      if (ranks_[rank].unmet == 0) going_.push_back(static_cast<std::uint32_t>(rank));
    }
    while (true) {
      while (!going_.empty()) {
        const std::size_t rank = going_.back();
        going_.pop_back();
        go_on(rank);
      }
      if (finished_ == ranks_.size()) break;
      if (kHasShapes) return std::nullopt;
      if (!help()) refuse();
    }
    for (Rank& rank : ranks_) close_gap(rank);
    return std::move(result_);
  }

 private:
  struct Rank {
    const Action* next = nullptr;  // what it computes next
    const Action* end = nullptr;   // of its row
    const Action* last = nullptr;  // what it computed last
    const Action* last_end = nullptr;
    std::uint32_t sends = 0, receives = 0;  // of the gap, at the end of `out`
    std::uint32_t unmet = 0;                // those of them that have not met their counterparts
    std::vector<Action>* out = nullptr;
    bool at_shapes = false;  // whether the gap is of shapes, and the messages are still to be posted
    bool helpless = false;   // whether it is among those that may need help

    void skip_idle() {
      while (next != end && next->kind == ActionKind::idle) ++next;
    }
  };

  [[nodiscard]] static bool at_shapes(const Rank& rank) { return kHasShapes && rank.at_shapes; }

  // From a gap whose messages have all met to one where some have not.
  void go_on(std::size_t number) {
    Rank& rank = ranks_[number];
    while (rank.unmet == 0) {
      if (!at_shapes(rank) && rank.next == rank.end) {
        ++finished_;
        return;
      }
      close_gap(rank);
      if (!at_shapes(rank)) compute(rank);
      rank.sends = rank.receives = 0;
      rank.at_shapes = kHasShapes && !rank.at_shapes;
      post(number);
    }
  }

  static void compute(Rank& rank) {
    rank.last = rank.next;
    rank.last_end = rank.next = detail::end_of_group(rank.last, rank.end);
    for (const Action* action = rank.last; action != rank.last_end; ++action) rank.out->push_back(*action);
    rank.skip_idle();
  }

  // The gap's shapes or messages, at what it is.
  void post(std::size_t number) {
    Rank& rank = ranks_[number];
    for (const Action* action = rank.last; action != rank.last_end; ++action)
      if (const Message message = routes_.made_by(*action)) post_send(number, message);
    if (rank.unmet > 0 && !std::exchange(rank.helpless, true)) helpless_.push_back(static_cast<std::uint32_t>(number));
    if (rank.next == rank.end) return;
    const Action* const next_end = detail::end_of_group(rank.next, rank.end);
    for (const Action* action = rank.next; action != next_end; ++action)
      if (const Message message = routes_.needed_by(*action)) post_receive(number, message);
    detail::prepare_to_write(std::to_address(rank.out->end()));
    detail::prepare_to_read(rank.next);
  }

  void post_send(std::size_t number, const Message& message) {
    Rank& rank = ranks_[number];
    const std::size_t receiver = routes_.rank_of(message.receiver);
    const bool stays = receiver == number;
    if (at_shapes(rank) && (stays || !shapes_.ahead_of(message))) return;
    std::uint32_t& entry = meetings_.of(message, at_shapes(rank));
    if ((entry & Meetings::kSent) != 0)
      throw InvalidArgument(fmt::format("lowering: what {} sends is made twice", to_string(message.send())));
    entry |= Meetings::kSent;
    if (stays) return;
    rank.out->push_back(at_shapes(rank) ? metadata_of(message.send()) : message.send());
    ++rank.sends;
    if ((entry & Meetings::kAwaited) == 0)
      ++rank.unmet;
    else
      meet(entry, receiver);
  }

  // What stays on the rank must be there: what is not will never be, so the rank stays in this gap.
  void post_receive(std::size_t number, const Message& message) {
    Rank& rank = ranks_[number];
    const std::size_t sender = routes_.rank_of(message.sender());
    const bool stays = sender == number;
    if (at_shapes(rank) && (stays || !shapes_.ahead_of(message))) return;
    std::uint32_t& entry = meetings_.of(message, at_shapes(rank));
    if (stays) {
      if ((entry & Meetings::kSent) == 0) ++rank.unmet;
      return;
    }
    if ((entry & Meetings::kAwaited) != 0) return;  // it moved forward
    entry |= Meetings::kAwaited;
    rank.out->push_back(at_shapes(rank) ? metadata_of(message.recv()) : message.recv());
    ++rank.receives;
    if ((entry & Meetings::kSent) == 0)
      ++rank.unmet;
    else
      meet(entry, sender);
  }

  // `waiting` is the rank that posted first.
  void meet(std::uint32_t& entry, std::size_t waiting) {
    meetings_.meet(entry);
    if (--ranks_[waiting].unmet == 0) going_.push_back(static_cast<std::uint32_t>(waiting));
  }

  // Sends that nobody awaits are received now. Whether there were any.
  bool help() {
    bool helped = false;
    for (const std::size_t number : helpless_) {
      ranks_[number].helpless = false;
      for (const Action& action : std::span(ranks_[number].last, ranks_[number].last_end)) {
        const Message message = routes_.made_by(action);
        if (!message || routes_.stays(message)) continue;
        std::uint32_t& entry = meetings_.of(message, false);
        if ((entry & Meetings::kAwaited) != 0) continue;
        Rank& receiver = ranks_[routes_.rank_of(message.receiver)];
        receiver.out->push_back(message.recv());
        ++receiver.receives;
        meet(entry, number);
        helped = true;
      }
    }
    helpless_.clear();
    return helped;
  }

  // Joins the gap's messages. Sends are in front; several of them, or several receives, are put in the order in which
  // they met.
  void close_gap(Rank& rank) {
    const std::size_t count = rank.sends + rank.receives;
    if (count < 2) return;
    const auto end = rank.out->end();
    if (count > 2 || rank.sends != 1) put_in_order(rank);
    for (auto message = end - static_cast<std::ptrdiff_t>(count); message + 1 != end; ++message) message->joined = true;
  }
  void put_in_order(const Rank& rank) {
    const auto when = [this](const Action& action) { return meetings_.when(action); };
    const std::span<Action> messages = std::span(*rank.out).last(rank.sends + rank.receives);
    std::ranges::sort(messages.first(rank.sends), {}, when);
    std::ranges::sort(messages.last(rank.receives), {}, when);
  }

  [[noreturn]] void refuse() const {
    std::vector<detail::Waiting> waiting;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].next != ranks_[rank].end) waiting.push_back({.rank = rank, .action = *ranks_[rank].next});
    detail::refuse_circle(waiting);
  }

  Schedule result_;
  Routes routes_;
  const Shapes& shapes_;
  Meetings meetings_;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> going_;     // ranks whose gap has met
  std::vector<std::uint32_t> helpless_;  // ranks that had sends which nobody awaited, when they posted them; once each
  std::size_t finished_ = 0;
};

// PyTorch's order, each message with its shape in front of it.
Schedule with_shapes_in_front(const Schedule& schedule, const Shapes& shapes) {
  Schedule result = add_send_recv(schedule);
  for (std::vector<Action>& actions : result.ranks) {
    std::vector<Action> row;
    row.reserve(2 * actions.size());
    for (const Action& action : actions) {
      const bool sends = action.kind == ActionKind::send_forward;
      if (sends || action.kind == ActionKind::recv_forward) {
        const Message message{
            .micro_batch = action.micro_batch, .direction = 1, .receiver = action.stage + (sends ? 1 : 0)};
        if (shapes.ahead_of(message)) row.push_back(metadata_of(action));
      }
      row.push_back(action);
    }
    actions = std::move(row);
  }
  return result;
}

}  // namespace

Schedule lower(const Schedule& schedule, Metadata metadata) {
  const std::vector<std::size_t> sizes = detail::lowered_sizes(schedule);
  const Shapes shapes(schedule, metadata);
  if (!shapes.any()) return *Follower<false>(schedule, sizes, shapes).run();
  if (shapes.in_order(Routes(schedule)))
    if (auto lowered = Follower<true>(schedule, sizes, shapes).run()) return *std::move(lowered);
  return with_shapes_in_front(schedule, shapes);
}

}  // namespace plumbline::schedules
