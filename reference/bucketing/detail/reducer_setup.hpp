// reference/bucketing/detail/reducer_setup.hpp: what a reducer is made of, the names that its errors use, and what is
// rejected.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::bucketing {

struct ReducerSetup {
  std::vector<comm::Communicator*> groups;
  std::vector<Gradient> gradients;
  ReducerOptions options;
  std::shared_ptr<BucketMemory> memory;

  /// Throws what the constructor of Reducer throws for groups, options and gradients.
  void check() const;
  /// Throws InvalidArgument for a plan that does not fit the gradients.
  void check_plan(const Plan& plan) const;

  [[nodiscard]] const Gradient& gradient(int index) const { return gradients[static_cast<std::size_t>(index)]; }
  /// Real numbers of a gradient.
  [[nodiscard]] std::int64_t numbers_of(int index) const {
    return gradient(index).elements * gradient(index).components_per_element;
  }
  [[nodiscard]] bool copies() const { return options.memory == GradientMemory::copies; }
  [[nodiscard]] bool is_sharded() const { return options.results == Results::sharded; }
  [[nodiscard]] bool is_on_host() const { return memory->device().kind == comm::Device::Kind::cpu; }
  /// The ranks whose gradients are added in a group: those of all instances.
  [[nodiscard]] int ranks_of(std::size_t group) const {
    return groups[group]->size() * (options.inter_instance.empty() ? 1 : options.inter_instance[group]->size());
  }

  /// Where an error arose: the operation, and this rank.
  [[nodiscard]] std::string at(const char* operation) const;
  [[nodiscard]] std::string name(int gradient) const;
  /// The first of the names, and how many more there are.
  [[nodiscard]] static std::string listed(std::span<const std::string> names);

 private:
  void check_names() const;
  void check_division() const;
  void check_wire_and_hook() const;
  void check_device() const;
  void check_sharding() const;
  void check_unused() const;
  void check_gradient(int index) const;
  void check_bucket(const Bucket& bucket) const;
  void check_member(const Member& member, const Bucket& bucket, std::int64_t taken) const;
  [[noreturn]] void refuse(const std::string& why) const;
};

/// Throws PlanDisagreement, on every rank of a group, where its ranks' plans or gradients differ. Collective.
void agree_on_plan(const ReducerSetup& setup, const Plan& plan);
/// Rank 0's values, on every rank of the first group, and of all instances. Collective.
void broadcast_from_rank_0(const ReducerSetup& setup, const comm::Buffer& values);

}  // namespace plumbline::bucketing
