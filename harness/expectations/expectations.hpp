// harness/expectations/expectations.hpp: what the owner of a subject knows that it does wrong, from a TOML file.
//
// Model   An entry names cases, says how they end, and why. Of the entries that name a case and whose `when` holds, the
//         most specific counts: the one whose id has the most characters other than * and ?, and of those the one with
//         a `when`. The order of entries and files means nothing: two that are equally specific and disagree are an
//         error.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/expectations/facts.hpp"
#include "harness/run/findings.hpp"
#include "harness/suite/version.hpp"

namespace plumbline::expectations {

/// So long before its end an entry is warned of.
inline constexpr std::chrono::days kWarnBefore{14};

struct Entry {
  std::string id;  // a pattern: suite::names_case()
  record::Expectation expectation;
  std::optional<Condition> when;
  std::string when_text;
  std::optional<std::chrono::sys_days> until;  // the last day on which it counts

  std::filesystem::path file;
  bool included = false;  // from a file that the named one includes
  // Lines and columns from 1; a column is a character.
  int line = 0;  // of [[expect]]
  int last_line = 0;
  int verdict_line = 0, verdict_column = 0;

  [[nodiscard]] bool expired(std::chrono::sys_days today) const { return until && *until < today; }
  /// Whether it names the case as such, or one of `requirements`.
  [[nodiscard]] bool names(const record::Result& one, const std::vector<std::string>& requirements) const;
  /// Whether it names the case as such, or a requirement that is at stake there.
  [[nodiscard]] bool names(const record::Result& one) const { return names(one, run::at_stake(one)); }
  /// Whether it names the case and its condition holds.
  [[nodiscard]] bool applies(const record::Result& one, const Facts& facts) const;
};

class Expectations {
 public:
  /// Reads a file and those that it includes. Throws NotFound for a file that is not there, and InvalidArgument, with
  /// file, line and column, for anything that is wrong in it: no TOML, an unknown or missing field, an unknown verdict,
  /// a bad condition, an id that names no case of the suite, a file that includes itself, entries that contradict each
  /// other.
  static Expectations read(const std::filesystem::path& file, const suite::Suite& suite, std::chrono::sys_days today);
  /// The same, of a file that has `text`.
  static Expectations of_text(const std::string& text, const std::filesystem::path& file, const suite::Suite& suite,
                              std::chrono::sys_days today);

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  /// The file, then those that it includes.
  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }
  [[nodiscard]] std::chrono::sys_days today() const { return today_; }
  /// The last line that a field before the first entry of the file reaches; 0 where there is none.
  [[nodiscard]] int last_line_of_head() const { return last_line_of_head_; }

  /// Throws InvalidArgument, naming both, where a file was written for another subject.
  void require_subject(const suite::Identity& subject) const;

  /// The entry that counts for a case, or nullptr. Of a result whose failures name requirements each must be covered,
  /// by an entry for it or for the case: or else something is violated that nobody expects. Where those entries differ,
  /// it is one that expects another end. Throws InvalidArgument, naming both places, for two that contradict each
  /// other.
  [[nodiscard]] const Entry* find(const record::Result& one, const Facts& run) const;
  /// The same for each requirement that the failures name, in their order: nullptr for one that no entry covers. Where
  /// they name none it is one entry, or nullptr.
  [[nodiscard]] std::vector<const Entry*> find_each(const record::Result& one, const Facts& run) const;

  /// A line each: entries that count no more, and those that soon will not.
  [[nodiscard]] std::vector<std::string> expired() const;
  [[nodiscard]] std::vector<std::string> soon_expired() const;

 private:
  friend class Reader;
  struct Subject {
    suite::SubjectRange range;
    std::string place;
  };
  std::vector<Entry> entries_;
  std::vector<std::string> files_;
  std::vector<Subject> subjects_;
  int last_line_of_head_ = 0;
  std::chrono::sys_days today_;
};

/// Today, in UTC.
[[nodiscard]] std::chrono::sys_days today();

}  // namespace plumbline::expectations
