// reference/gossip/mixing_kernel.hpp: what push-sum adds up of what came, as work for a device that takes many tensors
// in one launch.
//
// Model   Of a tensor x and what came for it: x = x + (came 0 + came 1 + …), and where mixing is lazy x = that * kept.
//         Each operation is rounded to the tensor's type, in this order: so PushSum mixes on the host.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "reference/device/elementwise.hpp"
#include "reference/device/kernel.hpp"

namespace plumbline::gossip {

/// Messages that one launch adds to a tensor. Of more, the first are added up before.
inline constexpr int kMostArrivals = 3;

/// What came for a tensor. Nothing where data is null, and from then on.
using Messages = std::array<comm::ConstBuffer, kMostArrivals>;
/// A tensor and what came for it, of one type and length.
struct Arrivals {
  comm::Buffer x;
  Messages came{};
};

struct MixStep {
  double kept;
  bool scales;

  template <class T>
  PLUMBLINE_HOST_DEVICE void operator()(T& x) const {
    if (scales) x = device::narrowed<T>(device::widened(x) * static_cast<device::Wide<T>>(kept));
  }
  template <class T, class... Came>
  PLUMBLINE_HOST_DEVICE void operator()(T& x, T first, Came... more) const {
    T sum = first;
    ((sum = device::narrowed<T>(device::widened(sum) + device::widened(more))), ...);
    x = device::narrowed<T>(device::widened(x) + device::widened(sum));
    (*this)(x);
  }
};

struct MixWork {
  static constexpr std::string_view kName = "mixing";
  device::TensorTable<1 + kMostArrivals> table;  // x, what came
  MixStep step;

  PLUMBLINE_HOST_DEVICE void operator()(std::int32_t chunk, int thread, int threads) const {
    const device::ChunkPart part = device::part_of(table, chunk);
    const auto& entry = table.entry[part.entry];
    MixStep mix = step;
    const auto all = [&](auto element) {
      using T = decltype(element);
      const device::InOut<T> x{static_cast<T*>(entry.address[0]) + part.first};
      const auto came = [&](int place) {
        return device::In<T>{static_cast<const T*>(entry.address[1 + place]) + part.first};
      };
      if (entry.address[1] == nullptr)
        device::elementwise(mix, part.count, thread, threads, x);
      else if (entry.address[2] == nullptr)
        device::elementwise(mix, part.count, thread, threads, x, came(0));
      else if (entry.address[3] == nullptr)
        device::elementwise(mix, part.count, thread, threads, x, came(0), came(1));
      else
        device::elementwise(mix, part.count, thread, threads, x, came(0), came(1), came(2));
    };
    switch (static_cast<comm::DType>(entry.types)) {
      case comm::DType::f16:
        return all(comm::Float16());
      case comm::DType::bf16:
        return all(comm::BFloat16());
      case comm::DType::f32:
        return all(float());
      default:
        return all(double());
    }
  }
};

/// How mixing ends: what came is added (nothing), or the sum is multiplied with what a node keeps of itself (lazy
/// mixing).
struct Kept {
  double factor = 1;
  bool is_lazy = false;
};

/// What there is to do, in order; nothing for tensors without elements, nor for those that nothing came for and that
/// are not multiplied. All must be in
/// memory of `device`. Throws InvalidArgument for other counts or types than each other's and for memory of another
/// device, Unsupported for types that are not floating.
[[nodiscard]] std::vector<MixWork> mix_work(std::span<const Arrivals> tensors, Kept kept, comm::Device device);

// ---- Push-sum's mixing for tensors in memory of a GPU: one launch for all of them.
//
// Model   On a device, in stream order: nothing is waited for, and the host may free the list when the call
//         returns.
// Bits    Those of the host, but for which NaN.
// Needs   A driver for the toolkit that this was built with. The program starts without one.

/// Mixes all tensors, on a stream (a cudaStream_t; null: the default one) of the device that they are on. A launch for
/// each 666 tensors. The device that was current is current again, if it has a context. Throws what mix_work() throws;
/// DeviceFailure where CUDA reports an error.
void mix_on_device(std::span<const Arrivals> tensors, Kept kept, void* stream = nullptr);

/// MixWork for device::make_cuda().
[[nodiscard]] device::CudaKernel mixing_kernel();

}  // namespace plumbline::gossip
