#include "reference/schedules/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::schedules {
namespace {

using Kind = ActionKind;

constexpr double kNotThere = -1;  // what no rank waits for yet
constexpr double kAwaited = -2;   // what its rank waits for

void refuse_unless_number(double value, double low, std::string_view what) {
  if (!(value >= low) || std::isinf(value))
    throw InvalidArgument(fmt::format("simulate: {} must be a number from {} on, got {}", what, low, value));
}

void refuse_length(std::size_t length, std::size_t wanted, std::string_view what, bool one_for_all) {
  if (length != wanted && !(one_for_all && length == 1))
    throw InvalidArgument(fmt::format("simulate: {} has {} entries for {}", what, length, wanted));
}

template <class T>
const T& of_each(const std::vector<T>& list, int index) {
  return list.size() == 1 ? list.front() : list[static_cast<std::size_t>(index)];
}

void refuse_unless_options(const Schedule& schedule, const SimulationOptions& options) {
  const auto stages = static_cast<std::size_t>(schedule.stages);
  refuse_length(options.stages.size(), stages, "stages", true);
  for (const StageTimes& times : options.stages)
    for (const Kind kind : {Kind::forward, Kind::backward, Kind::input_gradient, Kind::weight_gradient})
      refuse_unless_number(times.of(kind), 0, fmt::format("the time of {}", name_of(kind)));
  refuse_unless_number(options.overlap, 0, "overlap");
  refuse_unless_number(options.links.latency, 0, "latency");
  if (!(options.links.bandwidth > 0))
    throw InvalidArgument(fmt::format("simulate: bandwidth must be above 0, got {}", options.links.bandwidth));
  refuse_length(options.message_bytes.size(), std::max<std::size_t>(stages, 1) - 1, "message_bytes", true);
  for (const double bytes : options.message_bytes) refuse_unless_number(bytes, 0, "message_bytes");
  refuse_length(options.activation_bytes.size(), stages, "activation_bytes", true);
  for (const double bytes : options.activation_bytes) refuse_unless_number(bytes, 0, "activation_bytes");
  if (!options.straggling.empty()) refuse_length(options.straggling.size(), schedule.ranks.size(), "straggling", false);
  for (const double factor : options.straggling) refuse_unless_number(factor, 0, "straggling");
  refuse_unless_number(options.jitter, 0, "jitter");
}

void refuse_unless_schedule(const Schedule& schedule) {
  const auto ranks = static_cast<int>(schedule.ranks.size());
  if (schedule.stages < 1 || schedule.micro_batches < 1 ||
      schedule.stage_to_rank.size() != static_cast<std::size_t>(schedule.stages) ||
      std::ranges::any_of(schedule.stage_to_rank, [&](int rank) { return rank < 0 || rank >= ranks; }))
    throw InvalidArgument(
        fmt::format("simulate: {} stages, {} micro-batches and a rank in [0, {}) for each stage make no schedule",
                    schedule.stages, schedule.micro_batches, ranks));
  constexpr std::int64_t kMostPairs = std::int64_t{1} << 27;
  if (std::int64_t{schedule.stages} * schedule.micro_batches > kMostPairs)
    throw InvalidArgument(fmt::format("simulate: {} stages x {} micro-batches are more than {} pairs", schedule.stages,
                                      schedule.micro_batches, kMostPairs));
}

// Evenly distributed in [0, 1), by splitmix64.
double random_part(std::uint64_t seed, const Action& action) {
  const auto stage = static_cast<std::uint32_t>(action.stage), batch = static_cast<std::uint32_t>(action.micro_batch);
  std::uint64_t bits =
      seed ^ (std::uint64_t{stage} << 35 | std::uint64_t{batch} << 4 | static_cast<unsigned>(action.kind));
  for (int round = 0; round < 2; ++round) {
    bits += 0x9e3779b97f4a7c15U;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
    bits ^= bits >> 31;
  }
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

constexpr bool computes(Kind kind) { return kind >= Kind::forward && kind <= Kind::weight_gradient; }
constexpr bool moves(Kind kind) { return kind >= Kind::send_forward && kind <= Kind::recv_backward; }
constexpr bool needs_gradient(Kind kind) { return kind == Kind::backward || kind == Kind::input_gradient; }

std::size_t end_of_group(std::span<const Action> actions, std::size_t begin) {
  while (begin + 1 < actions.size() && actions[begin].joined) ++begin;
  return begin + 1;
}

std::vector<std::size_t> offsets_of(const Schedule& schedule) {
  std::vector<std::size_t> offsets{0};
  offsets.reserve(schedule.ranks.size() + 1);
  for (const auto& actions : schedule.ranks) offsets.push_back(offsets.back() + actions.size());
  return offsets;
}

bool has_messages(const Schedule& schedule) {
  return std::ranges::any_of(
      schedule.ranks, [](const auto& actions) { return std::ranges::any_of(actions, is_message, &Action::kind); });
}

// Makespan, and what concerns each rank, from its periods.
void summarise(const Schedule& schedule, const SimulationOptions& options, Timeline& timeline) {
  timeline.ranks.resize(schedule.ranks.size());
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    RankTimes& times = timeline.ranks[rank];
    const Period* period = timeline.periods.data() + timeline.offsets[rank];
    int live = 0;
    double bytes = 0;
    int ended = 0;
    double ended_bytes = 0;
    bool inside = false, first = true;
    double group_start = 0;
    for (const Action& action : schedule.ranks[rank]) {
      const Period& here = *period++;
      if (!computes(action.kind)) continue;
      if (!inside) group_start = here.start;
      if (first) times.first_start = here.start;
      first = false;
      times.last_end = here.end;
      inside = action.joined;
      if (!inside) times.work += here.end - group_start;
      if (action.kind != Kind::input_gradient) {
        const double size = of_each(options.activation_bytes, action.stage);
        if (action.kind == Kind::forward) {
          times.peak_activations = std::max(times.peak_activations, ++live);
          times.peak_activation_bytes = std::max(times.peak_activation_bytes, bytes += size);
        }
        if (action.kind != Kind::forward || options.forward_only) ++ended, ended_bytes += size;
      }
      if (inside) continue;
      live -= std::exchange(ended, 0);
      bytes -= std::exchange(ended_bytes, 0);
    }
    timeline.makespan = std::max(timeline.makespan, times.last_end);
  }
  for (RankTimes& times : timeline.ranks) {
    times.barrier_bubble = timeline.makespan - times.work;
    times.span_bubble = times.last_end - times.first_start - times.work;
  }
}

// The way of a boundary's outputs, or of its gradients, which go back.
struct Way {
  std::size_t link = 0;
  double bytes = 0;
  double occupies = 0;  // seconds of the link
  std::int64_t messages = 0;
};

class Simulation {
 public:
  Simulation(const Schedule& schedule, const SimulationOptions& options)
      : schedule_(schedule),
        options_(options),
        has_messages_(has_messages(schedule)),
        meets_(options.rendezvous && has_messages_),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batches)),
        pairs_(static_cast<std::size_t>(schedule.stages) * micro_batches_) {
    timeline_.offsets = offsets_of(schedule);
    timeline_.periods.resize(timeline_.offsets.back());
    there_.assign(2 * pairs_, kNotThere);
    if (meets_) posted_.assign(2 * pairs_, nullptr);
    const std::size_t ranks = schedule.ranks.size();
    at_.assign(ranks, 0);
    now_.assign(ranks, 0);
    lay_ways();
    for (int stage = 0; stage < schedule.stages; ++stage) {
      const double slow = options.straggling.empty() ? 1 : options.straggling[owner(stage)];
      for (std::size_t kind = 0; kind <= static_cast<std::size_t>(Kind::weight_gradient); ++kind)
        times_.push_back(of_each(options.stages, stage).of(static_cast<Kind>(kind)) * slow);
    }
  }

  Timeline run() {
    for (std::size_t rank = schedule_.ranks.size(); rank-- > 0;) ready_.push_back(rank);
    while (!ready_.empty()) {
      const std::size_t rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    refuse_stuck_ranks();
    summarise(schedule_, options_, timeline_);
    refuse_unless_number(timeline_.makespan, 0, "the sum of all times");
    for (const Way& way : ways_) {
      if (way.messages == 0) continue;
      LinkTraffic& link = timeline_.links[way.link];
      link.messages += way.messages;
      link.bytes += static_cast<double>(way.messages) * way.bytes;
    }
    std::erase_if(timeline_.links, [](const LinkTraffic& link) { return link.messages == 0; });
    return std::move(timeline_);
  }

 private:
  static constexpr std::size_t kTimes = 5;  // of a stage, by kind

  // Outputs of all boundaries, then gradients; a link for each pair of ranks that any of them connects.
  void lay_ways() {
    const int boundaries = schedule_.stages - 1;
    std::vector<LinkTraffic>& links = timeline_.links;
    const auto link_of = [&](int boundary, bool back) -> LinkTraffic {
      const int low = static_cast<int>(owner(boundary)), high = static_cast<int>(owner(boundary + 1));
      return {.from = back ? high : low, .to = back ? low : high};
    };
    const auto ends = [](const LinkTraffic& link) { return std::pair(link.from, link.to); };
    for (const bool back : {false, true})
      for (int boundary = 0; boundary < boundaries; ++boundary) links.push_back(link_of(boundary, back));
    std::ranges::sort(links, {}, ends);
    const auto rest = std::ranges::unique(links, {}, ends);
    links.erase(rest.begin(), rest.end());
    link_free_.assign(links.size(), 0);
    for (const bool back : {false, true})
      for (int boundary = 0; boundary < boundaries; ++boundary) {
        const auto link = std::ranges::lower_bound(links, ends(link_of(boundary, back)), {}, ends);
        const double bytes = of_each(options_.message_bytes, boundary);
        ways_.push_back({.link = static_cast<std::size_t>(link - links.begin()),
                         .bytes = bytes,
                         .occupies = bytes / options_.links.bandwidth});
      }
  }
  [[nodiscard]] std::size_t output_way(int boundary) const { return static_cast<std::size_t>(boundary); }
  [[nodiscard]] std::size_t gradient_way(int boundary) const {
    return static_cast<std::size_t>(schedule_.stages - 1 + boundary);
  }
  [[nodiscard]] std::size_t owner(int stage) const {
    return static_cast<std::size_t>(schedule_.stage_to_rank[static_cast<std::size_t>(stage)]);
  }
  // The place of a stage's input, and of the gradient of its output.
  [[nodiscard]] std::size_t input_of(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * micro_batches_ + static_cast<std::size_t>(micro_batch);
  }
  [[nodiscard]] std::size_t gradient_of(int stage, int micro_batch) const {
    return pairs_ + input_of(stage, micro_batch);
  }
  [[nodiscard]] double time_of(const Action& action) const {
    const double time = times_[static_cast<std::size_t>(action.stage) * kTimes + static_cast<std::size_t>(action.kind)];
    return options_.jitter == 0 ? time : time * (1 + options_.jitter * random_part(options_.seed, action));
  }
  void refuse_outside(const Action& action) const {
    if (static_cast<unsigned>(action.stage) < static_cast<unsigned>(schedule_.stages) &&
        static_cast<unsigned>(action.micro_batch) < static_cast<unsigned>(schedule_.micro_batches))
      return;
    throw InvalidArgument(fmt::format("simulate: {} is none of {} stages and {} micro-batches", to_string(action),
                                      schedule_.stages, schedule_.micro_batches));
  }

  // When a computation may begin for all that it needs; kAwaited when that is not known yet.
  double ready_at(const Action& action) {
    std::size_t place = 0;
    if (action.kind == Kind::forward) {
      if (action.stage == 0) return 0;
      place = input_of(action.stage, action.micro_batch);
    } else if (needs_gradient(action.kind)) {
      place = gradient_of(action.stage, action.micro_batch);
    } else {
      return 0;
    }
    double& there = there_[place];
    return there < 0 ? (there = kAwaited) : there;
  }

  // Takes a rank as far as it comes.
  void advance(std::size_t rank) {
    const std::span<const Action> actions = schedule_.ranks[rank];
    Period* const periods = timeline_.periods.data() + timeline_.offsets[rank];
    std::size_t at = at_[rank];
    double now = now_[rank];
    for (; at < actions.size(); ++at) {
      const Action& action = actions[at];
      if (computes(action.kind)) {
        if (action.joined) {
          const std::size_t end = end_of_group(actions, at);
          if (!compute_together(rank, actions.subspan(at, end - at), periods + at, now)) break;
          at = end - 1;
          continue;
        }
        refuse_outside(action);
        const double ready = ready_at(action);
        if (ready < 0) break;
        const double start = std::max(now, ready);
        now = start + time_of(action);
        periods[at] = {start, now};
        hand_on(rank, action, now);
      } else {
        take_other(rank, action, periods[at], now);
      }
    }
    at_[rank] = at;
    now_[rank] = now;
  }
  bool compute_together(std::size_t rank, std::span<const Action> group, Period* periods, double& now) {
    double start = now, sum = 0;
    bool all_there = true;
    for (const Action& action : group) {
      if (!computes(action.kind)) continue;
      refuse_outside(action);
      const double ready = ready_at(action);
      all_there = all_there && ready >= 0;
      start = std::max(start, ready);
      sum += time_of(action);
    }
    if (!all_there) return false;
    now = start + options_.overlap * sum;
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (computes(group[i].kind)) {
        periods[i] = {start, now};
        hand_on(rank, group[i], now);
      } else {
        take_other(rank, group[i], periods[i], now);
      }
    }
    return true;
  }

  // The result of a computation: to the next stage on this rank, or on its way where the schedule has no messages.
  void hand_on(std::size_t rank, const Action& action, double now) {
    if (action.kind == Kind::forward) {
      if (action.stage + 1 == schedule_.stages)
        arrive(gradient_of(action.stage, action.micro_batch), rank, now);
      else
        hand_to(rank, action.stage + 1, input_of(action.stage + 1, action.micro_batch), output_way(action.stage), now);
    } else if (needs_gradient(action.kind) && action.stage > 0) {
      hand_to(rank, action.stage - 1, gradient_of(action.stage - 1, action.micro_batch), gradient_way(action.stage - 1),
              now);
    }
  }
  void hand_to(std::size_t rank, int stage, std::size_t place, std::size_t way, double now) {
    const std::size_t other = owner(stage);
    if (other == rank)
      arrive(place, other, now);
    else if (!has_messages_)
      arrive(place, other, transfer(way, now).end);
  }

  // Anything but a computation takes no time of the rank.
  void take_other(std::size_t rank, const Action& action, Period& period, double now) {
    period = {now, now};
    const auto& [kind, joined, stage, micro_batch] = action;
    if (!moves(kind) || (!meets_ && (kind == Kind::recv_forward || kind == Kind::recv_backward))) return;
    refuse_outside(action);
    switch (kind) {
      case Kind::send_forward:
        if (stage + 1 < schedule_.stages)
          post(rank, stage + 1, input_of(stage + 1, micro_batch), output_way(stage), &period);
        break;
      case Kind::send_backward:
        if (stage > 0) post(rank, stage - 1, gradient_of(stage - 1, micro_batch), gradient_way(stage - 1), &period);
        break;
      case Kind::recv_forward:
        if (stage > 0) meet(owner(stage - 1), rank, input_of(stage, micro_batch), output_way(stage - 1), &period);
        break;
      default:
        if (stage + 1 < schedule_.stages)
          meet(owner(stage + 1), rank, gradient_of(stage, micro_batch), gradient_way(stage), &period);
    }
  }
  void post(std::size_t rank, int stage, std::size_t place, std::size_t way, Period* period) {
    const std::size_t other = owner(stage);
    if (other == rank) return;  // there already
    if (!meets_) {
      *period = transfer(way, period->start);
      arrive(place, other, period->end);
    } else if (Period* const receive = std::exchange(posted_[place], period)) {
      *period = transfer(way, std::max(period->start, receive->start));
      arrive(place, other, period->end);
    }
  }
  void meet(std::size_t from, std::size_t rank, std::size_t place, std::size_t way, Period* period) {
    if (from == rank) return;
    if (Period* const send = std::exchange(posted_[place], period)) {
      *send = transfer(way, std::max(send->start, period->start));
      arrive(place, rank, send->end);
    }
  }
  Period transfer(std::size_t number, double now) {
    Way& way = ways_[number];
    double& link_free = link_free_[way.link];
    const double start = std::max(now, link_free);
    ++way.messages;
    link_free = start + way.occupies;
    return {start, link_free + options_.links.latency};
  }
  void arrive(std::size_t place, std::size_t rank, double now) {
    if (std::exchange(there_[place], now) == kAwaited) ready_.push_back(rank);
  }

  void refuse_stuck_ranks() const {
    std::string words;
    constexpr int kShown = 4;
    int stuck = 0;
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      if (at_[rank] == schedule_.ranks[rank].size() || ++stuck > kShown) continue;
      const Action& action = schedule_.ranks[rank][at_[rank]];
      words += fmt::format("{} rank {} at position {} for what {} needs", stuck == 1 ? "" : ",", rank, at_[rank],
                           to_string(action));
    }
    if (stuck == 0) return;
    if (stuck > kShown) words += fmt::format(", and {} more", stuck - kShown);
    throw InvalidArgument("simulate: the schedule cannot go on: there wait" + words);
  }

  const Schedule& schedule_;
  const SimulationOptions& options_;
  bool has_messages_;
  bool meets_;  // a message begins when both sides have come to it
  std::size_t micro_batches_;
  std::size_t pairs_;
  Timeline timeline_;
  std::vector<double> times_;    // by stage and kind
  std::vector<double> there_;    // when each input, then each gradient, is there
  std::vector<Period*> posted_;  // of each, the side of the message that came first
  std::vector<std::size_t> at_;  // by rank
  std::vector<double> now_;      // by rank
  std::vector<Way> ways_;
  std::vector<double> link_free_;  // from when on each link is
  std::vector<std::size_t> ready_;
};

// Follows what idle ranks wait for.
class Attribution {
 public:
  Attribution(const Schedule& schedule, const SimulationOptions& options, const Timeline& timeline)
      : schedule_(schedule),
        options_(options),
        timeline_(timeline),
        meets_(options.rendezvous && has_messages(schedule)),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batches)),
        pairs_(static_cast<std::size_t>(schedule.stages) * micro_batches_) {
    note_makers();
    note_longest();
  }

  std::vector<IdleTime> run() {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      IdleTime& idle = result_.emplace_back();
      bool first = true;
      double free_from = 0;
      for (Index i = begin(rank); i < end(rank); ++i) {
        if (!is_start_of_group(i)) continue;
        if (period(i).start > free_from)
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
  using Index = std::ptrdiff_t;  // of an action among all
  static constexpr Index kNone = -1;
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  // One idle time of one rank.
  struct Gap {
    IdleTime& idle;
    const StageTimes& longest;  // of the rank's own stages
    double& rest;               // what else it is named after
    double begin;
  };

  [[nodiscard]] Index begin(std::size_t rank) const { return static_cast<Index>(timeline_.offsets[rank]); }
  [[nodiscard]] Index end(std::size_t rank) const { return static_cast<Index>(timeline_.offsets[rank + 1]); }
  [[nodiscard]] const Period& period(Index i) const { return timeline_.periods[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const Action& action(Index i) const { return *actions_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] bool is_start_of_group(Index i) const { return group_[static_cast<std::size_t>(i)] == i; }
  [[nodiscard]] std::size_t place(bool gradient, int stage, int micro_batch) const {
    return (gradient ? pairs_ : 0) + static_cast<std::size_t>(stage) * micro_batches_ +
           static_cast<std::size_t>(micro_batch);
  }

  // Where every input and gradient comes from: the last group of computations of the sender before it was sent.
  void note_makers() {
    maker_.assign(2 * pairs_, kNone);
    sent_.assign(2 * pairs_, kNone);
    const bool messages = has_messages(schedule_);
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      Index current = kNone;  // group of computations
      bool joined = false;
      for (const Action& action : schedule_.ranks[rank]) {
        const auto i = static_cast<Index>(actions_.size());
        actions_.push_back(&action);
        before_.push_back(current);
        group_.push_back(kNone);
        if (computes(action.kind)) {
          if (!joined) current = i;
          group_.back() = current;
          if (joined) before_.back() = before_[static_cast<std::size_t>(current)];
          joined = action.joined;
        }
        const bool makes_forward = action.kind == (messages ? Kind::send_forward : Kind::forward);
        const bool makes_backward = messages ? action.kind == Kind::send_backward : needs_gradient(action.kind);
        if (makes_forward && action.stage + 1 < schedule_.stages)
          note_maker(place(false, action.stage + 1, action.micro_batch), current, i);
        if (makes_backward && action.stage > 0)
          note_maker(place(true, action.stage - 1, action.micro_batch), current, i);
      }
    }
  }
  void note_maker(std::size_t place, Index group, Index sent) {
    maker_[place] = group;
    sent_[place] = sent;
  }
  void note_longest() {
    longest_.assign(schedule_.ranks.size(), {.forward = 0, .input_gradient = 0, .weight_gradient = 0, .backward = 0});
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const StageTimes& times = of_each(options_.stages, stage);
      StageTimes& longest =
          longest_[static_cast<std::size_t>(schedule_.stage_to_rank[static_cast<std::size_t>(stage)])];
      longest.forward = std::max(longest.forward, times.forward);
      longest.input_gradient = std::max(longest.input_gradient, times.input_gradient);
      longest.weight_gradient = std::max(longest.weight_gradient, times.weight_gradient);
      longest.backward = std::max(*longest.backward, times.of(Kind::backward));
    }
  }

  // Back from the begin of a group of computations, for which a rank waits, to the begin of the gap.
  void follow(const Gap& gap, Index group) {
    while (group != kNone && period(group).start > gap.begin) {
      const double now = period(group).start;
      const Index own = before_[static_cast<std::size_t>(group)];
      const double own_end = own == kNone ? 0 : period(own).end;
      Index next = own;
      if (own_end < now) {  // a message came now
        const std::size_t awaited = awaited_by(group);
        if (awaited == kNowhere) return;
        next = maker_[awaited];
        double sent = next == kNone ? 0 : period(next).end;
        if (meets_ && sent <= own_end) sent = own_end, next = own;  // it waited for the receiver
        gap.idle.transfer += now - std::max(sent, gap.begin);
        if (sent <= gap.begin) return;
      }
      if (next == kNone) return;
      add_computation(gap, next);
      group = next;
    }
  }
  void follow_from_end(const Gap& gap) {
    const auto last = std::ranges::max_element(timeline_.ranks, {}, &RankTimes::last_end);
    Index group = end(static_cast<std::size_t>(last - timeline_.ranks.begin())) - 1;
    while (group_[static_cast<std::size_t>(group)] == kNone) --group;
    group = group_[static_cast<std::size_t>(group)];
    add_computation(gap, group);
    follow(gap, group);
  }
  // Of what a group needs from other ranks, that which came last.
  [[nodiscard]] std::size_t awaited_by(Index group) const {
    double latest = -1;
    std::size_t found = kNowhere;
    for (Index i = group; is_in_group(i, group); ++i) {
      const bool forward = action(i).kind == Kind::forward;
      if (!forward && !needs_gradient(action(i).kind)) continue;
      const std::size_t needed = place(!forward, action(i).stage, action(i).micro_batch);
      const Index sent = sent_[needed];
      if (sent == kNone || share_rank(action(sent).stage, action(i).stage)) continue;
      if (std::exchange(latest, std::max(latest, period(sent).end)) < period(sent).end) found = needed;
    }
    return found;
  }
  [[nodiscard]] bool share_rank(int stage, int other) const {
    return schedule_.stage_to_rank[static_cast<std::size_t>(stage)] ==
           schedule_.stage_to_rank[static_cast<std::size_t>(other)];
  }
  [[nodiscard]] bool is_in_group(Index i, Index group) const {
    return i < static_cast<Index>(group_.size()) && group_[static_cast<std::size_t>(i)] == group;
  }

  // A computation that a rank waits for, from its start, or the gap's, to its end.
  void add_computation(const Gap& gap, Index group) {
    double nominal = 0, own = 0;
    for (Index i = group; is_in_group(i, group); ++i) {
      nominal += of_each(options_.stages, action(i).stage).of(action(i).kind);
      own += gap.longest.of(action(i).kind);
    }
    const bool several = action(group).joined;
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
  bool meets_;
  std::size_t micro_batches_;
  std::size_t pairs_;
  std::vector<const Action*> actions_;
  std::vector<Index> group_;         // of each computation, the first one that it is joined with
  std::vector<Index> before_;        // of each action, its rank's group of computations before it
  std::vector<Index> maker_;         // of each input, then each gradient
  std::vector<Index> sent_;          // of each, the action that sent it
  std::vector<StageTimes> longest_;  // by rank
  std::vector<IdleTime> result_;
};

}  // namespace

double StageTimes::of(ActionKind kind) const {
  switch (kind) {
    case Kind::forward:
      return forward;
    case Kind::backward:
      return backward.value_or(input_gradient + weight_gradient);
    case Kind::input_gradient:
      return input_gradient;
    case Kind::weight_gradient:
      return weight_gradient;
    default:
      return 0;
  }
}

std::span<const Period> Timeline::of_rank(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  return std::span(periods).subspan(offsets[at], offsets[at + 1] - offsets[at]);
}

double Timeline::barrier_bubble() const {
  const auto busiest = std::ranges::max_element(ranks, {}, &RankTimes::work);
  return busiest == ranks.end() ? 0 : busiest->barrier_bubble;
}

double Timeline::ratio_of_total(int rank) const {
  return makespan == 0 ? 0 : ranks[static_cast<std::size_t>(rank)].barrier_bubble / makespan;
}

double Timeline::ratio_of_work(int rank) const {
  const RankTimes& times = ranks[static_cast<std::size_t>(rank)];
  return times.work == 0 ? 0 : times.barrier_bubble / times.work;
}

Timeline simulate(const Schedule& schedule, const SimulationOptions& options) {
  refuse_unless_schedule(schedule);
  refuse_unless_options(schedule, options);
  return Simulation(schedule, options).run();
}

Timeline timeline_of(const Schedule& schedule, const std::vector<std::vector<Period>>& periods,
                     const SimulationOptions& options) {
  refuse_unless_schedule(schedule);
  refuse_unless_options(schedule, options);
  Timeline timeline;
  timeline.offsets = offsets_of(schedule);
  if (periods.size() != schedule.ranks.size())
    throw InvalidArgument(
        fmt::format("timeline_of: periods of {} ranks for {}", periods.size(), schedule.ranks.size()));
  for (std::size_t rank = 0; rank < periods.size(); ++rank) {
    if (periods[rank].size() != schedule.ranks[rank].size())
      throw InvalidArgument(fmt::format("timeline_of: rank {} has {} periods for {} actions", rank,
                                        periods[rank].size(), schedule.ranks[rank].size()));
    timeline.periods.insert(timeline.periods.end(), periods[rank].begin(), periods[rank].end());
  }
  summarise(schedule, options, timeline);
  return timeline;
}

std::vector<IdleTime> attribute_idle_time(const Schedule& schedule, const SimulationOptions& options,
                                          const Timeline& timeline) {
  refuse_unless_schedule(schedule);
  refuse_unless_options(schedule, options);
  return Attribution(schedule, options, timeline).run();
}

}  // namespace plumbline::schedules
