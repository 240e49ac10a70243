// Our own order of sends and receives.
//
// Between two computations of a rank lies a gap: the sends of what was computed, and the receives of what will be. A
// gap's messages are posted together, and the rank continues when all of them have met their counterparts. The ranks
// are followed through their rows, each as far as it can go. When none can, every rank is in a gap; those whose sends
// nobody receives yet are helped: the receive is posted in the gap in which the receiver is. What is left in the gaps
// then are receives only. Take, of all computations not yet done, one that depends on none of the others: what it needs
// has been computed, hence sent, hence received, so its rank continues. So if no rank does, the computations wait for
// each other in a cycle.
//
// Messages meet at one moment on both sides, and a gap's messages are written in the order in which they met; so two
// ranks have their messages of one direction in one order.
//
// Shapes come in a gap of their own in front, since a receive needs its shape. Where a receive would have to move
// forward, its shape is not there yet; then PyTorch's order, in which every receive follows its send, takes the shapes
// in as well.
#include "reference/schedules/lowering.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/lowering_parts.hpp"

namespace plumbline::schedules {
namespace {

// Of each stage, the micro-batch whose forward is first.
std::vector<std::int32_t> first_forwards(const Schedule& schedule) {
  std::vector<std::int32_t> first(static_cast<std::size_t>(schedule.stages), kNoMicroBatch);
  for (const auto& actions : schedule.ranks)
    for (const Action& action : actions) {
      if (action.kind != ActionKind::forward) continue;
      std::int32_t& micro_batch = first[static_cast<std::size_t>(action.stage)];
      if (micro_batch == kNoMicroBatch) micro_batch = action.micro_batch;
    }
  return first;
}

// Which outputs have their shape sent ahead.
class Shapes {
 public:
  Shapes(const Schedule& schedule, Metadata metadata) : metadata_(metadata) {
    if (metadata == Metadata::once) first_ = first_forwards(schedule);
  }
  [[nodiscard]] bool any() const { return metadata_ != Metadata::none; }
  [[nodiscard]] bool ahead_of(std::int32_t sender, std::int32_t micro_batch) const {
    if (metadata_ == Metadata::once) return first_[static_cast<std::size_t>(sender)] == micro_batch;
    return metadata_ == Metadata::each;
  }

 private:
  Metadata metadata_;
  std::vector<std::int32_t> first_;  // by stage
};

Action metadata_of(Action message) {
  message.kind = is_send(message.kind) ? ActionKind::send_metadata : ActionKind::recv_metadata;
  return message;
}

// What is known of a message: whether it was sent, whether it is awaited, and of those that met, which met first.
class Meeting {
 public:
  [[nodiscard]] bool sent() const { return (bits_ & kSent) != 0; }
  [[nodiscard]] bool awaited() const { return (bits_ & kAwaited) != 0; }
  [[nodiscard]] std::uint32_t order() const { return bits_; }  // of two that met, that of the earlier one is less
  void send() { bits_ |= kSent; }
  void await() { bits_ |= kAwaited; }
  void meet(std::uint32_t number) { bits_ = kSent | kAwaited | number * kStep; }

 private:
  static constexpr std::uint32_t kSent = 1, kAwaited = 2, kStep = 4;

  std::uint32_t bits_ = 0;
};

// What a computation makes for a neighbouring stage, or needs from it.
struct Way {
  Meeting* meetings = nullptr;  // by micro-batch; none where there is no neighbour
  Action message;               // of the computation's rank, for no micro-batch
  std::int32_t rank = 0;        // of the neighbour
};
struct alignas(64) Needs {  // found by a shift
  Way made, needed;
};

// The ways of each stage, and what is known of all messages: of inputs, of gradients, and of the inputs' shapes.
class Ways {
 public:
  Ways(const Schedule& schedule, bool shapes) : stages_(static_cast<std::size_t>(schedule.stages)) {
    const std::size_t stride = detail::stage_stride(static_cast<std::size_t>(schedule.micro_batches));
    const std::size_t all = stages_.size() * stride;
    meetings_.resize((shapes ? 3 : 2) * all);
    to_shapes_ = 2 * all;
    for (std::size_t i = 1; i < stages_.size(); ++i) {
      auto &stage = stages_[i], &before = stages_[i - 1];
      const auto number = static_cast<std::int32_t>(i);
      const Message output{.micro_batch = kNoMicroBatch, .direction = 1, .receiver = number},
          gradient{.micro_batch = kNoMicroBatch, .direction = -1, .receiver = number - 1};
      const auto way = [&](std::size_t table, const Action& message) -> Way {
        return {.meetings = &meetings_[table + i * stride],
                .message = message,
                .rank = schedule.stage_to_rank[static_cast<std::size_t>(peer_stage(message))]};
      };
      before[kForward].made = way(0, output.send());
      stage[kForward].needed = way(0, output.recv());
      stage[kBackward].made = way(all, gradient.send());
      before[kBackward].needed = way(all, gradient.recv());
    }
  }
  /// What the action makes for other stages and needs of them, on whichever rank.
  [[nodiscard]] const Needs& of(const Action& action) const {
    static constexpr std::array<Direction, 16> kDirections = {kNone, kForward, kBackward, kBackward};
    const Direction direction = kDirections[static_cast<std::size_t>(action.kind)];
    const std::int32_t stage = direction == kNone ? 0 : action.stage;  // an idle cell has none
    return stages_[static_cast<std::size_t>(stage)][direction];
  }
  [[nodiscard]] Meeting& meeting(const Way& way, std::int32_t micro_batch, bool of_shape) const {
    return way.meetings[static_cast<std::size_t>(micro_batch) + (of_shape ? to_shapes_ : 0)];
  }
  /// Of an action that sends or receives.
  [[nodiscard]] const Way& of_message(const Action& message) const {
    const Direction direction = direction_of_message(message.kind) > 0 ? kForward : kBackward;
    const Needs& needs = stages_[static_cast<std::size_t>(message.stage)][direction];
    return is_send(message.kind) ? needs.made : needs.needed;
  }

 private:
  enum Direction : std::uint8_t { kNone, kForward, kBackward };

  std::vector<std::array<Needs, 4>> stages_;  // by direction; the last stays empty
  std::vector<Meeting> meetings_;
  std::size_t to_shapes_ = 0;  // from the entry of an input to that of its shape
};

Action message_of(const Way& way, const Action& computation) {
  Action message = way.message;
  message.micro_batch = computation.micro_batch;
  return message;
}

[[noreturn]] void refuse_made_twice(const Action& send) {
  throw InvalidArgument(fmt::format("lowering: what {} sends is made twice", to_string(send)));
}
void refuse_made_twice(const Schedule& schedule) {
  const Ways ways(schedule, false);
  for (const auto& actions : schedule.ranks)
    for (const Action& action : actions)
      if (const Way& way = ways.of(action).made; way.meetings != nullptr) {
        Meeting& meeting = ways.meeting(way, action.micro_batch, false);
        if (meeting.sent()) refuse_made_twice(message_of(way, action));
        meeting.send();
      }
}

// Follows the ranks through their rows.
template <bool kHasShapes>
class Follower {
 public:
  Follower(const Schedule& schedule, std::span<const std::size_t> sizes, const Shapes& shapes)
      : result_(detail::with_empty_rows(schedule)),
        shapes_(shapes),
        ways_(schedule, kHasShapes),
        ranks_(schedule.ranks.size()) {
    going_.reserve(ranks_.size());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      result_.ranks[i].reserve(sizes[i]);
      const std::vector<Action>& row = schedule.ranks[i];
      Rank& rank = ranks_[i];
      rank.number = static_cast<std::int32_t>(i);
      rank.last = rank.next = rank.next_end = row.data();
      rank.end = row.data() + row.size();
      rank.out = &result_.ranks[i];
      going_.push_back(&rank);
    }
  }

  /// Nothing where a receive would have to move in front of its shape.
  std::optional<Schedule> run() {
    while (true) {
      while (!going_.empty()) {
        Rank& rank = *going_.back();
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
    const Action* last = nullptr;  // what it computed last; idle cells may be in between
    const Action* next = nullptr;  // what it computes next: at first nothing
    const Action* next_end = nullptr;
    const Action* end = nullptr;   // of its row
    const Needs* needs = nullptr;  // of what its last messages were for, where that is one computation
    std::vector<Action>* out = nullptr;
    std::uint32_t sends = 0, receives = 0;  // of the gap, at the end of `out`
    std::uint32_t unmet = 0;                // those of them that have not met their counterparts
    std::int32_t number = 0;
    bool at_shapes = false;  // whether the gap is of shapes, and the messages are still to be posted
    bool helpless = false;   // whether it is among those that may need help
  };

  [[nodiscard]] static bool at_shapes(const Rank& rank) { return kHasShapes && rank.at_shapes; }

  // From a gap whose messages have all met to one where some have not.
  void go_on(Rank& rank) {
    while (rank.unmet == 0) {
      if (!at_shapes(rank) && rank.next == rank.end) {
        ++finished_;
        return;
      }
      close_gap(rank);
      if (!at_shapes(rank)) compute(rank);
      rank.sends = rank.receives = 0;
      rank.at_shapes = kHasShapes && !rank.at_shapes;
      post_sends(rank);
      post_receives(rank);
    }
  }

  static void compute(Rank& rank) {
    for (const Action& action : std::span(rank.next, rank.next_end)) rank.out->push_back(action);
    rank.last = std::exchange(rank.next, rank.next_end);
    while (rank.next != rank.end && rank.next->kind == ActionKind::idle) ++rank.next;
    rank.next_end = rank.next == rank.end ? rank.end : detail::end_of_group(rank.next, rank.end);
  }

  // Of the gap's shapes or messages, at what it is: the sends,
  void post_sends(Rank& rank) {
    const auto post = [&](const Way& way, const Action& action) {
      if (way.meetings != nullptr) post_send(rank, way, action);
    };
    if (rank.needs != nullptr)
      post(rank.needs->made, *rank.last);
    else
      for (const Action& action : std::span(rank.last, rank.next)) post(ways_.of(action).made, action);
    if (rank.unmet > 0 && !std::exchange(rank.helpless, true)) helpless_.push_back(&rank);
  }
  // and the receives.
  void post_receives(Rank& rank) {
    const auto post = [&](const Way& way, const Action& action) {
      if (way.meetings != nullptr) post_receive(rank, way, action);
    };
    const Needs* needs = nullptr;
    if (rank.next_end - rank.next == 1) {
      needs = &ways_.of(*rank.next);
      post(needs->needed, *rank.next);
    } else {
      for (const Action& action : std::span(rank.next, rank.next_end)) post(ways_.of(action).needed, action);
    }
    if (!at_shapes(rank)) rank.needs = needs;
    detail::prepare_to_write(std::to_address(rank.out->end()));
    detail::prepare_to_read(rank.next);
  }

  void post_send(Rank& rank, const Way& way, const Action& computation) {
    const bool stays = way.rank == rank.number;
    if (at_shapes(rank) && (stays || !has_shape(way, computation))) return;
    Meeting& meeting = ways_.meeting(way, computation.micro_batch, at_shapes(rank));
    if (meeting.sent()) refuse_made_twice(message_of(way, computation));
    meeting.send();
    if (stays) return;
    append(rank, message_of(way, computation));
    ++rank.sends;
    if (meeting.awaited())
      meet(meeting, way.rank);
    else
      ++rank.unmet;
  }

  // What stays on the rank must be there: what is not will never be, so the rank stays in this gap.
  void post_receive(Rank& rank, const Way& way, const Action& computation) {
    const bool stays = way.rank == rank.number;
    if (at_shapes(rank) && (stays || !has_shape(way, computation))) return;
    Meeting& meeting = ways_.meeting(way, computation.micro_batch, at_shapes(rank));
    if (stays) {
      if (!meeting.sent()) ++rank.unmet;
      return;
    }
    if (meeting.awaited()) return;  // it moved forward
    meeting.await();
    append(rank, message_of(way, computation));
    ++rank.receives;
    if (meeting.sent())
      meet(meeting, way.rank);
    else
      ++rank.unmet;
  }

  static void append(Rank& rank, const Action& message) {
    rank.out->push_back(at_shapes(rank) ? metadata_of(message) : message);
  }
  [[nodiscard]] bool has_shape(const Way& way, const Action& computation) const {
    if (way.message.kind == ActionKind::send_forward)
      return shapes_.ahead_of(computation.stage, computation.micro_batch);
    return way.message.kind == ActionKind::recv_forward &&
           shapes_.ahead_of(computation.stage - 1, computation.micro_batch);
  }

  // `waiting` is the rank that posted first.
  void meet(Meeting& meeting, std::int32_t waiting) {
    meeting.meet(++meetings_);
    Rank& rank = ranks_[static_cast<std::size_t>(waiting)];
    if (--rank.unmet == 0) going_.push_back(&rank);
  }

  // Sends that nobody awaits are received now. Whether there were any.
  bool help() {
    bool helped = false;
    for (Rank* const rank : helpless_) {
      rank->helpless = false;
      for (std::size_t i = rank->out->size() - rank->sends - rank->receives, end = i + rank->sends; i < end; ++i) {
        const Action sent = (*rank->out)[i];
        const Way& way = ways_.of_message(sent);
        Meeting& meeting = ways_.meeting(way, sent.micro_batch, false);
        if (meeting.awaited()) continue;
        Rank& receiver = ranks_[static_cast<std::size_t>(way.rank)];
        receiver.out->push_back(partner_of(sent));
        ++receiver.receives;
        meet(meeting, rank->number);
        helped = true;
      }
    }
    helpless_.clear();
    return helped;
  }

  // Joins the gap's messages. Sends are in front; several of them, or several receives, are put in the order in which
  // they met.
  void close_gap(Rank& rank) {
    const std::uint32_t count = rank.sends + rank.receives;
    if (count < 2) return;
    Action* const last = &rank.out->back();
    if (rank.sends > 1 || rank.receives > 1) put_in_order(rank);
    for (Action* message = last - (count - 1); message != last; ++message) message->joined = true;
  }
  void put_in_order(const Rank& rank) {
    const auto order = [&](const Action& message) {
      return ways_.meeting(ways_.of_message(message), message.micro_batch, at_shapes(rank)).order();
    };
    const std::span<Action> messages = std::span(*rank.out).last(rank.sends + rank.receives);
    std::ranges::sort(messages.first(rank.sends), {}, order);
    std::ranges::sort(messages.last(rank.receives), {}, order);
  }

  [[noreturn]] void refuse() const {
    std::vector<detail::Waiting> waiting;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].next != ranks_[rank].end) waiting.push_back({.rank = rank, .action = *ranks_[rank].next});
    detail::refuse_cycle(waiting);
  }

  Schedule result_;
  const Shapes& shapes_;
  Ways ways_;
  std::vector<Rank> ranks_;
  std::vector<Rank*> going_;     // those whose gap has met
  std::vector<Rank*> helpless_;  // those that had sends which nobody awaited, when they posted them; once each
  std::uint32_t meetings_ = 0;   // so far
  std::size_t finished_ = 0;
};

// PyTorch's order, each message with its shape in front of it.
Schedule with_shapes_in_front(const Schedule& schedule, const Shapes& shapes) {
  Schedule result = add_send_recv(schedule);
  for (std::vector<Action>& actions : result.ranks) {
    std::vector<Action> row;
    row.reserve(2 * actions.size());
    for (const Action& action : actions) {
      if ((action.kind == ActionKind::send_forward || action.kind == ActionKind::recv_forward) &&
          shapes.ahead_of(sending_stage(action), action.micro_batch))
        row.push_back(metadata_of(action));
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
  if (auto lowered = Follower<true>(schedule, sizes, shapes).run()) return *std::move(lowered);
  refuse_made_twice(schedule);
  return with_shapes_in_front(schedule, shapes);
}

}  // namespace plumbline::schedules
