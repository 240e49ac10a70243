// Programs that cannot run are told from those that can, and every fault is named.
#include "reference/program/validate.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/program/program_samples_test.hpp"

namespace plumbline::program {
namespace {

using samples::op;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

const Rings kRings{{0, {0, 1}}, {12, {0, 1}}};

std::vector<ProgramFault> faults_of(const Program& program, const ValidationRules& rules = {}) {
  std::vector<ProgramFault> faults;
  for (const ProgramProblem& problem : find_problems(program, kRings, rules)) faults.push_back(problem.fault);
  return faults;
}

std::string message_of(const Program& program) {
  const auto problems = find_problems(program, kRings);
  return problems.empty() ? "" : problems.front().message;
}

TEST(Validate, AcceptsAStep) {
  EXPECT_THAT(find_problems(samples::chain(4, 12, 0.5, "momentum"), kRings), IsEmpty());
  EXPECT_NO_THROW(require_valid(samples::chain(1, 12, 1), kRings));
}

TEST(Validate, FindsNamesThatStandForNothing) {
  Program program = samples::chain(2, 12, 0.5);
  program.variables.erase("x1@GRAD");
  EXPECT_THAT(faults_of(program), ElementsAre(ProgramFault::undeclared_variable, ProgramFault::undeclared_variable));
  EXPECT_THAT(message_of(program), HasSubstr("op 5 (matmul_v2_grad) names 'x1@GRAD' in slot X@GRAD"));
  EXPECT_THAT([&] { require_valid(program, kRings); }, ThrowsMessage<InvalidProgram>(HasSubstr("(and 1 more)")));
}

TEST(Validate, FindsOpsAndSlotsThatThereAreNot) {
  Program program = samples::chain(1, 12, 0.5);
  program.ops[0].type = "matmul_v3";
  program.ops[1].inputs["Y"] = {"x1"};
  EXPECT_THAT(faults_of(program), ElementsAre(ProgramFault::unknown_op, ProgramFault::unknown_slot));
  EXPECT_THAT(message_of(program), HasSubstr("op 0 has the type 'matmul_v3'"));
  EXPECT_THAT(faults_of(program, {.known_ops = false}), IsEmpty());
}

TEST(Validate, KnowsTheDerivativesOfWhatItKnows) {
  const auto signature = op_signature("conv2d_grad");
  ASSERT_TRUE(signature);
  EXPECT_THAT(signature->inputs, testing::IsSupersetOf({"Input", "Filter", "Output", "Output@GRAD"}));
  EXPECT_THAT(signature->outputs, testing::IsSupersetOf({"Input@GRAD", "Filter@GRAD"}));
  EXPECT_FALSE(op_signature("sgd_grad"));
  EXPECT_FALSE(op_signature("_grad"));
}

TEST(Validate, FindsRingsThatThereAreNot) {
  Program program = samples::chain(1, 3, 0.5);
  EXPECT_THAT(faults_of(program), ElementsAre(ProgramFault::unknown_ring));
  EXPECT_THAT(message_of(program), HasSubstr("op 5 (all_reduce) runs over ring 3, and there is no such ring"));
  program.ops[5].ring = std::nullopt;
  EXPECT_THAT(faults_of(program), ElementsAre(ProgramFault::missing_ring));
  EXPECT_THAT(faults_of(program, {.rings_exist = false}), IsEmpty());
}

TEST(Validate, FindsWhatIsReadTooEarly) {
  Program program = samples::chain(2, 12, 0.5);
  std::swap(program.ops[0], program.ops[1]);
  EXPECT_THAT(faults_of(program), ElementsAre(ProgramFault::used_before_written));
  EXPECT_THAT(message_of(program), HasSubstr("op 0 (matmul_v2) reads 'x1' before op 1 (matmul_v2)"));
  EXPECT_THAT(faults_of(program, {.order = false}), IsEmpty());
  program.variables["x1"].persistable = true;  // of the step before
  EXPECT_THAT(faults_of(program), IsEmpty());
}

TEST(Validate, FindsCycles) {
  Program program;
  program.ops = {op("relu", {{"X", {"b"}}}, {{"Out", {"a"}}}), op("relu", {{"X", {"a"}}}, {{"Out", {"c"}}}),
                 op("relu", {{"X", {"c"}}}, {{"Out", {"b"}}})};
  samples::declare(program);
  EXPECT_THAT(faults_of(program), ElementsAre(ProgramFault::cyclic_dependency));
  EXPECT_THAT(message_of(program), HasSubstr("op 0 (relu) reads 'b' before op 2 (relu)"));
}

// A cycle of so many ops, and a walk along it that is found by asking for one op more than once must end soon.
TEST(Validate, TellsLongCyclesInShort) {
  constexpr int kOps = 30000;
  Program program;
  for (int i = 0; i < kOps; ++i)
    program.ops.push_back(op("relu", {{"X", {fmt::format("v{}", i + 1)}}}, {{"Out", {fmt::format("v{}", i)}}}));
  samples::declare(program);
  EXPECT_THAT(faults_of(program), Each(ProgramFault::used_before_written)) << "a chain in reverse";
  program.ops.push_back(op("relu", {{"X", {"v0"}}}, {{"Out", {fmt::format("v{}", kOps)}}}));
  const auto problems = find_problems(program, kRings);
  ASSERT_EQ(problems.size(), static_cast<std::size_t>(kOps));
  for (const ProgramProblem& problem : problems) {
    ASSERT_EQ(problem.fault, ProgramFault::cyclic_dependency);
    ASSERT_LT(problem.message.size(), 300u);
  }
  EXPECT_THAT(problems.front().message, HasSubstr("needs what it makes itself: ops 0 <- 30000 <- 29999"));
  EXPECT_THAT(problems.front().message, HasSubstr(" more ... <- "));
}

TEST(Validate, TellsCyclesFromWhatOnlyLeadsToThem) {
  Program program;
  program.ops = {op("relu", {{"X", {"a"}}}, {{"Out", {"before"}}}), op("relu", {{"X", {"b"}}}, {{"Out", {"a"}}}),
                 op("relu", {{"X", {"a"}}}, {{"Out", {"b"}}}), op("relu", {{"X", {"b"}}}, {{"Out", {"after"}}})};
  samples::declare(program);
  EXPECT_THAT(faults_of(program), ElementsAre(ProgramFault::used_before_written, ProgramFault::cyclic_dependency));
}

TEST(Validate, TakesWhatComesFromOutsideForWritten) {
  Program program;
  program.ops = {op("c_wait_compute", {{"X", {"batch"}}}, {{"Out", {"batch"}}}),
                 op("coalesce_tensor", {{"Input", {"g"}}}, {{"Output", {"g"}}, {"FusedOutput", {"all"}}}),
                 op("relu", {{"X", {"batch"}}}, {{"Out", {"g"}}})};
  program.ops[0].ring = 0;
  samples::declare(program);
  EXPECT_THAT(faults_of(program), IsEmpty());
}

// Parts g and h of one variable; `ops` come after the op that makes it.
Program fused_step(bool copies, std::vector<Op> ops, std::vector<Op> before = {}) {
  Program program{.ops = std::move(before)};
  program.ops.push_back(
      op("coalesce_tensor", {{"Input", {"g", "h"}}}, {{"Output", {"g", "h"}}, {"FusedOutput", {"all"}}}));
  program.ops.back().attributes["copy_data"] = copies;
  std::ranges::move(ops, std::back_inserter(program.ops));
  samples::declare(program);
  return program;
}
Op writer_of(const std::string& name) { return op("relu", {{"X", {"x"}}}, {{"Out", {name}}}); }
Op reader_of(const std::string& name) { return op("square", {{"X", {name}}}, {{"Out", {"seen"}}}); }

TEST(Validate, WhoReadsAFusedVariableReadsItsParts) {
  const Op reduction = samples::reduction_of("all", 12);
  for (const bool copies : {false, true}) {
    EXPECT_THAT(faults_of(fused_step(copies, {writer_of("g"), writer_of("h"), reduction})), IsEmpty());
    const Program early = fused_step(copies, {writer_of("g"), reduction, writer_of("h")});
    EXPECT_THAT(faults_of(early), ElementsAre(ProgramFault::used_before_written));
    EXPECT_EQ(message_of(early),
              "op 2 (all_reduce) reads 'h', which is a part of 'all', before op 3 (relu), the first to write it");
    // A dependency op touches nothing, and is no writer either.
    const Op nop = op("nop", {{"X", {"all"}}}, {{"Out", {"g", "h"}}});
    EXPECT_THAT(faults_of(fused_step(copies, {nop, writer_of("g"), writer_of("h"), reduction})), IsEmpty());
    EXPECT_THAT(message_of(fused_step(copies, {writer_of("g"), reduction, nop, writer_of("h")})),
                HasSubstr("before op 4 (relu)"));
    // The whole is written first.
    EXPECT_THAT(faults_of(fused_step(copies, {writer_of("all"), reduction, writer_of("h")})), IsEmpty());
    EXPECT_THAT(faults_of(fused_step(copies, {writer_of("all"), reader_of("h")})), IsEmpty());
    EXPECT_THAT(faults_of(fused_step(copies, {reader_of("h"), writer_of("all")})),
                ElementsAre(ProgramFault::used_before_written));
  }
  Program kept = fused_step(false, {writer_of("g"), reduction, writer_of("h")});
  kept.variables["h"].persistable = true;
  EXPECT_THAT(faults_of(kept), IsEmpty());
  // Parts of another one by now.
  Program moved = fused_step(false, {writer_of("g"), writer_of("h")});
  moved.ops.push_back(op("coalesce_tensor", {{"Input", {"h"}}}, {{"Output", {"h"}}, {"FusedOutput", {"other"}}}));
  moved.ops.insert(moved.ops.end(), {reader_of("all"), writer_of("h"), reader_of("other")});
  samples::declare(moved);
  EXPECT_THAT(faults_of(moved), IsEmpty());
}

TEST(Validate, WhatIsNotCopiedIsLost) {
  const Op reduction = samples::reduction_of("all", 12);
  const Program lost = fused_step(false, {writer_of("h"), reduction}, {writer_of("g")});
  EXPECT_THAT(faults_of(lost), ElementsAre(ProgramFault::not_copied));
  EXPECT_EQ(message_of(lost),
            "op 3 (all_reduce) reads 'g', which is a part of 'all', after op 1 (coalesce_tensor), which does not copy "
            "what op 0 (relu) wrote");
  EXPECT_EQ(name_of(ProgramFault::not_copied), "not_copied");
  EXPECT_THAT(message_of(fused_step(false, {reader_of("g")}, {writer_of("g")})),
              HasSubstr("op 2 (square) reads 'g' after op 1 (coalesce_tensor), which does not copy what op 0 (relu)"));
  EXPECT_THAT(faults_of(fused_step(true, {writer_of("h"), reduction}, {writer_of("g")})), IsEmpty());
  EXPECT_THAT(faults_of(fused_step(false, {writer_of("h"), writer_of("g"), reduction}, {writer_of("g")})), IsEmpty());
  EXPECT_THAT(faults_of(fused_step(false, {writer_of("all"), reduction}, {writer_of("g")})), IsEmpty());
}

TEST(Validate, FindsShapesThatCannotBe) {
  Program program = samples::chain(1, 12, 0.5);
  program.variables["x0"].shape = {4, -2};
  program.variables["x1"].shape = {1LL << 40, 1LL << 40};
  EXPECT_THAT(faults_of(program), ElementsAre(ProgramFault::shape, ProgramFault::shape));
  EXPECT_THAT(message_of(program), HasSubstr("variable 'x0' has shape [4,-2]"));
}

}  // namespace
}  // namespace plumbline::program
