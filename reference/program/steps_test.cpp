// The steps of the pass, each alone on a program of a few ops.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/program/pass.hpp"
#include "reference/program/program_samples_test.hpp"
#include "reference/program/validate.hpp"

namespace plumbline::program {
namespace {

using samples::chain;
using samples::declare;
using samples::op;
using samples::reduction_of;
using samples::scale_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::Property;
using testing::Throws;

const Rings kFourRings{{0, {0, 1, 2, 3}}, {12, {0, 1}}, {13, {0, 2}}, {14, {0, 1, 2, 3}}};
const PassOptions kPaddle{.convention = Convention::paddle};

std::vector<std::string> types_of(const Program& program) {
  std::vector<std::string> types;
  for (const Op& one : program.ops) types.push_back(one.type);
  return types;
}

int position_of(const Program& program, const std::string& type) {
  return static_cast<int>(std::ranges::find(program.ops, type, &Op::type) - program.ops.begin());
}

Op& first_of(Program& program, const std::string& type) {
  return program.ops.at(static_cast<std::size_t>(position_of(program, type)));
}

double loss_of(const Program& program) {
  return number_of(program.ops.at(static_cast<std::size_t>(position_of(program, "fill_constant"))), "value")
      .value_or(0);
}

// Gradients "g0", "g1", … each made and reduced over its ring.
Program gradients(const std::vector<RingId>& rings) {
  Program program;
  for (std::size_t i = 0; i < rings.size(); ++i) {
    const std::string name = "g" + std::to_string(i);
    program.ops.push_back(op("relu_grad", {{"Out", {"x"}}, {"Out@GRAD", {"x@GRAD"}}}, {{"X@GRAD", {name}}}));
    program.ops.push_back(reduction_of(name, rings[i]));
  }
  declare(program);
  return program;
}

template <class Call>
void expect_refused(const Call& call, Stage stage, const std::string& source_class, const std::string& words) {
  EXPECT_THAT(call, Throws<PassError>(AllOf(Property(&PassError::stage, stage),
                                            Property(&PassError::source_class, source_class),
                                            Property(&PassError::what, HasSubstr(words)))));
}

// ---- analysis ----

TEST(Analyze, FindsGradientsAndRingsAsTheyCome) {
  const Analysis analysis = analyze(gradients({13, 12, 13}), kFourRings, {});
  EXPECT_THAT(analysis.ring_of, ElementsAre(Pair("g0", 13), Pair("g1", 12), Pair("g2", 13)));
  EXPECT_THAT(analysis.grads_of, ElementsAre(Pair(13, ElementsAre("g0", "g2")), Pair(12, ElementsAre("g1"))));
  EXPECT_TRUE(analysis.is_applied && analysis.same_degree && analysis.overlappable && analysis.fusible);
  EXPECT_FALSE(analysis.supports_rescale || analysis.prunable);
  EXPECT_EQ(analysis.find("g1"), 12);
  EXPECT_EQ(analysis.find("x"), std::nullopt);
}

TEST(Analyze, KeepsTheFirstRingOfAGradient) {
  Program program = gradients({13});
  program.ops.push_back(reduction_of("g0", 12));
  EXPECT_THAT(analyze(program, kFourRings, {}).ring_of, ElementsAre(Pair("g0", 13)));
  EXPECT_THAT(analyze(program, kFourRings, kPaddle).grads_of, ElementsAre(Pair(13, ElementsAre("g0"))));
}

TEST(Analyze, SaysWhatMayBeDone) {
  const Program program = gradients({12, 14});
  EXPECT_FALSE(analyze(program, kFourRings, {}).same_degree);
  EXPECT_TRUE(analyze(program, kFourRings, {.max_overlap_rings = 2}).overlappable);
  EXPECT_FALSE(analyze(program, kFourRings, {.max_overlap_rings = 1}).overlappable);
  EXPECT_THAT(analyze(program, kFourRings, {.max_overlap_rings = 1}).refused,
              ElementsAre("pruning: there is nothing to prune", "overlap: 2 rings, at most 1"));
  const Analysis sharded = analyze(program, kFourRings, {.use_sharding = true});
  EXPECT_THAT(sharded.refused,
              testing::IsSupersetOf({"overlap: parameters are sharded", "fusion: parameters are sharded"}));
  EXPECT_FALSE(sharded.overlappable || sharded.fusible);
  Program higher = program;
  higher.other_blocks = {{"relu", "tanh_triple_grad"}};
  EXPECT_FALSE(analyze(higher, kFourRings, {}).fusible);
  EXPECT_FALSE(analyze({}, kFourRings, {}).is_applied);
}

TEST(Analyze, RefusesWhatHasNoRingOrIsNotReduced) {
  for (const PassOptions& options : {PassOptions{}, kPaddle}) {
    Program program = gradients({12});
    program.ops[1].ring = std::nullopt;
    expect_refused([&] { (void)analyze(program, kFourRings, options); }, Stage::analyze, "AssertionError",
                   "op 1 (all_reduce of 'g0') has NOT ring id");
    program.ops[1].ring = 99;
    expect_refused([&] { (void)analyze(program, kFourRings, options); }, Stage::analyze, "AssertionError",
                   "data parallel group of [g0]");
    program = gradients({12});
    program.ops.push_back(scale_of("x", 0.5));
    expect_refused([&] { (void)analyze(program, kFourRings, options); }, Stage::analyze, "AssertionError",
                   "gradients [['x']] is scaled BUT NOT synchronized");
  }
}

// ---- pruning ----

Program pruned(const Program& program, const PassOptions& options = {}) {
  return prune_scaling(program, analyze(program, kFourRings, options), kFourRings, options);
}

TEST(PruneScaling, DividesTheLossByTheSizeOfTheRing) {
  for (const PassOptions& options : {PassOptions{}, kPaddle}) {
    const Program result = pruned(chain(2, 12, 0.5), options);
    EXPECT_EQ(loss_of(result), 0.5);
    EXPECT_THAT(types_of(result), testing::Not(testing::Contains("scale")));
  }
}

TEST(PruneScaling, RoundsToFloat32) {
  const Rings three{{0, {0, 1, 2}}, {12, {0, 1, 2}}};
  const Program program = chain(1, 12, static_cast<double>(1.0F / 3.0F));
  const Program result = prune_scaling(program, analyze(program, three, {}), three, {});
  EXPECT_EQ(loss_of(result), static_cast<double>(1.0F / 3.0F));
}

TEST(PruneScaling, DividesFactorsOfOptimizersWhereRingsDiffer) {
  Program program = chain(2, 12, 0.5, "momentum");
  for (Op& one : program.ops) {
    if (!reads(one, "w0@GRAD") || one.type == "momentum") continue;
    if (one.ring) one.ring = 14;
    if (one.type == "scale") one.attributes["scale"] = 0.25;
  }
  for (const PassOptions& options : {PassOptions{}, kPaddle}) {
    const Program result = pruned(program, options);
    EXPECT_EQ(loss_of(result), 1);
    EXPECT_EQ(number_of(result.ops[result.ops.size() - 2], "rescale_grad"), 0.25);
    EXPECT_EQ(number_of(result.ops.back(), "rescale_grad"), 0.5);
    EXPECT_EQ(position_of(result, "scale"), static_cast<int>(result.ops.size()));
  }
}

TEST(PruneScaling, LeavesAScaleOpBehindItsOptimizer) {
  Program program = chain(1, 12, 0.5, "momentum");
  std::swap(program.ops.back(), program.ops[program.ops.size() - 2]);
  ASSERT_EQ(program.ops.back().type, "scale");
  EXPECT_EQ(pruned(program), program);
  EXPECT_NE(pruned(program, kPaddle), program);
}

TEST(PruneScaling, LeavesWhatMultipliesGradients) {
  Program program = chain(2, 12, 0.5);
  for (Op& one : program.ops)
    if (writes(one, "w0@GRAD") && one.type == "matmul_v2_grad") one.inputs["X"] = {"x1@GRAD"};
  EXPECT_EQ(pruned(program), program);
  EXPECT_EQ(loss_of(pruned(program, kPaddle)), 0.5);
}

TEST(PruneScaling, LeavesAFactorThatIsAVariable) {
  Program program = chain(1, 12, 0.5, "momentum");
  first_of(program, "scale").inputs["ScaleTensor"] = {"factor"};
  declare(program);
  EXPECT_EQ(pruned(program), program);
}

TEST(PruneScaling, FollowsPartsOfAFusedVariable) {
  Program program = chain(1, 12, 0.5);
  const int made = position_of(program, "matmul_v2_grad");
  program.ops.insert(program.ops.begin() + made, op("coalesce_tensor", {{"Input", {"w0@GRAD"}}},
                                                    {{"Output", {"w0@GRAD"}}, {"FusedOutput", {"whole"}}}));
  declare(program);
  EXPECT_EQ(loss_of(pruned(program)), 0.5);
  Program looked_at = program;  // squares are not linear
  looked_at.ops.insert(looked_at.ops.begin() + made + 3, op("square", {{"X", {"whole"}}}, {{"Out", {"seen"}}}));
  declare(looked_at);
  EXPECT_EQ(pruned(looked_at), looked_at);
}

// ---- overlap ----

Program overlapped(const Program& program, const PassOptions& options = {}) {
  return overlap(program, analyze(program, kFourRings, options), options);
}

TEST(Overlap, PutsAWaitAheadOfEachReduction) {
  const Program result = overlapped(gradients({12, 13}));
  EXPECT_THAT(types_of(result),
              ElementsAre("relu_grad", "c_wait_compute", "all_reduce", "relu_grad", "c_wait_compute", "all_reduce"));
  for (const std::size_t at : {2U, 5U}) {
    EXPECT_EQ(result.ops[at].on_calculation_stream, false);
    EXPECT_EQ(result.ops[at - 1].ring, result.ops[at].ring);
    EXPECT_EQ(result.ops[at - 1].role, role::backward);
  }
  EXPECT_EQ(overlapped(result), result);
}

TEST(Overlap, IsOffBeyondTheLimitOfRingsAndUnderSharding) {
  const Program program = gradients({12, 13});
  EXPECT_EQ(overlapped(program, {.max_overlap_rings = 1}), program);
  EXPECT_EQ(overlapped(program, {.use_sharding = true}), program);
}

// Where gradients are differentiated nothing is fused, and waits alone order reductions.
TEST(Overlap, WaitsForCommunicationWhereNothingElseOrdersIt) {
  Program program = gradients({12, 13});
  program.ops.push_back(op("relu_grad_grad", {{"Out", {"x"}}, {"DDX", {"g0"}}}, {{"DDOut", {"second"}}}));
  declare(program);
  const Program result = overlapped(program);
  ASSERT_EQ(result.ops[6].type, "c_wait_comm");
  EXPECT_EQ(result.ops[6].ring, 12);
  EXPECT_EQ(result.ops[7].type, "relu_grad_grad");
  EXPECT_EQ(overlapped(program, kPaddle).ops.back().type, "relu_grad_grad");
  EXPECT_EQ(position_of(overlapped(program, kPaddle), "c_wait_comm"), 7);
}

TEST(Overlap, LeavesAReductionOfSharedMemoryWhereItIs) {
  Program program = gradients({12});
  program.ops.insert(program.ops.begin(),
                     op("coalesce_tensor", {{"Input", {"g0"}}}, {{"Output", {"g0"}}, {"FusedOutput", {"whole"}}}));
  declare(program);
  EXPECT_EQ(overlapped(program), program);
  EXPECT_NE(overlapped(program, kPaddle), program);
}

std::vector<int> waits_of(const Program& program) {
  std::vector<int> positions;
  for (const CommunicationWait& one : communication_waits(program)) positions.push_back(one.position);
  return positions;
}

TEST(CommunicationWaits, AreOfThoseWhoTouchWhatIsWritten) {
  Program program = gradients({12});
  program.ops[1].on_calculation_stream = false;
  program.ops.push_back(op("relu", {{"X", {"g0"}}}, {{"Out", {"y"}}}));
  program.ops.push_back(op("relu", {{"X", {"g0"}}}, {{"Out", {"y"}}}));
  EXPECT_THAT(waits_of(program), ElementsAre(2));  // once
  program.ops[2] = op("relu", {{"X", {"x"}}}, {{"Out", {"g0"}}});
  EXPECT_THAT(waits_of(program), ElementsAre(2));
  program.ops[2] = op("relu", {{"X", {"x"}}}, {{"Out", {"y"}}});
  EXPECT_THAT(waits_of(program), ElementsAre(3));
}

TEST(CommunicationWaits, AreOfThoseWhoWriteOverWhatIsRead) {
  Program program = gradients({12});
  program.ops[1].on_calculation_stream = false;
  program.ops[1].outputs["out"] = {"sum"};
  program.ops.push_back(op("relu", {{"X", {"g0"}}}, {{"Out", {"y"}}}));
  EXPECT_THAT(waits_of(program), IsEmpty());  // both read
  program.ops.push_back(op("relu", {{"X", {"x"}}}, {{"Out", {"g0"}}}));
  program.ops.push_back(op("relu", {{"X", {"sum"}}}, {{"Out", {"y"}}}));
  EXPECT_THAT(waits_of(program), ElementsAre(3));
  // An op of another stream is told by the wait's names.
  program.ops[3].stream = "writers";
  ASSERT_EQ(communication_waits(program).size(), 1);
  EXPECT_THAT(communication_waits(program)[0].gradients, ElementsAre("g0"));
}

TEST(CommunicationWaits, AreNotOfReductionsOnTheCalculationStream) {
  Program program = gradients({12});
  program.ops.push_back(op("relu", {{"X", {"g0"}}}, {{"Out", {"y"}}}));
  EXPECT_THAT(waits_of(program), IsEmpty());
}

// ---- groups ----

std::vector<std::vector<std::string>> groups_of(const Program& program, PassOptions options = {}) {
  std::vector<std::vector<std::string>> names;
  for (const GradientGroup& group : group_gradients(program, options)) names.push_back(group.gradients);
  return names;
}

TEST(GroupGradients, FillsUpToTheLimit) {
  const Program program = gradients({12, 12, 12});  // of 4 elements each
  for (const Convention convention : {Convention::plumbline, Convention::paddle}) {
    PassOptions options{.convention = convention, .max_fuse_numel = 8};
    EXPECT_THAT(groups_of(program, options), ElementsAre(ElementsAre("g0", "g1"), ElementsAre("g2")));
    options.max_fuse_numel = 7;
    EXPECT_THAT(groups_of(program, options), ElementsAre(ElementsAre("g0"), ElementsAre("g1"), ElementsAre("g2")));
    options.max_fuse_numel = kMostFusedElements;
    EXPECT_THAT(groups_of(program, options), ElementsAre(ElementsAre("g0", "g1", "g2")));
  }
}

TEST(GroupGradients, ClosesForRingsTypesAndReaders) {
  EXPECT_THAT(groups_of(gradients({12, 13, 12})), ElementsAre(ElementsAre("g0"), ElementsAre("g1"), ElementsAre("g2")));
  Program types = gradients({12, 12});
  types.variables["g1"].dtype = DataType::f16;
  EXPECT_THAT(groups_of(types), ElementsAre(ElementsAre("g0"), ElementsAre("g1")));
  Program read = gradients({12, 12});
  read.ops.insert(read.ops.begin() + 2, op("relu", {{"X", {"g0"}}}, {{"Out", {"y"}}}));
  EXPECT_THAT(groups_of(read), ElementsAre(ElementsAre("g0"), ElementsAre("g1")));
  read.ops[2] = op("relu", {{"X", {"x"}}}, {{"Out", {"g0"}}});
  EXPECT_THAT(groups_of(read), ElementsAre(ElementsAre("g0"), ElementsAre("g1")));
}

TEST(GroupGradients, SayWhatClosesThem) {
  const auto closed = [](const Program& program, const PassOptions& options = {}) {
    const GradientGroup first = group_gradients(program, options).at(0);
    return std::pair{first.closed_by, first.closed_at};
  };
  for (PassOptions options : {PassOptions{}, kPaddle}) {
    EXPECT_EQ(closed(gradients({12}), options), std::pair(Closed::end, -1));
    EXPECT_EQ(closed(gradients({12, 13}), options), std::pair(Closed::ring, 3));
    options.max_fuse_numel = 4;
    EXPECT_EQ(closed(gradients({12, 12}), options), std::pair(Closed::limit, 3));
    Program types = gradients({12, 12});
    types.variables["g1"].dtype = DataType::f16;
    EXPECT_EQ(closed(types, options), std::pair(Closed::type, 3));
    Program read = gradients({12, 12});
    read.ops.insert(read.ops.begin() + 2, op("relu", {{"X", {"g0"}}}, {{"Out", {"y"}}}));
    EXPECT_EQ(closed(read, options), std::pair(Closed::op, 2));
  }
  Program other = gradients({12, 12});
  other.ops[3].reduction = comm::ReduceOp::avg;
  EXPECT_EQ(closed(other), std::pair(Closed::reduction, 3));
  other = gradients({12, 12});
  other.variables["g1"].persistable = true;
  EXPECT_EQ(closed(other), std::pair(Closed::alone, 3));
}

TEST(GroupGradients, ListsPositions) {
  const GradientGroup group = group_gradients(overlapped(gradients({12, 12, 12})), {}).at(0);
  EXPECT_EQ(group.coalesce_op, 0);
  EXPECT_EQ(group.reduction_op, 8);
  EXPECT_THAT(group.removed_reductions, ElementsAre(2, 5));
  EXPECT_THAT(group.removed_waits, ElementsAre(1, 4));
  EXPECT_EQ(group.numel, 12);
}

TEST(GroupGradients, LooksForTheOpThatMakesAGradientAsTheSourceDoes) {
  Program program = gradients({12});
  program.ops.insert(program.ops.begin() + 1, op("relu", {{"X", {"x"}}}, {{"Out", {"y"}}}));
  EXPECT_THAT(groups_of(program), ElementsAre(ElementsAre("g0")));
  expect_refused([&] { (void)group_gradients(program, kPaddle); }, Stage::group_grads, "AssertionError",
                 "grad [g0] should be output of op 1 (relu)");
  program.variables["g0"].shape = {-1};
  EXPECT_THAT(groups_of(program), ElementsAre(ElementsAre("g0")));
  expect_refused([&] { (void)group_gradients(program, kPaddle); }, Stage::group_grads, "AssertionError",
                 "the shape of gradient [g0]");
}

// ---- fusion ----

TEST(Fuse, ReducesAGroupOnceAtItsLastGradient) {
  Program program = gradients({12, 12});
  program.variables["g0"].placement = {.process_mesh = {0, 1}, .dims_mapping = {-1}};
  program.variables["g1"].placement = {.process_mesh = {1, 2}, .dims_mapping = {0}};
  std::vector<GradientGroup> groups = group_gradients(program, {});
  for (const PassOptions& options : {PassOptions{}, kPaddle}) {
    const Program result = fuse(program, groups, options);
    EXPECT_THAT(types_of(result), ElementsAre("coalesce_tensor", "relu_grad", "relu_grad", "all_reduce"));
    EXPECT_THAT(names_in(result.ops[3].inputs), ElementsAre("coalesce_grad_0_0"));
    EXPECT_THAT(names_in(result.ops[3].outputs), ElementsAre("coalesce_grad_0_0"));
    EXPECT_THAT(result.ops[0].outputs.at("Output"), ElementsAre("g0", "g1"));
    const auto& placement = result.variables.at("coalesce_grad_0_0").placement;
    ASSERT_TRUE(placement);
    EXPECT_THAT(placement->process_mesh, ElementsAre(0, 1, 2));
    EXPECT_THAT(placement->dims_mapping, IsEmpty());
    EXPECT_TRUE(groups[0].is_fused);
    EXPECT_EQ(groups[0].fused_variable, "coalesce_grad_0_0");
  }
}

TEST(Fuse, CountsGroupsFromTheEndAndLeavesOneAlone) {
  const Program program = gradients({12, 12, 13});
  std::vector<GradientGroup> groups = group_gradients(program, {});
  const Program result = fuse(program, groups, {});
  EXPECT_TRUE(result.variables.contains("coalesce_grad_1_0"));
  EXPECT_FALSE(groups[1].is_fused);
  EXPECT_EQ(groups[1].fused_variable, "g2");
  EXPECT_EQ(result.ops.back(), program.ops.back());
}

TEST(Fuse, RefusesAnotherReductionAsTheSourceDoes) {
  Program program = gradients({12, 12});
  program.ops[3].reduction = comm::ReduceOp::avg;
  std::vector<GradientGroup> groups = group_gradients(program, kPaddle);
  expect_refused([&] { (void)fuse(program, groups, kPaddle); }, Stage::update_program, "AssertionError",
                 "should found all_reduce sum op but found op 3 (all_reduce)");
  groups = group_gradients(program, {});
  EXPECT_EQ(fuse(program, groups, {}), program);  // a sum and an average, each alone
}

// ---- dependencies and summary ----

TEST(AddDependencies, StandAroundTheFusedReduction) {
  const Program program = gradients({12, 12});
  std::vector<GradientGroup> groups = group_gradients(program, {});
  const Program fused = fuse(program, groups, {});
  for (const PassOptions& options : {PassOptions{}, kPaddle}) {
    const Program result = add_dependencies(fused, groups, options);
    EXPECT_THAT(types_of(result), ElementsAre("coalesce_tensor", "relu_grad", "relu_grad", "nop", "all_reduce", "nop"));
    EXPECT_THAT(names_in(result.ops[3].inputs), ElementsAre("g1"));
    EXPECT_THAT(names_in(result.ops[3].outputs), ElementsAre("coalesce_grad_0_0"));
    EXPECT_THAT(names_in(result.ops[5].inputs), ElementsAre("coalesce_grad_0_0"));
    EXPECT_THAT(names_in(result.ops[5].outputs), ElementsAre("g0", "g1"));
    for (const std::size_t at : {3U, 4U, 5U}) EXPECT_EQ(result.ops[at].stream, kGradientStream);
    EXPECT_EQ(result.ops[4].on_calculation_stream, true);
  }
  EXPECT_EQ(add_dependencies(fused, {}, {}), fused);
}

TEST(AddDependencies, TakeWaitsOutThatStandWithReductions) {
  Program program = overlapped(gradients({12}));
  program.ops.insert(program.ops.begin(), op("c_wait_compute", {}, {}));
  program.ops[0].ring = 13;
  std::vector<GradientGroup> groups = group_gradients(program, {});
  const Program fused = fuse(program, groups, {});
  EXPECT_THAT(types_of(add_dependencies(fused, groups, {})), ElementsAre("c_wait_compute", "relu_grad", "all_reduce"));
  EXPECT_THAT(types_of(add_dependencies(fused, groups, kPaddle)), ElementsAre("relu_grad", "all_reduce"));
}

TEST(AddDependencies, FailInASequentialRunOfTheSource) {
  const Program program = gradients({12, 12});
  std::vector<GradientGroup> groups = group_gradients(program, {});
  const Program fused = fuse(program, groups, {});
  PassOptions options = kPaddle;
  options.sequential_run = true;
  expect_refused([&] { (void)add_dependencies(fused, groups, options); }, Stage::add_dependencies, "AttributeError",
                 "dist_attr");
  EXPECT_NO_THROW((void)add_dependencies(fused, groups, {.sequential_run = true}));
}

TEST(Summarize, CountsGroupsAndNamesTheirMembers) {
  const Program program = gradients({12, 12, 13});
  const Summary summary = summarize(analyze(program, kFourRings, {}), group_gradients(program, {}));
  EXPECT_THAT(summary.info,
              ElementsAre("Data Parallel Optimization: ", " 3 Allreduce ops are fused into 2 coalesce allreduce ops."));
  EXPECT_THAT(summary.debug, ElementsAre("group 0 (8 elements of float32, ring 12): g0, g1",
                                         "group 1 (4 elements of float32, ring 13): g2", "in no group: none"));
  EXPECT_EQ(summary.not_fused, 0);
  EXPECT_EQ(summarize(analyze(program, kFourRings, {}), {}), Summary{});
}

// ---- all of them ----

TEST(DataParallelPass, RefusesNamesThatStandForNothing) {
  Program program = gradients({12});
  program.variables.erase("x@GRAD");
  EXPECT_THROW((void)apply_data_parallel_pass(program, kFourRings), InvalidProgram);
}

TEST(DataParallelPass, AppliedAgainChangesNothingAndDividesAgainInTheSource) {
  const Program once = apply_data_parallel_pass(chain(3, 12, 0.5), kFourRings).program;
  EXPECT_EQ(apply_data_parallel_pass(once, kFourRings).program, once);
  const Program source = apply_data_parallel_pass(chain(3, 12, 0.5), kFourRings, kPaddle).program;
  const Program again = apply_data_parallel_pass(source, kFourRings, kPaddle).program;
  EXPECT_EQ(loss_of(again), 0.25);
  EXPECT_EQ(std::ranges::count(types_of(again), "nop"), 4);
}

}  // namespace
}  // namespace plumbline::program
