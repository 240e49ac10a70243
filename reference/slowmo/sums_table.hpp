// reference/slowmo/sums_table.hpp: sums and differences of tensors of any two floating types, as work for a device that takes many in
// one launch: what halves lose in averages, and their masters keep.
//
// Model   to[i] = to[i] + from[i], or to[i] - from[i]: `from` is converted to what the type of `to` computes in, and the result is
//         rounded once.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "reference/device/elementwise.hpp"
#include "reference/device/scaled_copies_table.hpp"
#include "reference/device/tensor_table.hpp"

namespace plumbline::slowmo {

struct SumStep {
  bool subtracts;

  template <class From, class To>
  PLUMBLINE_HOST_DEVICE void operator()(From from, To& to) const {
    const auto other = static_cast<device::Wide<To>>(device::widened(from));
    const auto value = device::widened(to);
    to = device::narrowed<To>(subtracts ? value - other : value + other);
  }
};

struct SumWork {
  static constexpr std::string_view kName = "sums";

  device::TensorTable<2>
      table;  // from, to; `types` of an entry: 4 * type of `from` + type of `to`, as DType numbers them
  SumStep step;

  PLUMBLINE_HOST_DEVICE void operator()(std::int32_t chunk, int thread, int threads) const {
    const device::ChunkPart part = device::part_of(table, chunk);
    const auto& entry = table.entry[part.entry];
    const auto all = [&](auto from, auto to) {
      using From = decltype(from);
      using To = decltype(to);
      SumStep sum = step;
      device::elementwise(sum, part.count, thread, threads,
                          device::In<From>{static_cast<const From*>(entry.address[0]) + part.first},
                          device::InOut<To>{static_cast<To*>(entry.address[1]) + part.first});
    };
    const auto from = [&](auto element) {
      switch (entry.types % 4) {
        case 0:
          return all(element, comm::Float16());
        case 1:
          return all(element, comm::BFloat16());
        case 2:
          return all(element, float());
        default:
          return all(element, double());
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

/// What there is to do, in order; nothing for tensors without elements. All must be in memory of `device`. Throws InvalidArgument for
/// other counts than each other's and for memory of another device, Unsupported for types that are not floating.
[[nodiscard]] std::vector<SumWork> sum_work(std::span<const device::ScaledCopy> pairs, bool subtracts,
                                            comm::Device device);

}  // namespace plumbline::slowmo
