#include "harness/subject/job/rank_process.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "harness/subject/job/job_ends.hpp"
#include "reference/adapter/protocol.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject {
namespace {

constexpr std::size_t kKept = 3000;   // bytes of output
constexpr std::size_t kQuoted = 500;  // bytes in a message

Pipe make_output_pipe() {
  Pipe pipe = make_pipe();
  ::fcntl(pipe.reading.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

Descriptor no_input() {
  Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.get() < 0) throw RuntimeFailure(fmt::format("cannot open '/dev/null': {}", std::strerror(errno)));
  return null;
}

}  // namespace

RankProcess::RankProcess(std::string name, const std::string& command, std::vector<std::string> environment, int input)
    : RankProcess(std::move(name), [&](int output) {
        const Descriptor none = no_input();
        return std::make_unique<GuardedProcess>(GuardedProcess::Options{.command = command,
                                                                        .environment = std::move(environment),
                                                                        .input = input < 0 ? none.get() : input,
                                                                        .output = output,
                                                                        .errors = output});
      }) {}

RankProcess::RankProcess(std::string name, const std::function<std::unique_ptr<Process>(int output)>& start)
    : name_(std::move(name)), output_(make_output_pipe()), process_(start(output_.writing.get())) {
  output_.writing.reset();
}

std::string RankProcess::end_words() const {
  std::string words = end().words();
  if (end().by_exit(kUnsupportedStatus)) words += " (it does not support the run)";
  if (end().by_exit(kNotFound)) words += " (the shell did not find the command)";
  if (end().by_exit(kCannotExecute)) words += " (the shell could not execute the command)";
  if (const auto signal = end().killed_by(); signal && !end().by_signal)
    words += fmt::format(" (a shell's word for signal {}, {})", *signal, strsignal(*signal));
  return words;
}

void RankProcess::hear() {
  if (output() < 0) return;
  std::array<char, 1 << 16> block;
  const ssize_t count = ::read(output(), block.data(), block.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return output_.reading.reset();
  std::string& kept = answers_ ? answer_ : tail_;
  kept.append(block.data(), static_cast<std::size_t>(count));
  if (kept.size() > kKept) kept.erase(0, kept.size() - kKept);
}

void RankProcess::notice_end() {
  if (end_) return;
  end_ = process_->ended(std::chrono::milliseconds(0));
  constexpr int kBlocksOfAFullPipe = 16;  // and no more: what it started may go on writing
  for (int block = 0; end_ && block < kBlocksOfAFullPipe; ++block) hear();
}

std::string RankProcess::last_words() const {
  std::string_view text = tail_;
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  const bool cut = text.size() > kQuoted;
  if (cut) text.remove_prefix(text.size() - kQuoted);
  std::string line;
  for (const char c : text) c == '\n' ? line += " | " : line += c;
  return (cut ? "…" : "") + adapter::printable(line);
}

}  // namespace plumbline::subject
