// Of any test program whose checks ask an adapter: whatever it answers, no check falls over it, and what is no answer
// at all is found.
#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/support/in_process.hpp"
#include "conformance/support/made_up_adapters.hpp"

namespace plumbline::conformance {
namespace {

using testing::Each;
using testing::Field;
using testing::IsEmpty;
using testing::Not;

/// Whatever an adapter answers, no check falls over it. Returns the checks that found nothing wrong with what was
/// changed.
std::set<std::string> content_with(OtherAnswers::Change change) {
  OtherAnswers adapter(std::move(change));
  std::set<std::string> content, found;
  for (const suite::Case& one : suite_under_test().cases()) {
    if (one.check->door != suite::Door::adapter || is_large(one)) continue;
    adapter.changed = 0;
    const auto failures = run_in_process(one, adapter);
    EXPECT_THAT(failures, Each(Field(&Failure::uncaught, false))) << one.id();
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
  for (const suite::Case& one : suite_under_test().cases()) {
    if (one.check->door != suite::Door::adapter || is_large(one)) continue;
    const auto failures = run_in_process(one, adapter);
    EXPECT_THAT(failures, Not(IsEmpty())) << one.id();
    EXPECT_THAT(failures, Each(Field(&Failure::uncaught, false))) << one.id();
  }
}
INSTANTIATE_TEST_SUITE_P(
    Forms, Answers,
    testing::Values("null", "7", "\"no\"", "[]", "{}",
                    R"({"ranks": [], "parts": {}, "valid": 1, "buckets": [], "bucket_limits": {}, "differences": []})"),
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

// Ranks, stages and times that there are not. A check that asks for one thing of an answer may be content with the
// rest.
TEST(ChangedAnswers, OfOtherNumbersAreJudged) {
  int number = 1000;
  (void)content_with([&](nlohmann::json right) {
    change_leaves(right, [&](nlohmann::json& leaf) {
      if (leaf.is_number_integer()) leaf = leaf.get<int>() + number;
      if (leaf.is_number_float()) leaf = leaf.get<double>() + number;
    });
    number = -number;  // of the next answer
    return right;
  });
}
TEST(ChangedAnswers, OfListsTooLongOrTooShortAreJudged) {
  bool longer = true;
  (void)content_with([&](nlohmann::json right) {
    change_lists(right, [&](nlohmann::json& list) {
      if (!list.empty() && longer) list.push_back(list.back());
      if (!list.empty() && !longer) list.erase(list.size() - 1);
    });
    longer = !longer;
    return right;
  });
}

}  // namespace
}  // namespace plumbline::conformance
