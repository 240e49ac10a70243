#include "reference/support/nearest_name.hpp"

#include <gtest/gtest.h>

namespace plumbline {
namespace {

TEST(NearestName, IsThatWithTheFewestLettersChanged) {
  EXPECT_EQ(meant_name("1F1C", {"gpipe", "1f1b-x", "1f1b"}), "1f1b");
  EXPECT_EQ(meant_name("ring", {}), std::nullopt);
}

TEST(NearestName, IsNoneWhereEveryLetterDiffersOrMostOfThemAreAnotherWord) {
  EXPECT_EQ(meant_name("x", {"f", "all"}), std::nullopt);
  EXPECT_EQ(meant_name("", {"f"}), std::nullopt);
  const std::string long_name(1'000'000, 'x');  // compared with each other, two of them take minutes
  EXPECT_EQ(meant_name(long_name, {"f", long_name + 'y'}), std::nullopt);
  EXPECT_EQ(meant_name("ring", {long_name, "rings"}), "rings");
  EXPECT_EQ(meant_name("firing-squad", {"ring"}), std::nullopt);
  EXPECT_EQ(meant_name("rings", {"ring"}), "ring");
  EXPECT_EQ(meant_name("reduce", {"collectives.reduce_scatter"}), "collectives.reduce_scatter");
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
