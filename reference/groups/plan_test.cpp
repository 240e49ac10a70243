#include "reference/groups/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::groups {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Plan plan_of_six() {
  return {.convention = "plumbline",
          .world_size = 6,
          .creations = {
              {"PIPELINE", {0, 2, 4}}, {"DATA", {0, 1}}, {"PIPELINE", {5, 3, 1}}, {"DATA", {2, 3}}, {"ENDS", {0, 4}}}};
}

TEST(Plan, ModesComeInTheOrderInWhichTheyAreFirstMade) {
  EXPECT_THAT(modes_of(plan_of_six()), ElementsAre("PIPELINE", "DATA", "ENDS"));
}

TEST(Plan, GroupsOfAModeKeepTheirOrderAndTheirMembersOrder) {
  EXPECT_THAT(groups_of(plan_of_six(), "PIPELINE"), ElementsAre(ElementsAre(0, 2, 4), ElementsAre(5, 3, 1)));
}

TEST(Plan, AnUnknownModeIsAnErrorThatNamesTheOthers) {
  EXPECT_THAT([] { (void)groups_of(plan_of_six(), "TENSOR"); },
              ThrowsMessage<NotFound>(AllOf(HasSubstr("'TENSOR'"), HasSubstr("[PIPELINE, DATA, ENDS]"))));
}

TEST(Plan, AMemberIsCountedInGroupOrderAndItsNeighboursWrapAround) {
  const Membership last{.mode = "PIPELINE", .creation = 2, .local_rank = 2, .size = 3, .next = 5, .previous = 3};
  const Membership data{.mode = "DATA", .creation = 1, .local_rank = 1, .size = 2, .next = 0, .previous = 0};
  EXPECT_THAT(memberships_of(plan_of_six())[1], ElementsAre(last, data));
}

TEST(Plan, ARankOutsideAModeHasNoPartInIt) {
  EXPECT_THAT(memberships_of(plan_of_six())[5], ElementsAre(testing::Field(&Membership::mode, "PIPELINE")));
}

TEST(Plan, AGroupOfOneIsItsOwnNeighbour) {
  const Plan plan{.world_size = 2, .creations = {{"TENSOR", {1}}}};
  const Membership alone{.mode = "TENSOR", .creation = 0, .local_rank = 0, .size = 1, .next = 1, .previous = 1};
  EXPECT_THAT(memberships_of(plan)[1], ElementsAre(alone));
}

TEST(Plan, OfSeveralGroupsOfAModeTheLastCountsAndTheOrderIsThatOfTheModes) {
  const Plan plan{.world_size = 3, .creations = {{"A", {0, 1}}, {"B", {0}}, {"A", {2, 0}}}};
  const auto found = memberships_of(plan)[0];
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], (Membership{.mode = "A", .creation = 2, .local_rank = 1, .size = 2, .next = 2, .previous = 2}));
  EXPECT_EQ(found[1].mode, "B");
  const Plan other{.world_size = 3, .creations = {{"A", {1}}, {"B", {0}}, {"A", {0}}}};
  EXPECT_EQ(memberships_of(other)[0].front().mode, "A") << "the rank meets B first, but A is made first";
}

TEST(Plan, ARankOutsideTheWorldIsAnError) {
  EXPECT_THROW((void)memberships_of(Plan{.world_size = 2, .creations = {{"A", {2}}}}), InvalidArgument);
}

TEST(Plan, ValidateNamesTheCreationByNumberModeAndList) {
  EXPECT_NO_THROW(validate(plan_of_six()));
  const auto refuses = [](std::vector<int> ranks, const char* words) {
    Plan plan = plan_of_six();
    plan.creations[3].ranks = std::move(ranks);
    EXPECT_THAT([&] { validate(plan); }, ThrowsMessage<InvalidArgument>(HasSubstr(words)));
  };
  refuses({}, "creation 3, DATA [], has no rank");
  refuses({2, 3, 2}, "creation 3, DATA [2 3 2], has rank 2 twice");
  refuses({2, 6}, "creation 3, DATA [2 6], has rank 6, the world has 6 ranks");
  refuses({-1}, "creation 3, DATA [-1], has rank -1");
}

TEST(Shown, ShortensLongLists) {
  EXPECT_EQ(shown(std::vector{3, 1}), "[3 1]");
  std::vector<int> ranks(17);
  for (int rank = 0; rank < 17; ++rank) ranks[static_cast<std::size_t>(rank)] = 2 * rank;
  EXPECT_EQ(shown(ranks), "[0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30 … 32: 17 ranks]");
}

}  // namespace
}  // namespace plumbline::groups
