#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/slowmo/averaging.hpp"

namespace plumbline::slowmo {

void require_schedule(const AveragingSchedule& schedule, int world) {
  const auto require = [](bool is_right, const std::string& what) {
    if (!is_right) throw InvalidArgument("averaging schedule: " + what);
  };
  require(!schedule.levels.empty(), "there are no levels");
  require(schedule.warmup >= 0, fmt::format("a warmup of {} calls", schedule.warmup));
  AveragingLevel last{.period = 0, .group_size = 1};
  for (std::size_t i = 0; i < schedule.levels.size(); ++i) {
    const AveragingLevel& level = schedule.levels[i];
    require(level.period > last.period,
            fmt::format("level {} has period {}; periods rise, from 1 on", i, level.period));
    require(level.group_size >= 1 && level.group_size % last.group_size == 0 &&
                (i == 0 || level.group_size > last.group_size),
            fmt::format("level {} has groups of {}; they rise, and each is a multiple of the one before", i,
                        level.group_size));
    last = level;
  }
  require(last.group_size == world,
          fmt::format("the last level has groups of {}; it has all ranks, {}", last.group_size, world));
}

int level_due(const AveragingSchedule& schedule, std::int64_t call) {
  if (call < schedule.warmup) return -1;
  for (auto level = static_cast<int>(schedule.levels.size()); level-- > 0;)
    if ((call - schedule.warmup) % schedule.levels[static_cast<std::size_t>(level)].period == 0) return level;
  return -1;
}

ModelAverager::ModelAverager(comm::Communicator& world, AveragingSchedule schedule) : schedule_(std::move(schedule)) {
  require_schedule(schedule_, world.size());
  for (const AveragingLevel& level : schedule_.levels) {
    const int first = world.rank() / level.group_size * level.group_size;
    std::vector<int> ranks;
    for (int i = 0; i < level.group_size; ++i) ranks.push_back(first + i);
    groups_.push_back(world.create_group(ranks));
  }
}

int ModelAverager::average(std::span<const comm::Buffer> parameters) {
  const int level = level_due(schedule_, calls_++);
  if (level < 0) return level;
  comm::Communicator& group = *groups_[static_cast<std::size_t>(level)];
  Workspace workspace;
  all_reduce_mean(group, parameters, group.size(), gossip::Convention::plumbline, workspace);
  return level;
}

}  // namespace plumbline::slowmo
