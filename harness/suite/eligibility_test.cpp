#include "harness/suite/eligibility.hpp"

#include <gtest/gtest.h>

namespace plumbline::suite {
namespace {

class Eligibility : public testing::Test {
 protected:
  // What an adapter that said this of itself lacks for a check of DeepSpeed's rule; "" for nothing.
  std::string lacks(const nlohmann::json& description) {
    const Check check{.id = "grid.stages",
                      .door = Door::adapter,
                      .operations = {"topology.grid"},
                      .convention = "deepspeed",
                      .body = [](Context&) {}};
    const auto lack = lacking(suite_, {}, Case{.check = &check, .parameters = {}}, description);
    return lack ? lack->what : "";
  }
  Suite suite_;
};

TEST_F(Eligibility, AsksAnAdapterOnlyForConventionsThatItKnows) {
  EXPECT_EQ(lacks({{"operations", {"topology.grid"}}, {"conventions", {"megatron"}}}), "convention deepspeed");
  EXPECT_EQ(lacks({{"operations", {"topology.grid"}}, {"conventions", {"megatron", "deepspeed"}}}), "");
}

TEST_F(Eligibility, AsksAnAdapterThatNamesNoConventionsForAll) {
  EXPECT_EQ(lacks({{"operations", {"topology.grid"}}}), "");
  EXPECT_EQ(lacks({{"operations", {"topology.query"}}}), "operation topology.grid");
}

}  // namespace
}  // namespace plumbline::suite
