// reference/bucketing/detail/pass_opening.hpp: what ranks exchange when a pass begins, before the first bucket: initial
// values, how many ranks have rows, the plan, and buffers.
#pragma once

#include "reference/bucketing/detail/gradient_presence.hpp"

namespace plumbline::bucketing {

class PassOpening {
 public:
  PassOpening(const ReducerSetup& setup, BucketStore& buckets, const GradientPresence& presence, Outcome& outcome)
      : setup_(&setup), buckets_(&buckets), presence_(&presence), outcome_(&outcome) {}

  /// Before everything that some ranks alone take part in. Does nothing but for the first pass.
  void share_initial();
  /// How many ranks have rows.
  [[nodiscard]] int count_present(bool has_rows);
  /// Of a pass that synchronises: all ranks have one plan, which may be rebuilt after the first step, and the buffers
  /// of rank 0.
  void agree();

  /// Another plan: what was accumulated moves there, and ranks agree on it with their next pass.
  void use(Plan plan);
  [[nodiscard]] bool has_rebuilt() const { return rebuilt_; }

 private:
  void agree_once();
  void rebuild();
  void share(Launch::What what, const comm::Buffer& values);
  void note(Launch::What what, comm::DType dtype, std::int64_t elements);

  const ReducerSetup* setup_;
  BucketStore* buckets_;
  const GradientPresence* presence_;
  Outcome* outcome_;
  bool has_begun_ = false, agreed_ = false, rebuilt_ = false;
};

}  // namespace plumbline::bucketing
