#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/simulation_options.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = ActionKind;

// Sleeps, so that other ranks have the core, all but the last moments: who sleeps wakes late. Those it yields.
void wait_until(Clock::time_point end) {
  constexpr std::chrono::microseconds kLate{100};
  std::this_thread::sleep_until(end - kLate);
  while (Clock::now() < end) std::this_thread::yield();
}

}  // namespace

// Of each message its own, as long as it lasts. It begins with the moment at which it was sent, where there is room.
struct EmulatedDevice::Memory {
  std::map<std::pair<bool, int>, std::vector<std::byte>> messages;  // by whether it is sent, and tag
  std::map<std::pair<Kind, int>, Clock::time_point> sent_at;        // of inputs that are here: of a stage, by receive
  int stages = 1;
};

EmulatedDevice::EmulatedDevice(const Schedule& schedule, int rank, SimulationOptions options, double seconds)
    : options_(std::move(options)), seconds_(seconds), memory_(std::make_unique<Memory>()) {
  Schedule empty = schedule;
  for (auto& actions : empty.ranks) actions.clear();
  (void)simulate(empty, options_);  // refuses the options
  if (!(seconds >= 0))
    throw InvalidArgument(fmt::format("emulated device: seconds must be 0 or more, got {}", seconds));
  if (!options_.rank_slowdown.empty()) seconds_ *= options_.rank_slowdown.at(static_cast<std::size_t>(rank));
  memory_->stages = schedule.stages;
}

EmulatedDevice::~EmulatedDevice() = default;

StageCallbacks EmulatedDevice::callbacks() {
  const auto computing = [this](Kind kind) {
    return [this, kind](int stage, int micro_batch) {
      compute({.kind = kind, .stage = stage, .micro_batch = micro_batch});
    };
  };
  StageCallbacks callbacks;
  callbacks.forward = computing(Kind::forward);
  callbacks.backward = computing(Kind::backward);
  callbacks.input_gradient = computing(Kind::input_gradient);
  callbacks.weight_gradient = computing(Kind::weight_gradient);
  callbacks.buffer = [this](const Action& message) { return memory_of(message); };
  callbacks.release = [this](const Action& message) { release(message); };
  return callbacks;
}

void EmulatedDevice::compute(const Action& action) {
  const Clock::time_point begin = begin_of(action);
  if (action.kind == Kind::forward) peak_ = std::max(peak_, ++live_);
  const double time = detail::of_each(options_.stages, action.stage).of(action.kind);
  const Clock::time_point end =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time * seconds_));
  wait_until(end);
  returned_ = Clock::now();
  late_ = returned_ - end;
  const bool ends = options_.forward_only || action.kind == Kind::backward || action.kind == Kind::weight_gradient;
  if (ends) --live_;
}

// A device does not wake late. What this one did, after the computation before, is not counted again; unless it would
// have had to wait for the input anyway, or nothing is known of that.
Clock::time_point EmulatedDevice::begin_of(const Action& action) {
  const Clock::time_point now = Clock::now();
  const Kind receive = action.kind == Kind::forward ? Kind::recv_forward : Kind::recv_backward;
  const auto sent = memory_->sent_at.extract(
      {receive, tag_of({.kind = receive, .stage = action.stage, .micro_batch = action.micro_batch}, memory_->stages)});
  if (action.kind == Kind::weight_gradient || sent.empty()) return now - late_;
  return sent.mapped() > returned_ ? now : std::max(now - late_, sent.mapped());
}

comm::Buffer EmulatedDevice::memory_of(const Action& message) {
  const int boundary = std::min(message.stage, peer_stage(message));
  const double size = is_metadata(message.kind) ? 0 : detail::of_each(options_.message_bytes, boundary);
  auto& memory = memory_->messages[{is_send(message.kind), tag_of(message, memory_->stages)}];
  memory.resize(static_cast<std::size_t>(size));
  if (is_send(message.kind) && memory.size() >= sizeof(Clock::rep)) {
    const Clock::rep now = Clock::now().time_since_epoch().count();
    std::memcpy(memory.data(), &now, sizeof now);
  }
  return {memory.data(), static_cast<std::int64_t>(memory.size()), comm::DType::u8};
}

void EmulatedDevice::release(const Action& message) {
  const int tag = tag_of(message, memory_->stages);
  const auto memory = memory_->messages.extract({is_send(message.kind), tag});
  if (is_send(message.kind) || is_metadata(message.kind)) return;
  Clock::rep sent = Clock::now().time_since_epoch().count();
  if (memory.mapped().size() >= sizeof sent) std::memcpy(&sent, memory.mapped().data(), sizeof sent);
  const Clock::time_point sent_at{Clock::duration(sent)};
  memory_->sent_at[{message.kind, tag}] = sent_at;
  // The rank has waited for it since, perhaps before the first of joined computations: it is not late any more.
  if (sent_at > returned_) late_ = {};
}

}  // namespace plumbline::schedules
