#include "harness/launch/flight.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/modes/forwarding_window.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::launch {

using comm::Call;

struct FlightRing::File {
  std::atomic<std::uint64_t> written;
  std::atomic<int> signal;
  std::array<FlightEvent, kCapacity> events;
};

namespace {

constexpr std::array<const char*, 6> kVerbs{"made group", "entered", "left", "started", "completed", "failed in"};

std::uint64_t now() { return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); }

FlightEvent event_of(FlightEvent::Kind kind, const comm::Communicator& communicator, const Call& call,
                     std::uint64_t number) {
  return {.nanoseconds = now(),
          .group = communicator.group().id,
          .call = number,
          .elements = call.elements(communicator.size()),
          .root = call.root,
          .tag = call.tag,
          .kind = kind,
          .operation = call.operation,
          .dtype = call.dtype(),
          .op = call.op};
}

void set_text(FlightEvent& event, const std::string& text) {
  std::copy_n(text.begin(), std::min(text.size(), event.text.size() - 1), event.text.begin());
}

class FlightRecorder final : public comm::CommunicatorDecorator, private comm::PairExchanges {
 public:
  FlightRecorder(std::unique_ptr<comm::Communicator> inner, FlightRing& ring)
      : CommunicatorDecorator(std::move(inner)), ring_(ring) {
    FlightEvent event{.nanoseconds = now(), .group = group().id, .kind = FlightEvent::Kind::group};
    set_text(event, group().name);
    ring_.write(event);
  }
  [[nodiscard]] comm::PairExchanges* pair_exchanges() override {
    return inner().pair_exchanges() == nullptr ? nullptr : this;
  }

 private:
  // A started batch: its calls are done when its Work says so.
  class RecordedWork final : public comm::Work::State {
   public:
    RecordedWork(comm::Work inner, FlightRing& ring, std::vector<FlightEvent> calls)
        : inner_(std::move(inner)), ring_(ring), calls_(std::move(calls)) {}
    bool test() override {
      if (!inner_.test()) return false;
      finish();
      return true;
    }
    void wait(comm::Timeout timeout) override {
      inner_.wait(timeout);
      finish();
    }
    [[nodiscard]] bool outlasts_wait() const override { return true; }

   private:
    void finish() { write_all(ring_, std::exchange(calls_, {}), FlightEvent::Kind::done); }
    comm::Work inner_;
    FlightRing& ring_;
    std::vector<FlightEvent> calls_;  // that are not done
  };

  static void write_all(FlightRing& ring, const std::vector<FlightEvent>& calls, FlightEvent::Kind kind) {
    for (FlightEvent event : calls) {
      event.nanoseconds = now();
      event.kind = kind;
      ring.write(event);
    }
  }

  // Notes that the calls begin, makes them, and notes when that fails.
  template <typename Make>
  auto recorded(FlightEvent::Kind kind, std::span<const Call> calls, std::vector<FlightEvent>& events, Make make) {
    const std::uint64_t collectives = collectives_;
    for (const Call& call : calls) {
      events.push_back(event_of(kind, *this, call, ++calls_));
      if (!is_point_to_point(call.operation)) events.back().collective = ++collectives_;
      ring_.write(events.back());
    }
    return unless_it_fails(events, collectives, make);
  }

  template <typename Make>
  auto unless_it_fails(const std::vector<FlightEvent>& events, std::uint64_t collectives, Make make) {
    try {
      return make();
    } catch (const Error& error) {
      // A call that was refused did nothing: the other members do not count it.
      if (error.kind() == "unsupported" || error.kind() == "invalid_argument") collectives_ = collectives;
      write_all(ring_, events, FlightEvent::Kind::failed);
      throw;
    } catch (...) {
      write_all(ring_, events, FlightEvent::Kind::failed);
      throw;
    }
  }

  void do_run(const Call& call, comm::Timeout timeout) override {
    std::vector<FlightEvent> events;
    recorded(FlightEvent::Kind::enter, std::span(&call, 1), events,
             [&] { CommunicatorDecorator::do_run(call, timeout); });
    write_all(ring_, events, FlightEvent::Kind::leave);
  }

  // Noted as the operation, with the elements of all blocks, which members agree on; of an all_to_all, none.
  void do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) override {
    const bool gathers = call.operation == comm::Operation::all_gather;
    const std::int64_t all = gathers                                         ? call.out.count
                             : call.operation == comm::Operation::all_to_all ? 0
                                                                             : call.in.count;
    Call noted{.operation = call.operation, .op = call.op, .in = call.in, .out = call.out};
    noted.in.count = noted.out.count = all;
    std::vector<FlightEvent> events;
    recorded(FlightEvent::Kind::enter, std::span(&noted, 1), events,
             [&] { CommunicatorDecorator::do_run_uneven(call, timeout); });
    write_all(ring_, events, FlightEvent::Kind::leave);
  }

  // Noted as the sum.
  void do_run_scaled(const Call& call, double factor, comm::Timeout timeout) override {
    std::vector<FlightEvent> events;
    recorded(FlightEvent::Kind::enter, std::span(&call, 1), events,
             [&] { CommunicatorDecorator::do_run_scaled(call, factor, timeout); });
    write_all(ring_, events, FlightEvent::Kind::leave);
  }

  // Noted as the call on packed copies.
  void do_run_strided(const comm::StridedCall& call, comm::Timeout timeout) override {
    std::vector<FlightEvent> events;
    recorded(FlightEvent::Kind::enter, std::span(&call.call, 1), events,
             [&] { CommunicatorDecorator::do_run_strided(call, timeout); });
    write_all(ring_, events, FlightEvent::Kind::leave);
  }

  // ---- windows ----

  class RecordedWindow final : public modes::ForwardingWindow {
   public:
    RecordedWindow(std::unique_ptr<comm::Window> inner, FlightRecorder& group)
        : ForwardingWindow(std::move(inner), group.size()), group_(group) {}

   private:
    void do_put(comm::ConstBuffer in, int to, std::int64_t offset, int context) override {
      group_.record({.elements = in.count, .root = to, .operation = comm::Operation::send, .dtype = in.dtype},
                    fmt::format("put({} x {} to rank {} at byte {}, context {})", name_of(in.dtype), in.count, to,
                                offset, context),
                    [&] { ForwardingWindow::do_put(in, to, offset, context); });
    }
    void do_signal(int to, int context) override {
      group_.record({.root = to, .operation = comm::Operation::send},
                    fmt::format("signal(rank {}, context {})", to, context),
                    [&] { ForwardingWindow::do_signal(to, context); });
    }
    void do_wait(int from, std::int64_t signals, int context, comm::Timeout timeout) override {
      group_.record({.root = from, .operation = comm::Operation::recv},
                    fmt::format("wait({} signals of rank {}, context {})", signals, from, context),
                    [&] { ForwardingWindow::do_wait(from, signals, context, timeout); });
    }
    void do_close(comm::Timeout timeout) override {
      group_.record({}, "close of a window", [&] { ForwardingWindow::do_close(timeout); });
    }
    FlightRecorder& group_;
  };

  std::unique_ptr<comm::Window> do_create_window(comm::Buffer memory, comm::Timeout timeout) override {
    std::unique_ptr<comm::Window> window;
    record({}, "create_window", [&] { window = CommunicatorDecorator::do_create_window(memory, timeout); });
    return std::make_unique<RecordedWindow>(std::move(window), *this);
  }

  // What is no Call is noted by its words, and as the operation that it is like: a barrier, or a message.
  template <typename Make>
  void record(FlightEvent event, const std::string& words, Make make) {
    const std::uint64_t collectives = collectives_;
    set_text(event, words);
    event.nanoseconds = now();
    event.group = group().id;
    event.call = ++calls_;
    if (!is_point_to_point(event.operation)) event.collective = ++collectives_;
    ring_.write(event);
    unless_it_fails({event}, collectives, make);
    write_all(ring_, {event}, FlightEvent::Kind::leave);
  }

  comm::Work do_start(std::span<const Call> calls) override {
    return started(calls, [&] { return CommunicatorDecorator::do_start(calls); });
  }

  // Noted as the messages that it stands for.
  [[nodiscard]] const comm::Communicator& of_group() const override { return *this; }
  comm::Work do_start(const comm::PairExchange& exchange) override {
    return started(messages_of(exchange), [&] { return inner().pair_exchanges()->start(exchange); });
  }

  template <typename Start>
  comm::Work started(std::span<const Call> calls, Start start) {
    std::vector<FlightEvent> events;
    comm::Work work = recorded(FlightEvent::Kind::start, calls, events, start);
    if (calls.empty()) return work;
    return comm::Work(std::make_unique<RecordedWork>(std::move(work), ring_, std::move(events)));
  }

  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<FlightRecorder>(std::move(group), ring_);
  }

  FlightRing& ring_;
  std::uint64_t calls_ = 0;
  std::uint64_t collectives_ = 0;
};

}  // namespace

FlightRing::FlightRing(const std::filesystem::path& file) {
  const auto refuse = [&](int error) {
    throw RuntimeFailure(fmt::format("cannot write '{}': {}", file.string(), std::strerror(error)));
  };
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) refuse(errno);
  // posix_fallocate, not ftruncate: a full disk is an error here and not a SIGBUS later.
  const int error = ::posix_fallocate(descriptor, 0, sizeof(File));
  void* memory =
      error == 0 ? ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : MAP_FAILED;
  const int failed = error != 0 ? error : errno;
  ::close(descriptor);
  if (memory == MAP_FAILED) refuse(failed);
  file_ = static_cast<File*>(memory);
}

FlightRing::~FlightRing() { ::munmap(file_, sizeof(File)); }

void FlightRing::write(FlightEvent event) {
  thread_local const pid_t thread = ::gettid();
  event.thread = thread;
  event.number = file_->written.fetch_add(1, std::memory_order_relaxed) + 1;
  file_->events[(event.number - 1) % kCapacity] = event;
}

void FlightRing::note_signal(int signal) { file_->signal.store(signal); }

void FlightRing::clear() {
  file_->written.store(0);
  file_->events.fill(FlightEvent{});
}

std::unique_ptr<comm::Communicator> record_flight(std::unique_ptr<comm::Communicator> inner, FlightRing& ring) {
  return std::make_unique<FlightRecorder>(std::move(inner), ring);
}

std::string name_of_group(std::uint64_t group, const std::vector<FlightEvent>& events) {
  const auto made = std::ranges::find_if(events, [group](const FlightEvent& event) {
    return event.kind == FlightEvent::Kind::group && event.group == group;
  });
  return made == events.end() ? fmt::format("group {:016x}", group) : std::string(made->text.data());
}

std::string FlightEvent::describe_call() const {
  if (text.front() != '\0') return text.data();
  Call shown{.operation = operation, .op = op, .root = root, .tag = tag};
  shown.in = {nullptr, elements, dtype};
  shown.out = {nullptr, elements, dtype};
  return comm::describe(shown, 1);
}

std::string FlightEvent::describe(const std::vector<FlightEvent>& groups) const {
  const std::string name = name_of_group(group, groups);
  const char* verb = kVerbs[std::min<std::size_t>(static_cast<std::size_t>(kind), kVerbs.size() - 1)];
  if (kind == Kind::group) return fmt::format("{} {}", verb, name);
  return fmt::format("{} {} #{} on {}", verb, describe_call(), call, name);
}

std::string FlightLog::position() const {
  // A call is open when it was entered or started and not left; the newest open one is where the rank stands.
  std::set<std::pair<std::uint64_t, std::uint64_t>> ended;
  const FlightEvent* last_left = nullptr;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->ends()) {
      ended.insert({event->group, event->call});
      if (last_left == nullptr) last_left = &*event;
    }
    if (!event->begins() || ended.contains({event->group, event->call})) continue;
    std::string where = event->describe(events);
    if (last_left != nullptr) where += ", after it " + last_left->describe(events);
    return where;
  }
  if (!found) return "left no notes of its calls on this host";
  if (events.empty()) return "made no call";
  return "last " + events.back().describe(events);
}

std::uint64_t FlightLog::newest() const { return events.empty() ? 0 : events.back().nanoseconds; }

FlightLog read_flight(const std::filesystem::path& file, std::uint64_t since) {
  FlightLog log;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return log;
  struct Close {
    int descriptor;
    ~Close() { ::close(descriptor); }
  } const close{descriptor};
  constexpr std::size_t begin = offsetof(FlightRing::File, events);
  std::array<std::byte, begin> head;
  if (::pread(descriptor, head.data(), begin, 0) != static_cast<ssize_t>(begin)) return log;
  std::uint64_t written = 0;
  std::memcpy(&written, head.data() + offsetof(FlightRing::File, written), sizeof written);
  std::memcpy(&log.signal, head.data() + offsetof(FlightRing::File, signal), sizeof log.signal);
  // Most checks make few calls: what was never written is not read.
  std::vector<FlightEvent> events(std::min<std::uint64_t>(written, FlightRing::kCapacity));
  const auto bytes = static_cast<ssize_t>(events.size() * sizeof(FlightEvent));
  if (::pread(descriptor, events.data(), static_cast<std::size_t>(bytes), begin) != bytes) return log;
  log.found = true;
  for (const FlightEvent& event : events)
    if (event.number != 0 && event.nanoseconds >= since) log.events.push_back(event);
  std::ranges::sort(log.events, {}, &FlightEvent::number);
  return log;
}

}  // namespace plumbline::launch
