// What is checked of windows before a backend is asked.
#include <fmt/format.h>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::comm {
namespace {

[[noreturn]] void refuse_window(const std::string& call, const std::string& why) {
  throw InvalidArgument(fmt::format("{}: {}", call, why));
}

void check_elements(const std::string& call, const ConstBuffer& view) {
  if (view.count < 0) refuse_window(call, fmt::format("it has {} elements; a count is 0 or more", view.count));
  if (view.data == nullptr && view.count > 0)
    refuse_window(call, fmt::format("it has {} elements and a null pointer", view.count));
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(view.count, static_cast<std::int64_t>(size_of(view.dtype)), &bytes))
    refuse_window(call, fmt::format("it has {} elements; no memory holds that number", view.count));
}

}  // namespace

std::unique_ptr<Window> Communicator::create_window(Buffer memory, Timeout timeout) {
  check_elements("create_window", memory);
  if (!capabilities().has(Capability::windows)) return Communicator::do_create_window(memory, timeout);
  return do_create_window(memory, timeout);
}

std::unique_ptr<Window> Communicator::do_create_window(Buffer /*memory*/, Timeout /*timeout*/) {
  throw Unsupported(
      fmt::format("create_window: backend {} has no {}", capabilities().backend, name_of(Capability::windows)));
}

Window::Window(std::vector<std::int64_t> bytes) : bytes_(std::move(bytes)) {}
Window::~Window() = default;

void Window::check(const char* function, int peer, int context) const {
  if (is_closed_) throw StateError(fmt::format("{}: the window is closed", function));
  if (peer < 0 || peer >= std::ssize(bytes_))
    refuse_window(function, fmt::format("{} is not a rank of the window's group of {}", peer, bytes_.size()));
  if (context < 0 || context >= kContexts)
    refuse_window(function, fmt::format("context {} is not in [0, {})", context, kContexts));
}

void Window::put(ConstBuffer in, int to, std::int64_t offset, int context) {
  check("put", to, context);
  check_elements("put", in);
  const auto given = static_cast<std::int64_t>(in.bytes());
  if (offset < 0 || given > bytes(to) || offset > bytes(to) - given)
    refuse_window(
        "put", fmt::format("{} bytes at byte {} of rank {}, whose window has {} bytes", given, offset, to, bytes(to)));
  do_put(in, to, offset, context);
}

void Window::signal(int to, int context) {
  check("signal", to, context);
  do_signal(to, context);
}

void Window::wait(int from, std::int64_t signals, int context, Timeout timeout) {
  check("wait", from, context);
  if (signals < 1) refuse_window("wait", fmt::format("{} signals; a wait is for 1 or more", signals));
  do_wait(from, signals, context, timeout);
}

void Window::close(Timeout timeout) {
  check("close", 0, 0);
  do_close(timeout);
  is_closed_ = true;
}

}  // namespace plumbline::comm
