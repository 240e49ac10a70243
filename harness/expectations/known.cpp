#include "harness/expectations/known.hpp"

#include <algorithm>

#include "harness/suite/plan.hpp"

namespace plumbline::expectations {
namespace {

bool names(const std::vector<std::string>& patterns, const record::Result& one,
           const std::vector<std::string>& requirements) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return suite::names_case(pattern, one.check, one.case_id, requirements);
  });
}

}  // namespace

Known::Known(const suite::Suite& suite, const Expectations* book, suite::Identity subject, Facts run,
             std::chrono::sys_days today)
    : suite_(suite), book_(book), subject_(std::move(subject)), run_(std::move(run)), today_(today) {
  if (book_ != nullptr) book_->require_subject(subject_);
}

bool Known::covers(const suite::Waiver& waiver, const record::Result& one,
                   const std::vector<std::string>& requirements) const {
  if (today_ < waiver.date || waiver.until < today_ || !waiver.subject.matches(subject_)) return false;
  const auto is = [&](const char* name) {
    const auto found = run_.find(name);
    return found != run_.end() && suite::matches(waiver.device, found->second);
  };
  return (waiver.device == "*" || is("device") || is("cpu")) && names(waiver.checks, one, requirements);
}

const suite::Waiver* Known::waiver_of(const record::Result& one, const std::vector<std::string>& requirements) const {
  const auto found = std::ranges::find_if(
      suite_.waivers, [&](const suite::Waiver& waiver) { return covers(waiver, one, requirements); });
  return found == suite_.waivers.end() ? nullptr : &*found;
}

// Each requirement that the failures name must be waived, or else one waiver would do for what nobody granted.
const suite::Waiver* Known::waiver_of(const record::Result& one) const {
  for (const std::string& requirement : one.violated)
    if (waiver_of(one, {requirement}) == nullptr) return nullptr;
  return waiver_of(one, run::at_stake(one));
}

std::optional<record::Expectation> Known::of(const record::Result& one) const {
  using Kind = record::Expectation::Kind;
  for (const suite::SuiteIssue& issue : suite_.issues)
    if (names(issue.checks, one, one.requirements))
      return record::Expectation{
          .kind = Kind::suite_issue, .run = false, .reason = issue.reason, .link = issue.link, .origin = issue.origin};
  if (book_ != nullptr)
    if (const Entry* entry = book_->find(one, run_)) return entry->expectation;
  if (const suite::Waiver* waiver = waiver_of(one))
    return record::Expectation{
        .kind = Kind::waiver, .reason = waiver->reason, .link = waiver->link, .origin = waiver->origin};
  return std::nullopt;
}

}  // namespace plumbline::expectations
