// reference/bucketing/detail/bucket_life.hpp: the life of a bucket, from its gradients' being ready until its results
// are where they came from: Li et al., Algorithm 1, its autograd hook.
#pragma once

#include <vector>

#include "reference/bucketing/detail/bucket_exchange.hpp"
#include "reference/bucketing/detail/gradient_presence.hpp"
#include "reference/bucketing/detail/gradient_sources.hpp"

namespace plumbline::bucketing {

class BucketLife {
 public:
  /// `outcome` is the pass's: what was started, what was copied, and the memory that buckets had.
  BucketLife(const ReducerSetup& setup, BucketStore& buckets, GradientPresence& presence, GradientSources& sources,
             Outcome& outcome)
      : setup_(&setup),
        buckets_(&buckets),
        presence_(&presence),
        sources_(&sources),
        outcome_(&outcome),
        exchange_(setup) {}

  void begin_pass();
  /// The hook is called for a parameter: its gradient will not change any more in this pass, or this rank lacks it.
  void mark_ready(int gradient);
  /// Starts what is left, ready or not.
  void start_all() { start_ready(true); }
  /// Waits for all that is started.
  void finish_all();

 private:
  void put_in(int gradient);
  void start_ready(bool all);
  void start(int bucket);
  void finish_first();
  void copy_out(int bucket, double after);
  void finish_sparse(Flight& flight);
  void give_back(int bucket);

  [[nodiscard]] const ReducerOptions& options() const { return setup_->options; }
  [[nodiscard]] Divisors divisors(int bucket) const;
  [[nodiscard]] bool is_in_place(int bucket) const;
  [[nodiscard]] bool may_finish_early(const Flight& flight) const;
  [[nodiscard]] int first_of(int bucket) const { return buckets_->members_of(bucket).front().gradient; }

  const ReducerSetup* setup_;
  BucketStore* buckets_;
  GradientPresence* presence_;
  GradientSources* sources_;
  Outcome* outcome_;
  BucketExchange exchange_;
  std::vector<int> missing_;     // members that are not ready, by bucket
  int next_ = 0;                 // bucket to be started
  std::vector<Flight> flights_;  // buckets under way, in the order of starting
};

}  // namespace plumbline::bucketing
