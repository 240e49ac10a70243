// Ranks run programs: what memory they share, what they make up, what they add.
#include "conformance/pass/oracles/interpreter.hpp"

#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/program/program_samples_test.hpp"

namespace plumbline::program {
namespace {

using samples::op;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;
using testing::Not;
using testing::ThrowsMessage;

std::vector<Execution> executed(const Program& program, const Rings& rings, int ranks,
                                const ExecutionOptions& options = {}) {
  std::vector<Execution> results(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  comm::run_ranks(ranks,
                  [&](comm::Communicator& world) {
                    Execution mine = execute(program, rings_of_rank(rings, world.rank(), ranks), world, options);
                    const std::lock_guard lock(mutex);
                    results[static_cast<std::size_t>(world.rank())] = std::move(mine);
                  },
                  {.cores = 1});
  return results;
}

Op filling(const std::string& name, double value) {
  Op one = op("fill_constant", {}, {{"Out", {name}}});
  one.attributes["value"] = value;
  return one;
}
Program program_of(std::vector<Op> ops) {
  Program one{.ops = std::move(ops)};
  samples::declare(one);
  return one;
}
Op made_one(std::vector<std::string> members, bool copies = false) {
  Op one = op("coalesce_tensor", {{"Input", members}}, {{"Output", members}, {"FusedOutput", {"f"}}});
  one.attributes = {{"copy_data", copies}, {"use_align", true}};
  return one;
}
Program with_fused(Program one) {
  one.variables["f"].shape = {};
  return one;
}

TEST(Interpreter, AddsOverTheRingAndNoOther) {
  const auto ranks = executed(program_of({samples::reduction_of("g", 12)}), {{12, {0, 2}}}, 4);
  const auto sum = [&](int a, int b) {
    const auto at = [&](int rank) {
      return executed(program_of({op("relu", {{"X", {"g"}}}, {{"Out", {"y"}}})}), {}, 4)[static_cast<std::size_t>(rank)]
          .variables.at("g")[0];
    };
    return at(a) + at(b);
  };
  EXPECT_EQ(ranks[0].variables.at("g")[0], sum(0, 2));
  EXPECT_EQ(ranks[1].variables.at("g")[0], sum(1, 3));
}

TEST(Interpreter, MembersArePartsOfTheWhole) {
  const auto ranks = executed(
      with_fused(program_of({made_one({"g", "h"}), filling("g", 1), filling("h", 2), samples::reduction_of("f", 0)})),
      {{0, {0, 1, 2}}}, 3);
  for (const Execution& one : ranks) {
    EXPECT_THAT(one.variables.at("g"), Each(3));
    EXPECT_THAT(one.variables.at("h"), Each(6));
    EXPECT_EQ(one.variables.at("f").size(), 128U);  // members of 4 begin at multiples of 256 bytes
  }
}

TEST(Interpreter, ValuesAreLostUnlessTheyAreCopied) {
  const auto lost = executed(with_fused(program_of({filling("g", 1), made_one({"g", "h"})})), {}, 1);
  EXPECT_THAT(lost[0].variables.at("g"), Each(IsNan()));
  const auto kept =
      executed(with_fused(program_of({filling("g", 1), filling("h", 2), made_one({"g", "h"}, true)})), {}, 1);
  EXPECT_THAT(kept[0].variables.at("h"), Each(2));
}

TEST(Interpreter, BatchesDependOnTheRankAndParametersDoNot) {
  const auto ranks = executed(samples::chain(1, 12, 0.5), {{12, {0, 1}}}, 2);
  EXPECT_NE(ranks[0].variables.at("x0"), ranks[1].variables.at("x0"));
  EXPECT_EQ(ranks[0].variables.at("w0"), ranks[1].variables.at("w0"));
  EXPECT_EQ(ranks[0].gradients.at("w0"), ranks[1].gradients.at("w0"));
  const auto again = executed(samples::chain(1, 12, 0.5), {{12, {0, 1}}}, 2, {.seed = 2});
  EXPECT_NE(again[0].variables.at("x0"), ranks[0].variables.at("x0"));
}

TEST(Interpreter, GradientsAreThoseThatOptimizersUse) {
  Program one = samples::chain(2, 12, 1, "momentum");
  const auto whole = executed(one, {{12, {0, 1}}}, 2);
  for (Op& each : one.ops)
    if (each.type == "momentum") each.attributes["rescale_grad"] = 0.5;
  const auto half = executed(one, {{12, {0, 1}}}, 2);
  EXPECT_EQ(half[0].gradients.at("w1")[0], whole[0].gradients.at("w1")[0] / 2);
}

TEST(Interpreter, RoundsToTheTypeOfTheVariable) {
  Program one = program_of({filling("g", 1.0 / 3), filling("h", 1.0 / 3)});
  one.variables["h"].dtype = DataType::f16;
  const auto rounded = executed(one, {}, 1);
  EXPECT_EQ(rounded[0].variables.at("g")[0], double{1.0F / 3});
  EXPECT_EQ(rounded[0].variables.at("h")[0], 0.333251953125);
  EXPECT_EQ(executed(one, {}, 1, {.in_double = true})[0].variables.at("h")[0], 1.0 / 3);
}

TEST(Interpreter, StagesSendToEachOther) {
  Op send = op("send_v2", {{"X", {"g"}}}, {}), receive = op("recv_v2", {}, {{"Out", {"h"}}});
  send.ring = receive.ring = 14;
  std::vector<Execution> results(2);
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const Program mine = world.rank() == 0 ? program_of({filling("g", 5), send}) : program_of({receive});
    results[static_cast<std::size_t>(world.rank())] = execute(mine, {{14, {0, 1}}}, world);
  });
  EXPECT_THAT(results[1].variables.at("h"), Each(5));
  EXPECT_THAT(executed(program_of({receive}), {{14, {0, 1}}}, 1, {.stands_in_for_peers = true})[0].variables.at("h"),
              Not(Each(IsNan())));
}

TEST(Interpreter, RefusesRingsThatCannotBe) {
  const Program one = program_of({samples::reduction_of("g", 12)});
  EXPECT_THAT([&] { executed(one, {}, 1); }, ThrowsMessage<InvalidArgument>(HasSubstr("ring 12, which there is not")));
  EXPECT_THAT([&] { executed(one, {{12, {0, 5}}}, 1); },
              ThrowsMessage<InvalidArgument>(HasSubstr("there are 1 ranks")));
}

TEST(RingsOfRank, AreThoseOfAMesh) {
  const Rings rings{{0, {0, 1, 2, 3}}, {12, {1, 3}}, {13, {0, 1}}, {16, {2, 0}}};
  EXPECT_EQ(rings_of_rank(rings, 2, 4), (Rings{{0, {0, 1, 2, 3}}, {12, {0, 2}}, {13, {2, 3}}, {16, {2, 0}}}));
  EXPECT_EQ(rings_of_rank(rings, 3, 4), (Rings{{0, {0, 1, 2, 3}}, {12, {1, 3}}, {13, {2, 3}}, {16, {3, 1}}}));
  EXPECT_EQ(rings_of_rank({{12, {0, 3}}}, 1, 4), (Rings{{12, {1}}}));
}

}  // namespace
}  // namespace plumbline::program
