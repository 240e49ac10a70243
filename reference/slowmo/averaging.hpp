// reference/slowmo/averaging.hpp: means and broadcasts of lists of tensors, a message a type.
//
// Model   Tensors of one type are laid one after the other, and travel as one message; types in the order in which
//         they appear.
// Numbers plumbline: f32 and f64 are added, in the communicator's order, and divided once; f16 and bf16 are divided
//         first, so that their sums stay in range. fairscale: all are divided first, and added in the order of gloo's
//         ring (reference/comm/ring_sum.hpp; beyond the lengths that it is known for, in the communicator's).
// Devices Tensors of one call are in one memory: that of the workspace's place. On a device all is put into the place's
//         stream, which is the group's as well, and the host waits for the other ranks' calls alone. The bits are those
//         of the host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/gossip/graph.hpp"

namespace plumbline::slowmo {

/// Where tensors are, and memory there for messages, which is kept on a device and given back at once on the host.
class Workspace {
 public:
  explicit Workspace(device::MemorySpace place = {}) : place_(std::move(place)) {}

  [[nodiscard]] const device::MemorySpace& place() const { return place_; }
  /// Of a message; of what all ranks give. What was taken before may be overwritten after it, in the order of the
  /// stream.
  [[nodiscard]] comm::Buffer message(std::int64_t count, comm::DType dtype) { return taken(message_, count, dtype); }
  [[nodiscard]] comm::Buffer of_all(std::int64_t count, comm::DType dtype) { return taken(of_all_, count, dtype); }
  /// After a call that used it.
  void rest();

 private:
  [[nodiscard]] comm::Buffer taken(device::ScratchBuffer& room, std::int64_t count, comm::DType dtype) const;
  device::MemorySpace place_;
  device::ScratchBuffer message_, of_all_;
};

/// The sum over the group's ranks divided by `divisor`, on all ranks, in place.
void all_reduce_mean(comm::Communicator& group, std::span<const comm::Buffer> tensors, int divisor,
                     gossip::Convention convention, Workspace& workspace);
/// The same, on `root` alone; elsewhere the tensors have any values afterwards.
void reduce_mean(comm::Communicator& group, std::span<const comm::Buffer> tensors, int divisor, int root,
                 gossip::Convention convention, Workspace& workspace);
/// Root's values on all ranks. A message is full when it has `full_bytes`.
void broadcast(comm::Communicator& group, std::span<const comm::Buffer> tensors, int root, Workspace& workspace,
               std::int64_t full_bytes = INT64_MAX);

// ---- Parameters averaged every few steps, in groups that grow with the period.
//
// Model   Calls count from 0. From call `warmup` on, the call t averages where a level's period divides t - warmup: the
//         one level of the longest such period, in groups of its size, consecutive ranks each. One level of all ranks
//         is periodic averaging, several are hierarchical.
//         Post-local SGD averages gradients over all ranks until the warmup is over, and then inside the smallest
//         groups, if at all.
// Source  Lin et al., Don't Use Large Mini-Batches, Use Local SGD (ICLR 2020); PyTorch's PeriodicModelAverager and
//         HierarchicalModelAverager.

struct AveragingLevel {
  int period = 1;  // calls
  int group_size = 1;
  friend bool operator==(const AveragingLevel&, const AveragingLevel&) = default;
};

struct AveragingSchedule {
  std::vector<AveragingLevel> levels;  // by rising period and group
  int warmup = 0;                      // calls
};

/// Throws InvalidArgument, with level and values: no levels, periods or groups below 1 or not rising, groups that do
/// not divide the next one, a last group that is not the world, a warmup below 0.
void require_schedule(const AveragingSchedule& schedule, int world);
/// The level that averages in call `call`, or -1.
[[nodiscard]] int level_due(const AveragingSchedule& schedule, std::int64_t call);

class ModelAverager {
 public:
  /// Collective: makes the groups. Throws as require_schedule().
  ModelAverager(comm::Communicator& world, AveragingSchedule schedule);

  /// Call number calls(): averages all tensors, of all groups of an optimizer, if a level is due, and returns it, or
  /// -1.
  /// Collective over the level's group.
  int average(std::span<const comm::Buffer> parameters);
  [[nodiscard]] std::int64_t calls() const { return calls_; }

 private:
  AveragingSchedule schedule_;
  std::vector<std::unique_ptr<comm::Communicator>> groups_;  // this rank's, by level
  std::int64_t calls_ = 0;
};

}  // namespace plumbline::slowmo
