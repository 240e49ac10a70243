#include "harness/record/file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"
#include "reference/support/reading_json.hpp"

namespace plumbline::record {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

void write_all(int file, const std::string& text, const fs::path& path) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw RuntimeFailure(fmt::format("cannot write '{}': {}", path.string(), std::strerror(errno)));
    done += static_cast<std::size_t>(count);
  }
}

std::string read_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw RuntimeFailure(fmt::format("cannot read '{}': {}", path.string(), std::strerror(errno)));
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

void Writer::refuse(const char* what, int error) const {
  throw RuntimeFailure(fmt::format("cannot {} '{}': {}", what, path_.string(), std::strerror(error)));
}

Writer::Writer(const fs::path& folder) : path_(folder / "run.jsonl") {
  folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) refuse("write", errno);
  if (::flock(folder_, LOCK_EX | LOCK_NB) != 0) {
    ::close(folder_);
    throw RuntimeFailure(fmt::format("'{}' is being written by another run; give another --out", path_.string()));
  }
}

Writer::Writer(const fs::path& folder, const Header& header)
    : Writer([&] {
        std::error_code error;
        fs::create_directories(folder, error);
        if (error) throw RuntimeFailure(fmt::format("cannot make folder '{}': {}", folder.string(), error.message()));
        return folder;
      }()) {
  fresh_ = path_.string() + ".new";
  file_ = ::open(fresh_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file_ < 0) refuse("write", errno);
  append(header);
}

Writer Writer::resume(const fs::path& folder) {
  Writer writer(folder);
  const std::string text = read_text(writer.path_);
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  writer.file_ = ::open(writer.path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (writer.file_ < 0) writer.refuse("write", errno);
  if (whole != text.size() && ::ftruncate(writer.file_, static_cast<off_t>(whole)) != 0) writer.refuse("cut", errno);
  writer.append({{"type", "resumed"}, {"torn_bytes", text.size() - whole}});
  return writer;
}

Writer::~Writer() {
  if (file_ >= 0) {
    ::close(file_);
    if (!in_place()) ::unlink(fresh_.c_str());
  }
  if (folder_ >= 0) ::close(folder_);
}

Writer::Writer(Writer&& other) noexcept
    : path_(std::move(other.path_)),
      fresh_(std::move(other.fresh_)),
      folder_(std::exchange(other.folder_, -1)),
      file_(std::exchange(other.file_, -1)),
      described_(other.described_) {}

void Writer::append(const json& line) {
  // Output of a subject may be any bytes: what is no UTF-8 is replaced, never an error.
  write_all(file_, line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n", path_);
}

void Writer::append_content(const json& line) {
  append(line);
  if (in_place()) return;
  if (::rename(fresh_.c_str(), path_.c_str()) != 0) refuse("write", errno);
  fresh_.clear();
}

void Writer::subject(const json& description) {
  if (std::exchange(described_, true)) return;
  json line{{"type", "subject"},
            {"capabilities", description.value("capabilities", json::object())},
            {"environment", description.value("environment", json::object())}};
  if (!description.value("one_host", true)) line["one_host"] = false;
  for (const char* claim : {"name", "version", "conventions", "operations", "options"})
    if (const auto said = description.find(claim); said != description.end()) line[claim] = *said;
  append(line);
}

void Writer::note(const std::string& text) { append({{"type", "note"}, {"text", text}}); }

void Writer::stopped(const std::string& why) { append_content({{"type", "stopped"}, {"why", why}}); }

void Writer::complete(double seconds, const std::map<std::string, RequirementTally>& requirements) {
  json line{{"type", "complete"}, {"seconds", seconds}};
  if (!requirements.empty()) line["requirements"] = requirements;
  append_content(line);
}

Run read(const fs::path& file) {
  const std::string text = read_text(file);
  Run run;
  std::map<std::string, std::size_t> position;  // of a key among the results or the controls
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // torn
    ++number;
    try {
      const json line = reading::parse_flat(text.substr(begin, end - begin));
      const auto type = line.at("type").get<std::string>();
      if (number == 1 && (type != "header" || line.at("schema") != kSchema))
        throw InvalidArgument(fmt::format("the first line is no header of schema {}", kSchema));
      if (type == "header") run.header = line.get<Header>();
      if (type == "subject") run.subject = line;
      if (type == "measurement") run.measurements.push_back(line.get<Measurement>());
      if (type == "step") run.steps.push_back(line.get<Step>());
      if (type == "complete") {
        run.complete = true;
        run.seconds = line.at("seconds").get<double>();
        run.requirements = line.value("requirements", run.requirements);
      }
      if (type == "resumed") {
        run.complete = false;
        run.stopped.clear();
        run.requirements.clear();
      }
      if (type == "stopped") run.stopped = line.at("why").get<std::string>();
      if (type == "result") {
        auto result = line.get<Result>();
        std::vector<Result>& list = result.role == "control" ? run.controls : run.results;
        const auto [entry, fresh] = position.emplace(result.key(), list.size());
        if (fresh)
          list.push_back(std::move(result));
        else
          list[entry->second] = std::move(result);
      }
    } catch (const json::parse_error& error) {
      throw InvalidArgument(fmt::format("{}:{}: no JSON from byte {} on; a run record has one JSON object a line",
                                        file.string(), number, error.byte));
    } catch (const std::exception& error) {
      // Without the library's "[json.exception.out_of_range.403] ".
      const std::string_view words = error.what();
      const std::size_t begin = words.starts_with("[json.") ? words.find("] ") + 2 : 0;
      throw InvalidArgument(
          fmt::format("{}:{}: not a line of a run record: {}", file.string(), number, words.substr(begin)));
    }
    begin = end + 1;
  }
  if (number == 0)
    throw InvalidArgument(
        fmt::format("{}: there is no line of a run record in it; give the run.jsonl of a run", file.string()));
  return run;
}

namespace {

// Whether somebody else may have put a link into a folder that all can write, as the kernel's protected_symlinks asks.
bool is_strangers_link(const fs::path& file) {
  struct stat link{}, folder{};
  const fs::path parent = file.has_parent_path() ? file.parent_path() : ".";
  if (::lstat(file.c_str(), &link) != 0 || !S_ISLNK(link.st_mode) || ::stat(parent.c_str(), &folder) != 0) return false;
  return (folder.st_mode & S_IWOTH) != 0 && link.st_uid != ::geteuid() && link.st_uid != folder.st_uid;
}

// Where a link leads, or the file itself.
fs::path target_of(const fs::path& file) {
  if (is_strangers_link(file))
    throw RuntimeFailure(
        fmt::format("cannot write '{}': it is another user's link in a folder that all can write", file.string()));
  std::error_code error;
  const fs::path target = fs::is_symlink(file, error) ? fs::weakly_canonical(file, error) : file;
  if (error == std::errc::no_such_file_or_directory) return file;
  if (error) throw RuntimeFailure(fmt::format("cannot write '{}': {}", file.string(), error.message()));
  return target;
}

// Returns what went wrong, as errno.
int write_and_close(int descriptor, const std::string& text, const fs::path& file) {
  try {
    write_all(descriptor, text, file);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  return ::close(descriptor) == 0 ? 0 : errno;  // a full disk may show only here
}

}  // namespace

void write_file(const fs::path& file, const std::string& text) {
  const auto refuse = [&](int error) {
    throw RuntimeFailure(fmt::format("cannot write '{}': {}", file.string(), std::strerror(error)));
  };
  const fs::path target = target_of(file);
  struct stat there{};
  const bool exists = ::stat(target.c_str(), &there) == 0;
  if (exists && !S_ISREG(there.st_mode)) {  // a device or a pipe stays one
    const int descriptor = ::open(target.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) refuse(errno);
    if (const int error = write_and_close(descriptor, text, file)) refuse(error);
    return;
  }
  const fs::path fresh = target.string() + ".new";
  const int descriptor = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) refuse(errno);
  if (exists) (void)::fchmod(descriptor, there.st_mode & 07777);
  try {
    int error = write_and_close(descriptor, text, file);
    if (error == 0 && ::rename(fresh.c_str(), target.c_str()) != 0) error = errno;
    if (error != 0) refuse(error);
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
}

}  // namespace plumbline::record
