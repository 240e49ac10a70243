// The checks of gossip: the reference passes them.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_gossip_checks);
  return suite;
}

namespace {

using nlohmann::json;
using testing::IsEmpty;

TEST(GossipChecks, PassOnTheReference) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->door == suite::Door::adapter && !is_largest(one)) {
      EXPECT_THAT(run_in_process(one, reference_adapter()), IsEmpty()) << one.id();
    }
}

TEST(GossipChecks, PassOnTheLocalBackend) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->door == suite::Door::backend && !one.check->on_device) {
      EXPECT_THAT(run_in_process(one), IsEmpty()) << one.id();
    }
}

TEST(GossipChecks, PassOnDevices) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->on_device) {
      EXPECT_THAT(run_on_devices(one), IsEmpty()) << one.id();
    }
}

TEST(GossipChecks, PassUnderAnotherTiming) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->deadlock_prone && one.world() == 3)
      for (const char* mode : {"chaos:5", "rendezvous"}) {
        EXPECT_THAT(run_in_process(one, {}, suite::ExecutionMode::parse(mode)), IsEmpty()) << one.id();
      }
}

// The reference, without an argument of its questions.
class Dropping final : public suite::Adapter {
 public:
  explicit Dropping(std::string argument) : argument_(std::move(argument)) {}
  json ask(const std::string& op, const json& args) override {
    json others = args;
    others.erase(argument_);
    return reference_adapter().ask(op, others);
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return reference_adapter().operations(); }
  [[nodiscard]] json claims() const override { return reference_adapter().claims(); }

 private:
  std::string argument_;
};

// An adapter that claims an argument and does nothing of it.
TEST(LiveRoundChecks, FailWhereAnArgumentIsDropped) {
  const std::map<std::string, std::vector<std::string>> checks{
      {"cuts",
       {"interrupted", "other_group", "other_group_unconfirmed", "pieces_unconfirmed", "comparison_interrupted",
        "in_place_interrupted", "thread_interrupted", "abandoned", "pauses"}},
      {"in_place", {"in_place", "in_place_interrupted", "in_place_where_all_can"}},
      {"late", {"in_any_order"}},
      {"in_flight", {"in_flight"}}};
  for (const auto& [argument, names] : checks)
    for (const std::string& name : names) {
      const auto& cases = suite_under_test().cases();
      const auto one =
          std::ranges::find(cases, "gossip.rounds." + name, [](const auto& each) { return each.check->id; });
      ASSERT_NE(one, cases.end()) << name;
      Dropping adapter(argument);
      EXPECT_THAT(run_in_process(*one, adapter), testing::Not(IsEmpty())) << one->id() << " without " << argument;
    }
}

}  // namespace
}  // namespace plumbline::conformance
