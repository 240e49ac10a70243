#include <gtest/gtest.h>

#include "reference/adapter/protocol.hpp"

namespace plumbline::adapter {
namespace {

// "<text>" of a line, "<dropped>", or "" for none.
std::string shown(const std::optional<LineBuffer::Line>& line) {
  if (!line) return "";
  return line->dropped ? "<dropped>" + line->text : "<" + line->text + ">";
}

TEST(LineBuffer, GivesTheSameLinesHoweverTheBytesArrive) {
  const std::string bytes = "one\n\nthree and\ttab\nfour\r\n";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    LineBuffer lines(100);
    for (std::size_t at = 0; at < bytes.size(); at += step) lines.append(bytes.substr(at, step));
    EXPECT_EQ(shown(lines.take()), "<one>");
    EXPECT_EQ(shown(lines.take()), "<>");
    EXPECT_EQ(shown(lines.take()), "<three and\ttab>");
    EXPECT_EQ(shown(lines.take()), "<four\r>");
    EXPECT_EQ(shown(lines.take()), "");
    EXPECT_EQ(shown(lines.take_rest()), "");
  }
}

TEST(LineBuffer, GivesTheUnfinishedLineOnlyAtTheEnd) {
  LineBuffer lines(100);
  lines.append("one\ntwo");
  EXPECT_EQ(shown(lines.take()), "<one>");
  EXPECT_EQ(shown(lines.take()), "");
  EXPECT_EQ(shown(lines.take_rest()), "<two>");
  EXPECT_EQ(shown(lines.take_rest()), "");
}

TEST(LineBuffer, DropsALineThatIsTooLongAndGoesOn) {
  for (const std::size_t step : {1, 2, 5, 100}) {
    const std::string bytes = "12345\n123456\n12345\n1234567890123\n\nx\n";
    LineBuffer lines(5);
    for (std::size_t at = 0; at < bytes.size(); at += step) lines.append(bytes.substr(at, step));
    EXPECT_EQ(shown(lines.take()), "<12345>");
    EXPECT_EQ(shown(lines.take()), "<dropped>");
    EXPECT_EQ(shown(lines.take()), "<12345>");
    EXPECT_EQ(shown(lines.take()), "<dropped>");
    EXPECT_EQ(shown(lines.take()), "<>");
    EXPECT_EQ(shown(lines.take()), "<x>");
  }
}

TEST(LineBuffer, SaysSoBeforeALineThatIsTooLongHasEnded) {
  LineBuffer lines(5);
  lines.append("12345");
  EXPECT_FALSE(lines.is_dropping());
  lines.append("6");
  EXPECT_TRUE(lines.is_dropping());
  EXPECT_EQ(shown(lines.take_rest()), "<dropped>");
  EXPECT_FALSE(lines.is_dropping());
}

}  // namespace
}  // namespace plumbline::adapter
