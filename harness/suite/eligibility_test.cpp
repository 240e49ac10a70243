#include "harness/suite/eligibility.hpp"

#include <fmt/format.h>
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

// HARNESS-050@87f8
TEST_F(Eligibility, AsksAnAdapterOnlyForConventionsThatItKnows) {
  EXPECT_EQ(lacks({{"operations", {"topology.grid"}}, {"conventions", {"megatron"}}}), "convention deepspeed");
  EXPECT_EQ(lacks({{"operations", {"topology.grid"}}, {"conventions", {"megatron", "deepspeed"}}}), "");
}

TEST_F(Eligibility, AsksAnAdapterThatNamesNoConventionsForAll) {
  EXPECT_EQ(lacks({{"operations", {"topology.grid"}}}), "");
  EXPECT_EQ(lacks({{"operations", {"topology.query"}}}), "operation topology.grid");
}

TEST_F(Eligibility, TakesConventionsWithTheVersionThatEachMeans) {
  EXPECT_EQ(lacks({{"operations", {"topology.grid"}}, {"conventions", {{"megatron", "0.19"}}}}),
            "convention deepspeed");
  EXPECT_EQ(lacks({{"operations", {"topology.grid"}}, {"conventions", {{"deepspeed", "0.19"}}}}), "");
}

// HARNESS-050@87f8
TEST_F(Eligibility, AsksForOurOwnConventionOnlyWhoClaimsIt) {
  const Check check{
      .id = "grid.stages", .door = Door::adapter, .operations = {"topology.grid"}, .body = [](Context&) {}};
  const auto lacks_ours = [&](const nlohmann::json& conventions) {
    const auto lack = lacking(suite_, {}, Case{.check = &check, .parameters = {}},
                              {{"operations", {"topology.grid"}}, {"conventions", conventions}});
    return lack ? lack->what : std::string();
  };
  const auto holds = [](const auto& rule) {
    return rule({{"deepspeed", "0.19"}}) == "convention plumbline" &&
           rule(nlohmann::json::array()) == "convention plumbline" && rule({{"plumbline", ""}}).empty();
  };
  // har.own_convention_of_all: a rule by which every adapter follows our own convention, whatever it claims.
  const auto own_convention_of_all = [&](nlohmann::json conventions) {
    if (conventions.is_array()) conventions.push_back("plumbline");
    if (conventions.is_object()) conventions["plumbline"] = "";
    return lacks_ours(conventions);
  };
  EXPECT_TRUE(holds(lacks_ours));
  EXPECT_FALSE(holds(own_convention_of_all)) << "har.own_convention_of_all is found";
}

TEST_F(Eligibility, NamesTheConventionsInWhichNoCaseAsks) {
  for (const char* convention : {"deepspeed", "plumbline"})
    suite_.add(Check{.id = fmt::format("grid.{}", convention),
                     .door = Door::adapter,
                     .operations = {"topology.grid"},
                     .convention = convention,
                     .body = [](Context&) {}});
  const auto line_of = [&](const char* operation, const nlohmann::json& conventions) {
    return unasked_conventions(suite_, {{"operations", {operation}}, {"conventions", conventions}});
  };
  EXPECT_EQ(line_of("topology.grid", {{"deepspeed", "0.19"}, {"plumbline", ""}}), "");
  EXPECT_EQ(unasked_conventions(suite_, {{"operations", {"topology.grid"}}}), "") << "it is asked for all";
  EXPECT_EQ(line_of("topology.grid", {{"deepspeed-0.6", "0.6"}, {"torch", "2.13"}}),
            "no case asks the adapter's operations in convention deepspeed-0.6, torch, which it claims; cases ask them "
            "in deepspeed, plumbline; did you mean deepspeed?");
  EXPECT_EQ(line_of("gossip.graph", nlohmann::json::array({"torch"})),
            "no case asks the adapter's operations in convention torch, which it claims; cases ask them in none");
}

// HARNESS-050@87f8
TEST_F(Eligibility, AsksAnAdapterOnlyForValuesOfOptionsThatItHas) {
  const Check check{.id = "bucketing.assign",
                    .door = Door::adapter,
                    .axes = {{"device", {"cpu", "cuda:1"}}},
                    .operations = {"bucketing.assign"},
                    .options =
                        [](const Parameters& parameters) {
                          return OptionValues{{"bucketing.assign", {{"device", {parameters.text("device")}}}}};
                        },
                    .body = [](Context&) {}};
  const auto lacks_of = [&](const char* device, const nlohmann::json& options) {
    nlohmann::json description{{"operations", {"bucketing.assign"}}};
    if (!options.is_null()) description["options"] = {{"bucketing.assign", options}};
    Case one{.check = &check, .parameters = {}};
    one.parameters.set("device", device);
    const auto lack = lacking(suite_, {}, one, description);
    return lack ? lack->what : "";
  };
  EXPECT_EQ(lacks_of("cuda:1", {{"device", {"cpu"}}}), "device cuda:1 of bucketing.assign");
  EXPECT_EQ(lacks_of("cuda:1", {{"device", {"cpu", "cuda:0"}}}), "device cuda:1 of bucketing.assign");
  EXPECT_EQ(lacks_of("cpu", {{"device", {"cpu"}}}), "");
  EXPECT_EQ(lacks_of("cuda:1", {{"device", {"cuda"}}}), "") << "all of that kind";
  EXPECT_EQ(lacks_of("cuda:1", {{"dtype", {"f32"}}}), "") << "an option that is not named is had whole";
  EXPECT_EQ(lacks_of("cuda:1", nullptr), "");
  EXPECT_EQ(lacks_of("cpu", {{"device", nlohmann::json::array()}}), "device cpu of bucketing.assign");
}

TEST_F(Eligibility, AsksForTheOperationsOfACaseAlone) {
  const Check check{
      .id = "refusals",
      .door = Door::adapter,
      .axes = {{"of", {"a", "b"}}},
      .operations = {"a", "b"},
      .asks = [](const Parameters& parameters, std::string_view op) { return parameters.text("of") == op; },
      .body = [](Context&) {}};
  Case one{.check = &check, .parameters = {}};
  one.parameters.set("of", "b");
  EXPECT_FALSE(lacking(suite_, {}, one, {{"operations", {"b"}}}));
  EXPECT_EQ(lacking(suite_, {}, one, {{"operations", {"a"}}}).value().what, "operation b");
}

TEST_F(Eligibility, AsksWhoTakesNoMemoryOfTheHostForNoneBesideIt) {
  const auto lacks_of = [this](bool beside_host, const nlohmann::json& devices) {
    const Check check{
        .id = "gossip.device.rounds", .on_device = true, .beside_host = beside_host, .body = [](Context&) {}};
    const nlohmann::json description{
        {"capabilities", {{"claims", nlohmann::json::array()}, {"dtypes", {"f32"}}, {"devices", devices}}}};
    const auto lack = lacking(suite_, {}, Case{.check = &check, .parameters = {}}, description, "cuda");
    return lack ? lack->what : "";
  };
  EXPECT_EQ(lacks_of(true, {"cuda"}), "memory of the host beside that of cuda");
  EXPECT_EQ(lacks_of(false, {"cuda"}), "");
  EXPECT_EQ(lacks_of(true, {"cpu", "cuda"}), "");
  EXPECT_EQ(lacks_of(true, {"cpu"}), "memory of cuda");
}

// What LibTorch has on a GPU may go through the host's memory; an emulated device's is what it must be given.
TEST_F(Eligibility, AsksABackendForMemoryOfTheDevice) {
  const auto lacks_on = [&](const std::string& device, const std::vector<std::string>& modules, bool on_device,
                            const std::string& taken = "cpu") {
    const Check check{.id = "it", .modules = modules, .on_device = on_device, .body = [](Context&) {}};
    const nlohmann::json capabilities{{"claims", nlohmann::json::array()}, {"devices", {taken}}};
    const auto lack =
        lacking(suite_, {}, Case{.check = &check, .parameters = {}}, {{"capabilities", capabilities}}, device);
    return lack ? lack->what : "";
  };
  EXPECT_EQ(lacks_on("cuda", {}, false), "memory of cuda");
  EXPECT_EQ(lacks_on("cuda", {"training"}, false), "");
  EXPECT_EQ(lacks_on("cuda", {"training"}, true), "memory of cuda");
  EXPECT_EQ(lacks_on("emulated:1", {"training"}, false), "memory of emulated");
  EXPECT_EQ(lacks_on("cuda", {"training"}, false, "cuda"), "memory of the host");
  EXPECT_EQ(lacks_on("cuda", {}, false, "cuda"), "");
  EXPECT_EQ(lacks_on("cpu", {"training"}, false), "");
  EXPECT_EQ(lacks_on("cpu", {"training"}, true), "a device with memory of its own (--device)");
}

}  // namespace
}  // namespace plumbline::suite
