// How fast gradients are copied into buckets and out, divided and rounded on the way, against memcpy: ninja
// bucket_copies.
//
// usage: bucket_copies [ROUNDS]
//
// Buckets of 256 KiB, which caches hold, and of 64 MiB, which they do not. A round times each kind of copy and, right
// before it, a memcpy that reads and writes as many bytes in all; a figure is the median of the rounds, and of their
// ratios.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/support/quantile.hpp"

namespace {

using namespace plumbline;  // NOLINT: one file, which is no library
using comm::DType;

struct Kind {
  DType from, to;
  double divisor;
};

double seconds_of(const auto& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void measure(const Kind& kind, std::int64_t bytes, int rounds) {
  const auto count = bytes / static_cast<std::int64_t>(std::max(comm::size_of(kind.from), comm::size_of(kind.to)));
  std::vector<char> from(static_cast<std::size_t>(bytes)), to(from.size(), 1);
  const comm::ConstBuffer in{from.data(), count, kind.from};
  const comm::Buffer out{to.data(), count, kind.to};
  const std::size_t moved = in.bytes() + comm::ConstBuffer(out).bytes();
  const int times = std::max<int>(1, static_cast<int>((std::int64_t{8} << 20) / bytes));
  std::vector<double> speeds, ratios;
  for (int round = -1; round < rounds; ++round) {
    const double plain = seconds_of([&] {
      for (int i = 0; i < times; ++i) std::memcpy(to.data(), from.data(), moved / 2);
    });
    const double own = seconds_of([&] {
      for (int i = 0; i < times; ++i) bucketing::copy_divided(in, out, kind.divisor);
    });
    if (round < 0) continue;  // pages
    speeds.push_back(static_cast<double>(moved) * times / own);
    ratios.push_back(plain / own);
  }
  fmt::print("{:>7} {:>4} to {:<4}{:<13}{:8.1f} GB/s read and written, {:.2f} of memcpy\n",
             bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10),
             comm::name_of(kind.from), comm::name_of(kind.to),
             kind.divisor == 1 ? "" : fmt::format(" divided by {:g}", kind.divisor), median(speeds) / 1e9,
             median(ratios));
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 21;
  if (count > 2 || rounds < 1) {
    fmt::print(stderr, "usage: bucket_copies [ROUNDS]\n");
    return 2;
  }
  for (const std::int64_t bytes : {std::int64_t{256} << 10, std::int64_t{64} << 20})
    for (const Kind& kind : {Kind{DType::f32, DType::f32, 1},
                             {DType::f32, DType::f32, 3},
                             {DType::f32, DType::f32, 4},
                             {DType::f32, DType::f16, 1},
                             {DType::f16, DType::f32, 1},
                             {DType::f32, DType::bf16, 1},
                             {DType::f32, DType::bf16, 3},
                             {DType::f32, DType::bf16, 4},
                             {DType::bf16, DType::f32, 1}})
      measure(kind, bytes, rounds);
}
