#include "harness/launch/stacks.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/launch/process.hpp"
#include "harness/subject/guarded_process.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::launch {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto kDebuggerLimit = 10s;
constexpr auto kAnswerLimit = 2s;          // of all threads that are asked
constexpr std::size_t kLongest = 64'000;   // bytes of a process' stacks that are worth keeping
constexpr std::size_t kLongestLine = 240;  // template arguments go on for ever

// Threads and frames; not what gdb says about itself and about libraries without symbols.
std::string telling_lines(const fs::path& file) {
  std::ifstream stream(file);
  std::string text;
  for (std::string line; std::getline(stream, line) && text.size() < kLongest;)
    if (line.starts_with("Thread ") || line.starts_with("#")) text += line.substr(0, kLongestLine) + "\n";
  return text;
}

// gdb at work on one process.
class Debugger {
 public:
  Debugger(pid_t process, const fs::path& folder)
      : process_(process),
        output_(folder / std::to_string(process)),
        child_({.arguments = {"gdb", "-p", std::to_string(process), "-batch", "-nx", "-ex",
                              "set debuginfod enabled off", "-ex", "thread apply all bt 16"},
                .environment = {},
                .output = output_,
                .death_signal = SIGKILL}) {}
  [[nodiscard]] bool ended() { return child_.ended().has_value(); }
  [[nodiscard]] pid_t process() const { return process_; }
  [[nodiscard]] std::string stacks() const { return telling_lines(output_); }

 private:
  pid_t process_;
  fs::path output_;
  Child child_;
};

// By process; those of which gdb could say nothing are absent.
std::map<pid_t, std::string> by_debugger(const std::vector<pid_t>& processes) {
  std::map<pid_t, std::string> stacks;
  if (!find_program("gdb")) return stacks;
  const ScratchFolder folder;
  std::list<Debugger> debuggers;
  for (const pid_t process : processes) debuggers.emplace_back(process, folder.path());
  const auto begun = std::chrono::steady_clock::now();
  while (std::ranges::any_of(debuggers, [](Debugger& one) { return !one.ended(); }) &&
         std::chrono::steady_clock::now() - begun < kDebuggerLimit)
    std::this_thread::sleep_for(20ms);
  for (Debugger& debugger : debuggers)
    if (std::string text = debugger.stacks(); !text.empty())
      stacks[debugger.process()] = text + (debugger.ended() ? "" : "(the debugger was not done after ten seconds)\n");
  return stacks;
}

using Clock = std::chrono::steady_clock;

// Whether a thread has yet to return from its handler: the signal waits for it, or is blocked while the handler runs.
bool answering(const fs::path& thread) {
  return subject::status_has(thread.string(), {"SigPnd:", "SigBlk:"}, stack_signal());
}

// One after the other, since they share a file. Who is stopped, or keeps the signal blocked, never answers; who does
// not catch it yet would die of it.
void ask_threads(pid_t process, Clock::time_point limit) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/task", process), error)) {
    const fs::path& thread = entry.path();
    if (!subject::status_has(thread.string(), {"SigCgt:"}, stack_signal()) || answering(thread)) continue;
    ::syscall(SYS_tgkill, process, std::atoi(thread.filename().c_str()), stack_signal());
    do std::this_thread::sleep_for(10ms);
    while (answering(thread) && Clock::now() < limit);
  }
}

}  // namespace

int stack_signal() { return SIGRTMIN + 5; }

std::string stacks_of(const std::vector<pid_t>& processes) {
  std::map<pid_t, std::string> found;
  try {
    found = by_debugger(processes);
  } catch (const Error&) {
    // Evidence is no reason to end a run: the threads are asked instead.
  }
  std::string text;
  const auto limit = Clock::now() + kAnswerLimit;
  for (const pid_t process : processes) {
    if (found.contains(process))
      text += fmt::format("stacks of process {}:\n{}", process, found[process]);
    else
      ask_threads(process, limit);
  }
  return text;
}

}  // namespace plumbline::launch
