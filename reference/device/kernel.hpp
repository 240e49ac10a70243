// reference/device/kernel.hpp: kernels that components bring along, each on tables of many tensors (elementwise.hpp).
//
// Model   A work is a plain value, a table with what is done to its entries: work(chunk, thread, threads) does one
//         thread's part of one block. A runtime is given its bytes, and knows it by name: the emulated one runs the
//         body that is named here, module cuda its own build of the same body (launch.cuh). What a work uses that is no
//         entry of its table it says by beside().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "reference/device/runtime.hpp"

namespace plumbline::device {

struct Kernel {
  std::string_view name;  // Work::kName
  std::size_t bytes = 0;  // of a work
  /// One thread's part of one block, on this processor.
  void (*run)(const void* work, std::int32_t chunk, int thread, int threads) = nullptr;
  /// All memory that a work reads or writes.
  std::vector<const void*> (*addresses)(const void* work) = nullptr;
};

template <class Work>
[[nodiscard]] Kernel kernel_of() {
  static_assert(std::is_trivially_copyable_v<Work>, "a stream keeps the bytes of a work");
  return {.name = Work::kName,
          .bytes = sizeof(Work),
          .run = [](const void* work, std::int32_t chunk, int thread,
                    int threads) { (*static_cast<const Work*>(work))(chunk, thread, threads); },
          .addresses =
              [](const void* bytes) {
                const Work& work = *static_cast<const Work*>(bytes);
                std::vector<const void*> all;
                const auto add = [&](const void* address) {
                  if (address != nullptr) all.push_back(address);
                };
                for (std::int32_t i = 0; i < work.table.entries; ++i)
                  for (const void* address : work.table.entry[i].address) add(address);
                if constexpr (requires { work.beside(); })
                  for (const void* address : work.beside()) add(address);
                return all;
              }};
}

/// Puts all of them into the stream, in their order: a launch each.
template <class Work>
void launch(Runtime& runtime, int device, const std::vector<Work>& works, Stream stream) {
  const Kernel kernel = kernel_of<Work>();
  for (const Work& work : works) runtime.launch(device, kernel, &work, work.table.chunks, stream);
}

// ---- A component's kernel as it was built for GPUs.

struct CudaKernel {
  std::string_view name;  // Work::kName
  std::size_t bytes;      // of a work: a module that is older than its program is found out
  /// Launches it on the device that is current, on a copy of `work`. Throws DeviceFailure where CUDA reports an error.
  void (*launch)(const void* work, std::int32_t chunks, void* stream);
};

}  // namespace plumbline::device
