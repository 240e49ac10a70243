// PyTorch's lowering passes, each with PyTorch's result.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/lowering_parts.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace {

using detail::Routes;

// Ranks in ascending order, taken one after the other while others are put in.
class RankSet {
 public:
  explicit RankSet(std::size_t ranks) : words_((ranks + 63) / 64) {}
  void put(std::size_t rank) { words_[rank / 64] |= std::uint64_t{1} << (rank % 64); }
  [[nodiscard]] bool empty() const {
    return std::ranges::all_of(words_, [](std::uint64_t word) { return word == 0; });
  }
  /// Takes all; a rank that is put in meanwhile is taken if it comes after the one that is being taken.
  template <class Take>
  void take_all(const Take& take) {
    for (std::size_t i = 0; i < words_.size(); ++i)
      while (words_[i] != 0) {
        const auto bit = static_cast<std::size_t>(std::countr_zero(words_[i]));
        words_[i] &= words_[i] - 1;
        take(i * 64 + bit);
      }
  }

 private:
  std::vector<std::uint64_t> words_;
};

// PyTorch goes through the ranks again and again, each of which takes its next step if what that needs has arrived.
// Here a rank that waits is left alone until the message comes: in the same round if the sender is a rank before it.
class Rounds {
 public:
  Rounds(const Schedule& schedule, std::span<const std::size_t> sizes)
      : schedule_(schedule),
        result_(detail::with_empty_rows(schedule)),
        routes_(schedule),
        arrived_(routes_.table_size()),
        next_(schedule.ranks.size()),
        waiting_(schedule.ranks.size()),
        now_(schedule.ranks.size()),
        later_(schedule.ranks.size()) {
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) result_.ranks[rank].reserve(sizes[rank]);
  }

  Schedule run() {
    for (std::size_t rank = 0; rank < next_.size(); ++rank) go_on(rank);
    while (!later_.empty()) {
      std::swap(now_, later_);
      now_.take_all([this](std::size_t rank) { step(rank); });
    }
    if (std::ranges::find(waiting_, true) != waiting_.end()) refuse();
    return std::move(result_);
  }

 private:
  static constexpr std::uint8_t kInput = 1, kGradient = 2;

  // In the next round, or when what it needs arrives.
  void go_on(std::size_t rank) {
    if (next_[rank] == schedule_.ranks[rank].size()) return;
    if (ready(rank))
      later_.put(rank);
    else
      waiting_[rank] = true;
  }

  [[nodiscard]] bool ready(std::size_t rank) const {
    for (const Action& action : detail::group_at(schedule_.ranks[rank], next_[rank]))
      if (const Message message = routes_.needed_by(action))
        if ((arrived_[routes_.index(message)] & bit_of(message)) == 0) return false;
    return true;
  }

  void step(std::size_t rank) {
    const auto group = detail::group_at(schedule_.ranks[rank], next_[rank]);
    next_[rank] += group.size();
    std::vector<Action>& row = result_.ranks[rank];
    if (group.front().kind != ActionKind::idle)
      for (const Action& action : group) row.push_back(action);
    for (const Action& action : group)
      if (const Message message = routes_.made_by(action)) pass_on(rank, message);
    go_on(rank);
  }

  void pass_on(std::size_t rank, const Message& message) {
    arrived_[routes_.index(message)] |= bit_of(message);
    const std::size_t receiver = routes_.rank_of(message.receiver);
    if (receiver == rank) return;
    result_.ranks[rank].push_back(message.send());
    result_.ranks[receiver].push_back(message.recv());
    if (!waiting_[receiver] || !ready(receiver)) return;
    waiting_[receiver] = false;
    (receiver > rank ? now_ : later_).put(receiver);
  }

  [[noreturn]] void refuse() const {
    std::vector<detail::Waiting> waiting;
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      if (waiting_[rank]) waiting.push_back({.rank = rank, .action = schedule_.ranks[rank][next_[rank]]});
    detail::refuse_cycle(waiting);
  }

  static std::uint8_t bit_of(const Message& message) { return message.forward() ? kInput : kGradient; }

  const Schedule& schedule_;
  Schedule result_;
  Routes routes_;
  std::vector<std::uint8_t> arrived_;  // by receiver and micro-batch
  std::vector<std::size_t> next_;      // by rank, in its row
  std::vector<bool> waiting_;          // by rank
  RankSet now_;
  RankSet later_;
};

// PyTorch keeps the gathered stages in a Python set and gives them up in its order, which is that of CPython's hash
// table of whole numbers. So this is that table: open addressing, the hash of a number is the number, nine slots are
// tried in a row where the table has them, then a jump. A removed entry keeps its slot until the table is rebuilt, or
// until an added entry takes it: of the removed ones that its tries pass, the last.
class PythonSet {
 public:
  void insert(int number) {
    if (contains(number)) return;
    int* const slot = slot_for(slots_, number);
    const bool was_removed = *slot == kRemoved;
    *slot = number;
    ++used_;
    if (was_removed) return;
    ++filled_;
    const std::size_t mask = slots_.size() - 1;
    if (filled_ * 5 >= mask * 3) rebuild();
  }
  void remove(int number) {
    *find(slots_, number, number) = kRemoved;
    --used_;
  }
  [[nodiscard]] bool contains(int number) { return *find(slots_, number, number) == number; }
  [[nodiscard]] std::size_t size() const { return used_; }
  /// In the order of iteration.
  [[nodiscard]] std::vector<int> numbers() const {
    std::vector<int> numbers;
    std::ranges::copy_if(slots_, std::back_inserter(numbers), [](int slot) { return slot >= 0; });
    return numbers;
  }

 private:
  static constexpr int kEmpty = -1, kRemoved = -2;
  static constexpr std::size_t kInARow = 9, kShift = 5;

  // Where the number's slots, in the order in which they are tried, hold `sought`, or where they end.
  static int* find(std::vector<int>& slots, int number, int sought) {
    return first_slot(slots, number, [sought](int& slot) { return slot == sought || slot == kEmpty; });
  }
  // The last removed one before they end, or else the end.
  static int* slot_for(std::vector<int>& slots, int number) {
    int* removed = nullptr;
    int* const end = first_slot(slots, number, [&removed](int& slot) {
      if (slot == kRemoved) removed = &slot;
      return slot == kEmpty;
    });
    return removed != nullptr ? removed : end;
  }
  template <class Ends>
  static int* first_slot(std::vector<int>& slots, int number, const Ends& ends) {
    const std::size_t mask = slots.size() - 1;
    auto perturb = static_cast<std::size_t>(number);
    std::size_t slot = perturb & mask;
    while (true) {
      const std::size_t tries = slot + kInARow <= mask ? kInARow + 1 : 1;
      for (std::size_t i = slot; i < slot + tries; ++i)
        if (ends(slots[i])) return &slots[i];
      perturb >>= kShift;
      slot = (slot * 5 + 1 + perturb) & mask;
    }
  }

  void rebuild() {
    std::size_t size = 8;
    while (size <= 4 * used_) size *= 2;
    std::vector<int> slots(size, kEmpty);
    for (const int number : numbers()) *find(slots, number, kEmpty) = number;
    slots_ = std::move(slots);
    filled_ = used_;
  }

  std::vector<int> slots_ = std::vector<int>(8, kEmpty);
  std::size_t filled_ = 0;  // slots that are not empty
  std::size_t used_ = 0;
};

// The stages that a rank computes next, seen from each of its actions; it walks from the last action to the first.
class ComingStages {
 public:
  explicit ComingStages(int most) : most_(static_cast<std::size_t>(most)) {}

  /// The group that lies in front of those seen so far.
  void come_upon(std::span<const Action> group) {
    ++step_;
    for (std::size_t i = group.size(); i-- > 0;) move_to_front(group[i].stage);
    // Of a group that reaches the number, all stages count.
    std::size_t count = std::min(most_, coming_.size());
    while (count > 0 && count < coming_.size() && coming_[count].step == coming_[count - 1].step) ++count;
    longest_group_ = std::max(longest_group_, group.size());
    if (coming_.size() > most_ + longest_group_) coming_.resize(most_ + longest_group_);
    wanted_ = count;
  }
  /// Whether these are the stages, in the order in which they come.
  [[nodiscard]] bool are(std::span<const int> stages) const {
    return std::ranges::equal(stages, std::span(coming_).first(wanted_), {}, {}, &Coming::stage);
  }
  /// Appends them, in the order in which they come.
  void append_to(std::vector<int>& stages) const {
    for (std::size_t i = 0; i < wanted_; ++i) stages.push_back(coming_[i].stage);
  }

 private:
  struct Coming {
    int stage = 0;
    std::size_t step = 0;  // of its first group
  };

  void move_to_front(int stage) {
    auto place = std::ranges::find(coming_, stage, &Coming::stage);
    if (place == coming_.end()) place = coming_.insert(place, Coming{});
    std::move_backward(coming_.begin(), place, place + 1);
    coming_.front() = {.stage = stage, .step = step_};
  }

  std::size_t most_;
  std::vector<Coming> coming_;
  std::size_t wanted_ = 0;
  std::size_t longest_group_ = 1;
  std::size_t step_ = 0;
};

bool contains(std::span<const int> stages, int stage) { return std::ranges::find(stages, stage) != stages.end(); }

// Where each group of the row begins; idle cells are no group.
std::vector<std::size_t> groups_of(std::span<const Action> row) {
  std::vector<std::size_t> groups;
  groups.reserve(row.size());
  for (std::size_t i = 0; i < row.size(); i += detail::group_at(row, i).size())
    if (row[i].kind != ActionKind::idle) groups.push_back(i);
  return groups;
}

std::vector<Action> with_unshard(std::span<const Action> row, int most_gathered) {
  const std::vector<std::size_t> groups = groups_of(row);
  // What comes next, from the last group to the first, where it changes: the stages, and the last group for which they
  // are.
  struct Change {
    std::size_t begin = 0, end = 0;  // in `stages`
    std::size_t last_group = 0;
  };
  std::vector<int> stages;
  std::vector<Change> changes;
  const auto stages_of = [&](const Change& change) {
    return std::span(stages).subspan(change.begin, change.end - change.begin);
  };
  ComingStages coming(most_gathered);
  for (std::size_t i = groups.size(); i-- > 0;) {
    coming.come_upon(detail::group_at(row, groups[i]));
    if (!changes.empty() && coming.are(stages_of(changes.back()))) continue;
    const std::size_t begin = stages.size();
    coming.append_to(stages);
    changes.push_back({.begin = begin, .end = stages.size(), .last_group = i});
  }
  std::vector<Action> result;
  result.reserve(row.size() + 2 * changes.size());
  PythonSet gathered;
  const auto give_up = [&](int stage) {
    gathered.remove(stage);
    result.push_back({.kind = ActionKind::reshard, .stage = stage});
  };
  std::size_t next = 0;
  for (; !changes.empty(); changes.pop_back()) {
    const std::span<const int> wanted = stages_of(changes.back());
    const auto kept = std::ranges::count_if(wanted, [&](int stage) { return gathered.contains(stage); });
    if (static_cast<std::size_t>(kept) < gathered.size())
      for (const int stage : gathered.numbers())
        if (!contains(wanted, stage)) give_up(stage);
    for (const int stage : wanted) {
      if (gathered.contains(stage)) continue;
      gathered.insert(stage);
      result.push_back({.kind = ActionKind::unshard, .stage = stage});
    }
    for (; next <= changes.back().last_group; ++next)
      for (const Action& action : detail::group_at(row, groups[next])) result.push_back(action);
  }
  for (const int stage : gathered.numbers()) give_up(stage);
  return result;
}

// Receives of one rank that have been put off.
class PutOff {
 public:
  PutOff(const Schedule& schedule, const Routes& routes, std::vector<std::uint32_t>& entries)
      : routes_(routes), entries_(entries), by_peer_(schedule.ranks.size()) {}

  void put(const Message& message) {
    std::uint32_t& entry = entries_[index(message)];
    if (entry != 0) return;
    entry = ++last_;
    by_peer_[routes_.rank_of(message.sender())].push_back({.message = message, .number = entry});
    ++count_;
  }
  /// Appends it to the row, if it is there.
  void take(const Message& message, std::vector<Action>& row) {
    std::uint32_t& entry = entries_[index(message)];
    if (entry == 0) return;
    entry = 0;
    --count_;
    row.push_back(message.recv());
  }
  /// Appends all from this rank, the oldest first.
  void take_all_from(std::size_t peer, std::vector<Action>& row) {
    for (const auto& [message, number] : by_peer_[peer])
      if (entries_[index(message)] == number) take(message, row);
    by_peer_[peer].clear();
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  struct Receive {
    Message message;
    std::uint32_t number = 0;  // that the entry has unless it was taken
  };
  [[nodiscard]] std::size_t index(const Message& message) const {
    return 2 * routes_.index(message) + (message.forward() ? 0 : 1);
  }

  const Routes& routes_;
  std::vector<std::uint32_t>& entries_;
  std::vector<std::vector<Receive>> by_peer_;
  std::uint32_t last_ = 0;
  std::size_t count_ = 0;
};

}  // namespace

Schedule add_send_recv(const Schedule& schedule) {
  const std::vector<std::size_t> sizes = detail::lowered_sizes(schedule);
  return Rounds(schedule, sizes).run();
}

Schedule add_unshard_reshard(const Schedule& schedule, int most_gathered) {
  if (most_gathered < 1)
    throw InvalidArgument(fmt::format("lowering: at least one stage is gathered, got {}", most_gathered));
  Schedule result = detail::with_empty_rows(schedule);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    result.ranks[rank] = with_unshard(schedule.ranks[rank], most_gathered);
  return result;
}

Schedule add_reduce_gradients(const Schedule& schedule) {
  detail::require_stages(schedule);
  Schedule result = detail::with_empty_rows(schedule);
  std::vector<int> done(static_cast<std::size_t>(schedule.stages));
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::ranges::fill(done, 0);
    std::vector<Action>& row = result.ranks[rank];
    for (const std::size_t begin : groups_of(schedule.ranks[rank])) {
      const auto group = detail::group_at(schedule.ranks[rank], begin);
      row.insert(row.end(), group.begin(), group.end());
      for (const Action& action : group) {
        if (action.kind != ActionKind::backward && action.kind != ActionKind::weight_gradient) continue;
        detail::require_computation(schedule, rank, action);
        if (++done[static_cast<std::size_t>(action.stage)] == schedule.micro_batches)
          row.push_back({.kind = ActionKind::reduce_gradients, .stage = action.stage});
      }
    }
  }
  return result;
}

Schedule defer_receives(const Schedule& schedule) {
  detail::require_stages(schedule);
  const Routes routes(schedule);
  std::vector<std::uint32_t> entries(2 * routes.table_size());
  Schedule result = detail::with_empty_rows(schedule);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    PutOff put_off(schedule, routes, entries);
    std::vector<Action>& row = result.ranks[rank];
    row.reserve(schedule.ranks[rank].size());
    for (const std::size_t begin : groups_of(schedule.ranks[rank])) {
      const auto group = detail::group_at(schedule.ranks[rank], begin);
      const Action& first = group.front();
      if (first.kind == ActionKind::recv_forward || first.kind == ActionKind::recv_backward) {
        put_off.put(
            {.micro_batch = first.micro_batch, .direction = direction_of_message(first.kind), .receiver = first.stage});
        continue;
      }
      if (first.kind == ActionKind::send_forward || first.kind == ActionKind::send_backward) {
        const std::size_t peer = routes.rank_of(peer_stage(first));
        if (rank < peer) put_off.take_all_from(peer, row);
      }
      for (const Action& action : group)
        if (const Message message = routes.needed_by(action)) put_off.take(message, row);
      row.insert(row.end(), group.begin(), group.end());
    }
    if (put_off.count() != 0)
      throw InvalidArgument(
          fmt::format("lowering: rank {} has {} receives that nothing after them needs", rank, put_off.count()));
  }
  return result;
}

Schedule merge_backward_halves(const Schedule& schedule) {
  Schedule result = without_idle(schedule);
  for (std::vector<Action>& row : result.ranks) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      Action action = row[i];
      const bool joined = kept > 0 && row[kept - 1].joined;  // with the one before it
      const bool halves =
          action.kind == ActionKind::input_gradient && !action.joined && !joined && i + 1 < row.size() &&
          row[i + 1] ==
              Action{.kind = ActionKind::weight_gradient, .stage = action.stage, .micro_batch = action.micro_batch};
      if (halves) {
        action.kind = ActionKind::backward;
        ++i;
      }
      row[kept++] = action;
    }
    row.resize(kept);
  }
  return result;
}

Schedule lower_as_torch(const Schedule& schedule, int most_gathered) {
  return add_send_recv(add_reduce_gradients(add_unshard_reshard(schedule, most_gathered)));
}

}  // namespace plumbline::schedules
