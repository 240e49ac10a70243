#include "conformance/support/mutant_tests.hpp"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <set>

#include <gmock/gmock.h>
#include <malloc.h>

#include "conformance/support/in_process.hpp"
#include "harness/mutants/rewritten_adapter.hpp"
#include "harness/subject/adapter/client.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using mutants::Mutant;

suite::Suite suite_of(void (*add)(suite::Suite&)) {
  suite::Suite made;
  add(made);
  return made;
}

const suite::Case& case_named(const suite::Suite& suite, const std::string& id) {
  const auto found = std::ranges::find(suite.cases(), id, &suite::Case::id);
  if (found == suite.cases().end()) throw NotFound("no case " + id);
  return *found;
}

suite::Adapter& reference_adapter() {
  static const std::unique_ptr<suite::Adapter> adapter = subject::open_adapter("reference");
  return *adapter;
}

std::vector<std::string> failures_with(const Mutant& mutant, const suite::Suite& suite, const std::string& id,
                                       const std::string& arm, std::chrono::milliseconds patience) {
  const suite::Case& one = case_named(suite, id);
  if (const auto* rewrite = std::get_if<mutants::RewriteAnswer>(&mutant.change)) {
    mutants::RewrittenAdapter adapter(reference_adapter(), *rewrite);
    return run_in_process(one, adapter);
  }
  if (const auto* wrap = std::get_if<mutants::WrapRuntime>(&mutant.change))
    return run_on_devices(one, *wrap, {}, patience);
  if (const auto* wrap = std::get_if<mutants::Wrap>(&mutant.change); wrap != nullptr && one.check->on_device)
    return run_on_devices(one, {}, *wrap, patience);
  if (const auto* wrap = std::get_if<mutants::Wrap>(&mutant.change))
    return run_in_process(one, *wrap, patience, suite::Arm::parse(arm));
  const auto& steps = std::get<mutants::MakeSteps>(mutant.change);
  if (one.check->on_device) return run_on_devices(one, {}, {}, patience, steps);
  return run_in_process(one, {}, patience, suite::Arm::parse(arm), steps);
}

std::vector<std::string> mutants_of(const std::string& prefix) {
  std::vector<std::string> list;
  for (const Mutant& mutant : mutants::all_mutants()) {
    const std::string id = mutant.shows.substr(0, mutant.shows.find('['));
    const auto& checks = suite_under_test().checks();
    const auto check = std::ranges::find(checks, id, &suite::Check::id);
    if (mutant.violates.starts_with(prefix) && check != checks.end() && check->modules.empty())
      list.push_back(mutant.name);
  }
  return list;
}

std::string as_test_name(std::string name) {
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

namespace {

// Longer than what the checks allow after a limit, shorter than what a person waits.
constexpr auto kUntilItShows = std::chrono::milliseconds(3300);
constexpr auto kPatience = std::chrono::seconds(20);
// A communicator's fault that shows when one rank is ahead of another is not seen where the machine is so busy that none is.
constexpr int kAttempts = 3;

// Faults that are races: the thread sanitizer ends the program at the first of them, and is right.
bool is_race(const Mutant& mutant) {
  static const std::set<std::string> kRaces{"dev.done_not_awaited",         "dev.done_recorded_first",
                                            "dev.other_device_not_awaited", "dev.ready_not_awaited",
                                            "dev.recorded_elsewhere",       "gos.device_added_before_it_came",
                                            "gos.device_default_stream",    "gos.device_sent_before_the_copy",
                                            "slo.device_default_stream",    "slo.staging_not_awaited",
                                            "dev.stream_ignored",           "dev.test_says_launched",
                                            "ovl.before_the_producer",      "ovl.early_reuse",
                                            "ovl.pingpong_reset",           "ovl.too_few_buffers",
                                            "ovl.wait_one_producer"};
  return kRaces.contains(mutant.name);
}
#ifdef __SANITIZE_THREAD__
constexpr bool kRacesEnd = true;
#else
constexpr bool kRacesEnd = false;
#endif

TEST_P(EveryMutant, FailsWhereItShows) {
  const Mutant& mutant = mutants::find_mutant(GetParam());
  if (kRacesEnd && is_race(mutant)) GTEST_SKIP() << "a race, which the thread sanitizer ends";
  if (mutant.name == "grp.leak" && mallinfo2().uordblks == 0)
    GTEST_SKIP() << "the allocator, as a sanitizer's, keeps what is freed";
  std::vector<std::string> failures;
  const bool of_timing = std::holds_alternative<mutants::Wrap>(mutant.change) ||
                         std::holds_alternative<mutants::WrapRuntime>(mutant.change);
  const int attempts = of_timing ? kAttempts : 1;
  for (int attempt = 0; attempt < attempts && failures.empty(); ++attempt)
    failures = failures_with(mutant, suite_under_test(), mutant.shows, mutant.shows_arm, kUntilItShows);
  ASSERT_THAT(failures, testing::Not(testing::IsEmpty())) << mutant.what;
  if (std::holds_alternative<mutants::RewriteAnswer>(mutant.change)) {
    EXPECT_THAT(failures.front(), testing::Not(testing::HasSubstr("uncaught exception"))) << mutant.what;
  }
  std::cout << failures.front().substr(0, 300) << '\n';
}

TEST_P(EveryMutant, PassesWhereItHides) {
  const Mutant& mutant = mutants::find_mutant(GetParam());
  if (kRacesEnd && is_race(mutant)) GTEST_SKIP() << "a race, which the thread sanitizer ends";
  if (mutant.hides.empty()) {
    EXPECT_FALSE(mutant.why_hides.empty());
    return;
  }
  EXPECT_THAT(failures_with(mutant, suite_under_test(), mutant.hides, mutant.hides_arm, kPatience), testing::IsEmpty())
      << mutant.why_hides;
}

}  // namespace
}  // namespace plumbline::conformance
