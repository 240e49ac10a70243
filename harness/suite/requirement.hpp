// harness/suite/requirement.hpp: one testable sentence that a subject must, should or may satisfy.
//
// Model   conformance/<component>/requirements.toml holds the rows, and in [terms] the meaning of technical words. An
//         id is permanent. A check cites a requirement with the hash of its sentence, "COLL-014@45a4": a reworded
//         sentence voids its evidence until someone has looked.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline::suite {

enum class Level { must, should, may };
[[nodiscard]] std::string_view name_of(Level level);

struct Requirement {
  std::string id;         // "COLL-014"
  std::string component;  // "collectives"
  Level level = Level::must;
  std::string since;                 // suite version
  std::string text;                  // a sentence, or one and a list, whose items are lines that begin with "- "
  std::string rationale;             // why it is required, where that is not obvious; else empty
  std::vector<std::string> sources;  // catalogue rows, papers, sections
  std::vector<std::string> checks;   // ids of the checks that verify it
  std::vector<std::string> mutants;  // names of the mutants that violate it
  std::vector<std::string> needs;    // capabilities without which it does not apply
  std::vector<std::string> tags;

  /// "COLL-014@45a4".
  [[nodiscard]] std::string citation() const;
};

/// A word of a component's requirements, and what it means there, in a sentence.
struct Term {
  std::string forms;  // the word, or several forms of it: "claim, claims, claimed"
  std::string meaning;
};

/// Four hexadecimal digits of the sentence (FNV-1a, folded to 16 bits); white space counts as one blank.
[[nodiscard]] std::string sentence_hash(std::string_view text);

/// A requirement's text with `separator` in place of the line break before each item of its list.
[[nodiscard]] std::string with_items_after(std::string_view separator, std::string_view text);

/// The requirements of a suite, by id.
class RequirementTable {
 public:
  /// Adds the rows of a requirements.toml. `origin` is named in errors. Throws InvalidArgument with file, line and what
  /// is wrong: syntax, an unknown or missing field, an id of another form, an id used twice.
  void add_toml(std::string_view text, std::string_view origin);
  /// The same when the table is first read, which throws then: workers read none. Text and origin must outlive it.
  void add_toml_later(std::string_view text, std::string_view origin);

  [[nodiscard]] const std::map<std::string, Requirement>& rows() const;
  /// The requirement of that id, or nullptr.
  [[nodiscard]] const Requirement* find(std::string_view id) const;
  /// By alphabet; none where the component's files have no [terms].
  [[nodiscard]] std::vector<Term> terms_of(std::string_view component) const;
  /// Those that occur in the requirement's text: whole words, also in the plural.
  [[nodiscard]] std::vector<Term> terms_in(const Requirement& requirement) const;

 private:
  struct Read {
    std::map<std::string, Requirement> rows;
    std::map<std::string, std::map<std::string, std::string>, std::less<>> terms;  // by component and forms
    std::vector<std::pair<std::string_view, std::string_view>> later;              // texts and origins
    std::mutex reading;
  };
  [[nodiscard]] const Read& read() const;
  std::unique_ptr<Read> read_ = std::make_unique<Read>();
};

/// "COLL-014" of "COLL-014@45a4"; the whole text where there is no hash.
[[nodiscard]] std::string_view id_of_citation(std::string_view citation);

}  // namespace plumbline::suite
