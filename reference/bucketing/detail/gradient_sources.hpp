// reference/bucketing/detail/gradient_sources.hpp: where this rank's gradients of a step lie: in their views, in the
// caller's memory, or as rows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "reference/bucketing/detail/bucket_store.hpp"
#include "reference/bucketing/detail/caller_memory.hpp"

namespace plumbline::bucketing {

class GradientSources {
 public:
  GradientSources(const ReducerSetup& setup, const BucketStore& buckets);

  /// A gradient as the caller hands it in; none: it is in its view. Returns the bytes that were copied to its view.
  /// Throws InvalidArgument, and changes nothing, for memory that another gradient of the step shares, and for none
  /// where gradients stay in the caller's.
  std::int64_t take(int gradient, const std::optional<comm::Buffer>& values);
  /// Throws InvalidArgument as SparseSum::take() does, naming the gradient.
  void take_rows(int gradient, const SparseRows& rows);
  /// Throws InvalidArgument, naming the element, for a number above ReducerOptions::largest.
  void check_range(int gradient) const;

  /// Where the caller has a gradient that stays in its memory.
  [[nodiscard]] const comm::Buffer& caller_of(int gradient) const { return caller_.of(gradient); }
  [[nodiscard]] SparseSum& sum_of(int gradient) { return sums_.at(gradient); }
  [[nodiscard]] const SparseSum& sum_of(int gradient) const { return sums_.at(gradient); }
  /// The step is over.
  void clear();

 private:
  const ReducerSetup* setup_;
  const BucketStore* buckets_;
  CallerMemory caller_;
  std::map<int, SparseSum> sums_;  // by gradient
};

}  // namespace plumbline::bucketing
