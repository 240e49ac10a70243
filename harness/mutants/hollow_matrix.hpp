// harness/mutants/hollow_matrix.hpp: what the checks of each component made of each hollow subject.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/suite/hollow_truths.hpp"

namespace plumbline::mutants {

/// One subject and one component. Requirements by id; reasons are those of HollowTruths.
struct HollowRow {
  std::string subject, component;
  std::set<std::string> failed;
  std::set<std::string> unmet;                 // in their cases the subject did what the right one does
  std::map<std::string, std::string> allowed;  // pass, and why they may
  std::set<std::string> unexplained;           // pass without a reason: their checks judge nothing
  std::map<std::string, std::string> in_vain;  // fail, and have a reason why they pass
  std::set<std::string> undecided;             // none of their cases came to a verdict
  [[nodiscard]] bool good() const { return unexplained.empty() && in_vain.empty(); }
};

/// The verdicts of many cases on many hollow subjects.
class HollowMatrix {
 public:
  explicit HollowMatrix(suite::HollowTruths truths) : truths_(std::move(truths)) {}
  /// Why the requirement is true of the subject; null where the truths do not list it.
  [[nodiscard]] const std::string* reason_of(const std::string& subject, const std::string& requirement) const;
  /// A case that verifies the requirement was run. `deviated`: the subject did something other than the right one
  /// would.
  void add(const std::string& subject, const std::string& component, const std::string& requirement, bool deviated,
           bool violated);
  /// A case that verifies the requirement was to run, and came to no verdict.
  void add_undecided(const std::string& subject, const std::string& component, const std::string& requirement);
  /// Whether a case has found it violated, or passed where hollow.toml has it true of the subject.
  [[nodiscard]] bool is_decided(const std::string& subject, const std::string& requirement) const;
  /// Whether the subject did something other than the right one would in a case that verifies it.
  [[nodiscard]] bool is_met(const std::string& subject, const std::string& requirement) const;
  /// By subject, then by component.
  [[nodiscard]] std::vector<HollowRow> rows() const;

 private:
  struct Seen {
    std::string component;
    bool judged = false, deviated = false, violated = false;
  };
  suite::HollowTruths truths_;
  std::map<std::pair<std::string, std::string>, Seen> seen_;  // by subject and requirement
};

/// A table in Markdown: subject, component, how many requirements failed, passed, did not meet it and were not decided;
/// then the reasons for which requirements pass.
[[nodiscard]] std::string to_markdown(const std::vector<HollowRow>& rows);

}  // namespace plumbline::mutants
