#include "reference/bucketing/exposed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "reference/bucketing/detail/laying_out.hpp"

namespace plumbline::bucketing {
namespace {

void require_time(double seconds, const char* what) {
  if (!(seconds >= 0) || std::isinf(seconds))
    throw InvalidArgument(fmt::format("{} {} is no time from 0 on", what, seconds));
}

void require_link(const Link& link) {
  if (link.ranks < 1) throw InvalidArgument(fmt::format("{} ranks; it must be 1 or more", link.ranks));
  require_time(link.latency, "latency");
  if (!(link.bandwidth >= 0)) throw InvalidArgument(fmt::format("a bandwidth of {} bytes a second", link.bandwidth));
}

double seconds_of(double bytes, const Link& link) {
  const double others = link.ranks - 1;
  const double moving = link.bandwidth > 0 ? 2 * (others / link.ranks) * bytes / link.bandwidth : 0;
  return 2 * others * link.latency + moving;
}

}  // namespace

double all_reduce_seconds(std::int64_t bytes, const Link& link) {
  require_link(link);
  if (bytes < 0) throw InvalidArgument(fmt::format("{} bytes; there cannot be fewer than 0", bytes));
  return seconds_of(static_cast<double>(bytes), link);
}

std::vector<double> ready_evenly(std::span<const Gradient> gradients, double seconds, std::span<const int> order) {
  require_gradients(gradients);
  require_time(seconds, "a backward of");
  if (!order.empty()) require_order(order, gradients.size());
  std::int64_t all = 0, made = 0;
  for (const Gradient& gradient : gradients) all += bytes_of(gradient);
  std::vector<double> ready(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::size_t index = order.empty() ? gradients.size() - 1 - i : static_cast<std::size_t>(order[i]);
    made += bytes_of(gradients[index]);
    ready[index] = all > 0 ? seconds * (static_cast<double>(made) / static_cast<double>(all)) : seconds;
  }
  return ready;
}

Exposure exposed_communication(const Plan& plan, std::span<const double> ready, double backward_seconds,
                               const Link& link) {
  require_link(link);
  require_time(backward_seconds, "a backward of");
  for (const double seconds : ready) require_time(seconds, "a gradient that is ready at");
  Exposure exposure;
  double end = 0;
  for (const Bucket& bucket : plan.buckets) {
    PredictedReduction launch;
    for (const Member& member : plan.members_of(bucket)) {
      if (static_cast<std::size_t>(member.gradient) >= ready.size())
        throw InvalidArgument(fmt::format("gradient {} has no time; {} have", member.gradient, ready.size()));
      launch.ready = std::max(launch.ready, ready[static_cast<std::size_t>(member.gradient)]);
    }
    const double seconds =
        all_reduce_seconds(bytes_of(bucket.elements, bucket.dtype, bucket.components_per_element), link);
    launch.start = std::max(launch.ready, end);
    launch.end = end = launch.start + seconds;
    exposure.communication += seconds;
    exposure.launches.push_back(launch);
  }
  exposure.exposed = std::max(0.0, end - backward_seconds);
  return exposure;
}

double exposed_of_equal_buckets(double backward_seconds, double bytes, int buckets, const Link& link) {
  require_link(link);
  require_time(backward_seconds, "a backward of");
  if (!(bytes >= 0) || buckets < 1) throw InvalidArgument(fmt::format("{} bytes in {} buckets", bytes, buckets));
  const double one = seconds_of(bytes / buckets, link), step = backward_seconds / buckets;
  return one <= step ? one : step + buckets * one - backward_seconds;
}

double best_bucket_count(double backward_seconds, const Link& link) {
  require_link(link);
  require_time(backward_seconds, "a backward of");
  const double latency = 2.0 * (link.ranks - 1) * link.latency;
  return latency > 0 ? std::sqrt(backward_seconds / latency) : std::numeric_limits<double>::infinity();
}

}  // namespace plumbline::bucketing
