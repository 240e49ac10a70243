#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "reference/schedules/detail/simulation_options.hpp"
#include "reference/schedules/detail/timeline_parts.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules {
namespace {

using Kind = ActionKind;
using ActionIndex = std::ptrdiff_t;  // of an action among all
constexpr ActionIndex kNoAction = -1;

constexpr bool needs_gradient(Kind kind) { return direction_of_computation(kind) < 0; }

// Which computations are joined, and where what they need comes from.
class Origins {
 public:
  explicit Origins(const Schedule& schedule)
      : schedule_(schedule),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batches)),
        pairs_(static_cast<std::size_t>(schedule.stages) * micro_batches_) {
    note_makers();
  }

  [[nodiscard]] const Action& action(ActionIndex i) const { return *actions_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] bool is_start_of_group(ActionIndex i) const { return group_of(i) == i; }
  [[nodiscard]] bool is_in_group(ActionIndex i, ActionIndex group) const {
    return i < static_cast<ActionIndex>(group_.size()) && group_of(i) == group;
  }
  // The first one that a computation is joined with; kNoAction of what is no computation.
  [[nodiscard]] ActionIndex group_of(ActionIndex i) const { return group_[static_cast<std::size_t>(i)]; }
  // Its rank's group of computations before it.
  [[nodiscard]] ActionIndex before(ActionIndex i) const { return before_[static_cast<std::size_t>(i)]; }
  // Of an input or a gradient, among all of both.
  [[nodiscard]] std::size_t place(bool gradient, int stage, int micro_batch) const {
    return (gradient ? pairs_ : 0) + static_cast<std::size_t>(stage) * micro_batches_ +
           static_cast<std::size_t>(micro_batch);
  }
  // The group of computations that made it, the sender's last one before it was sent, and the action that sent it: the
  // message, or the computation.
  [[nodiscard]] ActionIndex maker(std::size_t place) const { return maker_[place]; }
  [[nodiscard]] ActionIndex last_before(std::size_t place) const { return last_before_[place]; }
  [[nodiscard]] ActionIndex sent(std::size_t place) const { return sent_[place]; }

 private:
  void note_makers() {
    maker_.assign(2 * pairs_, kNoAction);
    last_before_.assign(2 * pairs_, kNoAction);
    sent_.assign(2 * pairs_, kNoAction);
    const bool messages = detail::has_messages(schedule_);
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      ActionIndex current = kNoAction;  // group of computations
      bool joined = false;
      for (const Action& action : schedule_.ranks[rank]) {
        const auto i = static_cast<ActionIndex>(actions_.size());
        actions_.push_back(&action);
        before_.push_back(current);
        group_.push_back(kNoAction);
        if (is_compute(action.kind)) {
          if (!joined) current = i;
          group_.back() = current;
          if (joined) before_.back() = before_[static_cast<std::size_t>(current)];
          joined = action.joined;
        }
        if (!is_compute(action.kind) && !is_send(action.kind)) continue;
        const bool forward = action.kind == Kind::forward || action.kind == Kind::send_forward;
        if (!forward && !needs_gradient(action.kind) && action.kind != Kind::send_backward) continue;
        const int to = forward ? action.stage + 1 : action.stage - 1;
        if (to < 0 || to >= schedule_.stages) continue;
        const std::size_t made = place(!forward, to, action.micro_batch);
        if (is_compute(action.kind)) note_made(made, current);
        if (!messages || !is_compute(action.kind)) note_sent(made, current, i);
      }
    }
  }
  // Of what is made twice, the first is what others wait for: so each step back in a chain is one back in time.
  void note_made(std::size_t place, ActionIndex group) {
    if (maker_[place] == kNoAction && sent_[place] == kNoAction) maker_[place] = group;
  }
  void note_sent(std::size_t place, ActionIndex last, ActionIndex sent) {
    if (sent_[place] != kNoAction) return;
    if (maker_[place] == kNoAction) maker_[place] = last;  // it is sent before it is made
    last_before_[place] = last;
    sent_[place] = sent;
  }

  const Schedule& schedule_;
  std::size_t micro_batches_;
  std::size_t pairs_;
  std::vector<const Action*> actions_;
  std::vector<ActionIndex> group_;
  std::vector<ActionIndex> before_;
  std::vector<ActionIndex> maker_;  // of each input, then each gradient
  std::vector<ActionIndex> last_before_;
  std::vector<ActionIndex> sent_;
};

// Follows what idle ranks wait for.
class Attribution {
 public:
  Attribution(const Schedule& schedule, const SimulationOptions& options, const Timeline& timeline, bool measured)
      : schedule_(schedule),
        options_(options),
        timeline_(timeline),
        measured_(measured),
        meets_(options.rendezvous && detail::has_messages(schedule) && !measured),
        origins_(schedule) {
    note_longest();
  }

  std::vector<IdleTime> run() {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      IdleTime& idle = result_.emplace_back();
      bool first = true;
      double free_from = 0;
      for (ActionIndex i = begin(rank); i < end(rank); ++i) {
        if (!origins_.is_start_of_group(i)) continue;
        follow({idle, longest_[rank], first ? idle.fill : idle.dependency, free_from}, i);
        free_from = period(i).end;
        first = false;
      }
      if (timeline_.makespan > free_from)
        follow_from_end({idle, longest_[rank], first ? idle.fill : idle.drain, free_from});
    }
    return std::move(result_);
  }

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  // One idle time of one rank.
  struct Gap {
    IdleTime& idle;
    const StageTimes& longest;  // of the rank's own stages
    double& rest;               // what else it is named after
    double begin;
  };

  [[nodiscard]] ActionIndex begin(std::size_t rank) const { return static_cast<ActionIndex>(timeline_.offsets[rank]); }
  [[nodiscard]] ActionIndex end(std::size_t rank) const {
    return static_cast<ActionIndex>(timeline_.offsets[rank + 1]);
  }
  [[nodiscard]] const Period& period(ActionIndex i) const { return timeline_.periods[static_cast<std::size_t>(i)]; }
  [[nodiscard]] double end_of(ActionIndex group) const { return group == kNoAction ? 0 : period(group).end; }

  void note_longest() {
    longest_.assign(schedule_.ranks.size(), {.forward = 0, .input_gradient = 0, .weight_gradient = 0, .backward = 0});
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const StageTimes& times = detail::of_each(options_.stages, stage);
      StageTimes& longest =
          longest_[static_cast<std::size_t>(schedule_.stage_to_rank[static_cast<std::size_t>(stage)])];
      longest.forward = std::max(longest.forward, times.forward);
      longest.input_gradient = std::max(longest.input_gradient, times.input_gradient);
      longest.weight_gradient = std::max(longest.weight_gradient, times.weight_gradient);
      longest.backward = std::max(*longest.backward, times.of(Kind::backward));
    }
  }

  // Back from the begin of a group of computations, for which a rank waits, to the begin of the gap.
  void follow(const Gap& gap, ActionIndex group) {
    while (period(group).start > gap.begin) {
      const double now = period(group).start;
      ActionIndex cause = origins_.before(group);  // what its rank did, until it
      if (end_of(cause) < now) cause = follow_wait(gap, group, cause);
      if (cause == kNoAction) return;
      add_computation(gap, cause);
      group = cause;
    }
  }
  // From when the rank of a group was free, after its computations `own`, to the group. Returns the computations for
  // which it did not begin before.
  ActionIndex follow_wait(const Gap& gap, ActionIndex group, ActionIndex own) {
    const double now = period(group).start;
    const std::size_t awaited = awaited_by(group);
    if (awaited == kNowhere || (measured_ && end_of_sender(awaited) <= end_of(own))) {
      gap.idle.overhead += now - std::max(end_of(own), gap.begin);
      return own;
    }
    // A message came now. Under rendezvous it may have waited for the receiver.
    const bool met_late = meets_ && end_of_sender(awaited) <= end_of(own);
    const double posted = std::max(met_late ? end_of(own) : end_of_sender(awaited), gap.begin);
    gap.idle.transfer += now - posted;
    if (met_late) return own;
    const ActionIndex maker = origins_.maker(awaited);
    gap.idle.sent_late += posted - std::max(end_of(maker), gap.begin);
    return maker;
  }
  void follow_from_end(const Gap& gap) {
    const auto last = std::ranges::max_element(timeline_.ranks, {}, &RankTimes::last_end);
    ActionIndex group = end(static_cast<std::size_t>(last - timeline_.ranks.begin())) - 1;
    while (origins_.group_of(group) == kNoAction) --group;
    group = origins_.group_of(group);
    add_computation(gap, group);
    follow(gap, group);
  }
  // Of what a group needs from other ranks, that which came last.
  [[nodiscard]] std::size_t awaited_by(ActionIndex group) const {
    double latest = -1;
    std::size_t found = kNowhere;
    for (ActionIndex i = group; origins_.is_in_group(i, group); ++i) {
      const Action& action = origins_.action(i);
      const bool forward = action.kind == Kind::forward;
      if (!forward && !needs_gradient(action.kind)) continue;
      const std::size_t needed = origins_.place(!forward, action.stage, action.micro_batch);
      const ActionIndex sent = origins_.sent(needed);
      if (sent == kNoAction || share_rank(origins_.action(sent).stage, action.stage)) continue;
      // When a measured message arrived nobody saw.
      const double end = measured_ ? end_of_sender(needed) : period(sent).end;
      if (std::exchange(latest, std::max(latest, end)) < end) found = needed;
    }
    return found;
  }
  // When the sender came to the message.
  [[nodiscard]] double end_of_sender(std::size_t awaited) const { return end_of(origins_.last_before(awaited)); }
  [[nodiscard]] bool share_rank(int stage, int other) const {
    return schedule_.stage_to_rank[static_cast<std::size_t>(stage)] ==
           schedule_.stage_to_rank[static_cast<std::size_t>(other)];
  }

  // A computation that a rank waits for, from its start, or the gap's, to its end.
  void add_computation(const Gap& gap, ActionIndex group) {
    double nominal = 0, own = 0;
    for (ActionIndex i = group; origins_.is_in_group(i, group); ++i) {
      const Action& action = origins_.action(i);
      nominal += detail::of_each(options_.stages, action.stage).of(action.kind);
      own += gap.longest.of(action.kind);
    }
    const bool several = origins_.action(group).joined;
    if (several) nominal *= options_.overlap, own *= options_.overlap;
    const auto& [start, end] = period(group);
    const double from = std::max(start, gap.begin);
    const double nominal_end = std::min(end, start + nominal);
    const double usual_end = std::min(nominal_end, start + own);
    gap.idle.straggler += std::max(0.0, end - std::max(from, nominal_end));
    gap.idle.imbalance += std::max(0.0, nominal_end - std::max(from, usual_end));
    gap.rest += std::max(0.0, usual_end - from);
  }

  const Schedule& schedule_;
  const SimulationOptions& options_;
  const Timeline& timeline_;
  bool measured_;
  bool meets_;
  Origins origins_;
  std::vector<StageTimes> longest_;  // by rank
  std::vector<IdleTime> result_;
};

}  // namespace

std::vector<IdleTime> attribute_idle_time(const Schedule& schedule, const SimulationOptions& options,
                                          const Timeline& timeline) {
  detail::refuse_unless_schedule(schedule);
  detail::refuse_unless_options(schedule, options);
  return Attribution(schedule, options, timeline, false).run();
}

std::vector<IdleTime> attribute_measured_idle_time(const Schedule& schedule, const SimulationOptions& options,
                                                   const Timeline& timeline) {
  detail::refuse_unless_schedule(schedule);
  detail::refuse_unless_options(schedule, options);
  SimulationOptions without_waiting = options;
  without_waiting.rendezvous = false;
  (void)simulate(schedule, without_waiting);  // of a schedule that deadlocks nothing was measured
  return Attribution(schedule, options, timeline, true).run();
}

}  // namespace plumbline::schedules
