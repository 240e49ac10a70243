#include "benchmarks/stream_clock.hpp"

#include <chrono>

namespace plumbline::bench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

device::OwnEvent timed_event(const device::MemorySpace& place) { return {place.use().runtime, place.index(), true}; }

}  // namespace

StreamClock::StreamClock(const device::MemorySpace& place)
    : place_(place), events_{timed_event(place), timed_event(place)} {
  set();
}

void StreamClock::set() {
  constexpr int tries = 20;
  place_.synchronize();
  for (int i = 0; i < tries; ++i) {
    const std::size_t other = 1 - zero_;
    const double before = now();
    events_[other].record(place_.use().stream);
    place_.synchronize();
    const double after = now();
    if (i > 0 && after - before >= after_ - before_) continue;
    zero_ = other;
    before_ = before;
    after_ = after;
  }
}

double StreamClock::seconds_at(const device::OwnEvent& event) const {
  return (before_ + after_) / 2 + place_.use().runtime->seconds_between(events_[zero_].get(), event.get());
}

void StreamComputationClock::begin() {
  used_ = 0;
  clock_.set();
}

StreamComputationClock::Computation& StreamComputationClock::next() {
  if (used_ == computations_.size()) computations_.emplace_back(place_);
  return computations_[used_++];
}

schedules::AroundComputation StreamComputationClock::around() {
  return [this](const schedules::Action& action, const std::function<void()>& compute) {
    if (!schedules::is_compute(action.kind)) return compute();
    const Computation& computation = next();
    computation.start.record(place_.use().stream);
    if (on_host_) place_.synchronize();
    compute();
    computation.end.record(place_.use().stream);
  };
}

std::vector<schedules::Period> StreamComputationClock::periods() const {
  place_.synchronize();
  std::vector<schedules::Period> periods;
  for (std::size_t i = 0; i < used_; ++i)
    periods.push_back({clock_.seconds_at(computations_[i].start), clock_.seconds_at(computations_[i].end)});
  return periods;
}

}  // namespace plumbline::bench
