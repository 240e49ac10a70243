#include "harness/suite/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Text, IsTrimmed) {
  EXPECT_EQ(trimmed(" \ta b\r"), "a b");
  EXPECT_EQ(trimmed(" \t\r"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Text, HasLines) {
  EXPECT_THAT(lines_of(""), IsEmpty());
  EXPECT_THAT(lines_of("a\n\nb"), ElementsAre("a", "", "b"));
  EXPECT_THAT(lines_of("a\r\nb\n"), ElementsAre("a\r", "b"));
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
}

TEST(Text, LosesItsByteOrderMark) {
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF{}"), "{}");
  EXPECT_EQ(without_byte_order_mark("{}"), "{}");
}

}  // namespace
}  // namespace plumbline
