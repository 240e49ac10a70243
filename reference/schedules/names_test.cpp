// Every name by which a schedule is asked for.
#include "reference/schedules/names.hpp"

#include <cctype>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::schedules {
namespace {

TEST(ScheduleNames, ArePytorchsInAnyCaseThoseOfSpecificationsAndOurs) {
  // The names that get_schedule_class() of PyTorch 2.13 takes, apart from those of its two base classes.
  constexpr std::pair<const char*, ScheduleKind> kTorch[]{
      {"1F1B", ScheduleKind::one_f_one_b},
      {"Interleaved1F1B", ScheduleKind::interleaved},
      {"GPipe", ScheduleKind::gpipe},
      {"LoopedBFS", ScheduleKind::looped_breadth_first},
      {"InterleavedZeroBubble", ScheduleKind::interleaved_zero_bubble},
      {"ZBVZeroBubble", ScheduleKind::zbv},
      {"DualPipeV", ScheduleKind::dualpipev}};
  for (const auto& [name, schedule_kind] : kTorch) {
    std::string upper(name), lower(name);
    for (char& letter : upper) letter = static_cast<char>(std::toupper(letter));
    for (char& letter : lower) letter = static_cast<char>(std::tolower(letter));
    for (const std::string& asked : {std::string(name), upper, lower, std::string("Schedule") + name})
      EXPECT_EQ(find_schedule_kind(asked), schedule_kind) << asked;
  }
  EXPECT_EQ(schedule_kind_of("interleaved-1f1b"), ScheduleKind::interleaved);
  EXPECT_EQ(schedule_kind_of("interleaved-zb"), ScheduleKind::interleaved_zero_bubble);
  for (const ScheduleKind schedule_kind : schedule_kinds())
    EXPECT_EQ(schedule_kind_of(name_of(schedule_kind)), schedule_kind);
}

TEST(ScheduleNames, AreEachOfOneFamily) {
  std::set<std::string> seen;
  for (const auto& [name, schedule_kind] : schedule_kind_names()) {
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_EQ(find_schedule_kind(name), schedule_kind) << name;
  }
  for (const std::string& name : names_in_specifications())
    EXPECT_EQ(name_in_specifications(schedule_kind_of(name)), name);
  EXPECT_EQ(names_in_specifications().size(), schedule_kinds().size() - 2) << "all that train";
}

TEST(ScheduleNames, OthersAreNone) {
  for (const char* name : {"", "schedule", "PipelineScheduleSingle", "Schedulezb-h1", "1f1b "})
    EXPECT_EQ(find_schedule_kind(name), std::nullopt) << name;
  try {
    (void)schedule_kind_of("2f2b");
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("there is no '2f2b', but gpipe, 1f1b, interleaved, looped-bfs, "));
  }
}

}  // namespace
}  // namespace plumbline::schedules
