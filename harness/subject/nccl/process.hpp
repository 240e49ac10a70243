// harness/subject/nccl/process.hpp: this process as one rank of a job: its library, its GPU, and what it shares with
// the others.
//
// Model   Shared by the backend and all that it made. A lane that is no longer needed is finalised, which NCCL does
//         together with the other ranks, whenever they come to it and their devices are through: nobody waits for that,
//         tend() sees to what has been done. What has not ended with the process is aborted.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/subject/nccl/board.hpp"
#include "harness/subject/nccl/library.hpp"
#include "harness/subject/nccl/options.hpp"
#include "harness/subject/place.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::subject::nccl {

class Lane;

class Process {
 public:
  /// Opens the library, and a device of `runtime`, or without one of the machine's. Throws RuntimeFailure in one line:
  /// no NCCL, too old a one, no driver, fewer GPUs than ranks.
  Process(const Options& options, Place place, std::shared_ptr<device::Runtime> runtime = nullptr);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const Options options;
  const Place place;
  const Library library;
  const std::shared_ptr<device::Runtime> runtime;
  const std::shared_ptr<const comm::DeviceCalls> memory;  // knows what lies where
  const int device;
  const JobBoard board;
  const comm::Capabilities capabilities;

  /// Held around whatever touches NCCL or changes what waits for it; never while waiting. Makes the device current,
  /// which NCCL takes its communicators' from.
  class Turn {
   public:
    explicit Turn(Process& process);

   private:
    const std::lock_guard<std::mutex> hold_;
  };

  /// A configuration with calls that return before they are done: none of them keeps its caller where a rank is
  /// missing.
  [[nodiscard]] static Config configuration();
  /// `stream` goes on when the event is reached.
  void hold_back(device::Stream stream, const device::OwnEvent& event) const {
    runtime->wait(device, stream, event.get());
  }

  /// How often this list of ranks has been made into a group from that parent, this time included.
  int next_creation(std::uint64_t parent, const std::vector<int>& world_ranks);

  // In a Turn.
  /// Begins to end a lane that gets no more batches; its device may still be at work, even on what never ends. Null is
  /// nothing.
  void bury(std::unique_ptr<Lane> lane) noexcept;
  /// Takes memory that a lane may use until the process ends.
  void keep(device::Memory memory) { kept_.push_back(std::move(memory)); }
  /// Frees what has ended.
  void tend() noexcept;

 private:
  std::mutex mutex_;
  std::vector<device::Memory> kept_;
  std::vector<std::unique_ptr<Lane>> ending_;
  std::mutex creations_mutex_;
  std::map<std::pair<std::uint64_t, std::vector<int>>, int> creations_;  // of parent and list
};

/// Lets others run between two looks at what is waited for: first by looking again, then by giving the core away, and
/// from half a millisecond on by sleeping for a sixteenth of the time waited so far, 0.1 ms at most: on few cores those
/// who are waited for need them.
class Patience {
 public:
  /// `limit`: nothing waits without end.
  explicit Patience(comm::Timeout limit);
  [[nodiscard]] bool is_over() const;
  void pause();

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin_ = Clock::now();
  const std::optional<Clock::time_point> end_;
  int looks_ = 0;
};

}  // namespace plumbline::subject::nccl
