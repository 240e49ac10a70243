#include "harness/cli/output_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <iostream>
#include <regex>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace plumbline::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRuns = "results/runs";
constexpr const char* kLatest = "results/latest";

void make_parent(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw RuntimeFailure(
        fmt::format("cannot make folder '{}': {}; --out names another", folder.string(), error.message()));
}

std::string dated_name(std::time_t time, const std::string& name) {
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  char stamp[32];
  (void)std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
  return fmt::format("{}-{}", stamp, name);
}

// mkdir() is for one alone: of two runs of one second, the later is dated at the next, so that names sort by age.
fs::path make_dated_folder(std::time_t time, const std::string& name) {
  make_parent(kRuns);
  for (;; ++time) {
    const fs::path folder = fs::path(kRuns) / dated_name(time, name);
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST)
      throw RuntimeFailure(
          fmt::format("cannot make folder '{}': {}; --out names another", folder.string(), std::strerror(errno)));
  }
}

// What a link in results/latest says: it holds wherever the tree is moved.
std::string seen_from_latest(const fs::path& folder) { return fs::relative(folder, kLatest).string(); }

// A folder in the place of the link. Returns where it is now; empty: another run has moved it before.
fs::path keep_older_folder(const fs::path& old, const std::string& name) {
  const FolderLock lock(old);
  struct stat status{};
  if (::stat(old.c_str(), &status) != 0) return {};
  if (!lock.held())
    throw RuntimeFailure(fmt::format("'{}' is being written by another run; give another --out", old.string()));
  const fs::path kept = make_dated_folder(status.st_mtime, name);
  if (::rename(old.c_str(), kept.c_str()) == 0) {
    std::cerr << "plumbline: '" << old.string() << "' is a link from now on; what was there is in '" << kept.string()
              << "'\n";
    return kept;
  }
  const int why = errno;
  ::rmdir(kept.c_str());
  if (why == ENOENT) return {};
  throw RuntimeFailure(fmt::format("cannot move '{}' to '{}': {}; --out names another", old.string(), kept.string(),
                                   std::strerror(why)));
}

// What a link to the newest folder of that name says; empty: there is none.
std::string newest_of(const std::string& name) {
  const std::regex of_name(R"(\d{8}T\d{6}Z-(.+))");
  fs::path newest;
  for (const fs::directory_entry& entry : fs::directory_iterator(kRuns)) {
    std::smatch found;
    const std::string folder = entry.path().filename().string();
    if (std::regex_match(folder, found, of_name) && found.str(1) == name) newest = std::max(newest, entry.path());
  }
  return newest.empty() ? "" : seen_from_latest(newest);
}

}  // namespace

std::string name_in_latest(const std::string& folder) {
  fs::path normal = fs::path(folder).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  return normal.parent_path() == kLatest ? normal.filename().string() : "";
}

OutputFolder OutputFolder::at(std::string folder) {
  OutputFolder out("");
  out.given_ = std::move(folder);
  return out;
}

void OutputFolder::add_to(CLI::App& app, const std::string& what, const std::string& but) {
  app.add_option("--out", given_,
                 fmt::format("{} (default: a dated folder under {}; {}/{} links to it{})", what, kRuns, kLatest, name_,
                             but.empty() ? "" : "; " + but))
      ->type_name("DIR");
}

fs::path OutputFolder::link() const { return fs::path(kLatest) / name_; }

std::string OutputFolder::path() const {
  if (is_given()) return given_;
  return chosen_.empty() ? link().string() : chosen_;
}

// Returns what the link said, or would say of a folder in its place.
std::string OutputFolder::clear_link() const {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(link(), error);
  if (fs::is_symlink(there)) return fs::read_symlink(link(), error).string();
  if (fs::is_directory(there)) {
    const fs::path kept = keep_older_folder(link(), name_);
    return kept.empty() ? "" : seen_from_latest(kept);
  }
  if (fs::exists(there))
    throw RuntimeFailure(
        fmt::format("'{}' is a file, and would be a link; move it away, or give --out", link().string()));
  return {};
}

// Replaces it at once: whoever looks finds the one or the other.
void OutputFolder::point_link(const std::string& target) const {
  const fs::path fresh = fs::path(kLatest) / fmt::format(".{}.new", fs::path(chosen_).filename().string());
  ::unlink(fresh.c_str());
  if (::symlink(target.c_str(), fresh.c_str()) == 0 && ::rename(fresh.c_str(), link().c_str()) == 0) return;
  const int why = errno;
  ::unlink(fresh.c_str());
  throw RuntimeFailure(
      fmt::format("cannot make link '{}': {}; give a folder with --out", link().string(), std::strerror(why)));
}

void OutputFolder::make() {
  if (const std::string name = name_in_latest(given_); !name.empty()) {
    name_ = name;
    given_.clear();
  }
  if (is_given() || !chosen_.empty()) return;
  make_parent(kLatest);
  before_ = clear_link();
  chosen_ = make_dated_folder(std::time(nullptr), name_).string();
  try {
    point_link(seen_from_latest(chosen_));
  } catch (...) {
    ::rmdir(chosen_.c_str());
    throw;
  }
  is_made_ = true;
}

void OutputFolder::reuse_last() {
  if (is_given()) return;
  std::error_code error;
  if (!fs::is_directory(link(), error))
    throw InvalidArgument(fmt::format("--resume: there is no record in '{}'", link().string()));
  chosen_ = link().string();
  if (!fs::is_symlink(link(), error)) return;
  const fs::path folder = fs::canonical(link(), error);
  if (folder.parent_path() != fs::weakly_canonical(kRuns, error))
    throw InvalidArgument(fmt::format("--resume: '{}' links to '{}', which is not in {}; name the folder with --out",
                                      link().string(), folder.string(), kRuns));
  chosen_ = (fs::path(kRuns) / folder.filename()).string();
}

void OutputFolder::discard() {
  std::error_code error;
  if (!is_made_ || fs::exists(fs::path(chosen_) / "run.jsonl", error)) return;
  try {
    // A run that began after this one keeps its link. One that began before it may have been rejected, too.
    const bool is_last = fs::read_symlink(link(), error) == seen_from_latest(chosen_);
    fs::remove_all(chosen_, error);
    if (!before_.empty() && !fs::exists(fs::path(kLatest) / before_, error)) before_ = newest_of(name_);
    if (is_last && !before_.empty()) point_link(before_);
    if (is_last && before_.empty()) fs::remove(link(), error);
  } catch (const std::exception&) {
    // What the run was rejected for is the error to print.
  }
  is_made_ = false;
}

FolderLock::FolderLock(const fs::path& folder)
    : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      held_(folder_ >= 0 && ::flock(folder_, LOCK_EX | LOCK_NB) == 0) {}

FolderLock::~FolderLock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace plumbline::cli
