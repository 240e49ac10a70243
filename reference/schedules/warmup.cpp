#include "reference/schedules/detail/warmup.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::schedules {
namespace {

void require_grouping(const Shape& shape, int group) {
  detail::require_shape(shape);
  if (group < 1) throw InvalidArgument(fmt::format("warm-up: a group has at least 1 micro-batch, got {}", group));
}

// One forward for each rank that follows, so that the last rank alternates from its first forward on. With several
// stages a rank the group first goes through all chunks but the last, and each rank that follows takes two.
int forwards_before_backward(const Shape& shape, const WarmupOptions& options, int rank) {
  const int all = shape.micro_batches * shape.stages_per_rank;
  if (options.forward_only) return all;
  if (shape.ranks == 1) return 0;
  if (shape.stages_per_rank == 1) return detail::depth_first_warmup(shape, options.group, 1, rank);
  const int earlier = options.overlaps_expert_exchange ? 1 : 0;
  return std::min(detail::depth_first_warmup(shape, options.group, 2, rank) + earlier, all);
}

}  // namespace

std::vector<detail::Virtual> schedule_table(const Shape& shape, int group) {
  require_grouping(shape, group);
  return detail::depth_first_order(shape, std::min(group, shape.micro_batches));
}

std::vector<int> warmup_counts(const Shape& shape, const WarmupOptions& options) {
  require_grouping(shape, options.group);
  std::vector<int> counts;
  for (int rank = 0; rank < shape.ranks; ++rank) counts.push_back(forwards_before_backward(shape, options, rank));
  return counts;
}

}  // namespace plumbline::schedules
