#include "harness/cli/train_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

job::RunSpec spec_of(int steps, int data) {
  job::RunSpec spec{.layers = {job::Linear{.in = 64, .out = 64}}};
  spec.run.steps = steps;
  spec.parallel.data = data;
  return spec;
}

std::string refused(int steps, const RunPlace& place) {
  try {
    return "no refusal: " + require_room(spec_of(steps, 1), place);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

TEST(RecordSize, IsThatOfAllRanksAndOfTheLargest) {
  const RecordSize one = record_size(spec_of(10, 1)), four = record_size(spec_of(10, 4));
  EXPECT_EQ(one.of_all, one.of_rank);
  EXPECT_EQ(four.of_rank, one.of_rank);
  EXPECT_EQ(four.of_all, 4 * one.of_rank);
  EXPECT_GT(one.of_rank, 10 * 4 * sizeof(float) * 64 * 65) << "four moments of a weight and a bias";
}

TEST(Room, IsRefusedInTheWordsByWhichTheStepsWereGiven) {
  EXPECT_THAT(refused(2'000'000, {.folder = "/tmp"}), testing::StartsWith("--steps 2000000: the tensors of each step"));
  EXPECT_THAT(refused(2'000'000, {.folder = "/tmp", .steps = "--spec a.toml: run.steps = "}),
              testing::StartsWith("--spec a.toml: run.steps = 2000000: the tensors of each step"));
}

TEST(Room, IsThatOfOneRankWhereOthersMayBeElsewhere) {
  EXPECT_THAT(require_room(spec_of(16'500, 1), {.folder = "/tmp"}),
              testing::HasSubstr("of memory until the ranks end"));
  EXPECT_THAT(require_room(spec_of(16'500, 1), {.folder = "/tmp", .on_one_host = false}),
              testing::HasSubstr("of a rank's memory until it ends"));
}

}  // namespace
}  // namespace plumbline::cli
