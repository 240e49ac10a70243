// reference/slowmo/detail/slow_buffers.hpp: the slow buffers of one rank, and the slow step over all ranks.
//
// Model   The optimizer's parameters, group by group, are counted through as E elements. A rank keeps old parameters
//         and slow momentum of its range of them. A memory-efficient slow step reduces each shard to its owner, who
//         applies slow momentum and broadcasts what comes of it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::slowmo {

class SlowBuffers {
 public:
  /// What the groups have now, kept where they have it: at the workspace's place. Throws as slowmo.hpp says of slow
  /// momentum.
  SlowBuffers(const Setting& setting, std::span<const ParameterGroup> groups, Workspace& workspace);

  /// Throws InvalidArgument, as slowmo.hpp says, for tensors that are not at the place, and for types that slow
  /// momentum, if there is any, is not of.
  static void require_groups(const Setting& setting, std::span<const ParameterGroup> groups,
                             const device::MemorySpace& place);
  /// Throws InvalidArgument for a learning rate of 0 that differences are divided by.
  static void require_rates(const Setting& setting, std::span<const ParameterGroup> groups);
  /// Averages over `global` where the plan says so, and applies slow momentum. Collective.
  void step(comm::Communicator& global, const StepPlan& plan, std::span<const ParameterGroup> groups);

  /// Nothing where this rank keeps none. Waits for a device.
  [[nodiscard]] std::optional<SlowState> state() const;
  /// Throws InvalidArgument for another range, or other numbers of elements.
  void load(const SlowState& state);
  [[nodiscard]] std::int64_t bytes() const;

 private:
  // Elements of one tensor, and where they lie in a range.
  struct Piece {
    comm::Buffer values;
    std::int64_t at = 0;
    double learning_rate = 0;
  };
  [[nodiscard]] static std::vector<Piece> pieces_of(std::span<const ParameterGroup> groups, Range range);
  [[nodiscard]] std::vector<comm::Buffer> shard_of(std::span<const ParameterGroup> groups, int shard) const;
  [[nodiscard]] std::vector<double> values_of(comm::Buffer memory) const;
  void set(comm::Buffer memory, const std::vector<double>& values) const;
  void average(comm::Communicator& global, std::span<const ParameterGroup> groups) const;
  void apply(std::span<const ParameterGroup> groups);

  const Setting& setting_;
  std::int64_t elements_ = 0;
  comm::DType dtype_ = comm::DType::f32;
  Workspace& workspace_;
  Range range_;
  device::ScratchBuffer old_room_, momentum_room_;
  comm::Buffer old_, momentum_;  // in these
};

}  // namespace plumbline::slowmo
