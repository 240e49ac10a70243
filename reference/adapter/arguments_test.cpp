#include "reference/adapter/arguments.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;
using testing::Pair;
using testing::StrEq;
using testing::ThrowsMessage;

class ArgumentsTest : public testing::Test {
 protected:
  Arguments of(const char* text) {
    object_ = json::parse(text);
    return {"op", object_};
  }
  template <class E, class Body>
  void expect_error(Body body, const char* words) {
    EXPECT_THAT(body, ThrowsMessage<E>(StrEq(words)));
  }
  json object_;
};

TEST_F(ArgumentsTest, ReadsEachTypeByName) {
  const auto arguments = of(R"({"b":true,"i":-3,"u":18446744073709551615,"d":2.5,"w":4,"t":"x","l":[[1],[]],
                                "m":{"a":1,"b":2},"o":[1,null]})");
  EXPECT_TRUE(arguments.get<bool>("b"));
  EXPECT_EQ(arguments.get<int>("i"), -3);
  EXPECT_EQ(arguments.get<std::uint64_t>("u"), 18446744073709551615u);
  EXPECT_EQ(arguments.get<double>("d"), 2.5);
  EXPECT_EQ(arguments.get<double>("w"), 4.0);
  EXPECT_EQ(arguments.get<std::string>("t"), "x");
  EXPECT_THAT(arguments.get<std::vector<std::vector<int>>>("l"), ElementsAre(ElementsAre(1), ElementsAre()));
  EXPECT_THAT((arguments.get<std::map<std::string, int>>("m")), ElementsAre(Pair("a", 1), Pair("b", 2)));
  EXPECT_THAT(arguments.get<std::vector<std::optional<int>>>("o"), ElementsAre(Optional(1), std::nullopt));
  EXPECT_EQ(arguments.get<json>("l"), object_["l"]);
  EXPECT_NO_THROW(arguments.expect_no_others());
}

TEST_F(ArgumentsTest, ReadsWordsForNumbersThatAreNotFinite) {
  const auto values = of(R"({"d":["inf","-inf","nan"]})").get<std::vector<double>>("d");
  EXPECT_TRUE(std::isinf(values[0]) && values[0] > 0);
  EXPECT_TRUE(std::isinf(values[1]) && values[1] < 0);
  EXPECT_TRUE(std::isnan(values[2]));
}

TEST_F(ArgumentsTest, TakesTheDefaultForWhatIsAbsentOrNull) {
  const auto arguments = of(R"({"null":null,"there":1})");
  for (const char* name : {"null", "absent"}) {
    EXPECT_EQ(arguments.get<int>(name, 7), 7);
    EXPECT_EQ(arguments.find<int>(name), std::nullopt);
    EXPECT_FALSE(arguments.has(name));
  }
  EXPECT_EQ(arguments.get<int>("there", 7), 1);
  EXPECT_TRUE(arguments.has("there"));
}

TEST_F(ArgumentsTest, NamesTheFieldThatIsMissing) {
  const auto arguments = of(R"({"null":null,"in":{}})");
  expect_error<InvalidArgument>([&] { (void)arguments.get<int>("n"); }, "op: n is missing");
  expect_error<InvalidArgument>([&] { (void)arguments.get<int>("null"); }, "op: null is missing");
  expect_error<InvalidArgument>([&] { (void)arguments.get<Arguments>("in").get<int>("n"); }, "op: in.n is missing");
}

TEST_F(ArgumentsTest, NamesPlaceExpectedTypeAndWhatCame) {
  const auto arguments = of(R"({"n":"x","f":1.5,"l":[[1,2],[3,"4"]],"m":{"a":{"b":[true]}},"o":1})");
  expect_error<InvalidArgument>([&] { (void)arguments.get<int>("n"); }, "op: n must be an integer, got 'x'");
  expect_error<InvalidArgument>([&] { (void)arguments.get<int>("f"); }, "op: f must be an integer, got 1.5");
  expect_error<InvalidArgument>([&] { (void)arguments.get<bool>("f"); }, "op: f must be true or false, got 1.5");
  expect_error<InvalidArgument>([&] { (void)arguments.get<std::string>("l"); },
                                "op: l must be a text, got a list of 2");
  expect_error<InvalidArgument>([&] { (void)arguments.get<std::vector<int>>("m"); },
                                "op: m must be a list, got an object");
  expect_error<InvalidArgument>([&] { (void)arguments.get<Arguments>("o"); }, "op: o must be an object, got 1");
  expect_error<InvalidArgument>([&] { (void)arguments.get<std::vector<std::vector<double>>>("l"); },
                                R"(op: l[1][1] must be a number or "inf", "-inf", "nan", got '4')");
  expect_error<InvalidArgument>(
      [&] { (void)arguments.get<Arguments>("m").get<Arguments>("a").get<std::vector<int>>("b"); },
      "op: m.a.b[0] must be an integer, got true");
}

TEST_F(ArgumentsTest, RefusesIntegersThatTheTypeCannotHold) {
  const auto arguments = of(R"({"a":2147483648,"b":9223372036854775808,"c":-1})");
  expect_error<OutOfRange>([&] { (void)arguments.get<int>("a"); },
                           "op: a must be from -2147483648 to 2147483647, got 2147483648");
  EXPECT_EQ(arguments.get<std::int64_t>("a"), 2147483648);
  EXPECT_THROW((void)arguments.get<std::int64_t>("b"), OutOfRange);
  EXPECT_THROW((void)arguments.get<std::uint64_t>("c"), InvalidArgument);
}

TEST_F(ArgumentsTest, BoundsIntegers) {
  const auto arguments = of(R"({"n":5})");
  EXPECT_EQ(arguments.integer_in("n", 5, 5), 5);
  expect_error<InvalidArgument>([&] { (void)arguments.integer_in("n", 1, 4); }, "op: n must be from 1 to 4, got 5");
}

TEST_F(ArgumentsTest, TakesOneOfSeveralWords) {
  const auto arguments = of(R"({"op":"b"})");
  EXPECT_EQ(arguments.choice<int>("op", {{"a", 1}, {"b", 2}}), 2);
  EXPECT_EQ(arguments.choice<int>("absent", {{"a", 1}}, 9), 9);
  expect_error<InvalidArgument>([&] { (void)arguments.choice<int>("op", {{"a", 1}, {"c", 2}}); },
                                "op: op must be one of a, c, got 'b'");
  EXPECT_EQ(of("{}").convention(), Convention::plumbline);
}

TEST_F(ArgumentsTest, CallsAnUnknownConventionUnsupported) {
  EXPECT_EQ(of(R"({"convention":"deepspeed-0.6"})").convention(), Convention::deepspeed_0_6);
  const auto arguments = of(R"({"convention":"x"})");
  expect_error<Unsupported>([&] { (void)arguments.convention(); }, "op: convention 'x' is not known");
}

TEST_F(ArgumentsTest, FindsFieldsThatNobodyAskedForInAllObjectsRead) {
  const auto arguments = of(R"({"a":1,"in":[{"b":1},{"b":2,"c":3}],"raw":{"d":4}})");
  (void)arguments.get<json>("raw");
  (void)arguments.get<int>("a");
  expect_error<InvalidArgument>([&] { arguments.expect_no_others(); }, "op: unknown field 'in'; there are a, raw");
  const auto list = arguments.get<std::vector<Arguments>>("in");
  for (const Arguments& item : list) (void)item.get<int>("b");
  expect_error<InvalidArgument>([&] { arguments.expect_no_others(); }, "op: unknown field 'in[1].c'; there are b");
  (void)list[1].get<int>("c");
  EXPECT_NO_THROW(arguments.expect_no_others());
}

TEST_F(ArgumentsTest, KnowsThePathsOfAllFieldsThatWereAskedFor) {
  const auto arguments = of(R"({"in":[{"b":1},{"b":2}],"views":{"x":{"shape":[1]}}})");
  for (const Arguments& item : arguments.get<std::vector<Arguments>>("in")) (void)item.has("b");
  for (const auto& [name, view] : arguments.get<std::map<std::string, Arguments>>("views")) (void)view.has("shape");
  EXPECT_THAT(arguments.paths_asked(), ElementsAre("in", "in.b", "views", "views.x.shape"));
}

TEST_F(ArgumentsTest, ReadsMixedListsItemByItem) {
  const auto arguments = of(R"({"ops":[["scale",[1.5]],["step",0],["save"]]})");
  const auto ops = arguments.get<std::vector<Value>>("ops");
  EXPECT_EQ(ops[0].at(0).as<std::string>(), "scale");
  EXPECT_THAT(ops[0].at(1).as<std::vector<double>>(), ElementsAre(1.5));
  EXPECT_EQ(ops[1].at(1).as<int>(), 0);
  EXPECT_EQ(ops[2].size(), 1);
  expect_error<InvalidArgument>([&] { (void)ops[2].at(1); }, "op: ops[2] must have at least 2 items, got 1");
  expect_error<InvalidArgument>([&] { (void)ops[0].at(1).at(0).as<int>(); },
                                "op: ops[0][1][0] must be an integer, got 1.5");
  expect_error<InvalidArgument>([&] { (void)ops[1].at(1).at(0); }, "op: ops[1][1] must be a list, got 0");
  expect_error<InvalidArgument>([&] { ops[1].refuse("comes too early"); }, "op: ops[1] comes too early");
}

TEST_F(ArgumentsTest, AreAnObject) {
  const json list = json::array();
  expect_error<InvalidArgument>([&] { (void)Arguments("op", list); }, "op: args must be an object, got a list of 0");
}

}  // namespace
}  // namespace plumbline::adapter
