#include "reference/bucketing/detail/bucket_life.hpp"

#include <algorithm>
#include <utility>

namespace plumbline::bucketing {

using comm::Buffer;
using comm::Communicator;

void BucketLife::begin_pass() {
  missing_.clear();
  for (const Bucket& bucket : buckets_->plan().buckets) missing_.push_back(bucket.members);
  next_ = 0;
}

void BucketLife::mark_ready(int gradient) {
  presence_->mark_ready(gradient);
  --missing_[static_cast<std::size_t>(buckets_->bucket_of(gradient))];
  if (!outcome_->synchronised) return;  // it stays where it is, for the next pass to add to
  put_in(gradient);
  if (options().overlap && !presence_->is_learning()) start_ready(false);
  if (flights_.empty()) return;
  const bool is_over = flights_.front().work.test();  // also where nobody asks: it makes progress
  if (is_over && may_finish_early(flights_.front())) finish_first();
}

// The gradient is copied into its view of the bucket: zeros in place of what this rank lacks; nothing where it lies
// there already, or is reduced where the caller has it.
void BucketLife::put_in(int gradient) {
  const bool held = presence_->is_held(gradient);
  const int bucket = buckets_->bucket_of(gradient);
  if (held) sources_->check_range(gradient);
  if (setup_->gradient(gradient).sparse || is_in_place(bucket)) return;
  if (buckets_->ensure_memory(bucket)) outcome_->most_memory = std::max(outcome_->most_memory, buckets_->bytes());
  const Buffer slot = buckets_->slot_of(gradient);
  if (!held) {
    setup_->memory->fill_zeros(slot);
  } else if (setup_->copies()) {
    const Buffer& source = sources_->caller_of(gradient);
    setup_->memory->copy_divided(source, slot, options().hook.start ? 1 : divisors(bucket).before);
    outcome_->copied_in += static_cast<std::int64_t>(source.bytes());
  }
}

// A bucket is ready with its last gradient, and ready buckets are all-reduced in order: one that is ready waits for
// those before it in the plan, so that every rank starts them in one order. `all`: ready or not.
void BucketLife::start_ready(bool all) {
  for (; next_ < buckets_->size(); ++next_) {
    if (!all && missing_[static_cast<std::size_t>(next_)] > 0) return;
    start(next_);
    while (!options().overlap && !flights_.empty()) finish_first();
  }
}

void BucketLife::start(int bucket) {
  const Bucket& one = (*buckets_)[bucket];
  Flight flight{.bucket = bucket, .divisors = divisors(bucket)};
  std::int64_t elements = 0;
  if (buckets_->is_sparse(bucket)) {
    SparseSum& sum = sources_->sum_of(first_of(bucket));
    elements = sum.rows().values.count;
    flight.work = sum.start(buckets_->group_of(bucket));
    flight.sent.dtype = one.dtype;
  } else {
    while (exchange_.must_wait(one)) finish_first();
    const bool in_place = is_in_place(bucket);
    flight.values = in_place ? sources_->caller_of(first_of(bucket)) : buckets_->buffer_of(bucket);
    flight.is_copied = setup_->copies() && !in_place;
    exchange_.start(*buckets_, flight);
    elements = flight.sent.count;
  }
  outcome_->launches.push_back({.what = Launch::What::bucket,
                                .bucket = bucket,
                                .group = one.group,
                                .dtype = flight.sent.dtype,
                                .elements = elements,
                                .ready_before = presence_->ready()});
  flights_.push_back(std::move(flight));
}

// All reductions are waited for when all are started, at the end of the pass; or one is taken as soon as it is over.
void BucketLife::finish_first() {
  Flight flight = std::move(flights_.front());
  flights_.erase(flights_.begin());
  if (buckets_->is_sparse(flight.bucket)) {
    finish_sparse(flight);
  } else {
    exchange_.finish(*buckets_, flight);
    if (flight.is_copied) copy_out(flight.bucket, flight.divisors.after);
  }
  give_back(flight.bucket);
  if (options().reduced) options().reduced(flight.bucket);
}

void BucketLife::finish_all() {
  while (!flights_.empty()) finish_first();
}

// Averages go back to where the gradients came from.
void BucketLife::copy_out(int bucket, double after) {
  for (const Member& member : buckets_->members_of(bucket)) {
    const bool held = presence_->is_held(member.gradient);
    const Buffer from = buckets_->slot_of(member.gradient);
    const Buffer to = held ? sources_->caller_of(member.gradient) : from;
    setup_->memory->copy_divided(from, to, after);
    if (held) outcome_->copied_out += static_cast<std::int64_t>(to.bytes());
  }
}

void BucketLife::finish_sparse(Flight& flight) {
  Communicator& group = buckets_->group_of(flight.bucket);
  const bool averages = flight.divisors.op == comm::ReduceOp::avg;
  exchange_.wait(*buckets_, flight);
  sources_->sum_of(first_of(flight.bucket))
      .finish(group, averages ? 1 : flight.divisors.before, averages ? group.size() : flight.divisors.after,
              options().timeout);
}

// Where this rank lacks a gradient, the bucket has its only result.
void BucketLife::give_back(int bucket) {
  if (!options().lazy) return;
  const auto is_held = [&](const Member& member) { return presence_->is_held(member.gradient); };
  if (std::ranges::all_of(buckets_->members_of(bucket), is_held)) buckets_->give_back(bucket);
}

Divisors BucketLife::divisors(int bucket) const {
  const bool counts = options().join_divisor == JoinDivisor::present_ranks;
  return divisors_of(*setup_, (*buckets_)[bucket], counts ? outcome_->present : 0);
}

// Whether a bucket is reduced in the caller's memory: where that has all of it.
bool BucketLife::is_in_place(int bucket) const {
  if (!setup_->copies() || buckets_->is_sparse(bucket) || options().wire || options().hook.start) return false;
  const Bucket& one = (*buckets_)[bucket];
  if (one.members != 1) return false;
  const int gradient = first_of(bucket);
  return presence_->is_held(gradient) && setup_->gradient(gradient).elements == one.elements;
}

// No two ranks see at once that an exchange is over, so not where finishing it exchanges more.
bool BucketLife::may_finish_early(const Flight& flight) const {
  return (options().reduced || options().lazy) && !exchange_.finish_exchanges() && !buckets_->is_sparse(flight.bucket);
}

}  // namespace plumbline::bucketing
