#include "harness/subject/adapter/process.hpp"

#include <csignal>
#include <utility>

#include <fcntl.h>

namespace plumbline::subject {

PipedProcess::PipedProcess(const std::string& command) {
  Pipe to_it = make_pipe();
  Pipe from_it = make_pipe();
  Pipe its_errors = make_pipe();
  for (const Descriptor* end : {&to_it.writing, &from_it.reading, &its_errors.reading})
    ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  process_ = std::make_unique<GuardedProcess>(GuardedProcess::Options{.command = command,
                                                                      .environment = our_environment(),
                                                                      .input = to_it.reading.get(),
                                                                      .output = from_it.writing.get(),
                                                                      .errors = its_errors.writing.get()});
  input = std::move(to_it.writing);
  output = std::move(from_it.reading);
  errors = std::move(its_errors.reading);
}

PipedProcess::~PipedProcess() {
  // Whatever it still writes makes it fail instead of wait.
  for (Descriptor* end : {&input, &output, &errors}) end->reset();
  if (ended(grace)) return;
  process_->signal(SIGTERM);
  (void)ended(grace);
}

std::optional<std::string> PipedProcess::ended(std::chrono::milliseconds wait) const {
  const auto end = process_->ended(wait);
  return end ? std::optional(end->words()) : std::nullopt;
}

}  // namespace plumbline::subject
