// harness/cli/output_folder.hpp: where a run writes: the folder of --out, or a new one that no other run has.
//
// Model   Without --out a run makes results/runs/<UTC time>-NAME for itself alone, and the link results/latest/NAME
//         leads there from then on. Nothing is written through the link, so it does not matter where it led before.
#pragma once

#include <exception>
#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

#include "harness/cli/arguments.hpp"

namespace plumbline::cli {

/// NAME of results/latest/NAME, where links are: --out with it is as none, under that name. Empty for other folders.
[[nodiscard]] std::string name_in_latest(const std::string& folder);

class OutputFolder {
 public:
  /// Of a command whose link is results/latest/NAME.
  explicit OutputFolder(std::string name) : name_(std::move(name)) {}
  /// As with --out DIR.
  [[nodiscard]] static OutputFolder at(std::string folder);

  /// Adds --out: `what` it is, and `but` what else is to be said of its default.
  void add_to(CLI::App& app, const std::string& what, const std::string& but = "");
  /// Where the name depends on the subject.
  void rename(std::string name) { name_ = std::move(name); }

  [[nodiscard]] bool is_given() const { return !given_.empty(); }
  /// The folder of --out, or that which make() or reuse_last() chose; before that, the link.
  [[nodiscard]] std::string path() const;

  /// Without --out: makes the folder, and has the link lead there. A folder in the place of the link, as earlier
  /// versions left it, is kept in results/runs under its own time. Throws RuntimeFailure.
  void make();
  /// Without --out, of a run that goes on: the folder that the link leads to. Throws InvalidArgument where there is
  /// none, or it is not one of results/runs.
  void reuse_last();
  /// Undoes make(), unless there is a record in the folder.
  void discard();

 private:
  [[nodiscard]] std::filesystem::path link() const;
  [[nodiscard]] std::string clear_link() const;
  void point_link(const std::string& target) const;

  std::string name_, given_, chosen_;
  std::string before_;    // what the link said; empty: there was none
  bool is_made_ = false;  // chosen_, by this run
};

/// What `body` returns, which writes in the folder. A run whose options are rejected leaves none.
template <class Body>
int in_output_folder(OutputFolder& out, const Body& body) {
  constexpr int kUsageError = 2;
  out.make();
  try {
    const int status = body();
    if (status == kUsageError) out.discard();
    return status;
  } catch (const std::exception& error) {
    if (is_usage_error(error)) out.discard();
    throw;
  }
}

/// Held while files in a folder are changed: a run that writes there has it (record::Writer).
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  [[nodiscard]] bool held() const { return held_; }

 private:
  int folder_;
  bool held_;
};

}  // namespace plumbline::cli
