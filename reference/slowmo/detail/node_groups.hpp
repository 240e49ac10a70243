// reference/slowmo/detail/node_groups.hpp: over which communicators a rank averages.
//
// Model   All ranks; the masters, which are the first rank of each node; the ranks of this node. Those that the caller
//         gave are used, the others are made. Of tensors on a device, those that the caller gave are wrapped where
//         their messages are to go by way of the host.
#pragma once

#include <memory>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/slowmo/options.hpp"

namespace plumbline::slowmo {

class NodeGroups {
 public:
  /// Collective over `global`. Throws Unsupported for groups that do not take memory of the place.
  NodeGroups(comm::Communicator& global, const Options& options, const Setting& setting,
             const device::MemorySpace& place);

  [[nodiscard]] comm::Communicator& global() const { return *global_; }
  /// Null on ranks that are no masters.
  [[nodiscard]] comm::Communicator* masters() const { return masters_; }
  /// Null where a node has one rank.
  [[nodiscard]] comm::Communicator* node() const { return node_; }

 private:
  comm::Communicator* wrapped(comm::Communicator* group, const Options& options, const device::MemorySpace& place);
  void make_missing(const Setting& setting);

  std::vector<std::unique_ptr<comm::Communicator>> staged_;  // around the caller's
  std::unique_ptr<comm::Communicator> own_masters_, own_node_;
  comm::Communicator *global_ = nullptr, *masters_ = nullptr, *node_ = nullptr;
};

}  // namespace plumbline::slowmo
