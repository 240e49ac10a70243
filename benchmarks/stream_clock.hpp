// benchmarks/stream_clock.hpp: when a device was where in a stream, by the clock of the machine.
//
// Model   Events say how far apart they are, and nothing of other devices'. So one of them is the zero: it is recorded
//         in an empty stream and waited for at once, and lies between the machine's clock before and afterwards; of
//         several tries the one between the two closest readings counts, and their middle is its time. It is wrong by
//         half of what is between them at most; two ranks of one machine may be apart by as much as both are wrong.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "reference/device/memory_space.hpp"
#include "reference/schedules/executor.hpp"

namespace plumbline::bench {

/// Of the stream of a place on a device, which must outlive it.
class StreamClock {
 public:
  explicit StreamClock(const device::MemorySpace& place);
  /// Waits for the stream. Anew now and then: events know the time between two of them to seven digits.
  void set();
  /// Seconds of the machine's steady clock. The event must be timed and reached, and recorded since set().
  [[nodiscard]] double seconds_at(const device::OwnEvent& event) const;
  /// By how much that may be wrong at most, in seconds, with the time between events as the device says it.
  [[nodiscard]] double uncertainty() const { return (after_ - before_) / 2; }

 private:
  device::MemorySpace place_;
  std::array<device::OwnEvent, 2> events_;  // of which one is the zero
  std::size_t zero_ = 0;
  double before_ = 0, after_ = 0;  // by the machine's clock
};

/// Notes when the computations of a rank happen that are put into that stream, without a wait of the host.
class StreamComputationClock {
 public:
  /// `on_host`: callbacks compute on the host, at once, as LibTorch does where a device is emulated. They begin when
  /// the stream is there, for which the host then waits.
  StreamComputationClock(const device::MemorySpace& place, bool on_host)
      : place_(place), on_host_(on_host), clock_(place) {}
  /// Forgets all computations, and sets the clock. Waits for the stream.
  void begin();
  /// What an executor calls around computations. The clock must outlive it.
  [[nodiscard]] schedules::AroundComputation around();
  /// Of the computations so far, in their order: seconds of the machine's steady clock. Waits for the stream.
  [[nodiscard]] std::vector<schedules::Period> periods() const;
  [[nodiscard]] double uncertainty() const { return clock_.uncertainty(); }

 private:
  struct Computation {
    explicit Computation(const device::MemorySpace& place)
        : start(place.use().runtime, place.index(), true), end(place.use().runtime, place.index(), true) {}
    device::OwnEvent start, end;
  };
  Computation& next();
  device::MemorySpace place_;
  bool on_host_;
  StreamClock clock_;
  std::deque<Computation> computations_;  // kept from run to run
  std::size_t used_ = 0;
};

}  // namespace plumbline::bench
