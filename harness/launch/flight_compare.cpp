#include "harness/launch/flight_compare.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::launch {
namespace {

using Kind = FlightEvent::Kind;

// Collectives by group and number.
using Places = std::set<std::pair<std::uint64_t, std::uint64_t>>;

// The collectives of which either log has an event of these kinds.
Places places(const FlightLog& one, const FlightLog& two, std::initializer_list<Kind> kinds) {
  Places found;
  for (const FlightLog* log : {&one, &two})
    for (const FlightEvent& event : log->events)
      if (event.collective != 0 && std::ranges::count(kinds, event.kind) > 0)
        found.insert({event.group, event.collective});
  return found;
}

// What members must agree on.
bool agree(const FlightEvent& a, const FlightEvent& b) {
  if (a.operation != b.operation || a.text != b.text) return false;
  if (a.operation == comm::Operation::barrier) return true;
  return a.elements == b.elements && a.dtype == b.dtype && (!is_reduction(a.operation) || a.op == b.op) &&
         (!is_rooted(a.operation) || a.root == b.root);
}

using Ranks = std::vector<std::pair<int, const FlightEvent*>>;

// "ranks 0, 2 all_reduce(f32 x 5, sum), rank 1 barrier()".
std::string who_calls_what(const Ranks& ranks) {
  std::vector<std::pair<const FlightEvent*, std::vector<int>>> kinds;
  for (const auto& [rank, event] : ranks) {
    auto kind = std::ranges::find_if(kinds, [&](const auto& one) { return agree(*one.first, *event); });
    if (kind == kinds.end()) kind = kinds.insert(kind, {event, {}});
    kind->second.push_back(rank);
  }
  std::vector<std::string> words;
  for (const auto& [event, who] : kinds)
    words.push_back(
        fmt::format("rank{} {} {}", who.size() == 1 ? "" : "s", fmt::join(who, ", "), event->describe_call()));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::string first_difference(const std::vector<FlightLog>& logs, Compared compared) {
  Places failed;
  if (compared == Compared::completed)
    for (const FlightLog& log : logs) failed.merge(places(log, log, {Kind::failed}));
  std::map<std::pair<std::uint64_t, std::uint64_t>, Ranks> collectives;  // by number and group: the first comes first
  for (std::size_t rank = 0; rank < logs.size(); ++rank)
    for (const FlightEvent& event : logs[rank].events) {
      if (!event.begins() || event.collective == 0) continue;
      Ranks& ranks = collectives[{event.collective, event.group}];
      // A number that comes twice was refused the first time.
      if (!ranks.empty() && ranks.back().first == static_cast<int>(rank)) ranks.pop_back();
      ranks.emplace_back(static_cast<int>(rank), &event);
    }
  for (const auto& [place, ranks] : collectives) {
    if (failed.contains({place.second, place.first})) continue;
    const FlightEvent& first = *ranks.front().second;
    if (std::ranges::all_of(ranks, [&](const auto& one) { return agree(first, *one.second); })) continue;
    const auto& events = logs[static_cast<std::size_t>(ranks.front().first)].events;
    return fmt::format("collective #{} on {}: {}", place.first, name_of_group(place.second, events),
                       who_calls_what(ranks));
  }
  return {};
}

namespace {

using Sequence = std::vector<const FlightEvent*>;

// A rank's blocking collectives, in the order in which each of its threads entered them. Calls of a group that several
// threads use have no order of their own.
std::vector<Sequence> entered_collectives(const FlightLog& log) {
  std::map<std::uint64_t, std::set<std::int32_t>> threads;  // of a group
  for (const FlightEvent& event : log.events)
    if (event.begins()) threads[event.group].insert(event.thread);
  std::map<std::int32_t, Sequence> entered;
  for (const FlightEvent& event : log.events)
    if (event.kind == Kind::enter && event.collective != 0 && threads[event.group].size() == 1)
      entered[event.thread].push_back(&event);
  std::vector<Sequence> sequences;
  for (auto& [thread, sequence] : entered) sequences.push_back(std::move(sequence));
  return sequences;
}

// The oldest collective of each group that a rank still remembers.
std::map<std::uint64_t, std::uint64_t> oldest(const Sequence& entered) {
  std::map<std::uint64_t, std::uint64_t> first;
  for (const FlightEvent* event : entered) first.emplace(event->group, event->collective);
  return first;
}

// Of `entered` what is of groups that both ranks use, from where both remember them, and what both entered and blocked
// in.
Sequence shared_part(const Sequence& entered, const std::map<std::uint64_t, std::uint64_t>& mine,
                     const std::map<std::uint64_t, std::uint64_t>& theirs, const Places& without) {
  Sequence shared;
  for (const FlightEvent* event : entered) {
    const auto other = theirs.find(event->group);
    if (other != theirs.end() && event->collective >= std::max(other->second, mine.at(event->group)) &&
        !without.contains({event->group, event->collective}))
      shared.push_back(event);
  }
  return shared;
}

std::string described(int rank, const FlightEvent& event, const FlightLog& log) {
  return fmt::format("rank {} {} #{} on {}", rank, event.describe_call(), event.collective,
                     name_of_group(event.group, log.events));
}

// Where two sequences first name different groups; nothing where they do not.
std::optional<std::pair<const FlightEvent*, const FlightEvent*>> crossing(const Sequence& one, const Sequence& two,
                                                                          const Places& without) {
  const auto first = oldest(one), second = oldest(two);
  const Sequence a = shared_part(one, first, second, without), b = shared_part(two, second, first, without);
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i]->group != b[i]->group) return std::pair(a[i], b[i]);
  return std::nullopt;
}

}  // namespace

std::string crossed_order(const std::vector<FlightLog>& logs) {
  std::vector<std::vector<Sequence>> entered;
  for (const FlightLog& log : logs) entered.push_back(entered_collectives(log));
  for (std::size_t one = 0; one < logs.size(); ++one)
    for (std::size_t two = one + 1; two < logs.size(); ++two) {
      // A call that one of them only started keeps nobody waiting, and one that failed says nothing.
      const Places without = places(logs[one], logs[two], {Kind::start, Kind::failed});
      for (const Sequence& a : entered[one])
        for (const Sequence& b : entered[two])
          if (const auto place = crossing(a, b, without))
            return fmt::format("ranks {} and {} enter blocking collectives of two groups in different orders: {}, {}",
                               one, two, described(static_cast<int>(one), *place->first, logs[one]),
                               described(static_cast<int>(two), *place->second, logs[two]));
    }
  return {};
}

namespace {

// The blocking collective in which a rank stands, or nullptr.
const FlightEvent* open_collective(const FlightLog& log) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> ended;
  for (auto event = log.events.rbegin(); event != log.events.rend(); ++event) {
    if (event->ends()) ended.insert({event->group, event->call});
    if (event->kind == Kind::enter && event->collective != 0 && !ended.contains({event->group, event->call}))
      return &*event;
  }
  return nullptr;
}

// Whether a rank is a member of the group in which another stands, and has not come there.
bool keeps_waiting(const FlightLog& log, const FlightEvent& there) {
  const auto is_of_group = [&](const FlightEvent& event) { return event.group == there.group; };
  const auto came = [&](const FlightEvent& event) {
    return is_of_group(event) && event.begins() && event.collective >= there.collective;
  };
  return std::ranges::any_of(log.events, is_of_group) && std::ranges::none_of(log.events, came);
}

}  // namespace

std::string crosswise_wait(const std::vector<FlightLog>& logs) {
  for (std::size_t one = 0; one < logs.size(); ++one)
    for (std::size_t two = one + 1; two < logs.size(); ++two) {
      const FlightEvent* const a = open_collective(logs[one]);
      const FlightEvent* const b = open_collective(logs[two]);
      if (a == nullptr || b == nullptr || !keeps_waiting(logs[two], *a) || !keeps_waiting(logs[one], *b)) continue;
      return fmt::format("ranks {} and {} wait for each other in two groups: {}, {}", one, two,
                         described(static_cast<int>(one), *a, logs[one]),
                         described(static_cast<int>(two), *b, logs[two]));
    }
  return {};
}

}  // namespace plumbline::launch
