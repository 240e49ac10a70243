// What orders two ops and what does not, on programs of a few ops.
#include "reference/program/race_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/program/program_samples_test.hpp"

namespace plumbline::program {
namespace {

using samples::op;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

Op on(const std::string& stream, Op one) {
  one.stream = stream;
  return one;
}
Op writer(const std::string& name) { return op("relu", {{"X", {"x"}}}, {{"Out", {name}}}); }
Op reader(const std::string& name) { return op("relu", {{"X", {name}}}, {{"Out", {"y"}}}); }
// Without the executor's knowledge, on its ring's stream.
Op left(const std::string& gradient, RingId ring = 12) {
  Op reduction = samples::reduction_of(gradient, ring);
  reduction.on_calculation_stream = false;
  return reduction;
}
Op wait(const std::string& type, RingId ring = 12) {
  Op one = op(type, {}, {});
  one.ring = ring;
  return one;
}
Op nop(Slots in, Slots out) { return on("sync", op("nop", std::move(in), std::move(out))); }
Op coalesce(std::vector<std::string> members) {
  Op one = op("coalesce_tensor", {{"Input", members}}, {{"Output", members}, {"FusedOutput", {"f"}}});
  one.attributes = {{"copy_data", false}};
  return one;
}
Program program(std::vector<Op> ops) {
  Program one{.ops = std::move(ops)};
  samples::declare(one);
  return one;
}
auto race(const std::string& variable, int first, int second) {
  return AllOf(Field(&Race::variable, variable), Field(&Race::first, first), Field(&Race::second, second));
}

TEST(Races, OneStreamHasNone) {
  EXPECT_THAT(find_races(program({writer("g"), reader("g"), writer("g"), samples::reduction_of("g", 12)})), IsEmpty());
}

TEST(Races, TheDefaultStreamHasAName) {
  Op whole = on("default", samples::reduction_of("f", 12));
  EXPECT_THAT(find_races(program({coalesce({"g"}), writer("g"), whole, on("", reader("g"))})), IsEmpty());
}

TEST(Races, NamesOrderStreams) {
  EXPECT_THAT(find_races(program({writer("g"), on("a", reader("g")), writer("g"), on("b", writer("g"))})), IsEmpty());
}

TEST(Races, CommunicationThatLeftIsOrderedByWaitsAlone) {
  EXPECT_THAT(find_races(program({writer("g"), left("g"), reader("g")})),
              ElementsAre(race("g", 0, 1), race("g", 1, 2)));
  EXPECT_THAT(find_races(program({writer("g"), wait("c_wait_compute"), left("g"), reader("g")})),
              ElementsAre(race("g", 2, 3)));
  EXPECT_THAT(find_races(program({writer("g"), wait("c_wait_compute"), left("g"), wait("c_wait_comm"), reader("g")})),
              IsEmpty());
}

TEST(Races, AWaitIsForItsOwnRing) {
  EXPECT_THAT(
      find_races(program({writer("g"), wait("c_wait_compute", 13), left("g"), wait("c_wait_comm"), reader("g")})),
      ElementsAre(race("g", 0, 2)));
}

TEST(Races, AWaitIsForWhatIsAheadOfIt) {
  EXPECT_THAT(find_races(program({wait("c_wait_compute"), writer("g"), left("g")})), ElementsAre(race("g", 1, 2)));
}

TEST(Races, ToReadAtOnceIsNone) {
  Op send = op("send_v2", {{"X", {"g"}}}, {});
  send.ring = 12, send.on_calculation_stream = false;
  EXPECT_THAT(find_races(program({writer("g"), wait("c_wait_compute"), send, reader("g")})), IsEmpty());
  EXPECT_THAT(find_races(program({writer("g"), wait("c_wait_compute"), send, writer("g")})),
              ElementsAre(race("g", 2, 3)));
}

TEST(Races, PartsOfOneVariableAreItsMemory) {
  const auto fused = [](std::vector<Op> between) {
    std::vector<Op> ops{coalesce({"g", "h"}), writer("g"), writer("h")};
    ops.insert(ops.end(), between.begin(), between.end());
    return program(ops);
  };
  const Op reduction = on("sync", samples::reduction_of("f", 12));
  EXPECT_THAT(find_races(fused({reduction})), ElementsAre(race("g", 1, 3), race("h", 2, 3)));
  EXPECT_THAT(find_races(fused({nop({{"X", {"h"}}}, {{"Out", {"f"}}}), reduction})), IsEmpty());
  EXPECT_THAT(find_races(fused({nop({{"X", {"g"}}}, {{"Out", {"f"}}}), reduction})), ElementsAre(race("h", 2, 4)));
  EXPECT_THAT(find_races(fused({nop({{"X", {"h"}}}, {{"Out", {"f"}}}), reduction, reader("g")})),
              ElementsAre(race("g", 4, 5)));
  EXPECT_THAT(find_races(fused({nop({{"X", {"h"}}}, {{"Out", {"f"}}}), reduction,
                                nop({{"X", {"f"}}}, {{"Out", {"g", "h"}}}), reader("g")})),
              IsEmpty());
}

TEST(Races, SayWhoAndWhy) {
  const auto races = find_races(program({coalesce({"g"}), writer("g"), on("sync", samples::reduction_of("f", 12))}));
  ASSERT_EQ(races.size(), 1U);
  EXPECT_EQ(races[0].why,
            "op 1 (relu, the default stream) writes it, op 2 (all_reduce, sync) writes f, which it is part of, and "
            "neither waits for the other");
}

TEST(Races, TwoThatNameTheWholeRaceOnce) {
  EXPECT_THAT(find_races(program({coalesce({"g", "h"}), wait("c_wait_compute"), left("f"), reader("f")})),
              ElementsAre(race("f", 2, 3)));
}

TEST(Races, WaitsAndNotNamesOrderWhatLeftTheCalculationStream) {
  EXPECT_THAT(find_races(program({writer("g"), wait("c_wait_compute"), left("g"), wait("c_wait_comm"), reader("g")})),
              IsEmpty());
  EXPECT_EQ(find_races(program({writer("g"), left("g"), reader("g")})).size(), 2U);
}

}  // namespace
}  // namespace plumbline::program
