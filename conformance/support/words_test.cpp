// Names and numbers in messages: found by themselves alone.
#include "conformance/support/words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::conformance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Words, AreFoundByThemselves) {
  for (const char* message : {"3", "at 3.", "size=3, of 4", "[3]", "3 ranks"})
    EXPECT_TRUE(has_word(message, "3")) << message;
  for (const char* message : {"13", "-3", "3.5", "2.3", "x3", "3x", ""})
    EXPECT_FALSE(has_word(message, "3")) << message;
  EXPECT_TRUE(has_word("13, and 3", "3"));
  EXPECT_TRUE(has_word("momentum is -inf", "-inf"));
  EXPECT_FALSE(has_word("a summary", "sum"));
}

TEST(Words, ThatAreMissingAreListed) {
  EXPECT_EQ(missing_words("rank 3 of 4", {"3", "4"}), "");
  EXPECT_EQ(missing_words("rank 3 of 4", {"3", "5", "data"}), "'5' and 'data'");
}

TEST(Words, NumbersAreFoundInTheirOrder) {
  EXPECT_THAT(numbers_in("gradient 3 of f32 has -4 or 2.5, cuda:1: [6, 5] 2@17, w_0 x7"),
              ElementsAre(3, -4, 1, 6, 5, 2, 17));
  EXPECT_THAT(numbers_in("none - but 1."), ElementsAre(1));
  EXPECT_EQ(missing_numbers("3 of 4 and 5", {3, 5}), "");
  EXPECT_EQ(missing_numbers("3 of 4 and 5", {}), "");
  EXPECT_EQ(missing_numbers("3 of 4", {4, 3}), "3 of 4, 3 in '3 of 4'");
}

TEST(Words, OfRanksHaveTheirNumbers) {
  EXPECT_THAT(ranks_named("rank 1: 8 elements; rank 12: 7"), ElementsAre(1, 12));
  EXPECT_THAT(ranks_named("[Rank0] and ranks [2, 3 and 4] disagree"), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(ranks_named("7 on ranks 0, 2; 8 on rank=1"), ElementsAre(0, 2, 1));
  EXPECT_THAT(ranks_named("waited 20 ms for rank 1, 2"), ElementsAre(1, 2));
  EXPECT_THAT(ranks_named("rank 1, 8 elements; rank 0, 17 elements"), ElementsAre(1, 0));
  EXPECT_THAT(ranks_named("frank 5, a ranking of 6, call 7"), IsEmpty());
}

TEST(Words, AValueIsNotTheNumberOfARank) {
  EXPECT_EQ(without_ranks("ranks 0, 1 and 7: 8 elements; rank 2: 9"), ": 8 elements; : 9");
  EXPECT_EQ(without_ranks("rank 1, 8 elements; rank 0, 7 elements"), ", 8 elements; , 7 elements");
  EXPECT_EQ(without_ranks("root 0 on rank 1, root rank 2 on ranks 0, 3"), "root 0 on , root rank 2 on ");
  EXPECT_EQ(without_ranks("the roots differ"), "the roots differ");
}

}  // namespace
}  // namespace plumbline::conformance
