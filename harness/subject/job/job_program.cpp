#include "harness/subject/job/job_program.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
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
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "harness/subject/job/job_ends.hpp"
#include "harness/subject/job/progress.hpp"
#include "harness/subject/job/rank_process.hpp"
#include "reference/adapter/protocol.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr auto kTimeToEnd = 500ms;   // after SIGTERM
constexpr auto kTimeToAnswer = 2s;   // of ranks that are asked where they stand
constexpr auto kAnswerEnds = 200ms;  // after the last that was heard

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

// A port on which nobody listens now. Not one of those that the system gives to connections: one might take it before
// rank 0 listens, even that of a rank that connects too early, which then meets itself.
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
                                   "PLUMBLINE_JOB_SERVER",
                                   "PLUMBLINE_CONTROL",
                                   "PLUMBLINE_TOKEN",
                                   "PLUMBLINE_GROUP",
                                   "PLUMBLINE_SCRATCH"};

// Sees whether anybody opens a file, where the system lets us look.
class OpenedFile {
 public:
  explicit OpenedFile(const std::filesystem::path& file) : events_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    watches_ = events_.get() >= 0 && ::inotify_add_watch(events_.get(), file.c_str(), IN_OPEN) >= 0;
  }
  /// False where it cannot be seen, too.
  [[nodiscard]] bool is_unopened() const {
    pollfd event{events_.get(), POLLIN, 0};
    return watches_ && ::poll(&event, 1, 0) == 0;
  }

 private:
  Descriptor events_;
  bool watches_ = false;
};

class JobRun {
 public:
  JobRun(const JobOptions& options, std::unique_ptr<JobServer>& server, Clock::time_point deadline, int world,
         const std::filesystem::path& spec, const std::filesystem::path& record)
      : options_(options),
        server_(server),
        deadline_(std::max(deadline, begun_)),
        world_(world),
        record_(record),
        spec_(spec) {
    environment_ = our_environment();
    std::erase_if(environment_, [](const std::string& entry) {
      const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
      return std::ranges::find(kNotInherited, name) != kNotInherited.end();
    });
    for (const char* setting : {"OMP_NUM_THREADS=1", "PYTHONFAULTHANDLER=1"})
      if (std::getenv(std::string(setting, std::strchr(setting, '=')).c_str()) == nullptr)
        environment_.emplace_back(setting);
    for (const auto& [name, value] : {std::pair<const char*, std::string>{"WORLD_SIZE", std::to_string(world)},
                                      {"LOCAL_WORLD_SIZE", std::to_string(world)},
                                      {"MASTER_ADDR", "127.0.0.1"},
                                      {"MASTER_PORT", std::to_string(free_port())},
                                      {"PLUMBLINE_SPEC", spec.string()},
                                      {"PLUMBLINE_RECORD", record.string()}})
      of_this_run_.push_back(fmt::format("{}={}", name, value));
  }
  ~JobRun() {
    processes_.clear();
    if (server_ && !server_->end_ranks()) server_.reset();
  }
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;

  std::string run() {
    start();
    while (anybody_runs() && Clock::now() < deadline_ && (failed_ == nullptr || Clock::now() < grace_end_))
      attend(failed_ == nullptr ? deadline_ : std::min(deadline_, grace_end_));
    gave_up_ = Clock::now();
    ending_ = true;
    const std::string left = names_of_running();
    for (const auto& process : processes_)
      if (process->runs()) ended_by_us_.push_back(process.get());
    const bool hung = failed_ == nullptr && !ended_by_us_.empty();
    if (hung && !reason_of_file()) ask_where_they_stand();
    end_all();
    if (const auto reason = why_unsupported()) throw suite::JobUnsupported(*reason, output());
    if (hung) throw suite::JobHung(hang_message(left), output());
    if (failed_ == nullptr) return output();
    choose_cause();
    const bool never_began = spec_.is_unopened() && are_errors(ends());
    if (never_began || are_absent(ends())) {
      const std::string missing = missing_script(options_.command);
      const char* const unread = never_began ? "it ended before it opened $PLUMBLINE_SPEC; " : "";
      throw suite::JobAbsent(crash_message(missing + unread), output(), !missing.empty());
    }
    throw suite::JobCrashed(crash_message(), output());
  }

 private:
  void start() {
    if (options_.launches_ranks) return start_one("the program", of_this_run_);
    if (options_.serves_ranks) require_server();
    start_ranks();
    if (!server_ || !server_->lost_a_rank()) return;
    // It ended since it was last asked, of the run before.
    processes_.clear();
    server_.reset();
    require_server();
    start_ranks();
  }

  void start_ranks() {
    for (int rank = 0; rank < world_; ++rank) {
      std::vector<std::string> variables = of_this_run_;
      for (const char* name : {"RANK", "LOCAL_RANK"}) variables.push_back(fmt::format("{}={}", name, rank));
      start_one(fmt::format("rank {}", rank), variables);
    }
  }

  void require_server() {
    if (!server_ || !server_->end_ranks()) server_ = std::make_unique<JobServer>(options_.command, environment_);
    try {
      server_->wait_until_ready(deadline_);
    } catch (const suite::JobFailure&) {
      server_.reset();
      throw;
    }
  }

  void start_one(std::string name, const std::vector<std::string>& variables) {
    if (server_) {
      processes_.push_back(std::make_unique<RankProcess>(
          std::move(name), [&](int output) { return server_->fork_rank(variables, output, deadline_); }));
      return;
    }
    std::vector<std::string> environment = environment_;
    environment.insert(environment.end(), variables.begin(), variables.end());
    processes_.push_back(std::make_unique<RankProcess>(std::move(name), options_.command, std::move(environment)));
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
    grace_end_ = Clock::now() + options_.grace;
  }

  [[nodiscard]] bool was_ended_by_us(const RankProcess& process) const {
    return std::ranges::find(ended_by_us_, &process) != ended_by_us_.end();
  }

  // Of those that failed by themselves.
  void choose_cause() {
    std::vector<RankProcess*> failed;
    std::vector<ProcessEnd> ends;
    for (const auto& process : processes_) {
      if (was_ended_by_us(*process) || process->end().is_success()) continue;
      failed.push_back(process.get());
      ends.push_back(process->end());
    }
    failed_ = failed[cause_among(ends)];
  }

  // ---- what is no crash ----

  // The words of a file `unsupported`.
  [[nodiscard]] std::optional<std::string> reason_of_file() const {
    const auto text = start_of_file(record_ / "unsupported");
    if (!text) return std::nullopt;
    return text->empty() ? "the program wrote a file 'unsupported' without a reason" : *text;
  }

  [[nodiscard]] RankEnds ends() const {
    RankEnds ends;
    for (const auto& process : processes_)
      ends.push_back(was_ended_by_us(*process) ? std::nullopt : std::optional(process->end()));
    return ends;
  }

  [[nodiscard]] std::optional<std::string> why_unsupported() const {
    if (auto reason = reason_of_file()) return reason;
    if (failed_ == nullptr || !are_unsupported(ends())) return std::nullopt;
    const std::string words = failed_->last_words();
    return words.empty() ? fmt::format("{} {} without a reason", failed_->name(), failed_->end_words()) : words;
  }

  // ---- where a hung rank stands ----

  [[nodiscard]] static bool is_python(pid_t process) {
    std::error_code error;
    const auto program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process), error);
    return program.filename().string().starts_with("python");
  }

  void ask_where_they_stand() {
    for (RankProcess* process : ended_by_us_) {
      process->hear();
      process->begin_answer();
    }
    ask_by(SIGUSR1, [](pid_t) { return true; });
    ask_by(SIGABRT, is_python);
    look_from_outside();
  }

  // Asks those that have not answered and that would not die of the signal.
  void ask_by(int signal, const std::function<bool(pid_t)>& asks) {
    if (options_.asking) options_.asking();
    bool asked = false;
    for (const RankProcess* process : ended_by_us_) {
      if (!process->runs() || !innermost_frames(process->answer()).empty()) continue;
      for (const pid_t pid : process->processes()) {
        if (!asks(pid) || !status_has(fmt::format("/proc/{}", pid), {"SigCgt:"}, signal)) continue;
        const rlimit none{0, 0};
        if (signal == SIGABRT) ::prlimit(pid, RLIMIT_CORE, &none, nullptr);
        asked |= ::kill(pid, signal) == 0;
      }
    }
    if (!asked) return;
    const auto end = Clock::now() + kTimeToAnswer;
    for (auto heard = end; Clock::now() < std::min(end, heard + kAnswerEnds);) {
      const std::size_t before = bytes_of_answers();
      attend(std::min(end, Clock::now() + kAnswerEnds / 2));
      if (bytes_of_answers() != before) heard = Clock::now();
    }
  }

  [[nodiscard]] std::size_t bytes_of_answers() const {
    std::size_t bytes = 0;
    for (const RankProcess* process : ended_by_us_) bytes += process->answer().size();
    return bytes;
  }

  void look_from_outside() {
    if (!options_.stacks) return;
    for (RankProcess* process : ended_by_us_) {
      if (!process->runs() || !innermost_frames(process->answer()).empty()) continue;
      auto stacks = std::async(std::launch::async, options_.stacks, process->processes());
      while (stacks.wait_for(500ms) != std::future_status::ready)
        if (options_.asking) options_.asking();
      process->hear();
      process->set_answer(process->answer() + stacks.get());
    }
  }

  // What each has recorded, as far as is known, and where it stood; nothing of ranks that ended well.
  [[nodiscard]] std::vector<HungRank> hung_ranks() const {
    std::vector<HungRank> ranks;
    if (options_.launches_ranks)
      for (int rank = 0; rank < world_; ++rank)
        ranks.push_back({.name = fmt::format("rank {}", rank), .recorded = last_recorded(record_, rank)});
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const RankProcess& process = *processes_[i];
      if (!was_ended_by_us(process)) continue;
      ranks.push_back(
          {.name = process.name(), .frames = innermost_frames(process.answer()), .wrote = process.last_words()});
      if (!options_.launches_ranks) ranks.back().recorded = last_recorded(record_, static_cast<int>(i));
    }
    return ranks;
  }

  // What still runs gets a moment to end its own children; the rest falls with the guards.
  void end_all() {
    for (const auto& process : processes_)
      if (process->runs()) process->signal(SIGTERM);
    for (const auto until = Clock::now() + kTimeToEnd; anybody_runs() && Clock::now() < until;) attend(until);
    for (const auto& process : processes_) process->hear();
  }

  // The cause first, after what is known of it.
  [[nodiscard]] std::string crash_message(const std::string& known = "") const {
    const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
    std::vector<EndedRank> others;
    for (const auto& process : processes_)
      if (process.get() != failed_)
        others.push_back({process->name(), was_ended_by_us(*process)
                                               ? fmt::format("still ran {:.1f} s later and was ended",
                                                             std::max(0.0, seconds(gave_up_ - failed_->end().at)))
                                               : process->end_words()});
    return fmt::format("job '{}': {}{} {} after {:.1f} s; {}{}", options_.command, known, failed_->name(),
                       failed_->end_words(), seconds(failed_->end().at - begun_),
                       written_words(failed_->name(), failed_->last_words()), words_of(others));
  }

  [[nodiscard]] std::string hang_message(const std::string& names) const {
    std::string message =
        fmt::format("job '{}': no end within {:.1f} s: {} still ran and {} ended (a job has 80 % of the --time-limit)",
                    options_.command, std::chrono::duration<double>(deadline_ - begun_).count(), names,
                    ended_by_us_.size() == 1 ? "was" : "were");
    message += words_of(hung_ranks());
    for (const auto& process : processes_)
      if (!was_ended_by_us(*process)) message += fmt::format("; {} {}", process->name(), process->end_words());
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
    const bool answered = bytes_of_answers() > 0;
    const std::size_t share = 3500 / processes_.size() / (answered ? 2 : 1);
    std::string text;
    const auto add = [&](const std::string& title, std::string_view tail) {
      if (tail.empty()) return;
      const bool cut = tail.size() > share;
      if (cut) tail.remove_prefix(tail.size() - share);
      text += fmt::format("---- {}\n{}{}{}", title, cut ? "…" : "", tail, tail.ends_with('\n') ? "" : "\n");
    };
    for (const auto& process : processes_) {
      add(process->name(), process->tail());
      add(process->name() + ", asked where it stood", process->answer());
    }
    return text;
  }

  const JobOptions& options_;
  std::unique_ptr<JobServer>& server_;
  const Clock::time_point begun_ = Clock::now();
  const Clock::time_point deadline_;
  const int world_;
  const std::filesystem::path record_;
  OpenedFile spec_;
  std::vector<std::string> environment_;  // of every run
  std::vector<std::string> of_this_run_;
  std::vector<std::unique_ptr<RankProcess>> processes_;
  RankProcess* failed_ = nullptr;  // the first
  std::vector<RankProcess*> ended_by_us_;
  Clock::time_point grace_end_;
  Clock::time_point gave_up_;  // what still ran then, we ended
  bool ending_ = false;        // what ends from now on is no failure
};

}  // namespace

JobProgram::JobProgram(JobOptions options) : options_(std::move(options)) {
  if (options_.command.find_first_not_of(" \t\n") == std::string::npos)
    throw InvalidArgument("the job's command is empty; it must be a shell command that runs a training program");
}

std::string JobProgram::run(int world, const std::filesystem::path& spec, const std::filesystem::path& record) {
  const auto deadline = deadline_.value_or(Clock::now() + options_.limit);
  return JobRun(options_, server_, deadline, world, spec, record).run();
}

}  // namespace plumbline::subject
