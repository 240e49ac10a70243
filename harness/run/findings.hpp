// harness/run/findings.hpp: what checks found wrong, and which requirements that is about.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/record/result.hpp"
#include "harness/suite/finding.hpp"

namespace plumbline::run {

/// A finding as a record keeps it. Text and values are cut to what a record should hold: subjects write what they like.
[[nodiscard]] record::Failure failure_of(const suite::Finding& finding, std::string where = "");

/// The requirements of a case that the failures of its ranks name, sorted, where each failing rank names some with all
/// of its failures; else none: the verdict is about all of them. Only a `fail` names any.
[[nodiscard]] std::vector<std::string> violated_by(record::Verdict verdict, std::span<const record::RankResult> ranks,
                                                   const std::vector<std::string>& requirements);

/// The requirements that a result is about: those that its failures name, or else all that its check verifies.
[[nodiscard]] const std::vector<std::string>& at_stake(const record::Result& result);

/// Whether a result is about one of its requirements. Where it is not, the case has found nothing wrong with that.
[[nodiscard]] bool is_about(const record::Result& result, const std::string& requirement);

/// Of a record that was judged as a whole: a result `CHECK[REQUIREMENT]` for each requirement that was judged or that a
/// finding names. It fails with the first of its findings and how many more there are, and keeps the first few as
/// fields.
[[nodiscard]] std::vector<record::Result> results_of_judging(const std::string& check, std::set<std::string> judged,
                                                             const std::vector<record::Failure>& findings);

}  // namespace plumbline::run
