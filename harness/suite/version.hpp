// harness/suite/version.hpp: versions in order, and names with ranges of them: "acme-ccl >=2.4,<3".
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::suite {

/// Whether `text` reads as a version: digits in parts divided by dots, a "v" before and a suffix after it allowed
/// ("v2.4", "2.5.0rc1", "2.4.1+cu121", "8").
[[nodiscard]] bool is_version(std::string_view text);

/// Part by part as numbers, absent parts as 0. A suffix that begins with a, alpha, b, beta, dev, pre, preview or rc
/// comes before the bare version (2.5.0rc1 < 2.5.0), any other after it (2.4.1 < 2.4.1.post1, 6.18.44 < 6.18.44-fc);
/// numbers in suffixes are compared as such, and what follows a + does not count. Of texts that are versions.
[[nodiscard]] std::strong_ordering compare_versions(std::string_view left, std::string_view right);

/// The first version in words of a runtime: "4.1.4" of "Open MPI v4.1.4, package …"; empty without one.
[[nodiscard]] std::string version_in(std::string_view words);

/// What a run's subject calls itself.
struct Identity {
  std::string name;     // "acme-ccl"; of an adapter and a job their command
  std::string version;  // empty: it does not say
  [[nodiscard]] std::string describe() const { return version.empty() ? name : name + " " + version; }
};

/// The subjects for which something was written.
class SubjectRange {
 public:
  /// "acme-ccl", "acme-ccl >=2.4,<3", or any name with * and ?, a command with its arguments too: bounds begin at the
  /// first comparison after a space. Throws InvalidArgument, saying what would be right.
  explicit SubjectRange(std::string_view text);
  /// A subject that does not say its version matches only a name alone.
  [[nodiscard]] bool matches(const Identity& subject) const;
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  struct Bound {
    std::string comparison;  // ==, !=, <, <=, >, >=
    std::string version;
  };
  std::string text_;
  std::string name_;
  std::vector<Bound> bounds_;
};

/// Whether an order satisfies ==, !=, <, <=, > or >=.
[[nodiscard]] bool satisfies(std::partial_ordering order, std::string_view comparison);

}  // namespace plumbline::suite
