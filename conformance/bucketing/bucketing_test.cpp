// The checks of gradient buckets: the reference passes them.
#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_bucketing_checks);
  return suite;
}

namespace {

using nlohmann::json;

TEST(BucketingChecks, PassOnTheReference) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->door == suite::Door::adapter && !is_largest(one)) {
      EXPECT_THAT(run_in_process(one, reference_adapter()), testing::IsEmpty()) << one.id();
    }
}

// The reference, whose answers to bucketing.reduce are changed.
class Changed final : public suite::Adapter {
 public:
  using Change = std::function<void(json& steps)>;
  explicit Changed(Change change) : change_(std::move(change)) {}
  json ask(const std::string& op, const json& args) override {
    json result = reference_adapter().ask(op, args);
    change_(result.at("steps"));
    return result;
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return reference_adapter().operations(); }
  [[nodiscard]] json claims() const override { return reference_adapter().claims(); }

 private:
  Change change_;
};

// What the first case of each check of bucketing.reduce finds, where the answers are changed.
void expect_all_fail(const Changed::Change& change) {
  std::set<const suite::Check*> seen;
  for (const suite::Case& one : suite_under_test().cases()) {
    const bool is_asked = std::ranges::count(one.check->operations, "bucketing.reduce") > 0;
    if (!is_asked || is_large(one) || !seen.insert(one.check).second) continue;
    Changed adapter(change);
    EXPECT_THAT(run_in_process(one, adapter), testing::Not(testing::IsEmpty())) << one.id();
  }
  EXPECT_GT(seen.size(), 50U);
}

TEST(ReductionChecks, FailWhereRanksAreMissing) {
  expect_all_fail([](json& steps) {
    for (json& ranks : steps) ranks = json::array();
  });
  expect_all_fail([](json& steps) {
    for (json& ranks : steps) ranks.erase(ranks.begin() + 1, ranks.end());
  });
}

std::vector<Failure> failures_of_first(const std::string& check, const Changed::Change& change) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->id == check) {
      Changed adapter(change);
      return run_in_process(one, adapter);
    }
  return {};
}
auto says(const char* words) { return testing::Contains(testing::Field(&Failure::text, testing::HasSubstr(words))); }

// Nothing beside the checker's own values is written or read.
TEST(ReductionChecks, FailOnGradientsOfAnotherLength) {
  for (const char* check : {"bucketing.trained.in_buckets", "bucketing.trained.in_bytes"})
    for (const std::size_t length : {0U, 1U, 1'000'000U})
      EXPECT_THAT(failures_of_first(check,
                                    [&](json& steps) {
                                      for (json& ranks : steps)
                                        for (json& row : ranks) row["grads"][0] = std::vector<double>(length, 1);
                                    }),
                  says(" elements, its parameter 12"))
          << check;
  EXPECT_THAT(failures_of_first("bucketing.trained.in_buckets",
                                [](json& steps) {
                                  for (json& row : steps[0])
                                    row = {{"error", {{"kind", "state"}, {"message", "too late"}}}};
                                }),
              says("too late"));
}

TEST(ReductionChecks, FailOnGradientsThatDoNotExist) {
  for (const int gradient : {99, -1})
    EXPECT_THAT(failures_of_first("bucketing.reduce.exchange_reads_written",
                                  [&](json& steps) {
                                    for (json& ranks : steps)
                                      for (json& row : ranks) row["exchanges"][0]["gradients"][0] = gradient;
                                  }),
                says("exchanges are of gradients"));
}

}  // namespace
}  // namespace plumbline::conformance
