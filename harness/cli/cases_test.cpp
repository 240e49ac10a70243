#include "harness/cli/cases.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "harness/suite/suite.hpp"

namespace plumbline::cli {
namespace {

using ForControl = std::function<CaseSettings(const CaseSettings&)>;

// har.limit_of_the_subject: the control run has the time limit that the user sets for the subject.
CaseSettings limit_of_the_subject(const CaseSettings& settings) { return settings; }

// HARNESS-024@9879
TEST(Control, HasAtLeastTheLimitOfEachCheck) {
  const suite::Suite suite;
  const suite::Profile profile;
  const suite::Check check{.id = "toys.slow", .limit = std::chrono::seconds(10)};
  const suite::Case one{.check = &check, .parameters = {}};
  const auto seconds = [&](const ForControl& for_control, double time_limit) {
    const CaseSettings settings{.suite = suite, .profile = profile, .time_limit = time_limit, .slowness = 2};
    return for_control(settings).limit_of(one).count();
  };
  const auto holds = [&](const ForControl& for_control) {
    return seconds(for_control, 0) == 20 && seconds(for_control, 0.001) == 20 && seconds(for_control, 30) == 30;
  };
  EXPECT_TRUE(holds([](const CaseSettings& settings) { return settings.for_control(); }));
  EXPECT_FALSE(holds(limit_of_the_subject)) << "har.limit_of_the_subject is found";
}

}  // namespace
}  // namespace plumbline::cli
