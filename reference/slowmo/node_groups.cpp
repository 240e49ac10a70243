#include "reference/slowmo/detail/node_groups.hpp"

namespace plumbline::slowmo {

using comm::Communicator;

NodeGroups::NodeGroups(Communicator& global, const Options& options, const Setting& setting,
                       const device::MemorySpace& place) {
  global_ = wrapped(&global, options, place);
  masters_ = wrapped(options.groups.master_weights, options, place);
  node_ = wrapped(options.groups.node, options, place);
  make_missing(setting);
}

// Groups that are made from it are equal.
Communicator* NodeGroups::wrapped(Communicator* group, const Options& options, const device::MemorySpace& place) {
  if (group == nullptr || place.is_host()) return group;
  const auto wanted = options.communication_device;
  if (wanted && wanted->kind == comm::Device::Kind::cpu)
    group = staged_.emplace_back(std::make_unique<device::HostStaging>(*group, options.device)).get();
  device::require_served("slowmo", *group, place);
  group->use_stream(options.device.stream);
  return group;
}

void NodeGroups::make_missing(const Setting& setting) {
  if (setting.ranks_per_node == 1) {
    node_ = nullptr;
    if (masters_ == nullptr) masters_ = global_;
    return;
  }
  if (node_ == nullptr) {
    std::vector<int> ranks;
    for (int i = 0; i < setting.ranks_per_node; ++i) ranks.push_back(setting.node * setting.ranks_per_node + i);
    own_node_ = global_->create_group(ranks);
    node_ = own_node_.get();
  }
  if (masters_ != nullptr || !setting.is_master()) return;
  std::vector<int> ranks;
  for (int node = 0; node < setting.nodes; ++node) ranks.push_back(node * setting.ranks_per_node);
  own_masters_ = global_->create_group(ranks);
  masters_ = own_masters_.get();
}

}  // namespace plumbline::slowmo
