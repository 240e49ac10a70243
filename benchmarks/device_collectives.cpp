// How fast backend local moves and adds in memory of devices: ninja device_collectives && build/bin/device_collectives
// [KIND [RANKS]]
//
// Model   RANKS threads (8) on device 0 of a kind (cuda; emulated shows only that it runs). Each call is made by all
//         ranks in their own streams, several in a row without a wait of the host, alternately with copies on the
//         device. Times are those of events in rank 0's stream around the row, the median of several rows; the first is
//         not counted. The host's time for a call is beside it: where it is longer, the host is what is measured.
// Bytes   What a call must move at least: each input read once, each output written once. The share is that of the
//         copy's speed, whose bytes are read and written as well.
// Verdict Prints a row a call and size. Exit status 3, with the reason, where there is no such device, or an answer is
//         wrong: one of each call and size is checked before it is timed.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/answers.hpp"
#include "benchmarks/device_timing.hpp"
#include "harness/device/devices.hpp"
#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtime.hpp"
#include "reference/device/runtimes.hpp"

namespace {

using plumbline::InvalidArgument;
using plumbline::median;
using plumbline::RuntimeFailure;
using plumbline::bench::give;
using plumbline::bench::is_answer;
using plumbline::bench::Memory;
using plumbline::bench::StreamTimer;
using plumbline::comm::Buffer;
using plumbline::comm::Call;
using plumbline::comm::Communicator;
using plumbline::comm::Device;
using plumbline::comm::DType;
using plumbline::comm::Operation;
using plumbline::device::MemorySpace;
using plumbline::device::OwnStream;
using plumbline::device::Runtime;
using Clock = std::chrono::steady_clock;

constexpr int kRows = 15;    // of which the first warms up
constexpr int kInARow = 10;  // calls

struct Subject {
  const char* name;
  Operation operation;
  DType dtype;
  bool in_place;
};
constexpr Subject kSubjects[] = {{"all_reduce f32", Operation::all_reduce, DType::f32, false},
                                 {"all_reduce f32, in place", Operation::all_reduce, DType::f32, true},
                                 {"all_reduce bf16", Operation::all_reduce, DType::bf16, false},
                                 {"reduce_scatter f32", Operation::reduce_scatter, DType::f32, false},
                                 {"all_gather f32", Operation::all_gather, DType::f32, false},
                                 {"all_to_all f32, in place", Operation::all_to_all, DType::f32, true}};

// What one rank gives and gets, of `bytes` the larger.
Call call_of(const Subject& subject, std::int64_t bytes, int ranks) {
  const std::int64_t share = bytes / static_cast<std::int64_t>(size_of(subject.dtype)) / ranks;
  const bool split_in = subject.operation == Operation::all_gather;
  const bool split_out = subject.operation == Operation::reduce_scatter;
  return {.operation = subject.operation,
          .in = {nullptr, split_in ? share : share * ranks, subject.dtype},
          .out = {nullptr, split_out ? share : share * ranks, subject.dtype}};
}

struct Figures {
  double device_seconds, host_seconds;  // of one call
};

// Rank 0's figures.
Figures measure(const std::shared_ptr<Runtime>& runtime, Device device, const Subject& subject, std::int64_t bytes,
                int ranks) {
  Figures figures{};
  plumbline::comm::LocalOptions options;
  options.device_calls = plumbline::device::make_calls(runtime);
  plumbline::comm::run_ranks(
      ranks,
      [&](Communicator& world) {
        Call call = call_of(subject, bytes, ranks);
        const OwnStream stream(runtime, device.index);
        world.use_stream(stream.get());
        const MemorySpace place({runtime, stream.get()}, device.index);
        const Memory in(place, call.in.count, subject.dtype),
            out(place, subject.in_place ? 0 : call.out.count, subject.dtype);
        const Memory& result = subject.in_place ? in : out;
        call.in = in.buffer();
        call.out = result.buffer();
        give(world, call, in, result);
        world.run(call);
        if (!is_answer(world, call, result))
          throw RuntimeFailure(fmt::format("{}: a wrong answer on rank {}", subject.name, world.rank()));
        runtime->fill(device.index, in.data(), std::byte{}, in.bytes(), stream.get());  // rows of sums must not grow
        const StreamTimer timer(runtime, device.index, stream.get());
        std::vector<double> on_device, on_host;
        for (int row = 0; row < kRows; ++row) {
          stream.synchronize();
          world.barrier();
          timer.begin();
          const auto start = Clock::now();
          for (int i = 0; i < kInARow; ++i) world.run(call);
          on_host.push_back(std::chrono::duration<double>(Clock::now() - start).count() / kInARow);
          timer.end();
          on_device.push_back(timer.seconds() / kInARow);
          if (row == 0) on_device.clear(), on_host.clear();
        }
        world.barrier();
        if (world.rank() == 0) figures = {median(on_device), median(on_host)};
      },
      options);
  return figures;
}

// Seconds for a copy of so many bytes on the device.
double copy_seconds(const std::shared_ptr<Runtime>& runtime, Device device, std::size_t bytes) {
  const OwnStream stream(runtime, device.index);
  const plumbline::device::Memory from(runtime, device.index, bytes), to(runtime, device.index, bytes);
  runtime->fill(device.index, from.data(), std::byte{}, bytes, stream.get());
  const StreamTimer timer(runtime, device.index, stream.get());
  std::vector<double> samples;
  for (int row = 0; row < kRows; ++row) {
    const double seconds = timer.seconds_of([&] {
      for (int i = 0; i < kInARow; ++i) runtime->copy(device.index, to.data(), from.data(), bytes, stream.get());
    });
    if (row > 0) samples.push_back(seconds / kInARow);
  }
  return median(samples);
}

void print_rows(const std::shared_ptr<Runtime>& runtime, Device device, int ranks,
                const std::vector<std::int64_t>& sizes) {
  for (const Subject& subject : kSubjects)
    for (const std::int64_t bytes : sizes) {
      const Call call = call_of(subject, bytes, ranks);
      const double moved = static_cast<double>(call.in.bytes() + call.out.bytes()) * ranks;
      const Figures figures = measure(runtime, device, subject, bytes, ranks);
      const double copy = copy_seconds(runtime, device, static_cast<std::size_t>(moved / 2));
      fmt::print("{:<26} {:>9} {:>11.1f} {:>11.1f} {:>11.1f} {:>11.1f} {:>8.3f}\n", subject.name, bytes >> 10,
                 figures.device_seconds * 1e6, figures.host_seconds * 1e6, moved / figures.device_seconds / 1e9,
                 moved / copy / 1e9, copy / figures.device_seconds);
    }
}

int number(const char* text) {
  int value = 0;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (error != std::errc{} || end != all.data() + all.size() || value < 1 || value > 64)
    throw InvalidArgument(fmt::format("RANKS '{}'; it is a number from 1 to 64", text));
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto choice = plumbline::comm::DeviceChoice::parse(argc > 1 ? argv[1] : "cuda");
    const int ranks = argc > 2 ? number(argv[2]) : 8;
    const auto runtime = plumbline::harness::open_runtime(choice.kind);
    const Device device{choice.kind, static_cast<std::int16_t>(std::max(0, choice.index))};
    const auto about = runtime->describe(device.index);
    fmt::print("{} ({}), {} ranks; stated memory bandwidth {:.0f} GB/s\n", plumbline::comm::name_of(device), about.name,
               ranks, about.memory_bytes_per_second / 1e9);
    fmt::print("{:<26} {:>9} {:>11} {:>11} {:>11} {:>11} {:>8}\n", "call", "KiB", "us", "host us", "GB/s", "copy GB/s",
               "of it");
    const bool emulated = choice.kind == Device::Kind::emulated;
    print_rows(runtime, device, ranks,
               emulated ? std::vector<std::int64_t>{4096, 65536}
                        : std::vector<std::int64_t>{1 << 20, 16 << 20, 64 << 20, 256 << 20});
    return 0;
  } catch (const InvalidArgument& error) {
    fmt::print(stderr, "device_collectives: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "device_collectives: {}\n", error.what());
    return 3;
  }
}
