// Schedules that nobody would write: one that is read is written as it was read, and is judged, lowered or refused.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "reference/comm/errors.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/schedules/partition.hpp"
#include "reference/schedules/schedule.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    (void)schedules::parse_pipeline_layout(text.substr(0, 200));
  } catch (const Error&) {
  }
  try {
    const schedules::Schedule schedule = schedules::parse_csv(text);
    if (schedules::parse_csv(schedules::to_csv(schedule)) != schedule) std::abort();
    (void)schedules::check(schedule);
    (void)schedules::check(schedules::lower(schedule));
  } catch (const Error&) {
  }
  return 0;
}
