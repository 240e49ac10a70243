// The checks of gradient buckets: the reference passes them, each mutant fails where it shows and passes where it hides.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/collectives/in_process.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/mutants/rewritten_adapter.hpp"
#include "harness/subject/adapter/client.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

using mutants::Mutant;
using testing::IsEmpty;
using testing::Not;

const suite::Suite& bucketing() {
  static const suite::Suite suite = [] {
    suite::Suite made;
    add_bucketing_checks(made);
    return made;
  }();
  return suite;
}

suite::Adapter& reference() {
  static const std::unique_ptr<suite::Adapter> adapter = subject::open_adapter("reference");
  return *adapter;
}

const suite::Case& case_named(const std::string& id) {
  const auto found = std::ranges::find(bucketing().cases(), id, &suite::Case::id);
  if (found == bucketing().cases().end()) throw NotFound("no case " + id);
  return *found;
}

constexpr auto kPatience = std::chrono::seconds(20);

TEST(BucketingChecks, PassOnTheReference) {
  for (const suite::Case& one : bucketing().cases()) {
    if (one.check->door != suite::Door::adapter) continue;
    EXPECT_THAT(run_in_process(one, reference()), IsEmpty()) << one.id();
  }
}

// ---- answers of any form ----

/// Answers every question alike.
class OneAnswer final : public suite::Adapter {
 public:
  explicit OneAnswer(nlohmann::json answer) : answer_(std::move(answer)) {}
  nlohmann::json ask(const std::string&, const nlohmann::json&) override { return answer_; }
  [[nodiscard]] const std::set<std::string>& operations() const override { return reference().operations(); }

 private:
  nlohmann::json answer_;
};

/// The reference's answers, changed; what it refuses is refused.
class OtherAnswers final : public suite::Adapter {
 public:
  using Change = std::function<nlohmann::json(nlohmann::json right)>;
  explicit OtherAnswers(Change change) : change_(std::move(change)) {}
  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override {
    nlohmann::json right = reference().ask(op, args);
    ++changed;
    return change_(std::move(right));
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return reference().operations(); }
  int changed = 0;

 private:
  Change change_;
};

/// Whatever an adapter answers, no check falls over it. Returns the checks that found nothing wrong with what was changed.
std::set<std::string> content_with(OtherAnswers::Change change) {
  OtherAnswers adapter(std::move(change));
  std::set<std::string> content, found;
  for (const suite::Case& one : bucketing().cases()) {
    if (one.check->door != suite::Door::adapter) continue;
    adapter.changed = 0;
    const auto failures = run_in_process(one, adapter);
    EXPECT_THAT(failures, testing::Each(Not(testing::HasSubstr("uncaught exception")))) << one.id();
    if (!failures.empty()) found.insert(one.check->id);
    if (adapter.changed > 0) content.insert(one.check->id);
  }
  for (const std::string& check : found) content.erase(check);
  return content;
}

void change_leaves(nlohmann::json& value, const std::function<void(nlohmann::json&)>& change) {
  if (!value.is_structured()) return change(value);
  for (auto& inner : value) change_leaves(inner, change);
}
void change_lists(nlohmann::json& value, const std::function<void(nlohmann::json&)>& change) {
  if (!value.is_structured()) return;
  for (auto& inner : value) change_lists(inner, change);
  if (value.is_array()) change(value);
}

class Answers : public testing::TestWithParam<const char*> {};

TEST_P(Answers, OfAnotherFormAreFound) {
  OneAnswer adapter(nlohmann::json::parse(GetParam()));
  for (const suite::Case& one : bucketing().cases()) {
    if (one.check->door != suite::Door::adapter) continue;
    const auto failures = run_in_process(one, adapter);
    EXPECT_THAT(failures, Not(IsEmpty())) << one.id();
    EXPECT_THAT(failures, testing::Each(Not(testing::HasSubstr("uncaught exception")))) << one.id();
  }
}
INSTANTIATE_TEST_SUITE_P(Forms, Answers,
                         testing::Values("null", "7", "\"no\"", "[]", "{}",
                                         R"({"buckets": [], "bucket_limits": {}, "valid": 1, "differences": []})"),
                         [](const auto& info) { return "Form" + std::to_string(info.index); });

TEST(ChangedAnswers, WithoutAFieldAreFound) {
  EXPECT_THAT(content_with([](nlohmann::json right) {
                if (right.is_object()) right.clear();
                return right;
              }),
              IsEmpty());
}
TEST(ChangedAnswers, OfTextsAreFound) {
  EXPECT_THAT(content_with([](nlohmann::json right) {
                change_leaves(right,
                              [](nlohmann::json& leaf) { leaf = leaf.is_string() ? "no" : nlohmann::json("7"); });
                return right;
              }),
              IsEmpty());
}
TEST(ChangedAnswers, OfNullsAreFound) {
  EXPECT_THAT(content_with([](nlohmann::json right) {
                change_leaves(right, [](nlohmann::json& leaf) { leaf = nullptr; });
                return right;
              }),
              IsEmpty());
}

// Gradients, places and times that there are not. A check that asks for one thing of an answer may be content with the rest.
TEST(ChangedAnswers, OfOtherNumbersAreJudged) {
  for (const int number : {1000, -1000})
    (void)content_with([number](nlohmann::json right) {
      change_leaves(right, [number](nlohmann::json& leaf) {
        if (leaf.is_number_integer()) leaf = leaf.get<int>() + number;
        if (leaf.is_number_float()) leaf = leaf.get<double>() + number;
      });
      return right;
    });
}
TEST(ChangedAnswers, OfListsTooLongOrTooShortAreJudged) {
  (void)content_with([](nlohmann::json right) {
    change_lists(right, [](nlohmann::json& list) {
      if (!list.empty()) list.push_back(list.back());
    });
    return right;
  });
  (void)content_with([](nlohmann::json right) {
    change_lists(right, [](nlohmann::json& list) {
      if (!list.empty()) list.erase(list.size() - 1);
    });
    return right;
  });
}

class BucketingMutant : public testing::TestWithParam<std::string> {
 protected:
  const Mutant& mutant() const { return mutants::find_mutant(GetParam()); }
  std::vector<std::string> failures_at(const std::string& id, const std::string& arm,
                                       std::chrono::milliseconds patience) const {
    if (const auto* rewrite = std::get_if<mutants::RewriteAnswer>(&mutant().change)) {
      mutants::RewrittenAdapter adapter(reference(), *rewrite);
      return run_in_process(case_named(id), adapter);
    }
    return run_in_process(case_named(id), {}, patience, suite::Arm::parse(arm),
                          std::get<mutants::MakeSteps>(mutant().change));
  }
};

TEST_P(BucketingMutant, FailsWhereItShows) {
  const auto failures = failures_at(mutant().shows, mutant().shows_arm, std::chrono::milliseconds(700));
  ASSERT_THAT(failures, Not(IsEmpty())) << mutant().what;
  if (std::holds_alternative<mutants::RewriteAnswer>(mutant().change)) {
    EXPECT_THAT(failures.front(), Not(testing::HasSubstr("uncaught exception"))) << mutant().what;
  }
}

TEST_P(BucketingMutant, PassesWhereItHides) {
  if (mutant().hides.empty()) {
    EXPECT_FALSE(mutant().why_hides.empty());
    return;
  }
  EXPECT_THAT(failures_at(mutant().hides, mutant().hides_arm, kPatience), IsEmpty()) << mutant().why_hides;
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Mutant& mutant : mutants::all_mutants())
    if (mutant.violates.starts_with("BUCKET-")) list.push_back(mutant.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Mutants, BucketingMutant, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

}  // namespace
}  // namespace plumbline::conformance
