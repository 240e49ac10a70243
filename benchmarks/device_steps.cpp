// How long a step of LocalSGD, stochastic gradient push and SlowMo takes on parameters in a device's memory:
// ninja device_steps && build/bin/device_steps [KIND [RANKS]]
//
// Model   RANKS threads (4) on device 0 of a kind (cuda; emulated shows only that it runs), each with the parameters of
//         GPT-2 small, f32 (emulated: a few), and SlowMo around them, in a stream of its own. Rows of steps are made
//         without a wait between them: before_forward(), after_backward(), step(); a row has as many as slow_frequency,
//         so that each has all that is made.
//         Times are a step's, those of events in rank 0's stream around the row and the host's for putting it there,
//         the median of several rows; the first ones are not counted. Waits are how often all ranks together called
//         what may let the host wait for the device, in all counted rows: 0, but by way of the host.
// Verdict Prints a row an algorithm. Exit status 3, with the reason, where there is no such device; 2 for a bad option.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/device_timing.hpp"
#include "harness/bench/gradient_lists.hpp"
#include "harness/device/devices.hpp"
#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace {

using plumbline::InvalidArgument;
using plumbline::median;
using plumbline::bench::StreamTimer;
using plumbline::comm::Buffer;
using plumbline::comm::Communicator;
using plumbline::comm::Device;
using plumbline::comm::DType;
using plumbline::device::Memory;
using plumbline::device::OwnStream;
using plumbline::device::Runtime;
using plumbline::device::Stream;
using plumbline::slowmo::BaseAlgorithm;
using plumbline::slowmo::Options;
using plumbline::slowmo::SlowMo;
using Clock = std::chrono::steady_clock;

constexpr int kRows = 12, kWarm = 3;
constexpr int kStepsInARow = 4;

/// Counts what may let the host wait for a device.
class CountsWaits final : public plumbline::device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void synchronize(int device, Stream stream) override {
    ++waits;
    RuntimeDecorator::synchronize(device, stream);
  }
  void release(int device, void* memory) noexcept override {
    ++waits;
    RuntimeDecorator::release(device, memory);
  }
  std::atomic<int> waits{0};
};

struct Subject {
  const char* name;
  Options options;
};

std::vector<Subject> subjects() {
  const Options every{.slow_momentum = 0, .slow_frequency = kStepsInARow, .local_sgd_frequency = 1};
  Options push = every, overlap = every, slow = every, whole = every, staged = every;
  push.base = overlap.base = BaseAlgorithm::sgp;
  overlap.overlap = overlap.accepts_stale = true;
  slow.slow_momentum = whole.slow_momentum = 0.5;
  whole.memory_efficient = false;
  staged.communication_device = Device{};
  return {
      {"localsgd", every},          {"localsgd, by way of the host", staged}, {"sgp", push},
      {"sgp, overlapped", overlap}, {"localsgd + slowmo, whole", whole},      {"localsgd + slowmo, in shards", slow}};
}

struct Figures {
  double device_seconds = 0, host_seconds = 0;  // of one step
  int waits = 0;
};

// A rank's rows; rank 0 says what they took.
void make_rows(Communicator& world, const std::shared_ptr<CountsWaits>& runtime, Device device, Options options,
               const std::vector<std::int64_t>& sizes, Figures& figures) {
  const OwnStream stream(runtime, device.index);
  std::size_t bytes = 0;
  for (const std::int64_t count : sizes) bytes += static_cast<std::size_t>(count) * sizeof(float);
  const Memory memory(runtime, device.index, bytes);
  runtime->fill(device.index, memory.data(), std::byte{}, bytes, stream.get());
  std::vector<Buffer> parameters;
  std::size_t at = 0;
  for (const std::int64_t count : sizes) {
    parameters.push_back({memory.data() + at, count, DType::f32, device});
    at += parameters.back().bytes();
  }
  options.device = {runtime, stream.get()};
  SlowMo slowmo(
      world, {.parameters = parameters},
      [&] { return std::vector<plumbline::slowmo::ParameterGroup>{{parameters, 0.1}}; }, options);
  const StreamTimer timer(runtime, device.index, stream.get());
  std::vector<double> on_device, on_host;
  int waits = 0;
  for (int row = 0; row < kRows; ++row) {
    stream.synchronize();
    world.barrier();
    const int before = runtime->waits;
    world.barrier();
    timer.begin();
    const auto start = Clock::now();
    for (int step = 0; step < kStepsInARow; ++step) {
      slowmo.before_forward();
      slowmo.after_backward({});
      slowmo.step();
    }
    on_host.push_back(std::chrono::duration<double>(Clock::now() - start).count() / kStepsInARow);
    timer.end();
    world.barrier();
    if (row >= kWarm) waits += runtime->waits - before;
    world.barrier();
    on_device.push_back(timer.seconds() / kStepsInARow);
    if (row < kWarm) on_device.clear(), on_host.clear();
  }
  world.barrier();
  if (world.rank() == 0) figures = {median(on_device), median(on_host), waits};
}

int number(const char* text) {
  int value = 0;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (error != std::errc{} || end != all.data() + all.size() || value < 2 || value > 64)
    throw InvalidArgument(fmt::format("RANKS '{}'; it is a number from 2 to 64", text));
  return value;
}

std::vector<std::int64_t> sizes_on(Device::Kind kind) {
  if (kind == Device::Kind::emulated) return {1000, 33, 4097};
  std::vector<std::int64_t> sizes;
  for (const auto& one : plumbline::bucketing::gpt2_small_gradients()) sizes.push_back(one.elements);
  return sizes;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto choice = plumbline::comm::DeviceChoice::parse(argc > 1 ? argv[1] : "cuda");
    const int ranks = argc > 2 ? number(argv[2]) : 4;
    const auto runtime = std::make_shared<CountsWaits>(plumbline::harness::open_runtime(choice.kind));
    const Device device{choice.kind, static_cast<std::int16_t>(std::max(0, choice.index))};
    fmt::print("{} ({}), {} ranks\n{:<30} {:>12} {:>12} {:>8}\n", plumbline::comm::name_of(device),
               runtime->describe(device.index).name, ranks, "step", "us", "host us", "waits");
    const std::vector<std::int64_t> sizes = sizes_on(choice.kind);
    for (const Subject& subject : subjects()) {
      Figures figures;
      plumbline::comm::LocalOptions local;
      local.device_calls = plumbline::device::make_calls(runtime);
      plumbline::comm::run_ranks(
          ranks, [&](Communicator& world) { make_rows(world, runtime, device, subject.options, sizes, figures); },
          local);
      fmt::print("{:<30} {:>12.1f} {:>12.1f} {:>8}\n", subject.name, figures.device_seconds * 1e6,
                 figures.host_seconds * 1e6, figures.waits);
    }
    return 0;
  } catch (const InvalidArgument& error) {
    fmt::print(stderr, "device_steps: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "device_steps: {}\n", error.what());
    return 3;
  }
}
