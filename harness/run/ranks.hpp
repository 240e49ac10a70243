// harness/run/ranks.hpp: what the ranks of one case come to: a verdict, and why in one line.
//
// Model   The driver sees reports, processes that end and the clock; here that becomes each rank's verdict, and theirs
//         the case's. What a rank suffers through another's failure does not count, unless no other failed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/record/result.hpp"

namespace plumbline::run {

/// A verdict, and why in one line.
struct Word {
  record::Verdict verdict = record::Verdict::missing;
  std::string reason;
};

/// How one rank ended, as the driver saw it.
struct RankEnd {
  std::optional<record::RankResult> reported;
  bool lost = false;       // its process was among the first to go
  bool signalled = false;  // and its thread received the signal that ended the process
};

/// A result for each rank: what it reported. One that did not report has crashed where its process went first (of the
/// threads of one process: the one that received a signal, where one did), hangs where the time was up (`late`), and is
/// aborted else.
[[nodiscard]] std::vector<record::RankResult> rank_results(const std::vector<RankEnd>& ends, bool late, double seconds);

/// Of a rank that reported twice: one of its reports is false, so that neither counts.
[[nodiscard]] record::RankResult contradicted(const record::RankResult& first, record::RankResult second);

/// How a case ended.
struct CaseEnd {
  std::vector<record::RankResult> ranks;     // by rank
  std::vector<int> reported;                 // ranks, in the order of their reports
  std::vector<record::Failure> strays = {};  // on threads that are no rank's
  bool death = false;                        // a process of the group ended before the case did
  std::set<int> lost = {};                   // ranks whose process went first, whether they had reported or not
  std::map<int, std::string> ends = {};      // how the process of a rank ended: "was killed by signal 9 (Killed)"
  bool all_back = true;                      // every worker that took part is ready for the next case
  bool is_job = false;                       // its one rank asks a job and is none of the job's
  double seconds = 0;
};

struct CaseWord {
  Word word;
  std::vector<record::RankResult> ranks;
};

/// The verdict of the case. The first that holds of: a rank met an error of the harness or machine; a rank failed
/// (failure_cause); the subject refused; something was not asked; a rank skipped, and no process ended; a crash or hang
/// that a rank lived to report; a crash; a hang; a failure on a thread that is no rank; a rank gave its peers up
/// although none had failed: a fail; a worker did not come back: a hang. Else a pass.
[[nodiscard]] CaseWord word_of_case(const CaseEnd& end);

/// The position of the rank whose failure is the cause of the others': of a failed assertion before an exception that
/// ended a rank's body, since a call throws also where a peer has left; then the first to report, as `reported` has
/// their order. Nothing where none failed.
[[nodiscard]] std::optional<std::size_t> failure_cause(const std::vector<record::RankResult>& ranks,
                                                       const std::vector<int>& reported);

/// A pass does not stand where ranks called differently in one group (`different`) or came to two groups in different
/// orders (`crossed`); each says so in words, and is empty where it is not so.
[[nodiscard]] Word judged_by_calls(Word word, const std::string& different, const std::string& crossed);

}  // namespace plumbline::run
