// 1F1B on 4 ranks with 8 micro-batches: rank 0's row, and how much of the time a rank is idle, beside a zero-bubble
// schedule.
#include <cstdio>

#include "reference/schedules/generate.hpp"
#include "reference/schedules/simulator.hpp"

using namespace plumbline;

int main() {
  const schedules::Shape shape{.ranks = 4, .micro_batches = 8};
  const schedules::Schedule plain = schedules::generate(schedules::ScheduleKind::one_f_one_b, shape);
  std::printf("%s\n", schedules::to_csv(plain.ranks[0]).c_str());
  for (const auto schedule_kind : {schedules::ScheduleKind::one_f_one_b, schedules::ScheduleKind::zb_h1}) {
    const schedules::Timeline timeline = schedules::simulate(schedules::generate(schedule_kind, shape));
    std::printf("%s: %g of %g idle\n", std::string(schedules::name_of(schedule_kind)).c_str(),
                timeline.barrier_bubble(), timeline.makespan);
  }
}
