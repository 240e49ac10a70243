// schedules.slots: names of what is read and answered, and what is rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Slots, AreThoseOfEachAction) {
  EXPECT_EQ(ask("schedules.slots", R"({"ranks": ["0F0,,(0F1;0B0)OVERLAP_F_B,0SEND_F1,0F2", "1F0,1I0,1W0"]})"),
            json::parse(R"({"slots": [[0, null, 1, 0, null, 0], [0, 0, 0]], "counts": [2, 1]})"));
  EXPECT_EQ(ask("schedules.slots", R"({"ranks": ["0F0,0F1"], "forward_only": true})"),
            json::parse(R"({"slots": [[0, 0]], "counts": [1]})"));
  EXPECT_EQ(ask("schedules.slots", R"({"ranks": []})"), json::parse(R"({"slots": [], "counts": []})"));
  EXPECT_THAT(error_of("schedules.slots", R"({"ranks": ["", "1F0,1B0,1B0"]})"),
              HasSubstr("rank 1, position 2 (1B0), but its activation is not there"));
  EXPECT_THAT(error_of("schedules.slots", R"({"ranks": ["0F0,0F"]})"), HasSubstr("line 1"));
}

}  // namespace
}  // namespace plumbline::adapter
