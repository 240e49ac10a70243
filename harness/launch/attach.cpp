#include "harness/launch/attach.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"

namespace plumbline::launch {
namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr auto kTimeToAppear = 60s;
constexpr auto kTimeToRead = 10s;
constexpr auto kTimeToSay = 5s;    // until the driver, on rank 0, has said why a rank ended
constexpr auto kTimeToPrint = 1s;  // until it has said what the rank itself reported to it
constexpr int kUsage = 2;          // status of a rank that reported that the user's options are wrong

// File names may hold no more than this.
std::string plain(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  return text;
}

int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 3; }

int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return exit_status(status);
}

// ---- the file through which the ranks of a job find the driver ----

// Written under another name and renamed: nobody reads half of it. It has the token: a file of ours alone, new.
void write_file(const fs::path& file, const json& message) {
  const std::string text = message.dump() + "\n";
  const fs::path fresh = file.string() + ".new";
  ::unlink(fresh.c_str());
  const int descriptor = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  const bool written =
      descriptor >= 0 && ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (descriptor >= 0) ::close(descriptor);
  if (!written || ::rename(fresh.c_str(), file.c_str()) != 0)
    throw RuntimeFailure(fmt::format("cannot write '{}': {}", file.string(), std::strerror(errno)));
}

json read_file(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return json::parse(line, nullptr, false);
}

void remove_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
}

void tell_rendezvous(const fs::path& file, const Rendezvous& rendezvous) {
  if (rendezvous.endpoint.empty()) return remove_file(file);
  write_file(file, {{"endpoint", rendezvous.endpoint},
                    {"token", rendezvous.token},
                    {"group", rendezvous.group},
                    {"folder", rendezvous.folder}});
}

// There is no driver to join, and this is the job's status. A rank that has read it appends a byte: when all have, the
// file can go. It must not stay, for job names come again.
void tell_status(const fs::path& file, int status, int ranks) {
  try {
    write_file(file, {{"status", status}});
  } catch (const RuntimeFailure&) {
    return;  // the folder cannot be written: that is what the driver has said already
  }
  std::error_code error;
  const auto all_read = fs::file_size(file, error) + static_cast<std::uintmax_t>(ranks);
  for (const auto begin = Clock::now(); fs::file_size(file, error) < all_read && Clock::now() - begin < kTimeToRead;)
    std::this_thread::sleep_for(20ms);
  remove_file(file);
}

void note_as_read(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor < 0) return;  // gone: it was waited for long enough
  (void)!::write(descriptor, "\n", 1);
  ::close(descriptor);
}

// Whether it may be of this job: one that was cut off leaves its file, and its name comes again. Clocks of hosts differ
// by less than ranks wait.
bool is_of_this_job(const fs::path& file) {
  std::error_code error;
  const auto written = fs::last_write_time(file, error);
  return !error && written > fs::file_time_type::clock::now() - 2 * kTimeToAppear;
}

// What the file says; of a driver that ended without a word, its status.
json await_file(const fs::path& file, pid_t driver) {
  for (const auto begin = Clock::now(); Clock::now() - begin < kTimeToAppear;) {
    int ended = 0;
    const bool gone = driver > 0 && ::waitpid(driver, &ended, WNOHANG) == driver;
    if (json said = read_file(file); said.is_object() && is_of_this_job(file)) return said;
    if (gone) return {{"status", exit_status(ended)}, {"untold", true}};
    std::this_thread::sleep_for(20ms);
  }
  throw RuntimeFailure(
      fmt::format("no driver within {} s: rank 0 did not write '{}'; is the --out folder shared by all ranks?",
                  kTimeToAppear.count(), file.string()));
}

// In the child process of rank 0.
[[noreturn]] void drive(const fs::path& file, const subject::Place& place,
                        const std::function<int(const Listening&)>& driver) {
  // When a rank dies the launcher signals rank 0's process group and no longer takes what we print: the driver still
  // has to write it down.
  ::setsid();
  std::signal(SIGPIPE, SIG_IGN);
  bool all_joined = false;
  const int status = driver([&](const Rendezvous& rendezvous) {
    all_joined = rendezvous.endpoint.empty();
    tell_rendezvous(file, rendezvous);
  });
  std::cout.flush();
  if (!all_joined) tell_status(file, status, place.size);
  ::_exit(status);
}

void enter_environment(const json& rendezvous) {
  for (const auto& [variable, key] : {std::pair(kControlVariable, "endpoint"), std::pair(kTokenVariable, "token"),
                                      std::pair("PLUMBLINE_GROUP", "group"), std::pair("PLUMBLINE_SCRATCH", "folder")})
    ::setenv(variable, rendezvous.value(key, "").c_str(), 1);
  for (const auto& [variable, value] : kComputing) ::setenv(variable, value, 1);
}

}  // namespace

int run_attached(const subject::Place& place, const fs::path& folder,
                 const std::function<int(const Listening&)>& driver, const std::function<int()>& worker) {
  const fs::path file = folder / (".control-" + plain(place.job));
  pid_t child = 0;
  if (place.rank == 0) {
    remove_file(file);
    child = ::fork();
    if (child < 0) throw RuntimeFailure(fmt::format("cannot start the driver: {}", std::strerror(errno)));
    if (child == 0) drive(file, place, driver);
  }
  const json said = await_file(file, child);
  if (const auto status = said.find("status"); status != said.end()) {
    note_as_read(file);
    if (said.contains("untold")) tell_status(file, *status, place.size - 1);
    return *status;
  }
  enter_environment(said);
  // A runtime that cannot be initialized ends its process, with a status of its own: this one stays, and has another.
  const pid_t rank = ::fork();
  if (rank < 0) throw RuntimeFailure(fmt::format("cannot start the rank: {}", std::strerror(errno)));
  if (rank == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return worker();
  }
  const int own = status_of(rank);
  if (place.rank == 0) return status_of(child);
  if (own == 0) return 0;
  // The launcher ends all ranks once one has failed.
  std::this_thread::sleep_for(own == kUsage ? kTimeToPrint : kTimeToSay);
  return own == kUsage ? kUsage : 3;
}

}  // namespace plumbline::launch
