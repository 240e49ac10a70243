#include "harness/suite/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/suite/library_words.hpp"

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

std::string words_about_part(const char* text, const char* key) {
  try {
    (void)nlohmann::json::parse(text).at(key);
  } catch (const nlohmann::json::exception& error) {
    return suite::words_without_library(error.what());
  }
  return "";
}

TEST(LibraryWords, SayWhatIsWrongOfAnAnswer) {
  EXPECT_EQ(words_about_part("{}", "a"), "key 'a' not found");
  EXPECT_EQ(words_about_part("null", "a"), "null in place of an object or list");
  EXPECT_EQ(words_about_part("[1]", "a"), "array in place of an object");
  EXPECT_EQ(suite::words_without_library("as it is"), "as it is");
}

}  // namespace
}  // namespace plumbline
