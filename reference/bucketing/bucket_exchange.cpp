#include "reference/bucketing/detail/bucket_exchange.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

using comm::Buffer;
using comm::Communicator;

comm::Work start_all_reduce(Communicator& group, Buffer values, comm::ReduceOp op) {
  return group.start(comm::Call{.operation = comm::Operation::all_reduce, .op = op, .in = values, .out = values});
}

}  // namespace

Divisors divisors_of(const ReducerSetup& setup, const Bucket& bucket, int present) {
  const ReducerOptions& options = setup.options;
  if (!options.average || !comm::is_floating(bucket.dtype)) return {.op = comm::ReduceOp::sum};
  if (!options.divisors.empty())
    return {.op = comm::ReduceOp::sum,
            .after = static_cast<double>(options.divisors[static_cast<std::size_t>(bucket.group)])};
  if (options.split)
    return {.op = comm::ReduceOp::sum,
            .before = static_cast<double>(options.split->before),
            .after = static_cast<double>(options.split->after)};
  if (present > 0) return {.op = comm::ReduceOp::sum, .after = static_cast<double>(present)};
  return {.op = comm::ReduceOp::avg};
}

BucketExchange::BucketExchange(const ReducerSetup& setup)
    : setup_(&setup),
      wires_(setup.options.wire ? static_cast<std::size_t>(std::max(0, setup.options.wire_buffers)) : 0) {}

bool BucketExchange::is_compressed(const Bucket& bucket) const {
  const auto& wire = setup_->options.wire;
  return wire && comm::is_floating(bucket.dtype) && bucket.dtype != *wire;
}

int BucketExchange::free_wire() const {
  return static_cast<int>(std::ranges::find(wires_, false, &Wire::in_use) - wires_.begin());
}

bool BucketExchange::must_wait(const Bucket& bucket) const {
  return is_compressed(bucket) && free_wire() == std::ssize(wires_);
}

void BucketExchange::start(const BucketStore& buckets, Flight& flight) {
  Communicator& group = buckets.group_of(flight.bucket);
  const double before = flight.is_copied ? 1 : flight.divisors.before;
  flight.sent = flight.values;
  if (setup_->options.hook.start) {
    flight.work = setup_->options.hook.start(group, hooked(buckets, flight.bucket, flight.sent));
  } else {
    if (is_compressed(buckets[flight.bucket])) {
      flight.wire = free_wire();
      flight.sent = wire_buffer(flight.wire, flight.values.count);
      setup_->memory->copy_divided(flight.values, flight.sent, before);
      wires_[static_cast<std::size_t>(flight.wire)].in_use = true;
    } else if (before != 1) {
      setup_->memory->copy_divided(flight.values, flight.values, before);
    }
    flight.work = setup_->is_sharded() ? group.start(comm::Call{.operation = comm::Operation::reduce_scatter,
                                                                .op = flight.divisors.op,
                                                                .in = flight.sent,
                                                                .out = buckets.own_part(flight.bucket, flight.sent)})
                                       : start_all_reduce(group, flight.sent, flight.divisors.op);
  }
}

void BucketExchange::finish(const BucketStore& buckets, Flight& flight) {
  wait(buckets, flight);
  if (!setup_->options.inter_instance.empty()) reduce_across(buckets, flight);
  const Buffer results = buckets.own_part(flight.bucket, flight.values);
  if (setup_->options.hook.start) {
    if (const auto& finish = setup_->options.hook.finish)
      finish(buckets.group_of(flight.bucket), hooked(buckets, flight.bucket, results));
    flight.divisors = {};  // a hook averages
  }
  const double after = flight.is_copied ? 1 : flight.divisors.after;
  if (flight.wire >= 0) {
    setup_->memory->copy_divided(buckets.own_part(flight.bucket, flight.sent), results, after);
    wires_[static_cast<std::size_t>(flight.wire)].in_use = false;
  } else if (after != 1) {
    setup_->memory->copy_divided(results, results, after);
  }
}

void BucketExchange::wait(const BucketStore& buckets, Flight& flight) const {
  const auto what = [&](const char* why) {
    const Communicator& group = buckets.group_of(flight.bucket);
    return fmt::format("reducer, finish, rank {} of group {}: bucket {} of {} ({}): {}", group.rank(),
                       group.group().name, flight.bucket, buckets.size(), buckets.named(flight.bucket), why);
  };
  try {
    flight.work.wait(setup_->options.timeout);
  } catch (const comm::TimeoutError& error) {
    throw comm::TimeoutError(what(error.what()));
  } catch (const comm::PeerFailed& error) {
    throw comm::PeerFailed(what(error.what()));
  }
}

// What this rank's instance has reduced, with the other instances'.
void BucketExchange::reduce_across(const BucketStore& buckets, const Flight& flight) const {
  const Buffer part = buckets.own_part(flight.bucket, flight.sent);
  Communicator& across = *setup_->options.inter_instance[static_cast<std::size_t>(buckets[flight.bucket].group)];
  if (part.count > 0 && across.size() > 1) across.all_reduce(part, part, flight.divisors.op, setup_->options.timeout);
}

Buffer BucketExchange::wire_buffer(int wire, std::int64_t count) {
  Wire& one = wires_[static_cast<std::size_t>(wire)];
  const std::size_t bytes = static_cast<std::size_t>(count) * comm::size_of(*setup_->options.wire);
  if (one.bytes < bytes) one = {setup_->memory->allocate(bytes), bytes, one.in_use};
  return {one.memory.get(), count, *setup_->options.wire, setup_->memory->device()};
}

HookedBucket BucketExchange::hooked(const BucketStore& buckets, int bucket, const Buffer& values) const {
  return {.index = bucket,
          .values = values,
          .members = buckets.members_of(bucket),
          .components_per_element = buckets[bucket].components_per_element,
          .gradients = setup_->gradients};
}

}  // namespace plumbline::bucketing
