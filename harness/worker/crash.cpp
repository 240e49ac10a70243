#include "harness/worker/crash.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <execinfo.h>
#include <unistd.h>

#include "harness/launch/stacks.hpp"

namespace plumbline::worker {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr int kFrames = 30;

thread_local launch::FlightRing* ring_of_thread = nullptr;
thread_local int rank_of_thread = -1;

void print(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }

void print_number(int number) {
  char digits[12];
  int length = 0;
  do digits[length++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) > 0);
  while (length > 0) (void)!::write(STDERR_FILENO, &digits[--length], 1);
}

// Only async-signal-safe calls; backtrace() is, once it has been called before.
void print_stack(const char* what, int number) {
  print("rank ");
  if (rank_of_thread >= 0)
    print_number(rank_of_thread);
  else
    print("?");
  print(what);
  print_number(number);
  print("\n");
  void* frames[kFrames];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, kFrames), STDERR_FILENO);
}

void on_crash(int signal) {
  if (ring_of_thread != nullptr) ring_of_thread->note_signal(signal);
  print_stack(" received signal ", signal);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void on_question(int) {
  const int before = errno;
  print_stack(" stands here, thread ", ::gettid());
  errno = before;
}

}  // namespace

void install_crash_handlers() {
  void* frame[1];
  ::backtrace(frame, 1);  // loads what it needs
  struct sigaction question{};
  question.sa_handler = on_question;
  question.sa_flags = SA_ONSTACK | SA_RESTART;
  ::sigaction(launch::stack_signal(), &question, nullptr);
  if (kSanitized) return;
  struct sigaction action{};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(signal, &action, nullptr);
}

CrashNote::CrashNote(launch::FlightRing& ring, int rank) {
  ring_of_thread = &ring;
  rank_of_thread = rank;
  if (kSanitized) return;
  // A stack of its own for the handler: a rank may die of an overflow of the other.
  constexpr std::size_t kBytes = 64 * 1024;
  stack_t stack{};
  stack.ss_sp = std::malloc(kBytes);
  stack.ss_size = kBytes;
  if (stack.ss_sp != nullptr) ::sigaltstack(&stack, nullptr);
}

CrashNote::~CrashNote() {
  ring_of_thread = nullptr;
  rank_of_thread = -1;
  if (kSanitized) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  stack_t old{};
  if (::sigaltstack(&none, &old) == 0 && (old.ss_flags & SS_DISABLE) == 0) std::free(old.ss_sp);
}

}  // namespace plumbline::worker
