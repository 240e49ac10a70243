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
#include <optional>

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
    if (!message.forward || metadata_ == Metadata::none) return false;
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
  enum class What : std::uint8_t { input, gradient, shape };

  Meetings(const Routes& routes, bool shapes) : routes_(routes), entries_((shapes ? 3 : 2) * routes.table_size()) {}

  [[nodiscard]] std::uint32_t& of(const Message& message, What what) {
    return entries_[static_cast<std::size_t>(what) * routes_.table_size() + routes_.index(message)];
  }
  [[nodiscard]] std::uint32_t& of(const Message& message) {
    return of(message, message.forward ? What::input : What::gradient);
  }
  /// Of an action that sends or receives.
  [[nodiscard]] std::uint32_t when(const Action& action) {
    const bool shape = action.kind == ActionKind::send_metadata || action.kind == ActionKind::recv_metadata;
    const Message message = message_of(action);
    return (shape ? of(message, What::shape) : of(message)) / kStep;
  }
  void meet(std::uint32_t& entry) { entry |= kSent | kAwaited | (last_ += kStep); }

  static constexpr std::uint32_t kSent = 1, kAwaited = 2;

 private:
  static constexpr std::uint32_t kStep = 4;

  static Message message_of(const Action& action) {
    const bool forward = action.kind != ActionKind::send_backward && action.kind != ActionKind::recv_backward;
    const int hop = is_send(action.kind) ? (forward ? 1 : -1) : 0;
    return {.micro_batch = action.micro_batch, .forward = forward, .receiver = action.stage + hop};
  }

  const Routes& routes_;
  std::vector<std::uint32_t> entries_;
  std::uint32_t last_ = 0;
};

// Follows the ranks through their rows.
class Follower {
 public:
  Follower(const Schedule& schedule, std::span<const std::size_t> sizes, const Shapes& shapes)
      : schedule_(schedule),
        result_(detail::with_empty_rows(schedule)),
        routes_(schedule),
        shapes_(shapes),
        meetings_(routes_, shapes.any()),
        ranks_(schedule.ranks.size()) {
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      result_.ranks[rank].reserve(sizes[rank]);
      ranks_[rank].row = schedule.ranks[rank];
      ranks_[rank].out = &result_.ranks[rank];
    }
  }

  /// Nothing where a receive would have to move in front of its shape.
  std::optional<Schedule> run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      skip_idle(ranks_[rank]);
      open_gap(ranks_[rank]);
      if (ranks_[rank].unmet == 0) going_.push_back(rank);
    }
    while (true) {
      while (!going_.empty()) {
        const std::size_t rank = going_.back();
        going_.pop_back();
        go_on(ranks_[rank]);
      }
      if (finished_ == ranks_.size()) break;
      if (shapes_.any()) return std::nullopt;
      if (!help()) refuse();
    }
    for (Rank& rank : ranks_) close_gap(rank);
    return std::move(result_);
  }

 private:
  using What = Meetings::What;

  struct Rank {
    std::span<const Action> row;   // what it has not computed yet
    std::span<const Action> last;  // what it computed last
    std::vector<Action>* out = nullptr;
    std::size_t gap_begin = 0;  // in out
    int sends = 0;              // of the gap
    int unmet = 0;              // messages of the gap that have not met their counterparts
    bool at_shapes = false;     // whether those are of shapes, and the messages are still to be posted
  };

  static void skip_idle(Rank& rank) {
    while (!rank.row.empty() && rank.row.front().kind == ActionKind::idle) rank.row = rank.row.subspan(1);
  }

  // From a gap whose messages have all met to one where some have not.
  void go_on(Rank& rank) {
    while (rank.unmet == 0) {
      if (rank.at_shapes) {
        close_gap(rank);
        rank.at_shapes = false;
        post(rank);
      } else if (!rank.row.empty()) {
        close_gap(rank);
        compute(rank);
        open_gap(rank);
      } else {
        ++finished_;
        return;
      }
    }
  }

  void compute(Rank& rank) {
    rank.last = detail::group_at(rank.row, 0);
    for (const Action& action : rank.last) {
      if (const auto message = routes_.needed_by(action))
        if (routes_.stays(*message) && (meetings_.of(*message) & Meetings::kSent) == 0) refuse();
      rank.out->push_back(action);
    }
    rank.row = rank.row.subspan(rank.last.size());
    skip_idle(rank);
  }

  void open_gap(Rank& rank) {
    rank.gap_begin = rank.out->size();
    rank.at_shapes = shapes_.any();
    post(rank);
  }

  // The gap's shapes or messages, at what it is.
  void post(Rank& rank) {
    for (const Action& action : rank.last)
      if (const auto message = routes_.made_by(action)) post_send(rank, *message);
    if (rank.unmet > 0) helpless_.push_back(static_cast<std::uint32_t>(&rank - ranks_.data()));
    if (rank.row.empty()) return;
    for (const Action& action : detail::group_at(rank.row, 0))
      if (const auto message = routes_.needed_by(action)) post_recv(rank, *message);
  }

  void post_send(Rank& rank, const Message& message) {
    const bool stays = routes_.stays(message);
    if (rank.at_shapes && (stays || !shapes_.ahead_of(message))) return;
    std::uint32_t& entry = rank.at_shapes ? meetings_.of(message, What::shape) : meetings_.of(message);
    if ((entry & Meetings::kSent) != 0)
      throw InvalidArgument(fmt::format("lowering: what {} sends is made twice", to_string(message.send())));
    entry |= Meetings::kSent;
    if (stays) return;
    rank.out->push_back(rank.at_shapes ? metadata_of(message.send()) : message.send());
    ++rank.sends;
    if ((entry & Meetings::kAwaited) == 0)
      ++rank.unmet;
    else
      meet(entry, routes_.rank_of(message.receiver));
  }

  void post_recv(Rank& rank, const Message& message) {
    if (routes_.stays(message) || (rank.at_shapes && !shapes_.ahead_of(message))) return;
    std::uint32_t& entry = rank.at_shapes ? meetings_.of(message, What::shape) : meetings_.of(message);
    if ((entry & Meetings::kAwaited) != 0) return;  // it moved forward
    entry |= Meetings::kAwaited;
    rank.out->push_back(rank.at_shapes ? metadata_of(message.recv()) : message.recv());
    if ((entry & Meetings::kSent) == 0)
      ++rank.unmet;
    else
      meet(entry, routes_.rank_of(message.sender()));
  }

  // `waiting` is the rank that posted first.
  void meet(std::uint32_t& entry, std::size_t waiting) {
    meetings_.meet(entry);
    if (--ranks_[waiting].unmet == 0) going_.push_back(static_cast<std::uint32_t>(waiting));
  }

  // Sends that nobody awaits are received now. Whether there were any.
  bool help() {
    bool helped = false;
    for (const std::size_t rank : helpless_)
      for (const Action& action : ranks_[rank].last) {
        const auto message = routes_.made_by(action);
        if (!message || routes_.stays(*message) || (meetings_.of(*message) & Meetings::kAwaited) != 0) continue;
        result_.ranks[routes_.rank_of(message->receiver)].push_back(message->recv());
        meet(meetings_.of(*message), rank);
        helped = true;
      }
    helpless_.clear();
    return helped;
  }

  // Joins the gap's messages. Sends are in front; several of them, or several receives, are put in the order in which
  // they met.
  void close_gap(Rank& rank) {
    std::vector<Action>& out = *rank.out;
    const std::size_t begin = rank.gap_begin, count = out.size() - begin;
    const auto sends = static_cast<std::size_t>(rank.sends);
    rank.gap_begin = out.size();
    rank.sends = 0;
    if (count < 2) return;
    if (sends > 1) put_in_order(std::span(out).subspan(begin, sends));
    if (count - sends > 1) put_in_order(std::span(out).subspan(begin + sends));
    for (std::size_t i = begin; i + 1 < begin + count; ++i) out[i].joined = true;
  }
  void put_in_order(std::span<Action> messages) {
    std::ranges::sort(messages, {}, [this](const Action& action) { return meetings_.when(action); });
  }

  [[noreturn]] void refuse() const {
    std::vector<detail::Waiting> waiting;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (!ranks_[rank].row.empty()) waiting.push_back({.rank = rank, .action = ranks_[rank].row.front()});
    detail::refuse_circle(waiting);
  }

  const Schedule& schedule_;
  Schedule result_;
  Routes routes_;
  const Shapes& shapes_;
  Meetings meetings_;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> going_;     // ranks whose gap has met
  std::vector<std::uint32_t> helpless_;  // ranks that had sends which nobody awaited, when they posted them
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
        const Message message{.micro_batch = action.micro_batch, .receiver = action.stage + (sends ? 1 : 0)};
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
  if (shapes.in_order(Routes(schedule)))
    if (auto lowered = Follower(schedule, sizes, shapes).run()) return *std::move(lowered);
  return with_shapes_in_front(schedule, shapes);
}

}  // namespace plumbline::schedules
