#include "reference/adapter/protocol.hpp"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string brackets(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(Encode, WritesFloatsAsShortestDecimalsThatStayFloats) {
  for (const auto& [value, text] :
       std::initializer_list<std::pair<double, const char*>>{{0.0, "0.0"},
                                                             {-0.0, "-0.0"},
                                                             {1.0, "1.0"},
                                                             {-2.5, "-2.5"},
                                                             {0.1, "0.1"},
                                                             {1e16, "1e+16"},
                                                             {123456.0, "123456.0"},
                                                             {5e-324, "5e-324"},
                                                             {2e-3, "0.002"},
                                                             {1.7976931348623157e308, "1.7976931348623157e+308"},
                                                             {9007199254740993.0, "9007199254740992.0"},
                                                             {9.5367431640625e-07, "9.5367431640625e-07"}})
    EXPECT_EQ(encode(value), text);
}

TEST(Encode, WritesWordsForNumbersThatAreNotFinite) {
  EXPECT_EQ(encode(json{1, kInf, -kInf, std::nan("")}), R"([1,"inf","-inf","nan"])");
}

TEST(Encode, WritesFloatsThatReadBackAsTheSameBits) {
  std::mt19937_64 bits(7);
  for (int i = 0; i < 100000; ++i) {
    const auto value = std::bit_cast<double>(bits());
    if (!std::isfinite(value)) continue;
    const std::string text = encode(value);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr)), std::bit_cast<std::uint64_t>(value));
    ASSERT_EQ(std::bit_cast<std::uint64_t>(decode(text)->get<double>()), std::bit_cast<std::uint64_t>(value));
  }
}

TEST(Encode, WritesEveryKindOfValueOnOneLine) {
  const json value =
      json::parse(R"({"a":[1,-2,18446744073709551615,null,true,false],"b":{},"c":[],"d":"x\n\"\\\u0001é"})");
  const std::string text = encode(value);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(json::parse(text), value);
}

TEST(Encode, ReplacesBytesThatAreNoUtf8) {
  EXPECT_EQ(encode("a\xff"
                   "b"),
            "\"a\xEF\xBF\xBD"
            "b\"");
}

TEST(Decode, ReadsEveryKindOfValue) {
  const std::string text =
      R"({"a":[1,-2,18446744073709551615,null,true,false,[]],"b":{"c":{}},"d":"x\n\u00e9","e":1.5})";
  EXPECT_EQ(*decode(" " + text + "\r"), json::parse(text));
  EXPECT_EQ(*decode("7"), 7);
}

TEST(Decode, NamesThePlaceOfAMistake) {
  EXPECT_THAT([] { (void)decode(R"({"id":1,,})"); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("not JSON"), HasSubstr("column 9"))));
  EXPECT_THAT([] { (void)decode("{}\0{}" + std::string(1, '\0')); }, ThrowsMessage<InvalidArgument>(HasSubstr("zero")));
  EXPECT_THAT([] { (void)decode(R"({"a":{"b":1,"b":[]}})"); }, ThrowsMessage<InvalidArgument>(HasSubstr("'b' twice")));
  EXPECT_THAT([] { (void)decode("[1e400]"); }, ThrowsMessage<InvalidArgument>(HasSubstr("1e400")));
}

TEST(Decode, KeepsItsMessageShortWhateverTheLine) {
  try {
    (void)decode("\"" + std::string(1 << 20, 'x'));
    FAIL() << "accepted a string without an end";
  } catch (const InvalidArgument& error) {
    EXPECT_LT(std::string(error.what()).size(), 300);
  }
}

TEST(Decode, BoundsNesting) {
  EXPECT_NO_THROW((void)decode(brackets(kDeepestNesting)));
  for (const std::size_t depth : {kDeepestNesting + 1, std::size_t{1000000}})
    EXPECT_THAT([&] { (void)decode(brackets(depth)); }, ThrowsMessage<InvalidArgument>(HasSubstr("deeper than 100")));
  EXPECT_THAT([] { (void)decode(std::string(1000000, '[')); }, ThrowsMessage<InvalidArgument>(HasSubstr("deeper")));
}

TEST(Lines, AreRequestsAndRepliesOfTheProtocol) {
  EXPECT_EQ(request_line(1, "a.b", {{"n", 2}}), R"({"id":1,"op":"a.b","args":{"n":2}})");
  EXPECT_EQ(result_line("x", {{"n", 2.0}}), R"({"id":"x","result":{"n":2.0}})");
  EXPECT_EQ(error_line(nullptr, "failed", "why"), R"({"id":null,"error":{"kind":"failed","message":"why"}})");
}

TEST(Describe, ShowsSmallValuesAndMeasuresLargeOnes) {
  EXPECT_EQ(describe(json::parse("[1,2]")), "a list of 2");
  EXPECT_EQ(describe(json::object()), "an object");
  EXPECT_EQ(describe(3.5), "3.5");
  EXPECT_EQ(describe(nullptr), "null");
  EXPECT_EQ(describe("a\nb"), "'a b'");
  EXPECT_EQ(describe(std::string(1000, 'x')), "'" + std::string(60, 'x') + "…'");
  EXPECT_EQ(describe(std::string("\xc3")), "'\xEF\xBF\xBD'");
}

}  // namespace
}  // namespace plumbline::adapter
