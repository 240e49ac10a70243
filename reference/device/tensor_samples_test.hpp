// reference/device/tensor_samples_test.hpp: tensors for tests of kernels' work, and that work done by this processor.
#pragma once

#include <cstring>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/comm/dtype.hpp"

namespace plumbline::device {

/// Does what the blocks and threads of the launches would do, one after the other.
template <class Works>
void run_on_host(const Works& works) {
  constexpr int threads = 64;
  for (const auto& work : works)
    for (std::int32_t chunk = 0; chunk < work.table.chunks; ++chunk)
      for (int thread = 0; thread < threads; ++thread) work(chunk, thread, threads);
}

/// A number as an element of a floating type.
inline void put(std::byte* at, comm::DType dtype, double value) {
  const auto store = [at](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  if (dtype == comm::DType::f16) store(comm::to_float16(static_cast<float>(value)));
  if (dtype == comm::DType::bf16) store(comm::to_bfloat16(static_cast<float>(value)));
  if (dtype == comm::DType::f32) store(static_cast<float>(value));
  if (dtype == comm::DType::f64) store(value);
}

/// Elements that start `shift` of them after a boundary of 16 bytes. Equal to another when elements and the bytes
/// around them are.
class ShiftedTensor {
 public:
  ShiftedTensor(comm::DType dtype, std::int64_t count, std::size_t shift, int seed = 0)
      : dtype_(dtype),
        count_(count),
        shift_(shift * comm::size_of(dtype)),
        bytes_(64 + shift_ + room(), std::byte{0x5a}) {
    fill(seed);
  }
  ShiftedTensor(const ShiftedTensor& other)
      : dtype_(other.dtype_), count_(other.count_), shift_(other.shift_), bytes_(other.bytes_.size(), std::byte{0x5a}) {
    std::memcpy(buffer().data, other.buffer().data, other.buffer().bytes());
  }
  ShiftedTensor& operator=(const ShiftedTensor&) = delete;

  [[nodiscard]] comm::Buffer buffer() const {
    return {const_cast<std::byte*>(bytes_.data()) + start(), count_, dtype_};
  }
  /// Numbers whose products and sums round; of integers, bytes.
  void fill(int seed) {
    for (std::int64_t i = 0; i < count_; ++i)
      if (comm::is_floating(dtype_))
        set(i, static_cast<double>((i * 7 + seed) % 23 - 11) * 0.37);
      else
        std::memset(at(i), static_cast<int>(i * 31 + seed) & 0xff, comm::size_of(dtype_));
  }
  void set(std::int64_t i, double value) { put(at(i), dtype_, value); }
  friend bool operator==(const ShiftedTensor& a, const ShiftedTensor& b) { return a.contents() == b.contents(); }

 private:
  [[nodiscard]] std::byte* at(std::int64_t i) const {
    return static_cast<std::byte*>(buffer().data) + static_cast<std::size_t>(i) * comm::size_of(dtype_);
  }
  [[nodiscard]] std::size_t room() const { return static_cast<std::size_t>(count_) * comm::size_of(dtype_) + 64; }
  [[nodiscard]] std::size_t start() const { return 16 - reinterpret_cast<std::uintptr_t>(bytes_.data()) % 16 + shift_; }
  [[nodiscard]] std::vector<std::byte> contents() const {
    const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(start()) - 1;
    return {first, first + static_cast<std::ptrdiff_t>(buffer().bytes()) + 17};
  }
  comm::DType dtype_;
  std::int64_t count_;
  std::size_t shift_;
  std::vector<std::byte> bytes_;
};

}  // namespace plumbline::device
