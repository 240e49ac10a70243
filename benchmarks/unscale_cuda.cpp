// How fast gradients are unscaled in a GPU's memory: ninja unscale_cuda && build/tests/unscale_cuda
//
// Model   Lists of gradients: those of GPT-2 small, a thousand short ones, and one of 256 MiB. Each is unscaled in place in f32, and
//         from f16 and bf16 to f32, in turns with a copy on the device that reads and writes as many bytes. Times are those of
//         CUDA events around a step, the median of several; the first steps are not counted.
// Verdict The share of the copy's speed. Exit status 3, with the reason, where there is no GPU.
#include "reference/scaler/unscale_cuda.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "reference/bucketing/gradient_lists.hpp"
#include "reference/comm/errors.hpp"

namespace {

using plumbline::comm::Buffer;
using plumbline::comm::DType;
using plumbline::scaler::Unscaling;

void expect(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw plumbline::RuntimeFailure(std::string(what) + ": " + cudaGetErrorString(status));
}

// Zeros on the device.
class Memory {
 public:
  explicit Memory(std::size_t bytes) {
    expect(cudaMalloc(&data_, bytes), "cudaMalloc");
    expect(cudaMemset(data_, 0, bytes), "cudaMemset");
  }
  ~Memory() { (void)cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

class Timer {
 public:
  Timer() {
    expect(cudaEventCreate(&begin_), "cudaEventCreate");
    expect(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~Timer() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  double seconds(const std::function<void()>& step) {
    expect(cudaEventRecord(begin_), "cudaEventRecord");
    step();
    expect(cudaEventRecord(end_), "cudaEventRecord");
    expect(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    expect(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

struct Kind {
  const char* name;
  DType from;
  bool in_place;
};
constexpr std::array kKinds{Kind{"f32", DType::f32, true}, Kind{"f16_to_f32", DType::f16, false},
                            Kind{"bf16_to_f32", DType::bf16, false}};

struct List {
  const char* name;
  std::vector<std::int64_t> elements;
};

std::vector<List> lists() {
  List gpt2{"gpt2", {}};
  for (const auto& one : plumbline::bucketing::gpt2_small_gradients()) gpt2.elements.push_back(one.elements);
  return {gpt2, {"1000 of 1024", std::vector<std::int64_t>(1000, 1024)}, {"one of 2^26", {std::int64_t{1} << 26}}};
}

double median(std::vector<double> samples) {
  std::ranges::nth_element(samples, samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2));
  return samples[samples.size() / 2];
}

// Gradients lie one behind the other, each at a boundary of 256 bytes as allocators have it.
void measure(const List& list, const Kind& kind, Timer& timer) {
  const plumbline::comm::Device gpu{plumbline::comm::Device::Kind::cuda, 0};
  const std::size_t from_size = plumbline::comm::size_of(kind.from), to_size = kind.in_place ? from_size : 4;
  const auto padded = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  std::size_t from_bytes = 0, to_bytes = 0;
  double moved = 0;
  for (const std::int64_t count : list.elements) {
    from_bytes += padded(static_cast<std::size_t>(count) * from_size);
    to_bytes += padded(static_cast<std::size_t>(count) * to_size);
    moved += static_cast<double>(count) * static_cast<double>(from_size + to_size);
  }
  const Memory from(from_bytes), to(kind.in_place ? 1 : to_bytes), flag(sizeof(float));
  const auto half = static_cast<std::size_t>(moved / 2);
  const Memory copied_from(half), copied_to(half);
  std::vector<Unscaling> work;
  std::size_t from_at = 0, to_at = 0;
  for (const std::int64_t count : list.elements) {
    void* const source = from.data() + from_at;
    work.push_back({{source, count, kind.from, gpu},
                    {kind.in_place ? source : to.data() + to_at, count, kind.in_place ? kind.from : DType::f32, gpu}});
    from_at += padded(static_cast<std::size_t>(count) * from_size);
    to_at += padded(static_cast<std::size_t>(count) * to_size);
  }
  constexpr int warm = 5, rounds = 31;
  std::vector<double> ours, copies;
  for (int round = 0; round < warm + rounds; ++round) {
    const double copy = timer.seconds([&] {
      expect(cudaMemcpyAsync(copied_to.data(), copied_from.data(), half, cudaMemcpyDeviceToDevice, nullptr), "copy");
    });
    const double own =
        timer.seconds([&] { plumbline::scaler::unscale_on_device(work, 0.5F, reinterpret_cast<float*>(flag.data())); });
    if (round < warm) continue;
    copies.push_back(copy);
    ours.push_back(own);
  }
  float found = 0;
  expect(cudaMemcpy(&found, flag.data(), sizeof found, cudaMemcpyDeviceToHost), "cudaMemcpy");
  if (found != 0) throw plumbline::RuntimeFailure("something was found among zeros");
  const double own = median(ours), copy = median(copies);
  std::printf("%-14s %-13s %9zu %11.1f %11.1f %11.1f %8.3f\n", list.name, kind.name, list.elements.size(), own * 1e6,
              moved / own / 1e9, moved / copy / 1e9, copy / own);
}

}  // namespace

int main() {
  try {
    cudaDeviceProp device{};
    expect(cudaGetDeviceProperties(&device, 0), "no GPU can be used");
    std::printf("%s, compute capability %d.%d\n%-14s %-13s %9s %11s %11s %11s %8s\n", device.name, device.major,
                device.minor, "gradients", "types", "number", "us", "GB/s", "copy GB/s", "of it");
    Timer timer;
    for (const List& list : lists())
      for (const Kind& kind : kKinds) measure(list, kind, timer);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unscale_cuda: %s\n", error.what());
    return 3;
  }
}
