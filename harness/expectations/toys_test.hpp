// harness/expectations/toys_test.hpp: a small suite, for tests.
#pragma once

#include <functional>
#include <string>

#include "harness/expectations/facts.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::expectations {

inline constexpr const char* kRows = R"(component = "toys"
[[requirement]]
id = "TOY-001"
level = "must"
since = "0.1"
text = "A toy does not break."
checks = ["toys.drop"]
[[requirement]]
id = "TOY-002"
level = "must"
since = "0.1"
text = "A toy is red."
checks = ["toys.look", "toys.peek"]
)";

/// toys.drop: height low, high at 1, 2, 3 ranks (TOY-001); toys.look, toys.peek at 1, 2 ranks (TOY-002).
inline const suite::Suite& toys() {
  static const std::unique_ptr<const suite::Suite> toys = [] {
    auto suite = std::make_unique<suite::Suite>();
    suite->requirements.add_toml(kRows, "toys.toml");
    const auto look = "TOY-002@" + suite::sentence_hash("A toy is red.");
    const auto body = [](suite::Context&) {};
    suite->add({.id = "toys.drop",
                .verifies = {"TOY-001@" + suite::sentence_hash("A toy does not break.")},
                .axes = {{"height", {"low", "high"}}, suite::worlds({1, 2, 3})},
                .body = body});
    suite->add({.id = "toys.look", .verifies = {look}, .axes = {suite::worlds({1, 2})}, .body = body});
    suite->add({.id = "toys.peek", .verifies = {look}, .axes = {suite::worlds({1, 2})}, .body = body});
    return suite;
  }();
  return *toys;
}

/// A result of that case, blank where nothing is said.
inline record::Result result_of(const std::string& case_id, record::Verdict verdict = record::Verdict::missing) {
  for (const suite::Case& one : toys().cases())
    if (one.id() == case_id) {
      record::Result result = blank_result(toys(), one);
      result.verdict = verdict;
      if (verdict != record::Verdict::pass) result.reason = "it \"broke\"\nin two";
      return result;
    }
  throw NotFound("no case " + case_id);
}

/// A failure that names requirements, of a case that verifies them among others.
inline record::Result failure_of(const std::string& case_id, std::vector<std::string> violated,
                                 std::vector<std::string> requirements = {"TOY-001", "TOY-002", "TOY-003"}) {
  record::Result result = result_of(case_id, record::Verdict::fail);
  result.requirements = std::move(requirements);
  result.violated = std::move(violated);
  return result;
}

inline std::string words_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

inline constexpr std::chrono::sys_days kToday = std::chrono::year(2026) / 11 / 21;

}  // namespace plumbline::expectations
