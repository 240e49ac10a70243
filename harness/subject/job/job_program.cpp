#include "harness/subject/job/job_program.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include "harness/subject/job/rank_process.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr auto kTimeToEnd = 500ms;  // after SIGTERM

// Whether nobody has the port at any address, at which a program may listen. Of port 0: which one the system gives.
std::optional<int> free_port_at(int port) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(port)), .sin_addr = {htonl(INADDR_ANY)}};
  socklen_t size = sizeof address;
  if (socket.get() < 0 || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return std::nullopt;
  return ntohs(address.sin_port);
}

// A port on which nobody listens now. Not one of those that the system gives to connections: one might take it before rank 0
// listens, even that of a rank that connects too early, which then meets itself.
int free_port() {
  int first_given = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first_given;
  constexpr int kLeast = 10000, kTries = 100;
  std::random_device random;
  if (first_given > 2 * kLeast)
    for (int tries = 0; tries < kTries; ++tries) {
      std::uniform_int_distribution<int> below(kLeast, first_given - 1);
      if (const auto port = free_port_at(below(random))) return *port;
    }
  if (const auto port = free_port_at(0)) return *port;
  throw RuntimeFailure(fmt::format("no free port for MASTER_PORT: {}", std::strerror(errno)));
}

// What a launcher above us may have set, and what is between us and our driver.
constexpr std::array kNotInherited{"RANK",
                                   "WORLD_SIZE",
                                   "LOCAL_RANK",
                                   "LOCAL_WORLD_SIZE",
                                   "MASTER_ADDR",
                                   "MASTER_PORT",
                                   "PLUMBLINE_SPEC",
                                   "PLUMBLINE_RECORD",
                                   "PLUMBLINE_CONTROL",
                                   "PLUMBLINE_TOKEN",
                                   "PLUMBLINE_GROUP",
                                   "PLUMBLINE_SCRATCH"};

class JobRun {
 public:
  JobRun(const JobOptions& options, Clock::time_point deadline, int world, const std::filesystem::path& spec,
         const std::filesystem::path& record)
      : options_(options), deadline_(std::max(deadline, begun_)), world_(world) {
    environment_ = our_environment();
    std::erase_if(environment_, [](const std::string& entry) {
      const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
      return std::ranges::find(kNotInherited, name) != kNotInherited.end();
    });
    for (const auto& [name, value] : {std::pair<const char*, std::string>{"WORLD_SIZE", std::to_string(world)},
                                      {"LOCAL_WORLD_SIZE", std::to_string(world)},
                                      {"MASTER_ADDR", "127.0.0.1"},
                                      {"MASTER_PORT", std::to_string(free_port())},
                                      {"PLUMBLINE_SPEC", spec.string()},
                                      {"PLUMBLINE_RECORD", record.string()}})
      environment_.push_back(fmt::format("{}={}", name, value));
    if (std::getenv("OMP_NUM_THREADS") == nullptr) environment_.emplace_back("OMP_NUM_THREADS=1");
  }

  std::string run() {
    start();
    while (anybody_runs() && Clock::now() < deadline_ && (failed_ == nullptr || Clock::now() < grace_end_))
      attend(failed_ == nullptr ? deadline_ : std::min(deadline_, grace_end_));
    gave_up_ = Clock::now();
    const std::string left = names_of_running();
    std::vector<const RankProcess*> ended_by_us;
    for (const auto& process : processes_)
      if (process->runs()) ended_by_us.push_back(process.get());
    end_all();
    if (failed_ != nullptr) throw suite::JobCrashed(crash_message(ended_by_us), output());
    if (!ended_by_us.empty()) throw suite::JobHung(hang_message(ended_by_us, left), output());
    return output();
  }

 private:
  void start() {
    if (options_.launches_ranks) {
      processes_.push_back(std::make_unique<RankProcess>("the program", options_.command, environment_));
      return;
    }
    for (int rank = 0; rank < world_; ++rank) {
      std::vector<std::string> environment = environment_;
      environment.push_back(fmt::format("RANK={}", rank));
      environment.push_back(fmt::format("LOCAL_RANK={}", rank));
      processes_.push_back(
          std::make_unique<RankProcess>(fmt::format("rank {}", rank), options_.command, std::move(environment)));
    }
  }

  [[nodiscard]] bool anybody_runs() const {
    return std::ranges::any_of(processes_, [](const auto& process) { return process->runs(); });
  }

  // Waits for news until then, and takes in what there is.
  void attend(Clock::time_point until) {
    std::vector<pollfd> events;
    for (const auto& process : processes_)
      for (const int descriptor : {process->news(), process->output()}) events.push_back({descriptor, POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    ::poll(events.data(), events.size(), static_cast<int>(std::max(left, 0ms).count()));
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      RankProcess& process = *processes_[i];
      if (events[2 * i + 1].revents != 0) process.hear();
      if (events[2 * i].revents != 0) notice_end(process);
    }
  }

  void notice_end(RankProcess& process) {
    process.notice_end();
    if (process.runs() || process.end().is_success() || failed_ != nullptr || ending_) return;
    failed_ = &process;
    failed_after_ = Clock::now() - begun_;
    grace_end_ = Clock::now() + options_.grace;
  }

  // What still runs gets a moment to end its own children; the rest falls with the guards.
  void end_all() {
    ending_ = true;
    for (const auto& process : processes_)
      if (process->runs()) process->signal(SIGTERM);
    for (const auto until = Clock::now() + kTimeToEnd; anybody_runs() && Clock::now() < until;) attend(until);
    for (const auto& process : processes_) process->hear();
  }

  [[nodiscard]] static std::string quoting(const RankProcess& process) {
    const std::string words = process.last_words();
    return words.empty() ? fmt::format("{} wrote nothing", process.name())
                         : fmt::format("{} last wrote: {}", process.name(), words);
  }

  [[nodiscard]] std::string crash_message(const std::vector<const RankProcess*>& ended_by_us) const {
    std::string message =
        fmt::format("job '{}': {} {} after {:.1f} s; {}", options_.command, failed_->name(), failed_->end_words(),
                    std::chrono::duration<double>(failed_after_).count(), quoting(*failed_));
    for (const auto& process : processes_) {
      if (process.get() == failed_) continue;
      const bool by_us = std::ranges::find(ended_by_us, process.get()) != ended_by_us.end();
      message +=
          fmt::format("; {} {}", process->name(),
                      by_us ? fmt::format("still ran {:.1f} s later and was ended",
                                          std::chrono::duration<double>(gave_up_ - begun_ - failed_after_).count())
                            : process->end_words());
    }
    return message;
  }

  [[nodiscard]] std::string hang_message(const std::vector<const RankProcess*>& ended_by_us,
                                         const std::string& names) const {
    std::string message = fmt::format("job '{}': no end within {:.1f} s: {} still ran and {} ended", options_.command,
                                      std::chrono::duration<double>(deadline_ - begun_).count(), names,
                                      ended_by_us.size() == 1 ? "was" : "were");
    for (const RankProcess* process : ended_by_us) message += "; " + quoting(*process);
    for (const auto& process : processes_)
      if (std::ranges::find(ended_by_us, process.get()) == ended_by_us.end())
        message += fmt::format("; {} {}", process->name(), process->end_words());
    return message;
  }

  [[nodiscard]] std::string names_of_running() const {
    std::vector<std::string> names;
    for (const auto& process : processes_)
      if (process->runs()) names.push_back(process->name());
    return fmt::format("{}", fmt::join(names, ", "));
  }

  // A driver shows the last 4000 bytes of a case: enough for each rank's share.
  [[nodiscard]] std::string output() const {
    const std::size_t share = 3500 / processes_.size();
    std::string text;
    for (const auto& process : processes_) {
      std::string_view tail = process->tail();
      if (tail.empty()) continue;
      const bool cut = tail.size() > share;
      if (cut) tail.remove_prefix(tail.size() - share);
      text += fmt::format("---- {}\n{}{}{}", process->name(), cut ? "…" : "", tail, tail.ends_with('\n') ? "" : "\n");
    }
    return text;
  }

  const JobOptions& options_;
  const Clock::time_point begun_ = Clock::now();
  const Clock::time_point deadline_;
  const int world_;
  std::vector<std::string> environment_;
  std::vector<std::unique_ptr<RankProcess>> processes_;
  RankProcess* failed_ = nullptr;  // the first
  Clock::duration failed_after_{};
  Clock::time_point grace_end_;
  Clock::time_point gave_up_;  // what still ran then, we ended
  bool ending_ = false;
};

}  // namespace

JobProgram::JobProgram(JobOptions options) : options_(std::move(options)) {
  if (options_.command.find_first_not_of(" \t\n") == std::string::npos)
    throw InvalidArgument("the job's command is empty; it must be a shell command that runs a training program");
}

std::string JobProgram::run(int world, const std::filesystem::path& spec, const std::filesystem::path& record) {
  const auto deadline = deadline_.value_or(Clock::now() + options_.limit);
  return JobRun(options_, deadline, world, spec, record).run();
}

}  // namespace plumbline::subject
