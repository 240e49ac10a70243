// reference/bucketing/detail/bucket_store.hpp: the buckets of a plan: their memory, and where in it each gradient lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/bucketing/detail/reducer_setup.hpp"

namespace plumbline::bucketing {

class BucketStore {
 public:
  /// Throws InvalidArgument for a plan that does not fit the gradients. Buckets have memory at once unless
  /// ReducerOptions::lazy says otherwise.
  BucketStore(const ReducerSetup& setup, Plan plan);

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] int size() const { return static_cast<int>(plan_.buckets.size()); }
  [[nodiscard]] const Bucket& operator[](int bucket) const { return plan_.buckets[static_cast<std::size_t>(bucket)]; }
  [[nodiscard]] std::span<const Member> members_of(int bucket) const { return plan_.members_of((*this)[bucket]); }
  [[nodiscard]] comm::Communicator& group_of(int bucket) const {
    return *setup_->groups[static_cast<std::size_t>((*this)[bucket].group)];
  }
  /// Whether it is that of a sparse gradient, and so has no memory.
  [[nodiscard]] bool is_sparse(int bucket) const {
    return (*this)[bucket].members == 1 && setup_->gradient(members_of(bucket).front().gradient).sparse;
  }
  /// The names of its gradients.
  [[nodiscard]] std::string named(int bucket) const;

  /// The bucket of a gradient; -1: it is not reduced.
  [[nodiscard]] int bucket_of(int gradient) const { return slots_[static_cast<std::size_t>(gradient)].bucket; }
  /// Where a gradient lies in its bucket.
  [[nodiscard]] comm::Buffer slot_of(int gradient) const;
  /// All of a bucket.
  [[nodiscard]] comm::Buffer buffer_of(int bucket) const;
  /// What of a bucket's values, wherever they are, has its results on this rank: all, unless they are sharded.
  [[nodiscard]] comm::Buffer own_part(int bucket, comm::Buffer values) const;

  [[nodiscard]] bool has_memory(int bucket) const { return memory_[static_cast<std::size_t>(bucket)] != nullptr; }
  /// Whether it had none, and needed it.
  bool ensure_memory(int bucket);
  void give_back(int bucket) { memory_[static_cast<std::size_t>(bucket)].reset(); }
  /// Bytes of all buckets that have memory.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  struct Slot {
    int bucket = -1;
    std::int64_t begin = 0;  // in the bucket's numbers
  };
  const ReducerSetup* setup_;
  Plan plan_;
  std::vector<Slot> slots_;                         // by gradient
  std::vector<std::shared_ptr<std::byte>> memory_;  // by bucket
};

}  // namespace plumbline::bucketing
