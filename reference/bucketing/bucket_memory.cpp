#include "reference/bucketing/bucket_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace plumbline::bucketing {
namespace {

class HostMemory final : public BucketMemory {
 public:
  [[nodiscard]] comm::Device device() const override { return {}; }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    constexpr std::size_t align = 64;
    auto* const data = static_cast<std::byte*>(std::aligned_alloc(align, (bytes + align) / align * align));
    if (data == nullptr) throw std::bad_alloc();
    std::fill_n(data, bytes, std::byte{0});
    return {data, [](std::byte* memory) { std::free(memory); }};
  }
  void copy_divided(comm::ConstBuffer from, comm::Buffer to, double divisor) override {
    bucketing::copy_divided(from, to, divisor);
  }
  void fill_zeros(comm::Buffer buffer) override { bucketing::fill_zeros(buffer); }
  void settle() override {}
};

}  // namespace

std::shared_ptr<BucketMemory> host_memory() { return std::make_shared<HostMemory>(); }

}  // namespace plumbline::bucketing
