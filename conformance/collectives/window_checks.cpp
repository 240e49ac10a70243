// Windows: data is there when its signal is, signals are counted, and nothing meets what is not its own.
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/data.hpp"
#include "conformance/collectives/trials.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::ConstBuffer;
using comm::DType;
using comm::Window;
using suite::Context;
using namespace std::chrono_literals;

namespace {

using Bytes = std::vector<std::byte>;

// Longer than a right system takes for a signal that was sent before; who loses it would wait without end.
constexpr auto kSignalLimit = 3s;
constexpr auto kHeadStart = 10ms;  // of a member that does not wait over one that does something first

Bytes block_for(Context& context, DType dtype, int from, int to, std::int64_t count) {
  Bytes bytes(static_cast<std::size_t>(count) * size_of(dtype));
  fill_with_bits(context.seed() + static_cast<std::uint64_t>(to), from, dtype, 0, bytes);
  return bytes;
}

ConstBuffer elements_of(DType dtype, const Bytes& bytes, std::int64_t first, std::int64_t count) {
  return {bytes.data() + static_cast<std::size_t>(first) * size_of(dtype), count, dtype};
}

// Every member puts a block into that place of every window, by two puts and one signal, the last element first.
void put_to_all(Context& context, Window& window, DType dtype, std::int64_t count, int of_context) {
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  for (int to = 0; to < context.size(); ++to) {
    const Bytes block = block_for(context, dtype, context.rank(), to, count);
    const std::int64_t begin = context.rank() * (count + 1) * width;
    window.put(elements_of(dtype, block, count - 1, 1), to, begin + (count - 1) * width, of_context);
    window.put(elements_of(dtype, block, 0, count - 1), to, begin, of_context);
    window.signal(to, of_context);
  }
}

// Between the blocks is an element that nobody puts.
void exchange_blocks(Context& context, DType dtype, std::int64_t count) {
  const int ranks = context.size();
  const std::size_t block = static_cast<std::size_t>(count) * size_of(dtype);
  Bytes expected;
  for (int from = 0; from < ranks; ++from) {
    const Bytes sent = block_for(context, dtype, from, context.rank(), count);
    expected.insert(expected.end(), sent.begin(), sent.end());
    expected.resize(expected.size() + size_of(dtype), std::byte{0x5c});
  }
  GuardedOutput memory(dtype, expected);
  auto* const bytes = static_cast<std::byte*>(memory.view().data);
  for (int from = 0; from < ranks; ++from)
    std::memset(bytes + static_cast<std::size_t>(from) * (block + size_of(dtype)) + block, 0x5c, size_of(dtype));
  const auto window = context.world().create_window(memory.view());
  put_to_all(context, *window, dtype, count, 0);
  for (int from = 0; from < ranks; ++from) window->wait(from);
  const std::string problem = memory.wrong_result();
  if (!problem.empty()) report(fmt::format("window of {}, blocks of {}: {}", name_of(dtype), count, problem));
  window->close();
}

void signals_come_after_data(Context& context) {
  for (const DType dtype : claimed(context.capabilities()))
    for (const std::int64_t count : {1, 17, 30000}) exchange_blocks(context, dtype, count);
}

// ---- signals are counted, by member, context and window ----

// What the first member waits for here was sent before, or never comes: the rest are the last member's signals.
class Signals {
 public:
  explicit Signals(comm::Communicator& group) : group_(group), sender_(group.size() - 1) {}
  void send(Window& window, int number, int of_context) const {
    if (group_.rank() != sender_) return;
    for (int sent = 0; sent < number; ++sent) window.signal(0, of_context);
  }
  void take(Window& window, int number, int of_context) const {
    if (group_.rank() == 0) window.wait(sender_, number, of_context, kSignalLimit);
  }
  void expect_none(Window& window, int of_context) const {
    if (group_.rank() == 0) expect_timeout(20ms, [&] { window.wait(sender_, 1, of_context, 20ms); });
  }

 private:
  comm::Communicator& group_;
  int sender_;
};

void signals_are_counted(Context& context) {
  const auto victim = context.world().duplicate();
  const auto window = victim->create_window({});
  const auto end = context.world().create_window({});
  const Signals signals(*victim);
  signals.send(*window, 5, 0);
  signals.send(*window, 1, 1);
  signals.take(*window, 1, 1);  // five more have been sent
  signals.take(*window, 2, 0);
  signals.send(*window, 2, 0);
  signals.take(*window, 5, 0);
  signals.expect_none(*window, 0);
  end->close();
}

void signals_are_apart(Context& context) {
  const auto victim = context.world().duplicate();
  const auto window = victim->create_window({}), other = victim->create_window({});
  const auto end = context.world().create_window({});
  const Signals signals(*victim);
  const auto send_all_but_one = [&](int last_context) {
    signals.send(*window, 1, 1);
    signals.send(*other, 1, 0);
    if (context.rank() == 0) window->signal(0, 0);  // of another member
    signals.send(*window, 1, last_context);
    signals.take(*window, 1, last_context);
  };
  send_all_but_one(2);
  signals.take(*other, 1, 0);
  signals.take(*window, 1, 1);
  if (context.rank() == 0) window->wait(0, 1, 0, kSignalLimit);
  send_all_but_one(3);
  signals.expect_none(*window, 0);
  end->close();
}

// ---- the end of a window ----

void close_waits_for_all(Context& context) {
  const int last = context.size() - 1;
  const DType dtype = some_dtype(context.capabilities());
  const Bytes sent = block_for(context, dtype, last, 0, 1);
  GuardedOutput memory(dtype, sent);
  const auto window = context.world().create_window(memory.view());
  if (context.rank() == last) {
    for (int from = 0; from < last; ++from) window->wait(from, 1, 0, kSignalLimit);
    std::this_thread::sleep_for(kHeadStart);
    for (int to = 0; to < context.size(); ++to) window->put(elements_of(dtype, sent, 0, 1), to, 0);
  } else {
    window->signal(last);
  }
  window->close();
  const std::string problem = memory.wrong_result();
  if (!problem.empty()) report("after close, what was put before: " + problem);
}

// ---- a signal that does not come ----

void no_signal(Context& context) {
  const auto victim = context.world().duplicate();
  const auto window = victim->create_window({});
  const auto end = context.world().create_window({});
  if (context.rank() == 0) {
    const int from = context.size() - 1;
    window->signal(0);
    std::string words;
    expect_timeout(20ms, [&] {
      try {
        window->wait(from, 1, 0, 20ms);
      } catch (const comm::TimeoutError& error) {
        words = error.what();
        throw;
      }
    });
    if (ranks_at_end(words) != std::vector{from})
      report(fmt::format("the message does not end with rank {}, which sent no signal: {}", from, words));
    words_of<comm::PeerFailed>([&] { window->wait(0, 1, 0, 20ms); }, "a wait in a group that has failed");
  }
  end->close();
}

}  // namespace

void add_window_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* citation, std::vector<int> worlds, void (*body)(Context&),
                       bool spoils = false) {
    suite.add({.id = id,
               .verifies = {citation},
               .axes = {suite::worlds(std::move(worlds))},
               .spoils_group = spoils,
               .body = body});
  };
  add("collectives.windows.signals_come_after_data", "COLL-160@9a4a", {1, 2, 3, 5}, signals_come_after_data);
  add("collectives.windows.signals_are_counted", "COLL-161@1a25", {2, 3}, signals_are_counted, true);
  add("collectives.windows.signals_are_apart", "COLL-162@e33c", {2, 3, 4}, signals_are_apart, true);
  add("collectives.windows.close_waits_for_all", "COLL-163@a7e1", {2, 3, 5}, close_waits_for_all);
  add("collectives.windows.no_signal", "COLL-164@9f3b", {2, 3}, no_signal, true);
}

}  // namespace plumbline::conformance
