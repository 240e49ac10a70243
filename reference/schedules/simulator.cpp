#include "reference/schedules/simulator.hpp"

#include <algorithm>
#include <cstddef>
#include <random>
#include <ranges>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/lowering_parts.hpp"
#include "reference/schedules/detail/simulated_stages.hpp"
#include "reference/schedules/detail/simulation_options.hpp"
#include "reference/schedules/detail/timeline_parts.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace detail {
namespace {

using Kind = ActionKind;

// Evenly distributed in [0, 1), and the same with every standard library.
double random_part(std::uint64_t seed, const Action& action) {
  std::seed_seq mixed{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(action.stage), static_cast<std::uint32_t>(action.micro_batch),
                      static_cast<std::uint32_t>(action.kind)};
  std::uint32_t word{};
  mixed.generate(&word, &word + 1);
  return word * 0x1p-32;
}

// Moves what ranks make for each other. A rank that waited for it is put among those that are ready.
class Delivery {
 public:
  Delivery(const SimulationOptions& options, SimulatedStages& stages, std::vector<int>& ready)
      : latency_(options.links.latency),
        meets_(options.rendezvous && stages.has_messages()),
        stages_(stages),
        posted_(meets_ ? stages.places() : 0),
        ready_(ready) {}

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

 private:
  void send(const Action& action, Period& period) {
    Way& way = way_of(stages_.stage_of(action), direction_of_message(action.kind));
    if (way.there == nullptr) return;
    period = transfer(way, period.start);
    arrive(way, action, period.end);
  }
  // Under rendezvous: a message moves when both sides have come to it.
  void meet(const Action& action, Period& period) {
    if (action.kind < Kind::send_forward || action.kind > Kind::recv_backward) return;
    Stage& stage = stages_.stage_of(action);
    const int distance = distance_to_peer(action.kind);
    if (way_of(stage, distance).there == nullptr) return;
    Stage& sender = is_send(action.kind) ? stage : (&stage)[distance];
    Way& way = way_of(sender, direction_of_message(action.kind));
    Period* const other = std::exchange(posted_[stages_.place_of(way, action)], &period);
    if (other == nullptr) return;
    Period& sent = is_send(action.kind) ? period : *other;
    sent = transfer(way, std::max(period.start, other->start));
    arrive(way, action, sent.end);
  }
  Period transfer(Way& way, double now) const {
    const double start = std::max(now, *way.link_free);
    ++way.messages;
    *way.link_free = start + way.occupies;
    return {start, *way.link_free + latency_};
  }
  // Inlined wherever it is called: a call takes as long as the rest.
  [[gnu::always_inline]] void arrive(const Way& way, const Action& action, double now) {
    double& there = way.there[action.micro_batch];
    prepare_to_write(&there);
    if (std::exchange(there, now) == kAwaited) ready_.push_back(way.receiver);
  }

  double latency_;
  bool meets_;  // a message begins when both sides have come to it
  SimulatedStages& stages_;
  std::vector<Period*> posted_;  // of each, the side of the message that came first
  std::vector<int>& ready_;
};

// A rank on its way through its row.
struct Rank {
  const Action* next = nullptr;
  const Action* end = nullptr;  // of its row
  Period* period = nullptr;     // of the next action
  double now = 0;
  Tally tally;
};

void refuse_stuck_ranks(const Schedule& schedule, const std::vector<Rank>& ranks) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> stuck;
  for (std::size_t number = 0; number < ranks.size(); ++number)
    if (const Action* const next = ranks[number].next; next != ranks[number].end)
      stuck.push_back(fmt::format("rank {} at position {} for what {} needs", number,
                                  next - schedule.ranks[number].data(), to_string(*next)));
  if (!stuck.empty())
    throw InvalidArgument(fmt::format("simulate: the schedule cannot continue: {} ranks wait: {}", stuck.size(),
                                      fmt::join(stuck | std::views::take(kShown), ", ")));
}

// Takes the actions of all ranks, each rank as far as it comes.
class Simulation {
 public:
  Simulation(const Schedule& schedule, const SimulationOptions& options)
      : schedule_(schedule),
        options_(options),
        jitters_(options.jitter != 0),
        forward_only_(options.forward_only),
        stages_(schedule, options),
        delivery_(options, stages_, ready_),
        ranks_(schedule.ranks.size()) {
    timeline_.offsets = offsets_of(schedule);
    timeline_.periods.resize(timeline_.offsets.back());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const std::vector<Action>& row = schedule.ranks[i];
      ranks_[i].next = row.data();
      ranks_[i].end = row.data() + row.size();
      ranks_[i].period = timeline_.periods.data() + timeline_.offsets[i];
    }
  }

  Timeline run() {
    for (std::size_t rank = ranks_.size(); rank-- > 0;) ready_.push_back(static_cast<int>(rank));
    while (!ready_.empty()) {
      Rank& rank = ranks_[static_cast<std::size_t>(ready_.back())];
      ready_.pop_back();
      advance(rank);
    }
    refuse_stuck_ranks(schedule_, ranks_);
    for (const Rank& rank : ranks_) timeline_.ranks.push_back(rank.tally.times());
    measure_bubbles(timeline_);
    refuse_unless_number(timeline_.makespan, 0, "the sum of all times");
    timeline_.links = stages_.traffic();
    return std::move(timeline_);
  }

 private:
  [[nodiscard]] double time_of(const Computation& computation, const Action& action) const {
    if (!jitters_) return computation.time;
    return computation.time * (1 + options_.jitter * random_part(options_.seed, action));
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
        delivery_.take_other(*next, *period, rank.now);
      else
        taken = next->joined ? compute_together(rank, next, period) : compute_alone(rank, *next, *period);
      if (taken == 0) break;
      next += taken;
      period += taken;
    }
    rank.next = next;
    rank.period = period;
    prepare_to_read(next);
    prepare_to_write(period);
  }
  // Both answer how many actions were taken: none while something is missing.
  std::ptrdiff_t compute_alone(Rank& rank, const Action& action, Period& period) {
    Stage& stage = stages_.stage_of(action);
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
    delivery_.hand_on(computation, action, end);
    return 1;
  }
  std::ptrdiff_t compute_together(Rank& rank, const Action* begin, Period* period) {
    double start = rank.now, sum = 0;
    bool all_there = true;
    const auto group = group_at({begin, rank.end}, 0);
    for (const Action& action : group) {
      if (!is_compute(action.kind)) continue;
      const Computation& part = computation(stages_.stage_of(action), action.kind);
      const double ready = ready_at(part, action);
      all_there = all_there && ready >= 0;
      start = std::max(start, ready);
      sum += time_of(part, action);
    }
    if (!all_there) return 0;
    rank.now = start + options_.overlap * sum;
    for (const Action& action : group) {
      if (is_compute(action.kind)) {
        Stage& stage = stages_.stage_of(action);
        *period = {start, rank.now};
        rank.tally.add(action, *period, stage.activation_bytes, forward_only_);
        delivery_.hand_on(computation(stage, action.kind), action, rank.now);
      } else {
        delivery_.take_other(action, *period, rank.now);
      }
      ++period;
    }
    return static_cast<std::ptrdiff_t>(group.size());
  }

  const Schedule& schedule_;
  const SimulationOptions& options_;
  bool jitters_;
  bool forward_only_;
  Timeline timeline_;
  SimulatedStages stages_;
  std::vector<int> ready_;
  Delivery delivery_;
  std::vector<Rank> ranks_;
};

}  // namespace
}  // namespace detail

Timeline simulate(const Schedule& schedule, const SimulationOptions& options) {
  detail::refuse_unless_schedule(schedule);
  detail::refuse_unless_options(schedule, options);
  return detail::Simulation(schedule, options).run();
}

}  // namespace plumbline::schedules
