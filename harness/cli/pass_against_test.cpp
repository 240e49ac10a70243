// Programs and what a wrong pass makes of them, run beside each other.
#include "harness/cli/pass_against.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/program/pass.hpp"
#include "reference/program/program_samples_test.hpp"

namespace plumbline::cli {
namespace {

using program::Program;
using program::Rings;
using testing::HasSubstr;
using testing::IsEmpty;

const Rings kThree{{0, {0, 1, 2}}, {12, {0, 1, 2}}};

ProgramSide side_of(Program one, Rings rings = kThree) {
  return {.programs = {std::move(one)}, .rings = std::move(rings)};
}
Program step_of_three() { return program::samples::chain(3, 12, 1.0 / 3); }

std::size_t position_of(const Program& one, const std::string& type, std::size_t which = 0) {
  for (std::size_t i = 0; i < one.ops.size(); ++i)
    if (one.ops[i].type == type && which-- == 0) return i;
  return one.ops.size();
}

TEST(PassAgainst, FindsTheSamePassEqual) {
  const Program before = step_of_three();
  const Program after = apply_data_parallel_pass(before, kThree).program;
  ASSERT_NE(before, after);
  const AgainstReport report = compare_programs(side_of(before), side_of(after), {});
  EXPECT_TRUE(report.is_equal());
  EXPECT_EQ(report.ranks, 3);
  EXPECT_EQ(report.compared, 3U * (3 + 4)) << "on each rank three gradients, three parameters and the rate";
}

TEST(PassAgainst, NamesTheFirstValueThatALostReductionChanges) {
  const Program before = step_of_three();
  Program after = before;
  const std::size_t lost = position_of(after, "all_reduce", 1);
  after.ops.erase(after.ops.begin() + static_cast<std::ptrdiff_t>(lost));
  const AgainstReport report = compare_programs(side_of(before), side_of(after), {});
  ASSERT_FALSE(report.is_equal());
  const ValueDifference& first = report.differences.front();
  EXPECT_EQ(first.variable, "w1");
  EXPECT_TRUE(first.is_gradient);
  EXPECT_EQ(first.rank, 0);
  EXPECT_NE(first.expected, first.got);
  EXPECT_EQ(before.ops[static_cast<std::size_t>(first.before)].type, "scale");
  EXPECT_EQ(first.after, static_cast<int>(lost)) << "the scaling that follows";
  EXPECT_EQ(report.differences.size(), 6U) << "its gradient and the parameter on three ranks";
}

TEST(PassAgainst, NamesValuesThatAreNotThereAnyMore) {
  const Program before = step_of_three();
  Program after = before;
  after.ops.pop_back();
  const AgainstReport report = compare_programs(side_of(before), side_of(after), {});
  ASSERT_FALSE(report.is_equal());
  EXPECT_THAT(report.differences.front().problem, HasSubstr("no optimizer updates it"));
}

TEST(PassAgainst, FindsAFactorOfOnePartInAThousand) {
  Program before = step_of_three(), after = before;
  after.ops[position_of(after, "scale", 2)].attributes["scale"] = 1.001 / 3;
  const AgainstReport report = compare_programs(side_of(before), side_of(after), {});
  ASSERT_FALSE(report.is_equal());
  EXPECT_EQ(report.differences.front().variable, "w0");
  EXPECT_NEAR(report.differences.front().got / report.differences.front().expected, 1.001, 1e-9);
}

TEST(PassAgainst, FindsWhatBitsTellWhereAsked) {
  Program before = step_of_three(), after = before;
  after.ops[position_of(after, "scale", 0)].attributes["scale"] = 1.0 / 3 * (1 + 1e-7);
  EXPECT_TRUE(compare_programs(side_of(before), side_of(after), {}).is_equal());
  EXPECT_TRUE(compare_programs(side_of(before), side_of(before), {.exact = true}).is_equal());
  after.ops[position_of(after, "scale", 0)].attributes["scale"] = 1.0 / 3 * (1 + 3e-7);
  EXPECT_FALSE(compare_programs(side_of(before), side_of(after), {.exact = true}).is_equal());
}

TEST(PassAgainst, NamesCollectivesInAnotherOrder) {
  const Program before = step_of_three();
  Program swapped = before;
  std::swap(swapped.ops[position_of(before, "all_reduce", 0)].inputs,
            swapped.ops[position_of(before, "all_reduce", 1)].inputs);
  swapped.variables["w1@GRAD"].shape = {2};
  const ProgramSide after{.programs = {before, before, swapped}, .rings = kThree};
  EXPECT_THAT(compare_programs(side_of(before), after, {}).collectives,
              HasSubstr("ring 12, its collective 0: rank 0 has all_reduce sum of 4 float32 (op "));
}

TEST(PassAgainst, NamesCollectivesOfOtherVariables) {
  Program one{.ops = {program::samples::reduction_of("a@GRAD", 12), program::samples::reduction_of("b@GRAD", 12),
                      program::samples::optimizer_of("a"), program::samples::optimizer_of("b")}};
  program::samples::declare(one);
  Program other = one;
  std::swap(other.ops[0], other.ops[1]);
  const AgainstReport report = compare_programs(side_of(one), {.programs = {one, other, one}, .rings = kThree}, {});
  EXPECT_FALSE(report.is_equal());
  EXPECT_EQ(report.mixed, "ring 12, its collective 0: rank 0 has a@GRAD (op 0), rank 1 b@GRAD (op 0)");
  EXPECT_THAT(compare_programs(side_of(one), side_of(one), {}).mixed, IsEmpty());
}

TEST(PassAgainst, NamesRanksThatWaitForEachOther) {
  Program one{.ops = {program::samples::reduction_of("a@GRAD", 1), program::samples::reduction_of("b@GRAD", 2)}};
  program::samples::declare(one);
  Program other = one;
  std::swap(other.ops[0], other.ops[1]);
  const Rings rings{{0, {0, 1}}, {1, {0, 1}}, {2, {0, 1}}};
  EXPECT_THAT(collectives_that_hang({.programs = {one, one}, .rings = rings}, 2), IsEmpty());
  EXPECT_EQ(
      collectives_that_hang({.programs = {one, other}, .rings = rings}, 2),
      "the order of collectives differs: 2 ranks wait for each other: rank 0 at op 0, all_reduce sum of 4 float32 "
      "over ring 1 [0 1]; rank 1 at op 0, all_reduce sum of 4 float32 over ring 2 [0 1]");
  other.ops.clear();
  EXPECT_THAT(collectives_that_hang({.programs = {one, other}, .rings = rings}, 2),
              HasSubstr("a rank waits: rank 0 at op 0"));
  EXPECT_THROW((void)compare_programs({.programs = {one, other}, .rings = rings}, side_of(one, rings), {}),
               InvalidArgument);
}

// A sum that is 0, and in another order 5e-17.
TEST(PassAgainst, AllowsTheRoundingOfTermsThatCancel) {
  namespace samples = program::samples;
  const auto scaled = [](const char* to, double factor) {
    program::Op op = samples::op("scale", {{"X", {"a"}}}, {{"Out", {to}}});
    op.attributes["scale"] = factor;
    return op;
  };
  const auto sum = [](const char* one, const char* other, const char* to) {
    return samples::op("elementwise_add", {{"X", {one}}, {"Y", {other}}}, {{"Out", {to}}});
  };
  const auto step = [](std::vector<program::Op> ops) {
    Program one{.ops = std::move(ops)};
    one.ops.push_back(samples::optimizer_of("w"));
    samples::declare(one);
    return side_of(one);
  };
  const ProgramSide before = step({scaled("p", 0.3), scaled("n", -0.3), sum("p", "n", "w@GRAD")});
  const ProgramSide after =
      step({scaled("p", 0.1), scaled("q", 0.2), sum("p", "q", "r"), scaled("n", -0.3), sum("r", "n", "w@GRAD")});
  const ProgramSide wrong = step({scaled("p", 0.300001), scaled("n", -0.3), sum("p", "n", "w@GRAD")});
  EXPECT_TRUE(compare_programs(before, after, {}).is_equal());
  EXPECT_FALSE(compare_programs(before, wrong, {}).is_equal());
}

Program fused_of(std::vector<std::string> members, bool is_aligned = false) {
  Program one{.ops = {program::samples::op("coalesce_tensor", {{"Input", members}},
                                           {{"Output", members}, {"FusedOutput", {"f"}}}),
                      program::samples::reduction_of("f", 12)}};
  one.ops.front().attributes["copy_data"] = true;
  one.ops.front().attributes["use_align"] = is_aligned;
  for (const char* name : {"a", "b"}) one.ops.push_back(program::samples::optimizer_of(name));
  program::samples::declare(one);
  one.variables["f"].shape = {};
  return one;
}

TEST(PassAgainst, CountsTheMembersOfFusedReductions) {
  const Program both = fused_of({"a@GRAD", "b@GRAD"}), one = fused_of({"a@GRAD"});
  const AgainstReport report = compare_programs(side_of(both), {.programs = {both, one, both}, .rings = kThree}, {});
  EXPECT_FALSE(report.is_equal());
  EXPECT_EQ(report.collectives,
            "ring 12, its collective 0: rank 0 has all_reduce sum of 8 float32 (op 1), rank 1 all_reduce sum of 4 "
            "float32 (op 1)");
  const Program aligned = fused_of({"a@GRAD", "b@GRAD"}, true);
  EXPECT_THAT(compare_programs(side_of(both), {.programs = {both, aligned, both}, .rings = kThree}, {}).collectives,
              HasSubstr("rank 1 all_reduce sum of 128 float32"));
  EXPECT_TRUE(compare_programs(side_of(both), side_of(aligned), {}).is_equal());
}

// What no look ahead sees, the communicator does.
TEST(PassAgainst, ReportsCallsThatDoNotFit) {
  const Program both = fused_of({"a@GRAD", "b@GRAD"});
  Program late = both;  // its members' shapes are open
  late.variables["b@GRAD"].shape = {-1};
  Program later = late;
  later.ops.front().inputs["Input"] = later.ops.front().outputs["Output"] = {"b@GRAD"};
  const AgainstReport report = compare_programs(side_of(both), {.programs = {late, later, late}, .rings = kThree}, {});
  EXPECT_FALSE(report.is_equal());
  EXPECT_THAT(report.collectives, HasSubstr("all_reduce"));
}

TEST(PassAgainst, RefusesWhatCannotRun) {
  const Program one = step_of_three();
  EXPECT_THROW((void)compare_programs({.programs = {one, one}, .rings = kThree}, side_of(one), {}), InvalidArgument);
  Program large = one;
  large.variables["x0"].shape = {1 << 14, 1 << 13};
  EXPECT_THROW((void)compare_programs(side_of(one), side_of(large), {}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::cli
