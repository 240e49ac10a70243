#include "harness/launch/slow_calls.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace plumbline::launch {
namespace {

constexpr std::size_t kLeastCalls = 8;  // of which a median is taken

// A blocking call that came to its end.
struct Ended {
  const FlightEvent* begin;
  std::uint64_t end;  // nanoseconds, as of an event
  [[nodiscard]] std::uint64_t took() const { return end - begin->nanoseconds; }
};

std::vector<Ended> ended_calls(const FlightLog& log) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, const FlightEvent*> entered;
  std::vector<Ended> calls;
  for (const FlightEvent& event : log.events) {
    const std::pair key(event.group, event.call);
    if (event.kind == FlightEvent::Kind::enter) entered[key] = &event;
    if (event.kind != FlightEvent::Kind::leave) continue;
    if (const auto begin = entered.find(key); begin != entered.end())
      calls.push_back({begin->second, event.nanoseconds});
  }
  return calls;
}

// When a rank with that log came to the call, or last came to any in the group before its end: 0 for no member. Nothing
// where the log no longer says.
std::optional<std::uint64_t> arrival(const FlightLog& log, const Ended& call) {
  const bool is_collective = call.begin->collective != 0;
  bool is_member = false;
  std::uint64_t last = 0;
  for (const FlightEvent& event : log.events) {
    if (event.group != call.begin->group) continue;
    is_member = true;
    if (!event.begins() || event.nanoseconds > call.end) continue;
    if (is_collective && event.collective == call.begin->collective) return event.nanoseconds;
    last = event.nanoseconds;
  }
  if (is_collective && is_member) return std::nullopt;
  return last;
}

// From when all members had come.
std::optional<std::uint64_t> own_time(const std::vector<FlightLog>& logs, const Ended& call) {
  std::uint64_t begin = call.begin->nanoseconds;
  for (const FlightLog& log : logs) {
    const auto came = arrival(log, call);
    if (!came) return std::nullopt;
    begin = std::max(begin, *came);
  }
  return call.end - begin;
}

double seconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

}  // namespace

std::vector<std::string> slow_calls(const std::vector<FlightLog>& logs, std::chrono::nanoseconds floor) {
  const auto least = static_cast<std::uint64_t>(floor.count());
  std::vector<std::string> lines;
  if (!std::ranges::all_of(logs, &FlightLog::found)) return lines;
  for (std::size_t rank = 0; rank < logs.size(); ++rank) {
    const std::vector<Ended> calls = ended_calls(logs[rank]);
    for (const Ended& call : calls) {
      if (call.took() < least) continue;
      const auto took = own_time(logs, call);
      std::vector<std::uint64_t> others;
      for (const Ended& other : calls)
        if (&other != &call && other.begin->operation == call.begin->operation &&
            other.begin->elements >= call.begin->elements)
          others.push_back(other.took());
      if (!took || *took < least || others.size() < kLeastCalls) continue;
      const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
      std::ranges::nth_element(others, middle);
      const std::uint64_t median = std::max<std::uint64_t>(*middle, 1);
      if (*took / median < kSlowFactor) continue;
      lines.push_back(fmt::format(
          "rank {}: {} #{} on {} took {:.2f} s, {} times the median of {} such calls ({:.6f} s)", rank,
          call.begin->describe_call(), call.begin->call, name_of_group(call.begin->group, logs[rank].events),
          seconds(*took), *took / median, others.size(), seconds(median)));
    }
  }
  return lines;
}

}  // namespace plumbline::launch
