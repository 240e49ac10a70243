#include "conformance/support/hollow.hpp"

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "harness/mutants/hollow.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/mutants/rewritten_adapter.hpp"
#include "harness/suite/adapter_error.hpp"
#include "harness/suite/eligibility.hpp"

namespace plumbline::conformance {

using mutants::Mutant;
using nlohmann::json;

namespace {

// What became of a requirement on one subject.
struct Seen {
  bool touched = false;   // the subject did something else than the right one in a case of it
  bool violated = false;  // a check of it found something
};
using Verdicts = std::map<std::string, Seen>;  // by requirement

std::set<std::string> verified_ids(const suite::Check& check) {
  std::set<std::string> ids;
  for (const std::string& citation : check.verifies) ids.emplace(suite::id_of_citation(citation));
  return ids;
}

// As the harness does it: a failure that names a requirement of the check is of that one alone. What no assertion found, such as a
// question left unasked, violates none.
std::set<std::string> violated_by(const suite::Check& check, const std::vector<Failure>& failures) {
  static const std::regex pattern("(^|\n|: )([A-Z]+-[0-9]{3}): ");
  std::set<std::string> ids;
  for (const Failure& failure : failures) {
    if (failure.uncaught) continue;
    std::smatch match;
    if (!std::regex_search(failure.text, match, pattern)) return verified_ids(check);
    ids.insert(match[2].str());
  }
  return ids;
}

// Runs a case; says whether the subject did anything else than a right one.
using RunCase = std::function<std::vector<Failure>(const suite::Case&, bool& touched)>;

// Cases of each check until all that it verifies is violated.
void run_checks(const std::vector<const suite::Case*>& cases, const RunCase& run, Verdicts& verdicts) {
  for (const suite::Case* one : cases) {
    std::set<std::string> open = verified_ids(*one->check);
    std::erase_if(open, [&](const std::string& id) { return verdicts[id].violated; });
    if (open.empty()) continue;
    bool touched = false;
    const auto failures = run(*one, touched);
    EXPECT_THAT(failures, testing::Each(testing::Field(&Failure::uncaught, false))) << one->id();
    for (const std::string& id : open) verdicts[id].touched |= touched;
    for (const std::string& id : violated_by(*one->check, failures)) verdicts[id].violated = true;
  }
}

// Requirements and why they may pass.
using Truths = std::map<std::string, std::string>;
Truths truths_of(const std::string& subject) {
  const auto& all = mutants::hollow_truths();
  const auto found = all.find(subject);
  return found == all.end() ? Truths() : found->second;
}

std::vector<std::string> passed(const Verdicts& verdicts) {
  std::vector<std::string> ids;
  for (const auto& [id, seen] : verdicts)
    if (seen.touched && !seen.violated) ids.push_back(id);
  return ids;
}

std::vector<std::string> unlisted(const std::string& subject, const Verdicts& verdicts) {
  const Truths truths = truths_of(subject);
  std::vector<std::string> ids = passed(verdicts);
  std::erase_if(ids, [&](const std::string& id) { return truths.contains(id); });
  return ids;
}

void expect_truths_alone(const std::string& subject, const std::string& component, const Verdicts& verdicts) {
  const Truths truths = truths_of(subject);
  const std::vector<std::string> passes = passed(verdicts);
  std::cout << fmt::format("{:<26} {:<12} {} of {} requirements pass{}{}\n", subject, component, passes.size(),
                           verdicts.size(), passes.empty() ? "" : ": ", fmt::join(passes, ", "));
  for (const std::string& id : unlisted(subject, verdicts))
    ADD_FAILURE() << id << " passes on " << subject
                  << ": its check judges nothing, or harness/mutants/hollow.toml lacks the reason";
  for (const auto& [id, reason] : truths)
    EXPECT_TRUE(!verdicts.contains(id) || std::ranges::count(passes, id) > 0)
        << id << " fails on " << subject << ", so harness/mutants/hollow.toml lists it in vain: " << reason;
}

std::string component_of(const std::vector<const suite::Case*>& cases) {
  return cases.empty() ? "none" : cases.front()->component();
}

std::vector<const suite::Case*> adapter_cases(const suite::Suite& suite) {
  std::vector<const suite::Case*> cases;
  for (const suite::Case& one : suite.cases())
    if (one.check->door == suite::Door::adapter) cases.push_back(&one);
  return cases;
}

void judge_adapter(const Mutant& subject, const std::vector<const suite::Case*>& cases, std::uint64_t seed,
                   Verdicts& verdicts) {
  const auto& make = std::get<mutants::MakeRewrite>(subject.change);
  run_checks(
      cases,
      [&](const suite::Case& one, bool& touched) {
        mutants::RewrittenAdapter adapter(
            reference_adapter(), [&touched, rewrite = make(reference_adapter(), seed)](
                                     const std::string& op, const json& args, const json& reply) {
              json other = rewrite(op, args, reply);
              touched = touched || other != reply;
              return other;
            });
        return run_in_process(one, adapter);
      },
      verdicts);
}

// ---- adapters that lack an operation, and say so ----

std::string component_of(const std::string& operation) { return operation.substr(0, operation.find('.')); }

// The reference's answers, but for one operation.
class PartialAdapter final : public suite::Adapter {
 public:
  explicit PartialAdapter(std::string lacks) : lacks_(std::move(lacks)) { operations_.erase(lacks_); }
  json ask(const std::string& op, const json& args) override {
    if (op == lacks_) throw suite::AdapterError(op, "unsupported", "not here");
    return reference_adapter().ask(op, args);
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return operations_; }

 private:
  std::string lacks_;
  std::set<std::string> operations_ = reference_adapter().operations();
};

}  // namespace

void expect_hollow_adapters_fail(const suite::Suite& suite) {
  const auto cases = adapter_cases(suite);
  for (const Mutant& subject : mutants::hollow_subjects()) {
    if (door_of(subject) != suite::Door::adapter) continue;
    // Where one place of an answer is wrong, the requirement need not speak of it: several are tried, more of those that should fail.
    const std::uint64_t tries = subject.name == "hollow.off_by_one" ? 40 : 1, tries_of_all = 8;
    Verdicts verdicts;
    for (std::uint64_t seed = 1; seed <= tries; ++seed)
      if (seed <= tries_of_all || !unlisted(subject.name, verdicts).empty())
        judge_adapter(subject, cases, seed, verdicts);
    expect_truths_alone(subject.name, component_of(cases), verdicts);
  }
}

void expect_partial_adapters_pass(const suite::Suite& suite) {
  const suite::Profile profile;
  for (const std::string& operation : reference_adapter().operations()) {
    PartialAdapter adapter(operation);
    std::set<const suite::Check*> checks;
    for (const suite::Case* one : adapter_cases(suite)) {
      const auto& names = one->check->operations;
      if (!checks.insert(one->check).second) continue;  // one case of each
      const auto lack = suite::lacking(suite, profile, *one, {{"operations", adapter.operations()}});
      EXPECT_EQ(lack.has_value(), std::ranges::count(names, operation) > 0) << one->id();
      const bool is_near = std::ranges::any_of(
          names, [&](const std::string& name) { return component_of(name) == component_of(operation); });
      if (!lack && is_near)
        EXPECT_THAT(run_in_process(*one, adapter), testing::IsEmpty()) << one->id() << " without " << operation;
    }
  }
}

}  // namespace plumbline::conformance
