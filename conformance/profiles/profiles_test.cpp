#include "conformance/profiles/profiles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

using testing::HasSubstr;

std::string row(const std::string& change_from = "", const std::string& change_to = "") {
  std::string text =
      "[[profile]]\nname = \"collectives\"\nversion = \"0.1\"\ntitle = \"moves data\"\nprefixes = "
      "[\"COLL\"]\nmandatory = [\"groups\"]\n";
  if (!change_from.empty()) text.replace(text.find(change_from), change_from.size(), change_to);
  return text;
}

std::string refusal(const std::string& text) {
  suite::Suite suite;
  try {
    add_profiles(suite, text, "p.toml");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Profiles, AreReadFromTheFile) {
  suite::Suite suite;
  add_profiles(suite, row());
  const suite::Profile& profile = suite.profile("collectives");
  EXPECT_EQ(profile.version, "0.1");
  EXPECT_EQ(profile.prefixes, std::vector<std::string>{"COLL"});
  EXPECT_EQ(profile.mandatory, std::vector<std::string>{"groups"});
}

TEST(Profiles, RefuseWhatIsWrongAndSayWhere) {
  EXPECT_THAT(refusal("[[profile]\n"), HasSubstr("p.toml:1:"));
  EXPECT_THAT(refusal("answer = 42\n"), HasSubstr("p.toml:1:1: unknown field 'answer'"));
  EXPECT_THAT(refusal(""), HasSubstr("p.toml: no [[profile]] in it"));
  EXPECT_THAT(refusal("profile = [1]\n"), HasSubstr("p.toml:1:12: 'profile' must be tables: [[profile]]"));
  EXPECT_THAT(refusal(row("title", "titel")),
              HasSubstr("p.toml:4:1: unknown field 'titel'; a profile has name, version"));
  EXPECT_THAT(refusal(row("title = \"moves data\"\n", "")), HasSubstr("a profile has no 'title'"));
  EXPECT_THAT(refusal(row("\"0.1\"", "0.1")), HasSubstr("p.toml:3:11: 'version' must be a text that is not empty"));
  EXPECT_THAT(refusal(row("[\"COLL\"]", "\"COLL\"")), HasSubstr("p.toml:5:12: 'prefixes' must be a list of texts"));
  EXPECT_THAT(refusal(row("\"COLL\"", "1")), HasSubstr("'prefixes' must be a list of texts"));
  EXPECT_THAT(refusal(row("[\"COLL\"]", "[]")), HasSubstr("a profile needs a prefix"));
  EXPECT_THAT(refusal(row("\"COLL\"", "\"coll\"")), HasSubstr("prefix 'coll'; a prefix is capitals"));
  EXPECT_THAT(refusal(row("\"groups\"", "\"flying\"")), HasSubstr("'flying' is no capability"));
  EXPECT_THAT(refusal(row() + row()), HasSubstr("p.toml:8:8: profile 'collectives' stands twice"));
}

}  // namespace
}  // namespace plumbline::conformance
