// reference/slowmo/model_averager.hpp: parameters averaged every few steps, in groups that grow with the period.
//
// Model   Calls count from 0. From call `warmup` on, the call t averages where a level's period divides t - warmup: the one
//         level of the longest such period, in groups of its size, consecutive ranks each. One level of all ranks is
//         periodic averaging, several are hierarchical.
//         Post-local SGD averages gradients over all ranks until the warmup is over, and then inside the smallest groups, if
//         at all.
// Source  Lin et al., Don't Use Large Mini-Batches, Use Local SGD (ICLR 2020); PyTorch's PeriodicModelAverager and
//         HierarchicalModelAverager.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::slowmo {

struct AveragingLevel {
  int period = 1;  // calls
  int group_size = 1;
  friend bool operator==(const AveragingLevel&, const AveragingLevel&) = default;
};

struct AveragingSchedule {
  std::vector<AveragingLevel> levels;  // by rising period and group
  int warmup = 0;                      // calls
};

/// Throws InvalidArgument, with level and values: no levels, periods or groups below 1 or not rising, groups that do not
/// divide the next one, a last group that is not the world, a warmup below 0.
void require_schedule(const AveragingSchedule& schedule, int world);
/// The level that averages in call `call`, or -1.
[[nodiscard]] int level_due(const AveragingSchedule& schedule, std::int64_t call);

class ModelAverager {
 public:
  /// Which level averages.
  using Due = std::function<int(const AveragingSchedule& schedule, std::int64_t call)>;
  /// Collective: makes the groups. Throws as require_schedule().
  ModelAverager(comm::Communicator& world, AveragingSchedule schedule, Due due = level_due);

  /// Call number calls(): averages all tensors, of all groups of an optimizer, if a level is due, and returns it, or -1.
  /// Collective over the level's group.
  int average(std::span<const comm::Buffer> parameters);
  [[nodiscard]] std::int64_t calls() const { return calls_; }
  void set_calls(std::int64_t calls) { calls_ = calls; }

 private:
  AveragingSchedule schedule_;
  Due due_;
  std::vector<std::unique_ptr<comm::Communicator>> groups_;  // this rank's, by level
  std::int64_t calls_ = 0;
};

}  // namespace plumbline::slowmo
