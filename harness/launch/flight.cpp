#include "harness/launch/flight.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

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

class FlightRecorder final : public comm::CommunicatorDecorator {
 public:
  FlightRecorder(std::unique_ptr<comm::Communicator> inner, FlightRing& ring)
      : CommunicatorDecorator(std::move(inner)), ring_(ring) {
    FlightEvent event{.nanoseconds = now(), .group = group().id, .kind = FlightEvent::Kind::group};
    const std::string& name = group().name;
    std::copy_n(name.begin(), std::min(name.size(), event.text.size() - 1), event.text.begin());
    ring_.write(event);
  }

 private:
  // A started batch: done when its Work says so.
  class RecordedWork final : public comm::Work::State {
   public:
    RecordedWork(comm::Work inner, FlightRing& ring, FlightEvent done)
        : inner_(std::move(inner)), ring_(ring), done_(done) {}
    bool test() override {
      if (!inner_.test()) return false;
      finish();
      return true;
    }
    void wait(comm::Timeout timeout) override {
      inner_.wait(timeout);
      finish();
    }

   private:
    void finish() {
      done_.nanoseconds = now();
      ring_.write(done_);
    }
    comm::Work inner_;
    FlightRing& ring_;
    FlightEvent done_;
  };

  void do_run(const Call& call, comm::Timeout timeout) override {
    FlightEvent event = event_of(FlightEvent::Kind::enter, *this, call, ++calls_);
    ring_.write(event);
    try {
      CommunicatorDecorator::do_run(call, timeout);
      event.kind = FlightEvent::Kind::leave;
    } catch (...) {
      event.kind = FlightEvent::Kind::failed;
      event.nanoseconds = now();
      ring_.write(event);
      throw;
    }
    event.nanoseconds = now();
    ring_.write(event);
  }

  comm::Work do_start(std::span<const Call> calls) override {
    FlightEvent event{};
    for (const Call& call : calls) {
      event = event_of(FlightEvent::Kind::start, *this, call, ++calls_);
      ring_.write(event);
    }
    event.kind = FlightEvent::Kind::done;
    comm::Work work = CommunicatorDecorator::do_start(calls);
    if (calls.empty()) return work;
    return comm::Work(std::make_unique<RecordedWork>(std::move(work), ring_, event));
  }

  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<FlightRecorder>(std::move(group), ring_);
  }

  FlightRing& ring_;
  std::uint64_t calls_ = 0;
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

std::string FlightEvent::describe(const std::vector<FlightEvent>& groups) const {
  const auto made = std::ranges::find_if(
      groups, [this](const FlightEvent& other) { return other.kind == Kind::group && other.group == group; });
  const std::string name = made == groups.end() ? fmt::format("group {:016x}", group) : std::string(made->text.data());
  const char* verb = kVerbs[std::min<std::size_t>(static_cast<std::size_t>(kind), kVerbs.size() - 1)];
  if (kind == Kind::group) return fmt::format("{} {}", verb, name);
  Call shown{.operation = operation, .op = op, .root = root, .tag = tag};
  shown.in = {nullptr, elements, dtype};
  shown.out = {nullptr, elements, dtype};
  return fmt::format("{} {} #{} on {}", verb, comm::describe(shown, 1), call, name);
}

std::string FlightLog::position() const {
  // A call is open when it was entered or started and not left; the newest open one is where the rank stands.
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->kind != FlightEvent::Kind::enter && event->kind != FlightEvent::Kind::start) continue;
    const bool ended = std::any_of(events.begin(), events.end(), [&](const FlightEvent& other) {
      const bool ends = other.kind == FlightEvent::Kind::leave || other.kind == FlightEvent::Kind::done ||
                        other.kind == FlightEvent::Kind::failed;
      return ends && other.group == event->group && other.call >= event->call;
    });
    if (!ended) return event->describe(events);
  }
  if (events.empty()) return "made no call";
  return "last " + events.back().describe(events);
}

FlightLog read_flight(const std::filesystem::path& file) {
  FlightLog log;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return log;
  auto copy = std::make_unique<FlightRing::File>();
  const ssize_t count = ::pread(descriptor, static_cast<void*>(copy.get()), sizeof(FlightRing::File), 0);
  ::close(descriptor);
  if (count != static_cast<ssize_t>(sizeof(FlightRing::File))) return log;
  log.signal = copy->signal.load();
  for (const FlightEvent& event : copy->events)
    if (event.number != 0) log.events.push_back(event);
  std::ranges::sort(log.events, {}, &FlightEvent::number);
  return log;
}

}  // namespace plumbline::launch
