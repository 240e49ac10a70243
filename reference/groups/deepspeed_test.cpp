#include "reference/groups/deepspeed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::groups {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// The example of DeepSpeed's own documentation: 16 ranks, 2 tensor-parallel, 4 expert-parallel.
TEST(ExpertGroups, AreThoseOfDeepSpeed) {
  const ExpertGroups groups = expert_groups({.world = 16, .tensor = 2, .expert = 4});
  EXPECT_THAT(groups.expert_parallel,
              testing::UnorderedElementsAre(ElementsAre(0, 2, 4, 6), ElementsAre(8, 10, 12, 14),
                                            ElementsAre(1, 3, 5, 7), ElementsAre(9, 11, 13, 15)));
  EXPECT_EQ(groups.expert_data_parallel.size(), 8u);
  EXPECT_THAT(groups.expert_data_parallel, testing::Contains(ElementsAre(2, 10)));
  EXPECT_THAT(groups.expert_data_parallel, testing::Contains(ElementsAre(7, 15)));
}

TEST(ExpertGroups, MayHaveDataFirst) {
  const ExpertGroups groups = expert_groups({.world = 12, .pipeline = 2, .expert = 3, .data_first = true});
  EXPECT_THAT(groups.expert_parallel, testing::UnorderedElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3, 5),
                                                                    ElementsAre(6, 8, 10), ElementsAre(7, 9, 11)));
  EXPECT_THAT(groups.expert_data_parallel, testing::Contains(ElementsAre(0, 1)));
}

TEST(ExpertGroups, Refuse) {
  EXPECT_THAT([] { (void)expert_groups({.world = 12, .expert = 5}); },
              ThrowsMessage<InvalidArgument>("expert_groups: 5 expert-parallel ranks do not divide 12 replicas"));
  EXPECT_THAT([] { (void)expert_groups({.world = 12, .tensor = 5}); }, ThrowsMessage<InvalidArgument>(HasSubstr("5")));
  EXPECT_THAT([] { (void)expert_groups({.world = 12, .tensor = 65536, .pipeline = 65536}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("65536")));
  EXPECT_THAT([] { (void)expert_groups({.world = 12, .pipeline = 0}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("pipeline is 0")));
}

}  // namespace
}  // namespace plumbline::groups
