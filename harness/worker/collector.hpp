// harness/worker/collector.hpp: GoogleTest with ranks: each failure belongs to the rank that made it.
//
// Model   A rank's thread opens a RankCollector; assertions made on that thread land in it. A failed ASSERT ends the
//         rank's body by an exception (GoogleTest itself only returns from the current function, and the rank would go
//         on while its peers wait). GoogleTest's own verdict is of the process and not used.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/record/result.hpp"

namespace testing {
class TestPartResult;
}

namespace plumbline::worker {

/// Of an assertion that failed: with the fields of the finding that its thread reports (suite::Reporting), or else with
/// the requirement that its words name.
[[nodiscard]] record::Failure failure_of(const testing::TestPartResult& part);
/// A failure with its message cut to what a record should hold: subjects and adapters write what they like.
[[nodiscard]] record::Failure failure(std::string where, std::string message);
/// Of an exception that ended a rank's body: `what` it says, nothing where its type is not known.
[[nodiscard]] record::Failure uncaught(const std::optional<std::string>& what);

/// Collects the failures of the thread that it lives on.
class RankCollector {
 public:
  /// `note` is told of each failure as it is found, and may add to its message.
  explicit RankCollector(std::function<void(record::Failure&)> note = {});
  ~RankCollector();
  RankCollector(const RankCollector&) = delete;
  RankCollector& operator=(const RankCollector&) = delete;

  void add(record::Failure failure);
  [[nodiscard]] const std::vector<record::Failure>& failures() const { return failures_; }
  /// The requirements that the failures name, as "TRAIN-006: …" at the begin of a line; none where one names none.
  [[nodiscard]] std::vector<std::string> violated() const;

 private:
  std::function<void(record::Failure&)> note_;
  std::vector<record::Failure> failures_;
  std::size_t dropped_ = 0;
  std::set<std::string> named_;  // of all failures, also of those that are not kept
  bool one_names_none_ = false;
  RankCollector* outer_;
};

/// GoogleTest as a runner of single cases.
class CaseRunner {
 public:
  /// Prepares GoogleTest for this process, once.
  CaseRunner();
  CaseRunner(const CaseRunner&) = delete;
  CaseRunner& operator=(const CaseRunner&) = delete;
  /// Runs `body` as GoogleTest's one test. Returns the failures on threads that are no rank's, among them,
  /// if it comes to that, that GoogleTest ran another number of tests than one.
  std::vector<record::Failure> run(const std::function<void()>& body);

 private:
  std::function<void()> body_;
};

}  // namespace plumbline::worker
