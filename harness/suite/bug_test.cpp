#include "harness/suite/bug.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::suite {
namespace {

using testing::Optional;
using testing::StrEq;

TEST(BugIn, FindsAnIdAnywhereInASource) {
  EXPECT_THAT(bug_in("COL-04"), Optional(StrEq("COL-04")));
  EXPECT_THAT(bug_in("COL-04: and more"), Optional(StrEq("COL-04")));
  EXPECT_THAT(bug_in("a forgotten division: RED-01"), Optional(StrEq("RED-01")));
  EXPECT_THAT(bug_in("P2P-04"), Optional(StrEq("P2P-04")));
  EXPECT_THAT(bug_in("PIPE-04"), Optional(StrEq("PIPE-04"))) << "four letters";
}

TEST(BugIn, TakesNothingElseForAnId) {
  for (const char* source : {"MPI-3.1 section 5.12", "IEEE 754-2019", "IEEE-754", "TRAIN-006", "COLL-044", "2019-07-12",
                             "a loss that nobody averages", ""})
    EXPECT_EQ(bug_in(source), std::nullopt) << source;
}

TEST(BugsOfToml, RefusesAnIdOfAnotherForm) {
  const auto bug = [](const std::string& id) {
    return "[[bug]]\nid = \"" + id + "\"\nreports = [\"a/b#1\"]\nwhat = \"it broke\"\n";
  };
  EXPECT_EQ(bugs_of_toml(bug("PIPE-04"), "bugs.toml").count("PIPE-04"), 1u);
  for (const char* id : {"PIPES-04", "PIPE-4", "PIPE-04 and more", "see PIPE-04"})
    EXPECT_THROW((void)bugs_of_toml(bug(id), "bugs.toml"), InvalidArgument) << id;
}

}  // namespace
}  // namespace plumbline::suite
