// reference/bucketing/detail/call_checks.hpp: which arguments of a reducer's calls are rejected.
#pragma once

#include "reference/bucketing/detail/bucket_store.hpp"

namespace plumbline::bucketing {

/// Each throws what the calls of Reducer throw, naming the operation and the gradient.
class CallChecks {
 public:
  CallChecks(const ReducerSetup& setup, const BucketStore& buckets) : setup_(&setup), buckets_(&buckets) {}

  /// OutOfRange for an index that there is not, InvalidArgument for a gradient that no bucket holds.
  void check_known(int gradient, const char* operation) const;
  /// InvalidArgument for rows of a dense gradient, and for a whole of a sparse one.
  void check_kind(int gradient, bool as_rows) const;
  /// InvalidArgument for values that are not as many, of the type and on the device as planned.
  void check_values(int gradient, const comm::Buffer& values) const;
  /// check_known(), and InvalidArgument where unused gradients are not looked at.
  void check_unused(int gradient, const char* operation) const;
  /// StateError for a bucket that has no memory now.
  void require_memory(int bucket, const char* operation) const;

 private:
  const ReducerSetup* setup_;
  const BucketStore* buckets_;
};

}  // namespace plumbline::bucketing
