#include "reference/support/control_characters.hpp"

#include <gtest/gtest.h>

namespace plumbline {
namespace {

TEST(ControlCharacters, AreReplaced) {
  using namespace std::string_literals;
  EXPECT_EQ(without_controls("a\0b\x1b[2J\x7f\tc\n"s, '?'), "a?b?[2J??c?");
}

TEST(ControlCharacters, OfC1AreReplacedInUtf8AndAsBytes) {
  EXPECT_EQ(without_controls("a\xc2\x9b"
                             "2J\xc2\x80\xc2\x9f",
                             '?'),
            "a?2J??");
  EXPECT_EQ(without_controls("a\x9b"
                             "2J\x80\x9f",
                             '?'),
            "a?2J??");
  EXPECT_EQ(without_controls("\xe2\x9b", '?'), "\xe2?") << "a sequence that is cut off hides none";
  EXPECT_EQ(without_controls("\xf0\x9f\x9b", '?'), "\xf0??");
  EXPECT_EQ(without_controls("\xc2", '?'), "\xc2");
}

TEST(ControlCharacters, LeaveAllOtherTextAsItIs) {
  const std::string text = "plain, \xc2\xa0\xc3\xa9\xc3\x9b\xe2\x80\xa6\xe2\x9b\x84\xf0\x9f\x92\xa5, \xff\xa0";
  EXPECT_EQ(without_controls(text, '?'), text);
}

}  // namespace
}  // namespace plumbline
