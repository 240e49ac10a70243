// reference/device/scaled_copies.hpp: many copies that scale and change types, as work for a device that takes them all
// in one launch: gradients into buckets and out of them, what is sent of a tensor, de-biasing.
//
// Model   to[i] = from[i] * factor, or from[i] / divisor, in f64 where `from` is that and else in f32, rounded to the
//         type of `to` (of f64 to 16 bits by way of f32). By 1 between buffers of one type it is a copy of bytes. In
//         place where both start at one address and have elements of one size.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "reference/device/elementwise.hpp"
#include "reference/device/kernel.hpp"

namespace plumbline::device {

struct ScaledCopy {
  comm::ConstBuffer from;
  comm::Buffer to;
};

/// What every element is multiplied with or divided by.
struct Scaling {
  double number = 1;
  bool divides = false;
};
[[nodiscard]] inline Scaling times(double factor) { return {factor, false}; }
[[nodiscard]] inline Scaling over(double divisor) { return {divisor, true}; }

template <class Number>
struct ScaledCopyStep {
  Number number;
  bool divides;
  template <class From, class To>
  PLUMBLINE_HOST_DEVICE void operator()(From from, To& to) const {
    const auto value = widened(from);
    to = narrowed<To>(divides ? value / number : value * number);
  }
};

struct CopyStep {
  template <class T>
  PLUMBLINE_HOST_DEVICE void operator()(T from, T& to) const {
    to = from;
  }
};

struct ScaledCopyWork {
  static constexpr std::string_view kName = "copies";
  /// `types` of an entry that is copied as bytes; of others 4 * type of `from` + type of `to`, as DType numbers them.
  static constexpr std::int32_t kBytes = -1;

  TensorTable<2> table;  // from, to
  double number = 1;
  bool divides = false;

  PLUMBLINE_HOST_DEVICE void operator()(std::int32_t chunk, int thread, int threads) const {
    const ChunkPart part = part_of(table, chunk);
    const TensorEntry<2>& entry = table.entry[part.entry];
    const auto all = [&](auto step, auto from, auto to) {
      elementwise(step, part.count, thread, threads,
                  In<decltype(from)>{static_cast<const decltype(from)*>(entry.address[0]) + part.first},
                  Out<decltype(to)>{static_cast<decltype(to)*>(entry.address[1]) + part.first});
    };
    if (entry.types == kBytes) return all(CopyStep(), std::uint8_t(), std::uint8_t());
    const auto from = [&](auto element) {
      const ScaledCopyStep<Wide<decltype(element)>> step{static_cast<Wide<decltype(element)>>(number), divides};
      switch (entry.types % 4) {
        case 0:
          return all(step, element, comm::Float16());
        case 1:
          return all(step, element, comm::BFloat16());
        case 2:
          return all(step, element, float());
        default:
          return all(step, element, double());
      }
    };
    switch (entry.types / 4) {
      case 0:
        return from(comm::Float16());
      case 1:
        return from(comm::BFloat16());
      case 2:
        return from(float());
      default:
        return from(double());
    }
  }
};

/// What there is to do, in order; nothing for copies without elements or of an element to itself. All must be in memory
/// of `device`. Throws InvalidArgument for other counts than each other's, for memory of another device and for any
/// other overlap, Unsupported for integers that would be scaled or change their type.
[[nodiscard]] std::vector<ScaledCopyWork> scaled_copy_work(std::span<const ScaledCopy> copies, Scaling scaling,
                                                           comm::Device device);

// ---- Copies that scale and change types, in memory of a GPU: one launch for all of them.
//
// Model   In stream order: nothing is waited for, and the host may forget the list when the call returns.
// Bits    Those of the host (bucketing::copy_divided(), gossip::scaled_copy()), but for which NaN.
// Needs   A driver for the toolkit that this was built with. The program starts without one.

/// Makes all copies, on a stream (a cudaStream_t; null: the default one) of the device that they are on. A launch for
/// each 1000 of them. The device that was current is current again, if it has a context. Throws what scaled_copy_work()
/// throws; DeviceFailure where CUDA reports an error.
void copy_on_device(std::span<const ScaledCopy> copies, Scaling scaling, void* stream = nullptr);

/// ScaledCopyWork for make_cuda().
[[nodiscard]] CudaKernel copies_kernel();

}  // namespace plumbline::device
