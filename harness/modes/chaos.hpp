// harness/modes/chaos.hpp: another timing than the usual one, decided by a seed.
//
// Model   Before a call a rank may sleep; some ranks sleep more than others. A started call may begin only when its
//         rank next blocks, waits or asks: until then its buffers are not read. Whether a Work is complete may be
//         answered with no a few times after it is, so that calls seem to complete in another order. All of it is
//         legal: a program that keeps the rules of communicator.hpp and makes progress through it alone does not
//         notice.
// Limits  What the backend does not claim begins at once, so that it is refused at once; another refusal of a call that
//         began late comes out of its wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::modes {

/// What the communicators of one rank share: its random numbers, and the started calls that have not begun.
class Disturbance {
 public:
  Disturbance(std::uint64_t seed, int rank);

  /// A call that was started.
  struct Late {
    comm::Communicator* group;
    std::vector<comm::Call> calls;
    std::thread::id owner = std::this_thread::get_id();
    comm::Work work = {};
    std::exception_ptr error = {};
    bool begun = false;
    std::mutex mutex = {};  // a Work may be waited for by another thread than the one that begins it
    void begin() noexcept;
  };

  /// Sleeps, or does not.
  void delay();
  /// True with the given chance, of 100.
  [[nodiscard]] bool happens(int percent);
  /// Keeps a call until begin_all() or begin_all_of().
  void keep(std::shared_ptr<Late> call);
  /// Begins what this thread has kept, in the order in which it was started. Calls of other threads are left alone: a
  /// communicator is used by one at a time.
  void begin_all();
  /// Begins what any thread has kept for a communicator that is about to go.
  void begin_all_of(const comm::Communicator& group);

 private:
  void begin_if(const std::function<bool(const Late&)>& chosen);
  std::mutex mutex_;
  std::mt19937_64 random_;
  int longest_microseconds_;
  std::vector<std::shared_ptr<Late>> kept_;
};

/// `inner` under `disturbance`.
[[nodiscard]] std::unique_ptr<comm::Communicator> disturb(std::unique_ptr<comm::Communicator> inner,
                                                          std::shared_ptr<Disturbance> disturbance);

}  // namespace plumbline::modes
