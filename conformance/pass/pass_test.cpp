// The checks of the data-parallel pass: the reference passes all of them, and each of them finds the source's own
// answer to a program that the source breaks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/pass/pass_checks.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "conformance/support/remembering_adapter.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_pass_checks);
  return suite;
}

namespace {

using nlohmann::json;
using testing::IsEmpty;
using testing::Not;

// Each rule is a check of its own, and draws the same programs.
TEST(PassChecks, PassOnTheReference) {
  RememberingAdapter reference(reference_adapter());
  for (const suite::Case& one : suite_under_test().cases())
    if (!is_largest(one)) {
      EXPECT_THAT(run_in_process(one, reference), IsEmpty()) << one.id();
    }
}

// Answers as the source does, whoever is asked for.
class AsTheSource final : public suite::Adapter {
 public:
  json ask(const std::string& op, const json& args) override {
    json changed = args;
    changed["convention"] = "paddle";
    return reference_adapter().ask(op, changed);
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return reference_adapter().operations(); }
};

// A program for each row of the README's table of differences that a value or a refusal shows.
TEST(PassChecks, ShowTheProgramsThatTheSourceBreaks) {
  AsTheSource source;
  for (const char* oddity :
       {"average", "averages", "loss_of_another_op", "made_early", "no_loss", "no_scale", "no_scales", "read_ahead",
        "reduced_twice", "second_loss", "to_one_rank", "two_rings", "unknown_shape", "unreduced"}) {
    const std::string id = std::string("pass.value.of_odd_steps[oddity=") + oddity + "]";
    EXPECT_THAT(run_in_process(case_named(suite_under_test(), id), source), Not(IsEmpty())) << id;
  }
  for (const char* id : {"pass.rule.dependent[step=forward]", "pass.rule.readers_wait[step=higher]"})
    EXPECT_THAT(run_in_process(case_named(suite_under_test(), id), source), Not(IsEmpty())) << id;
  EXPECT_THAT(run_in_process(case_named(suite_under_test(), "pass.value.of_steps[step=plain]"), source), IsEmpty());
}

}  // namespace
}  // namespace plumbline::conformance
