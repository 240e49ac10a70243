// reference/slowmo/slow_step_table.hpp: slow_step() as work for a device that takes many tensors in one launch.
#pragma once

#include <span>
#include <vector>

#include "reference/device/elementwise.hpp"
#include "reference/device/tensor_table.hpp"
#include "reference/slowmo/slow_step_element.hpp"

namespace plumbline::slowmo {

/// Step is one of slow_step_element.hpp's, made of the same rule for both types.
template <template <class> class Step>
struct SlowStepWork {
  static constexpr std::string_view kName = Step<float>::kName;

  device::TensorTable<3> table;  // x, old, momentum
  Step<float> in_f32;
  Step<double> in_f64;

  PLUMBLINE_HOST_DEVICE void operator()(std::int32_t chunk, int thread, int threads) const {
    const device::ChunkPart part = device::part_of(table, chunk);
    const device::TensorEntry<3>& entry = table.entry[part.entry];
    const auto all = [&](const auto& step, auto element) {
      using T = decltype(element);
      const auto column = [&](int place) {
        return device::InOut<T>{static_cast<T*>(entry.address[place]) + part.first};
      };
      device::elementwise(step, part.count, thread, threads, column(0), column(1), column(2));
    };
    if (static_cast<comm::DType>(entry.types) == comm::DType::f32)
      all(in_f32, float());
    else
      all(in_f64, double());
  }
};

/// What there is to do, in order; nothing for tensors without elements. All must be in memory of `device`. Throws InvalidArgument
/// for other counts or types than each other's and for memory of another device, Unsupported for other types than f32 and f64.
[[nodiscard]] device::TensorTables<3> slow_step_tables(std::span<const SlowTensor> tensors, comm::Device device);

template <template <class> class Step>
[[nodiscard]] std::vector<SlowStepWork<Step>> slow_step_work(const SlowRule& rule, std::span<const SlowTensor> tensors,
                                                             comm::Device device) {
  const device::TensorTables<3> tables = slow_step_tables(tensors, device);
  std::vector<SlowStepWork<Step>> work;
  for (const auto& table : tables.all()) work.push_back({table, Step<float>(rule), Step<double>(rule)});
  return work;
}

}  // namespace plumbline::slowmo
