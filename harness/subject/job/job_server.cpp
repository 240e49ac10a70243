#include "harness/subject/job/job_server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>

#include "harness/subject/job/job_ends.hpp"
#include "harness/suite/job_error.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

struct Sockets {
  Descriptor ours, theirs;
};
Sockets make_sockets(int type) {
  int ends[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
    throw RuntimeFailure(fmt::format("cannot make a pair of sockets: {}", std::strerror(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Waits until the descriptor is readable; false at the deadline.
bool is_readable(int descriptor, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd event{descriptor, POLLIN, 0};
    const int ready = ::poll(&event, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) throw RuntimeFailure(fmt::format("cannot wait for a job's server: {}", std::strerror(errno)));
  }
}

// Sends a packet with two descriptors; false where nobody receives any more.
bool send_request(int socket, const std::string& text, std::array<int, 2> descriptors) {
  iovec data{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> space{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  ssize_t sent = -1;
  while ((sent = ::sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent == static_cast<ssize_t>(text.size());
}

// "started 42": the number, or nothing.
std::optional<int> number_after(std::string_view word, std::string_view line) {
  if (!line.starts_with(word)) return std::nullopt;
  line.remove_prefix(word.size());
  int number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  return error == std::errc{} && end == line.data() + line.size() ? std::optional(number) : std::nullopt;
}

class ServedRank final : public Process {
 public:
  explicit ServedRank(Descriptor control) : control_(std::move(control)) {}

  /// Waits for the rank to have a process; false where none comes.
  bool starts(Clock::time_point deadline) {
    while (pid_ <= 0 && !end_ && is_readable(control_.get(), deadline)) hear();
    if (pid_ <= 0 && !end_) end_ = killed();
    return !end_ || pid_ > 0;
  }

  std::optional<ProcessEnd> ended(std::chrono::milliseconds wait) override {
    const auto until = Clock::now() + wait;
    while (!end_ && is_readable(control_.get(), until)) hear();
    return end_;
  }
  [[nodiscard]] int news() const override { return control_.get(); }
  void signal(int number) const override {
    if (pid_ > 0) ::kill(-pid_, number);
  }
  [[nodiscard]] std::vector<pid_t> processes() const override {
    if (pid_ <= 0) return {};
    std::vector<pid_t> all = descendants_of(pid_);
    all.insert(all.begin(), pid_);
    return all;
  }

 private:
  static ProcessEnd killed() { return {.by_signal = true, .number = SIGKILL, .at = Clock::now()}; }

  void hear() {
    std::array<char, 256> block;
    const ssize_t count = ::recv(control_.get(), block.data(), block.size(), 0);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count > 0) heard_.append(block.data(), static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = heard_.find('\n')) != std::string::npos; heard_.erase(0, end + 1))
      understand(std::string_view(heard_).substr(0, end));
    if (count <= 0 && !end_) end_ = killed();
  }

  void understand(std::string_view line) {
    if (const auto pid = number_after("started ", line); pid && *pid > 1) pid_ = *pid;
    if (const auto status = number_after("exited ", line))
      end_ = {.by_signal = false, .number = *status, .at = Clock::now()};
    if (const auto signal = number_after("signaled ", line))
      end_ = {.by_signal = true, .number = *signal, .at = Clock::now()};
  }

  Descriptor control_;
  std::string heard_;
  pid_t pid_ = -1;
  std::optional<ProcessEnd> end_;
};

}  // namespace

JobServer::JobServer(std::string command, std::vector<std::string> environment) : command_(std::move(command)) {
  Sockets sockets = make_sockets(SOCK_SEQPACKET);
  environment.emplace_back("PLUMBLINE_JOB_SERVER=1");
  server_ = std::make_unique<RankProcess>("the server", command_, std::move(environment), sockets.theirs.get());
  requests_ = std::move(sockets.ours);
}

void JobServer::wait_until_ready(Deadline deadline) {
  if (ready_) return;
  constexpr auto kLook = 50ms;  // at what it writes and whether it has ended
  std::array<char, 64> packet;
  while (Clock::now() < deadline) {
    server_->hear();
    if (is_readable(requests_.get(), std::min(deadline, Clock::now() + kLook))) {
      const ssize_t count = ::recv(requests_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
      ready_ = std::string_view(packet.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))) == "ready";
      if (!ready_) break;
      const std::vector<pid_t> processes = server_->processes();
      own_ = {processes.begin(), processes.end()};
      return;
    }
  }
  fail_to_serve();
}

// It has ended, has closed its standard input, or takes too long.
void JobServer::fail_to_serve() {
  for (const auto until = Clock::now() + 500ms; server_->runs() && Clock::now() < until;) {
    is_readable(server_->news(), until);
    server_->notice_end();
  }
  server_->hear();
  const std::string wrote = written_words("the program", server_->last_words());
  if (server_->runs())
    throw suite::JobHung(fmt::format("job '{}': it is not ready to serve ranks; with --job-serves-ranks it must send "
                                     "'ready' on its standard input; {}",
                                     command_, wrote),
                         server_->tail());
  const std::string missing = missing_script(command_);
  const std::string message = fmt::format("job '{}': {}the program {} before it served ranks (--job-serves-ranks); {}",
                                          command_, missing, server_->end_words(), wrote);
  throw suite::JobAbsent(message, server_->tail(), !missing.empty());
}

std::unique_ptr<Process> JobServer::fork_rank(const std::vector<std::string>& variables, int output,
                                              Deadline deadline) {
  nlohmann::json request = nlohmann::json::object();
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    request[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  Sockets control = make_sockets(SOCK_STREAM);
  const bool is_sent =
      send_request(requests_.get(), nlohmann::json{{"environment", request}}.dump(), {output, control.theirs.get()});
  control.theirs.reset();
  auto rank = std::make_unique<ServedRank>(std::move(control.ours));
  const bool has_started = rank->starts(is_sent ? deadline : Clock::now());
  lost_a_rank_ |= !has_started && Clock::now() < deadline;
  return rank;
}

bool JobServer::end_ranks() {
  for (const pid_t pid : own_) ::kill(pid, SIGCONT);  // a rank may have stopped it
  constexpr int kTries = 2000;
  constexpr auto kPause = 1ms;
  bool all_gone = false;
  for (int tries = 0; tries < kTries && !all_gone; ++tries) {
    std::vector<pid_t> left = server_->processes();
    std::erase_if(left, [this](pid_t pid) { return own_.contains(pid); });
    all_gone = left.empty();
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    if (!all_gone) std::this_thread::sleep_for(kPause);
  }
  server_->notice_end();
  server_->hear();
  return all_gone && server_->runs();
}

}  // namespace plumbline::subject
