// reference/bucketing/detail/bucket_exchange.hpp: the reduction of one bucket, from its start to its results.
//
// Model   start() divides by what is divided before, compresses, and starts an all-reduce, a reduce-scatter or the
//         caller's hook; finish() waits for it, reduces across instances, decompresses, and divides. Buckets are
//         started and finished in the same order on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "reference/bucketing/detail/bucket_store.hpp"
#include "reference/comm/call.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::bucketing {

/// How values are scaled: each rank's before the sum, the sum afterwards.
struct Divisors {
  comm::ReduceOp op = comm::ReduceOp::sum;
  double before = 1;
  double after = 1;
};
/// Of a bucket's gradients. `present`: the ranks that have rows, where it is to be divided by that; else 0. A split, or
/// ranks without rows, is a sum and divisions around it; all else is the communicator's own average.
[[nodiscard]] Divisors divisors_of(const ReducerSetup& setup, const Bucket& bucket, int present);

/// A bucket under way.
struct Flight {
  int bucket = -1;
  comm::Buffer values{};  // where its results will be: the bucket's memory or the caller's
  Divisors divisors{};
  bool is_copied = false;  // divided while its gradients are copied in and out, and not in between
  comm::Work work{};
  comm::Buffer sent{};  // what is reduced: the values, or the compressed ones
  int wire = -1;        // the buffer of compressed values
};

class BucketExchange {
 public:
  explicit BucketExchange(const ReducerSetup& setup);

  /// Whether the next bucket, which is this one, needs a wire buffer that a bucket under way has.
  [[nodiscard]] bool must_wait(const Bucket& bucket) const;
  void start(const BucketStore& buckets, Flight& flight);
  /// Waits, and puts the results in their place. Throws as wait().
  void finish(const BucketStore& buckets, Flight& flight);
  /// Throws TimeoutError and PeerFailed that name the bucket's gradients.
  void wait(const BucketStore& buckets, Flight& flight) const;
  /// Whether finish() takes part in exchanges of its own, so that all ranks must call it at the same place.
  [[nodiscard]] bool finish_exchanges() const {
    return setup_->options.hook.finish || !setup_->options.inter_instance.empty();
  }

 private:
  struct Wire {
    std::shared_ptr<std::byte> memory{};
    std::size_t bytes = 0;
    bool in_use = false;
  };
  [[nodiscard]] bool is_compressed(const Bucket& bucket) const;
  [[nodiscard]] int free_wire() const;
  [[nodiscard]] comm::Buffer wire_buffer(int wire, std::int64_t count);
  void reduce_across(const BucketStore& buckets, const Flight& flight) const;
  [[nodiscard]] HookedBucket hooked(const BucketStore& buckets, int bucket, const comm::Buffer& values) const;

  const ReducerSetup* setup_;
  std::vector<Wire> wires_;
};

}  // namespace plumbline::bucketing
