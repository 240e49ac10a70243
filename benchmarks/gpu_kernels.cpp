// How fast the kernels on many tensors are in a GPU's memory: ninja gpu_kernels && build/tests/gpu_kernels [--json
// FILE]
//
// Model   Lists of tensors: the gradients of GPT-2 small, a thousand short ones, and one of 256 MiB. Each kernel's step
//         alternates with a copy on the device that reads and writes the same bytes. Times are those of CUDA
//         events around a step, the median of several; the first steps are not counted.
// Verdict The share of the copy's speed. Exit status 3, with the reason, where there is no GPU; 2 for a bad option.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "benchmarks/device_timing.hpp"
#include "harness/bench/gradient_lists.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/runtime.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/device/scaled_copies.hpp"
#include "reference/gossip/mixing_kernel.hpp"
#include "reference/scaler/unscale_cuda.hpp"
#include "reference/slowmo/kernels_cuda.hpp"

namespace {

using plumbline::median;
using plumbline::bench::StreamTimer;
using plumbline::comm::Buffer;
using plumbline::comm::Device;
using plumbline::comm::DType;
using plumbline::device::Memory;
using plumbline::device::Runtime;

constexpr Device kGpu{Device::Kind::cuda, 0};

// Zeros on the device.
Memory zeros(const std::shared_ptr<Runtime>& runtime, std::size_t bytes) {
  Memory memory(runtime, kGpu.index, bytes);
  runtime->fill(kGpu.index, memory.data(), std::byte{0}, bytes, nullptr);
  return memory;
}

// Tensors of one type that lie one after the other, each at a boundary of 256 bytes as allocators have it.
class Tensors {
 public:
  Tensors(const std::shared_ptr<Runtime>& runtime, const std::vector<std::int64_t>& elements, DType dtype)
      : memory_(zeros(runtime, bytes_of(elements, dtype))) {
    std::size_t at = 0;
    for (const std::int64_t count : elements) {
      all_.push_back({memory_.data() + at, count, dtype, kGpu});
      at += padded(all_.back().bytes());
    }
  }
  [[nodiscard]] const Buffer& operator[](std::size_t i) const { return all_[i]; }

 private:
  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  static std::size_t bytes_of(const std::vector<std::int64_t>& elements, DType dtype) {
    std::size_t bytes = 0;
    for (const std::int64_t count : elements)
      bytes += padded(static_cast<std::size_t>(count) * plumbline::comm::size_of(dtype));
    return bytes;
  }
  Memory memory_;
  std::vector<Buffer> all_;
};

struct List {
  const char* name;
  std::vector<std::int64_t> elements;
};

std::vector<List> lists() {
  List gpt2{"gpt2", {}};
  for (const auto& one : plumbline::bucketing::gpt2_small_gradients()) gpt2.elements.push_back(one.elements);
  return {gpt2, {"1000 of 1024", std::vector<std::int64_t>(1000, 1024)}, {"one of 2^26", {std::int64_t{1} << 26}}};
}

// A kernel on a list: columns of tensors by type, the bytes an element reads and writes, and a step over all of them.
struct Kernel {
  const char* name;
  std::vector<DType> columns;
  int bytes_an_element;
  std::function<std::function<void()>(const std::vector<const Tensors*>& columns, std::size_t count, float* flag)>
      prepare;
};

Kernel unscale(const char* name, DType from, DType to) {
  const int bytes = static_cast<int>(plumbline::comm::size_of(from) + plumbline::comm::size_of(to));
  // In place where the type stays.
  std::vector<DType> types{from};
  if (from != to) types.push_back(to);
  return {name, types, bytes, [](const auto& columns, std::size_t count, float* flag) {
            std::vector<plumbline::scaler::Unscaling> work;
            for (std::size_t i = 0; i < count; ++i) work.push_back({(*columns.front())[i], (*columns.back())[i]});
            return [work, flag] { plumbline::scaler::unscale_on_device(work, 0.5F, flag); };
          }};
}

Kernel scaled_copy(const char* name, DType from, DType to, double divisor) {
  const int bytes = static_cast<int>(plumbline::comm::size_of(from) + plumbline::comm::size_of(to));
  return {name, {from, to}, bytes, [divisor](const auto& columns, std::size_t count, float*) {
            std::vector<plumbline::device::ScaledCopy> work;
            for (std::size_t i = 0; i < count; ++i) work.push_back({(*columns[0])[i], (*columns[1])[i]});
            return [work, divisor] { plumbline::device::copy_on_device(work, plumbline::device::over(divisor)); };
          }};
}

Kernel slow_step() {
  return {
      "slow_step f32", {DType::f32, DType::f32, DType::f32}, 24, [](const auto& columns, std::size_t count, float*) {
        std::vector<plumbline::slowmo::SlowTensor> work;
        for (std::size_t i = 0; i < count; ++i) work.push_back({(*columns[0])[i], (*columns[1])[i], (*columns[2])[i]});
        return [work] { plumbline::slowmo::slow_step_on_device({plumbline::slowmo::slowmo_rule(0.5, 1), 0.1}, work); };
      }};
}

Kernel mixing(const char* name, DType dtype, int arrivals) {
  const int bytes = static_cast<int>(plumbline::comm::size_of(dtype)) * (2 + arrivals);
  const auto columns = static_cast<std::size_t>(1 + arrivals);
  return {name, std::vector<DType>(columns, dtype), bytes, [](const auto& tensors, std::size_t count, float*) {
            std::vector<plumbline::gossip::Arrivals> work(count);
            for (std::size_t i = 0; i < count; ++i) {
              work[i].x = (*tensors[0])[i];
              for (std::size_t k = 1; k < tensors.size(); ++k) work[i].came[k - 1] = (*tensors[k])[i];
            }
            return [work] { plumbline::gossip::mix_on_device(work, {.factor = 0.5, .is_lazy = true}); };
          }};
}

std::vector<Kernel> kernels() {
  return {unscale("unscale f32", DType::f32, DType::f32),
          unscale("unscale f16 to f32", DType::f16, DType::f32),
          unscale("unscale bf16 to f32", DType::bf16, DType::f32),
          scaled_copy("flatten f32", DType::f32, DType::f32, 1),
          scaled_copy("flatten f32 over 3", DType::f32, DType::f32, 3),
          scaled_copy("flatten f32 to bf16", DType::f32, DType::bf16, 1),
          scaled_copy("unflatten bf16 to f32", DType::bf16, DType::f32, 3),
          slow_step(),
          mixing("mixing f32 from 1", DType::f32, 1),
          mixing("mixing f32 from 3", DType::f32, 3),
          mixing("mixing bf16 from 1", DType::bf16, 1)};
}

nlohmann::json measure(const std::shared_ptr<Runtime>& runtime, const List& list, const Kernel& kernel,
                       const StreamTimer& timer) {
  double moved = 0;
  for (const std::int64_t count : list.elements) moved += static_cast<double>(count) * kernel.bytes_an_element;
  std::vector<std::unique_ptr<Tensors>> tensors;
  std::vector<const Tensors*> columns;
  for (const DType dtype : kernel.columns) {
    tensors.push_back(std::make_unique<Tensors>(runtime, list.elements, dtype));
    columns.push_back(tensors.back().get());
  }
  const auto half = static_cast<std::size_t>(moved / 2);
  const Memory flag = zeros(runtime, sizeof(float)), from = zeros(runtime, half), to = zeros(runtime, half);
  const auto step = kernel.prepare(columns, list.elements.size(), reinterpret_cast<float*>(flag.data()));
  constexpr int warm = 5, rounds = 31;
  std::vector<double> ours, copies;
  for (int round = 0; round < warm + rounds; ++round) {
    const double copy = timer.seconds_of([&] { runtime->copy(kGpu.index, to.data(), from.data(), half, nullptr); });
    const double own = timer.seconds_of(step);
    if (round < warm) continue;
    copies.push_back(copy);
    ours.push_back(own);
  }
  float found = 0;
  runtime->copy(kGpu.index, &found, flag.data(), sizeof found, nullptr);
  runtime->synchronize(kGpu.index, nullptr);
  if (found != 0) throw plumbline::RuntimeFailure("something was found among zeros");
  const double own = median(ours), copy = median(copies);
  return {{"kernel", kernel.name},           {"tensors", list.name},
          {"number", list.elements.size()},  {"seconds", own},
          {"bytes_per_second", moved / own}, {"copy_bytes_per_second", moved / copy},
          {"share_of_copy", copy / own}};
}

void run(const std::string& file) {
  const std::shared_ptr<Runtime> runtime = plumbline::device::make_cuda();
  const plumbline::device::Description gpu = runtime->describe(kGpu.index);
  nlohmann::json report{
      {"device", gpu.name}, {"compute_capability", gpu.compute_capability}, {"environment", runtime->environment()}};
  std::printf("%s, compute capability %s\n%-22s %-13s %7s %11s %11s %11s %8s\n", gpu.name.c_str(),
              gpu.compute_capability.c_str(), "kernel", "tensors", "number", "us", "GB/s", "copy GB/s", "of it");
  const StreamTimer timer(runtime, kGpu.index, nullptr);
  for (const List& list : lists())
    for (const Kernel& kernel : kernels()) {
      const nlohmann::json row = measure(runtime, list, kernel, timer);
      std::printf("%-22s %-13s %7zu %11.1f %11.1f %11.1f %8.3f\n", kernel.name, list.name, list.elements.size(),
                  row["seconds"].get<double>() * 1e6, row["bytes_per_second"].get<double>() / 1e9,
                  row["copy_bytes_per_second"].get<double>() / 1e9, row["share_of_copy"].get<double>());
      std::fflush(stdout);
      report["rows"].push_back(row);
    }
  if (file.empty()) return;
  std::ofstream out(file);
  out << report.dump(1) << "\n" << std::flush;
  if (!out) throw plumbline::RuntimeFailure("--json " + file + ": cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("How fast the kernels on many tensors are in a GPU's memory, against copies");
  std::string file;
  app.add_option("--json", file, "Write the rows there");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    run(file);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_kernels: %s\n", error.what());
    return 3;
  }
}
