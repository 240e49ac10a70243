#include "harness/subject/nccl/process.hpp"

#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <sched.h>

#include "harness/subject/nccl/devices.hpp"
#include "harness/subject/nccl/lane.hpp"
#include "harness/subject/nccl/self_description.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::subject::nccl {
namespace {

std::shared_ptr<device::Runtime> open_devices(const Options& options, const Place& place, const Library& library) {
  try {
    return open_runtime(options.runtime, place.size);
  } catch (const RuntimeFailure& error) {
    throw RuntimeFailure(
        fmt::format("backend nccl: NCCL {} is here, its device is not: {}", library.version(), error.what()));
  }
}

// A rank a GPU: NCCL refuses two ranks on one.
int choose_device(const Options& options, const Place& place, const device::Runtime& runtime) {
  const int count = runtime.count();
  const std::string kind(name_of(runtime.kind()));
  if (options.device) {
    if (*options.device < count) return *options.device;
    throw RuntimeFailure(fmt::format("backend nccl: device={}: this host has {} {} device{}, counted from 0",
                                     *options.device, count, kind, count == 1 ? "" : "s"));
  }
  if (place.size <= count) return place.rank;
  throw RuntimeFailure(
      fmt::format("backend nccl: {} ranks need {} GPUs, this host has {} ({}); NCCL rejects two ranks on one GPU, so "
                  "take a smaller "
                  "--world-size, or --backend local",
                  place.size, place.size, count, kind));
}

}  // namespace

Process::Process(const Options& given, Place where, std::shared_ptr<device::Runtime> devices)
    : options(given),
      place(std::move(where)),
      library(options.library),
      runtime(devices != nullptr ? std::move(devices) : open_devices(options, place, library)),
      memory(device::make_calls(runtime)),
      device(choose_device(options, place, *runtime)),
      board(place.size == 1 ? std::filesystem::path() : place.scratch, place.size),
      capabilities(capabilities_of(library, options.runtime)) {}

Process::Turn::Turn(Process& process) : hold_(process.mutex_) {
  make_current({process.options.runtime, static_cast<std::int16_t>(process.device)});
}

Process::~Process() {
  // What other ranks have not come to end by then they never will.
  Patience patience(std::chrono::seconds(2));
  for (tend(); !ending_.empty() && !patience.is_over(); tend()) patience.pause();
  ending_.clear();
}

Config Process::configuration() {
  Config config;
  config.blocking = 0;
  config.split_share = 0;  // so that aborting one communicator leaves the others alone
  return config;
}

int Process::next_creation(std::uint64_t parent, const std::vector<int>& world_ranks) {
  const std::lock_guard hold(creations_mutex_);
  return ++creations_[{parent, world_ranks}];
}

void Process::bury(std::unique_ptr<Lane> lane) noexcept {
  if (lane != nullptr && !lane->end()) ending_.push_back(std::move(lane));
}

void Process::tend() noexcept {
  std::erase_if(ending_, [](const auto& lane) { return lane->end(); });
}

// A limit that ends after the clock does never ends.
Patience::Patience(comm::Timeout limit)
    : end_(limit && *limit < Clock::time_point::max() - Clock::now()
               ? std::optional(Clock::now() + std::chrono::duration_cast<Clock::duration>(*limit))
               : std::nullopt) {}

bool Patience::is_over() const { return end_ && Clock::now() >= *end_; }

void Patience::pause() {
  constexpr int kLooksBeforeYield = 200;
  constexpr Clock::duration kYielding = std::chrono::microseconds(500);
  constexpr Clock::duration kShortestSleep = std::chrono::microseconds(10),
                            kLongestSleep = std::chrono::microseconds(100);
  if (++looks_ <= kLooksBeforeYield) return;
  const Clock::duration waited = Clock::now() - begin_;
  if (waited < kYielding)
    sched_yield();
  else
    std::this_thread::sleep_for(std::clamp(waited / 16, kShortestSleep, kLongestSleep));
}

}  // namespace plumbline::subject::nccl
