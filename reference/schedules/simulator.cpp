#include "reference/schedules/simulator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/lowering_parts.hpp"
#include "reference/schedules/detail/well_formed.hpp"
#include "reference/schedules/lowering.hpp"

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
  if (!options.rank_slowdown.empty())
    refuse_length(options.rank_slowdown.size(), schedule.ranks.size(), "straggling", false);
  for (const double factor : options.rank_slowdown) refuse_unless_number(factor, 0, "straggling");
  refuse_unless_number(options.jitter, 0, "jitter");
}

void refuse_unless_schedule(const Schedule& schedule) {
  if (detail::flaw_of(schedule) != detail::Flaw::none)
    throw InvalidArgument(
        fmt::format("simulate: {} stages, {} micro-batches and a rank in [0, {}) for each stage make no schedule",
                    schedule.stages, schedule.micro_batches, schedule.ranks.size()));
  if (detail::has_too_many_pairs(schedule))
    throw InvalidArgument(fmt::format("simulate: {} stages x {} micro-batches are more than {} pairs", schedule.stages,
                                      schedule.micro_batches, detail::kMostPairs));
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

constexpr bool needs_gradient(Kind kind) { return direction_of_computation(kind) < 0; }

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

// What concerns one rank, from its computations in turn.
class Tally {
 public:
  void add(const Action& action, const Period& period, double activation_bytes, bool forward_only) {
    if (!std::exchange(begun_, true)) times_.first_start = period.start;
    times_.last_end = period.end;
    bool ends = action.kind != Kind::input_gradient;
    if (action.kind == Kind::forward) {
      if (++live_ > times_.peak_activations) times_.peak_activations = live_;
      bytes_ += activation_bytes;
      if (bytes_ > times_.peak_activation_bytes) times_.peak_activation_bytes = bytes_;
      ends = forward_only;
    }
    if (action.joined || inside_) return add_joined(action.joined, period, ends ? 1 : 0, ends ? activation_bytes : 0);
    times_.work += period.end - period.start;
    if (ends) --live_, bytes_ -= activation_bytes;
  }
  [[nodiscard]] const RankTimes& times() const { return times_; }

 private:
  // One of a group, whose activations end with it.
  void add_joined(bool more, const Period& period, int ended, double ended_bytes) {
    if (!inside_) group_start_ = period.start;
    inside_ = more;
    ended_ += ended;
    ended_bytes_ += ended_bytes;
    if (more) return;
    times_.work += period.end - group_start_;
    live_ -= std::exchange(ended_, 0);
    bytes_ -= std::exchange(ended_bytes_, 0);
  }

  RankTimes times_;
  double group_start_ = 0, bytes_ = 0, ended_bytes_ = 0;
  int live_ = 0, ended_ = 0;
  bool inside_ = false, begun_ = false;  // a group of computations; the row
};

RankTimes tally_of(std::span<const Action> actions, std::span<const Period> periods, const SimulationOptions& options) {
  Tally tally;
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (is_compute(actions[i].kind))
      tally.add(actions[i], periods[i], of_each(options.activation_bytes, actions[i].stage), options.forward_only);
  return tally.times();
}

// Joined computations begin together and end together, however a rank took them.
std::vector<Period> joined_together(std::span<const Action> actions, std::span<const Period> periods) {
  std::vector<Period> together(periods.begin(), periods.end());
  for (std::size_t first = 0, next = 0; first < actions.size(); first = next) {
    for (next = first + 1; next < actions.size() && actions[next - 1].joined; ++next) {
    }
    if (is_compute(actions[first].kind))
      std::fill(together.begin() + static_cast<std::ptrdiff_t>(first),
                together.begin() + static_cast<std::ptrdiff_t>(next),
                Period{periods[first].start, periods[next - 1].end});
  }
  return together;
}

// Makespan and bubbles, when the rest of each rank is known.
void measure_bubbles(Timeline& timeline) {
  for (const RankTimes& times : timeline.ranks) timeline.makespan = std::max(timeline.makespan, times.last_end);
  for (RankTimes& times : timeline.ranks) {
    times.barrier_bubble = timeline.makespan - times.work;
    times.span_bubble = times.last_end - times.first_start - times.work;
  }
}

// What a stage sends to a neighbour: its outputs to the next stage, its gradients to the stage before it.
struct Way {
  int receiver = 0;             // rank
  double* there = nullptr;      // by micro-batch, when it is; nothing where it stays on the rank
  double* link_free = nullptr;  // from when on the link is
  std::size_t link = 0;
  double occupies = 0;  // seconds of the link
  double bytes = 0;     // of a message
  std::int64_t messages = 0;
};

// A computation of a stage.
struct Computation {
  double time = 0;
  double* needed = nullptr;  // by micro-batch, when it is there; nothing where nothing is needed
  double* kept = nullptr;    // the same of what it makes for this rank
  Way* sent = nullptr;       // where what it makes goes of itself
};

struct Stage {
  std::array<Computation, 5> computations;  // by kind
  double activation_bytes = 0;
  Way onward, back;
};

class Simulation {
 public:
  Simulation(const Schedule& schedule, const SimulationOptions& options)
      : schedule_(schedule),
        options_(options),
        has_messages_(has_messages(schedule)),
        meets_(options.rendezvous && has_messages_),
        jitters_(options.jitter != 0),
        forward_only_(options.forward_only),
        stage_count_(static_cast<unsigned>(schedule.stages)),
        micro_batch_count_(static_cast<unsigned>(schedule.micro_batches)),
        stages_(stage_count_),
        first_stage_(stages_.data()),
        ranks_(schedule.ranks.size()) {
    timeline_.offsets = offsets_of(schedule);
    timeline_.periods.resize(timeline_.offsets.back());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const std::vector<Action>& row = schedule.ranks[i];
      ranks_[i].next = row.data();
      ranks_[i].end = row.data() + row.size();
      ranks_[i].period = timeline_.periods.data() + timeline_.offsets[i];
    }
    lay_out_stages();
    lay_links();
  }

  Timeline run() {
    for (std::size_t rank = ranks_.size(); rank-- > 0;) ready_.push_back(static_cast<int>(rank));
    while (!ready_.empty()) {
      Rank& rank = ranks_[static_cast<std::size_t>(ready_.back())];
      ready_.pop_back();
      advance(rank);
    }
    refuse_stuck_ranks();
    for (const Rank& rank : ranks_) timeline_.ranks.push_back(rank.tally.times());
    measure_bubbles(timeline_);
    refuse_unless_number(timeline_.makespan, 0, "the sum of all times");
    count_traffic();
    return std::move(timeline_);
  }

 private:
  struct Rank {
    const Action* next = nullptr;
    const Action* end = nullptr;  // of its row
    Period* period = nullptr;     // of the next action
    double now = 0;
    Tally tally;
  };

  void lay_out_stages() {
    const std::size_t stride = detail::stage_stride(static_cast<std::size_t>(schedule_.micro_batches));
    const std::size_t all = stages_.size() * stride;
    there_.assign(2 * all, kNotThere);
    if (meets_) posted_.assign(2 * all, nullptr);
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      Stage& stage = stages_[i];
      stage.activation_bytes = of_each(options_.activation_bytes, static_cast<int>(i));
      set_times(i);
      double *const inputs = &there_[i * stride], *const gradients = &there_[all + i * stride];
      Computation& forward = computation(stage, Kind::forward);
      const auto set_backward = [&](auto member, auto value) {
        computation(stage, Kind::backward).*member = computation(stage, Kind::input_gradient).*member = value;
      };
      set_backward(&Computation::needed, gradients);
      if (i + 1 == stages_.size()) forward.kept = gradients;  // at the model's end the gradient follows from the output
      if (i == 0) continue;                                   // at its begin there is nothing to wait for
      forward.needed = inputs;
      Stage& before = stages_[i - 1];
      Computation& forward_before = computation(before, Kind::forward);
      double* const gradients_before = gradients - stride;
      if (owner(i) == owner(i - 1)) {
        forward_before.kept = inputs;
        set_backward(&Computation::kept, gradients_before);
        continue;
      }
      before.onward = {.receiver = owner(i), .there = inputs};
      stage.back = {.receiver = owner(i - 1), .there = gradients_before};
      for (Way* const way : {&before.onward, &stage.back}) {
        way->bytes = of_each(options_.message_bytes, static_cast<int>(i) - 1);
        way->occupies = way->bytes / options_.links.bandwidth;
      }
      if (has_messages_) continue;
      forward_before.sent = &before.onward;
      set_backward(&Computation::sent, &stage.back);
    }
  }
  void set_times(std::size_t stage) {
    const double slow =
        options_.rank_slowdown.empty() ? 1 : options_.rank_slowdown[static_cast<std::size_t>(owner(stage))];
    const StageTimes& times = of_each(options_.stages, static_cast<int>(stage));
    for (const Kind kind : {Kind::forward, Kind::backward, Kind::input_gradient, Kind::weight_gradient})
      computation(stages_[stage], kind).time = times.of(kind) * slow;
  }
  static Way& way_of(Stage& stage, int direction) { return direction > 0 ? stage.onward : stage.back; }
  static Computation& computation(Stage& stage, Kind kind) {
    return stage.computations[static_cast<std::size_t>(kind)];
  }

  // A link for each pair of ranks that any way connects.
  void lay_links() {
    std::vector<LinkTraffic>& links = timeline_.links;
    const auto for_ways = [&](const auto& visit) {
      for (std::size_t i = 0; i < stages_.size(); ++i)
        for (Way* const way : {&stages_[i].onward, &stages_[i].back})
          if (way->there != nullptr) visit(LinkTraffic{.from = owner(i), .to = way->receiver}, *way);
    };
    const auto ends = [](const LinkTraffic& link) { return std::pair(link.from, link.to); };
    for_ways([&](const LinkTraffic& link, const Way&) { links.push_back(link); });
    std::ranges::sort(links, {}, ends);
    const auto rest = std::ranges::unique(links, {}, ends);
    links.erase(rest.begin(), rest.end());
    link_free_.assign(links.size(), 0);
    for_ways([&](const LinkTraffic& link, Way& way) {
      way.link = static_cast<std::size_t>(std::ranges::lower_bound(links, ends(link), {}, ends) - links.begin());
      way.link_free = &link_free_[way.link];
    });
  }
  void count_traffic() {
    for (const Stage& stage : stages_)
      for (const Way& way : {stage.onward, stage.back}) {
        if (way.messages == 0) continue;
        LinkTraffic& link = timeline_.links[way.link];
        link.messages += way.messages;
        link.bytes += static_cast<double>(way.messages) * way.bytes;
      }
    std::erase_if(timeline_.links, [](const LinkTraffic& link) { return link.messages == 0; });
  }

  [[nodiscard]] int owner(std::size_t stage) const { return schedule_.stage_to_rank[stage]; }
  [[nodiscard]] double time_of(const Computation& computation, const Action& action) const {
    if (!jitters_) return computation.time;
    return computation.time * (1 + options_.jitter * random_part(options_.seed, action));
  }
  Stage& stage_of(const Action& action) {
    const auto stage = static_cast<unsigned>(action.stage);
    if (stage >= stage_count_ || static_cast<unsigned>(action.micro_batch) >= micro_batch_count_) [[unlikely]]
      refuse_outside(action);
    return first_stage_[stage];
  }
  [[noreturn]] void refuse_outside(const Action& action) const {
    throw InvalidArgument(fmt::format("simulate: {} is none of {} stages and {} micro-batches", to_string(action),
                                      schedule_.stages, schedule_.micro_batches));
  }

  // When a computation may begin for all that it needs; kAwaited when that is not known yet.
  static double ready_at(const Computation& computation, const Action& action) {
    if (computation.needed == nullptr) return 0;
    double& there = computation.needed[action.micro_batch];
    return there < 0 ? (there = kAwaited) : there;
  }

  // Takes a rank as far as it comes.
  void advance(Rank& rank) {
    const Action* next = rank.next;
    Period* period = rank.period;
    while (next != rank.end) {
      std::ptrdiff_t taken = 1;
      if (!is_compute(next->kind))
        take_other(*next, *period, rank.now);
      else
        taken = next->joined ? compute_together(rank, next, period) : compute_alone(rank, *next, *period);
      if (taken == 0) break;
      next += taken;
      period += taken;
    }
    rank.next = next;
    rank.period = period;
    detail::prepare_to_read(next);
    detail::prepare_to_write(period);
  }
  // Both answer how many actions were taken: none while something is missing.
  std::ptrdiff_t compute_alone(Rank& rank, const Action& action, Period& period) {
    Stage& stage = stage_of(action);
    const Computation& computation = stage.computations[static_cast<std::size_t>(action.kind)];
    double start = rank.now;
    if (computation.needed != nullptr) {
      double& there = computation.needed[action.micro_batch];
      if (there < 0) {
        there = kAwaited;
        return 0;
      }
      start = std::max(start, there);
    }
    const double end = start + time_of(computation, action);
    rank.now = end;
    period = {start, end};
    rank.tally.add(action, {start, end}, stage.activation_bytes, forward_only_);
    hand_on(computation, action, end);
    return 1;
  }
  std::ptrdiff_t compute_together(Rank& rank, const Action* begin, Period* period) {
    double start = rank.now, sum = 0;
    bool all_there = true;
    const auto group = detail::group_at({begin, rank.end}, 0);
    for (const Action& action : group) {
      if (!is_compute(action.kind)) continue;
      const Computation& part = computation(stage_of(action), action.kind);
      const double ready = ready_at(part, action);
      all_there = all_there && ready >= 0;
      start = std::max(start, ready);
      sum += time_of(part, action);
    }
    if (!all_there) return 0;
    rank.now = start + options_.overlap * sum;
    for (const Action& action : group) {
      if (is_compute(action.kind)) {
        Stage& stage = stage_of(action);
        *period = {start, rank.now};
        rank.tally.add(action, *period, stage.activation_bytes, forward_only_);
        hand_on(computation(stage, action.kind), action, rank.now);
      } else {
        take_other(action, *period, rank.now);
      }
      ++period;
    }
    return static_cast<std::ptrdiff_t>(group.size());
  }

  // The result of a computation: to the next stage on this rank, or on its way where the schedule has no messages.
  void hand_on(const Computation& computation, const Action& action, double now) {
    if (computation.kept != nullptr) computation.kept[action.micro_batch] = now;
    if (computation.sent != nullptr) arrive(*computation.sent, action, transfer(*computation.sent, now).end);
  }

  // Anything but a computation takes no time of the rank.
  void take_other(const Action& action, Period& period, double now) {
    period = {now, now};
    if (meets_)
      meet(action, period);
    else if (action.kind == Kind::send_forward || action.kind == Kind::send_backward)
      send(action, period);
  }
  void send(const Action& action, Period& period) {
    Way& way = way_of(stage_of(action), direction_of_message(action.kind));
    if (way.there == nullptr) return;
    period = transfer(way, period.start);
    arrive(way, action, period.end);
  }
  // Under rendezvous: a message moves when both sides have come to it.
  void meet(const Action& action, Period& period) {
    if (action.kind < Kind::send_forward || action.kind > Kind::recv_backward) return;
    Stage& stage = stage_of(action);
    const int distance = distance_to_peer(action.kind);
    if (way_of(stage, distance).there == nullptr) return;
    Stage& sender = is_send(action.kind) ? stage : (&stage)[distance];
    Way& way = way_of(sender, direction_of_message(action.kind));
    Period* const other = std::exchange(posted_[place_of(way, action)], &period);
    if (other == nullptr) return;
    Period& sent = is_send(action.kind) ? period : *other;
    sent = transfer(way, std::max(period.start, other->start));
    arrive(way, action, sent.end);
  }
  [[nodiscard]] std::size_t place_of(const Way& way, const Action& action) const {
    return static_cast<std::size_t>(way.there - there_.data() + action.micro_batch);
  }
  Period transfer(Way& way, double now) const {
    const double start = std::max(now, *way.link_free);
    ++way.messages;
    *way.link_free = start + way.occupies;
    return {start, *way.link_free + options_.links.latency};
  }
  // Inlined wherever it is called: a call takes as long as the rest.
  [[gnu::always_inline]] void arrive(const Way& way, const Action& action, double now) {
    double& there = way.there[action.micro_batch];
    detail::prepare_to_write(&there);
    if (std::exchange(there, now) == kAwaited) ready_.push_back(way.receiver);
  }

  void refuse_stuck_ranks() const {
    std::string words;
    constexpr int kShown = 4;
    int stuck = 0;
    for (std::size_t number = 0; number < ranks_.size(); ++number) {
      const Rank& rank = ranks_[number];
      if (rank.next == rank.end || ++stuck > kShown) continue;
      words += fmt::format("{} rank {} at position {} for what {} needs", stuck == 1 ? "" : ",", number,
                           rank.next - schedule_.ranks[number].data(), to_string(*rank.next));
    }
    if (stuck == 0) return;
    if (stuck > kShown) words += fmt::format(", and {} more", stuck - kShown);
    throw InvalidArgument("simulate: the schedule cannot go on: there wait" + words);
  }

  const Schedule& schedule_;
  const SimulationOptions& options_;
  bool has_messages_;
  bool meets_;  // a message begins when both sides have come to it
  bool jitters_;
  bool forward_only_;
  unsigned stage_count_, micro_batch_count_;
  Timeline timeline_;
  std::vector<Stage> stages_;
  Stage* first_stage_;
  std::vector<Rank> ranks_;
  std::vector<double> there_;      // when each input, then each gradient, is there
  std::vector<Period*> posted_;    // of each, the side of the message that came first
  std::vector<double> link_free_;  // from when on each link is
  std::vector<int> ready_;
};

// Follows what idle ranks wait for.
class Attribution {
 public:
  Attribution(const Schedule& schedule, const SimulationOptions& options, const Timeline& timeline, bool measured)
      : schedule_(schedule),
        options_(options),
        timeline_(timeline),
        measured_(measured),
        meets_(options.rendezvous && has_messages(schedule) && !measured),
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
        if (is_compute(action.kind)) {
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
  // Of what is made twice, the first is what others wait for: so each step back in a chain is one back in time.
  void note_maker(std::size_t place, Index group, Index sent) {
    if (sent_[place] != kNone) return;
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
      const std::size_t awaited = own_end < now ? awaited_by(group) : kNowhere;
      if (measured_ && own_end < now && (awaited == kNowhere || end_of_maker(awaited) <= own_end)) {
        gap.idle.overhead += now - std::max(own_end, gap.begin);
        if (own_end <= gap.begin) return;
      } else if (own_end < now) {  // a message came now
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
      // When a measured message arrived nobody saw.
      const double end = measured_ ? end_of_maker(needed) : period(sent).end;
      if (std::exchange(latest, std::max(latest, end)) < end) found = needed;
    }
    return found;
  }
  [[nodiscard]] double end_of_maker(std::size_t awaited) const {
    return maker_[awaited] == kNone ? 0 : period(maker_[awaited]).end;
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
  bool measured_;
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
    const std::vector<Period> together = joined_together(schedule.ranks[rank], periods[rank]);
    timeline.periods.insert(timeline.periods.end(), together.begin(), together.end());
    timeline.ranks.push_back(tally_of(schedule.ranks[rank], together, options));
  }
  measure_bubbles(timeline);
  return timeline;
}

std::vector<IdleTime> attribute_idle_time(const Schedule& schedule, const SimulationOptions& options,
                                          const Timeline& timeline) {
  refuse_unless_schedule(schedule);
  refuse_unless_options(schedule, options);
  return Attribution(schedule, options, timeline, false).run();
}

std::vector<IdleTime> attribute_measured_idle_time(const Schedule& schedule, const SimulationOptions& options,
                                                   const Timeline& timeline) {
  refuse_unless_schedule(schedule);
  refuse_unless_options(schedule, options);
  return Attribution(schedule, options, timeline, true).run();
}

}  // namespace plumbline::schedules
