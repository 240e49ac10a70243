// harness/launch/flight.hpp: what each rank was doing, readable after its death.
//
// Model   A rank writes an event when it enters and leaves a call into a ring in a memory-mapped file. The file
//         outlives the process; the driver reads the window that is still held. Nothing blocks on it. Several threads
//         of a rank may write.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::launch {

struct FlightEvent {
  enum class Kind : std::uint8_t { group, enter, leave, start, done, failed };
  std::uint64_t number = 0;  // of the event on this rank, from 1; 0: never written
  std::uint64_t nanoseconds = 0;
  std::uint64_t group = 0;       // comm::Group::id
  std::uint64_t call = 0;        // number of the call on that group and rank, from 1
  std::uint64_t collective = 0;  // the same among collectives alone, which all members count in the same way; 0: none
  std::int64_t elements = 0;
  std::int32_t root = comm::kNoRoot;
  std::int32_t tag = 0;
  std::int32_t thread = 0;  // that wrote it
  Kind kind = Kind::enter;
  comm::Operation operation = comm::Operation::barrier;
  comm::DType dtype = comm::DType::f32;
  comm::ReduceOp op = comm::ReduceOp::sum;
  std::array<char, 68> text{};  // of a group its name, of a call on a window the call

  [[nodiscard]] bool begins() const { return kind == Kind::enter || kind == Kind::start; }
  [[nodiscard]] bool ends() const { return kind == Kind::leave || kind == Kind::done || kind == Kind::failed; }
  /// "all_reduce(f32 x 5, sum)", "wait(2 signals of rank 1, context 0)".
  [[nodiscard]] std::string describe_call() const;
  /// "entered all_reduce(f32 x 5, sum) #3 on world"; `groups` are the events seen so far.
  [[nodiscard]] std::string describe(const std::vector<FlightEvent>& groups) const;
};

/// The writing side; one per rank.
class FlightRing {
 public:
  static constexpr std::size_t kCapacity = 1024;  // events

  /// Creates the file. Throws RuntimeFailure.
  explicit FlightRing(const std::filesystem::path& file);
  ~FlightRing();
  FlightRing(const FlightRing&) = delete;
  FlightRing& operator=(const FlightRing&) = delete;

  void write(FlightEvent event);
  /// For a signal handler: leaves the signal's number behind. Async-signal-safe.
  void note_signal(int signal);
  /// Forgets all events: a new check begins.
  void clear();

  struct File;

 private:
  File* file_;
};

/// What a ring file holds, oldest first. A file that is missing or torn gives what can be read.
struct FlightLog {
  bool found = false;  // not of a rank on another host
  std::vector<FlightEvent> events;
  int signal = 0;
  /// One line on where the rank stands: the last call entered and not left, and what it left last; else the last event.
  [[nodiscard]] std::string position() const;
  /// When the last event was, on the steady clock; 0 where there is none.
  [[nodiscard]] std::uint64_t newest() const;
};
/// Events before `since` (of the steady clock) belong to an earlier check and are left out.
[[nodiscard]] FlightLog read_flight(const std::filesystem::path& file, std::uint64_t since = 0);

/// "world", "[1 2]": the name under which `events` know a group.
[[nodiscard]] std::string name_of_group(std::uint64_t group, const std::vector<FlightEvent>& events);

/// Records the calls of `inner` and of groups made from it into `ring`, which must outlive them.
[[nodiscard]] std::unique_ptr<comm::Communicator> record_flight(std::unique_ptr<comm::Communicator> inner,
                                                                FlightRing& ring);

}  // namespace plumbline::launch
