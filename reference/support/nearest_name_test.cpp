#include "reference/support/nearest_name.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline {
namespace {

using testing::ElementsAre;

TEST(NearestName, IsThatWithTheFewestLettersChanged) {
  EXPECT_THAT(nearest_names("1F1C", {"gpipe", "1f1b-x", "1f1b"}, 2), ElementsAre("1f1b", "1f1b-x"));
  EXPECT_THAT(nearest_names("ring", {}, 2), ElementsAre());
}

TEST(NearestName, IsMeantWhereAThirdOfTheLettersDiffersOrOne) {
  EXPECT_EQ(did_you_mean("rng", {"mesh", "ring"}), "; did you mean ring?");
  EXPECT_EQ(did_you_mean("lcal", {"local", "mpi"}), "; did you mean local?");
  EXPECT_EQ(did_you_mean("pipelin", {"topology", "pipeline"}), "; did you mean pipeline?");
  EXPECT_EQ(did_you_mean("mixedprecison", {"mixed-precision"}), "; did you mean mixed-precision?");
  EXPECT_EQ(did_you_mean("grid", {"ring", "star"}), "");
  EXPECT_EQ(did_you_mean("frobnicate", {"local", "mpi"}), "");
  EXPECT_EQ(did_you_mean("x", {}), "");
}

TEST(NearestName, StandsAfterAllNames) {
  EXPECT_EQ(there_are("lcal", {"local", "mpi"}), "there are local, mpi; did you mean local?");
  EXPECT_EQ(there_are("nope", {"local", "mpi"}), "there are local, mpi");
}

}  // namespace
}  // namespace plumbline
