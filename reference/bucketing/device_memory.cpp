#include <algorithm>
#include <array>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/device/scaled_copies.hpp"

namespace plumbline::bucketing {
namespace {

class DeviceMemory final : public BucketMemory {
 public:
  explicit DeviceMemory(const device::MemorySpace& place) : place_(place) {}
  [[nodiscard]] comm::Device device() const override { return place_.device(); }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    auto room = std::make_shared<device::ScratchBuffer>();
    std::byte* const data = room->take(place_, std::max<std::size_t>(bytes, 1));  // also of no bytes it has an address
    place_.fill(data, std::byte{0}, bytes);
    return {std::move(room), data};
  }
  void copy_divided(comm::ConstBuffer from, comm::Buffer to, double divisor) override {
    const std::array copies{device::ScaledCopy{from, to}};
    place_.launch(device::scaled_copy_work(copies, device::over(divisor), device()));
  }
  void fill_zeros(comm::Buffer buffer) override { place_.fill(buffer.data, std::byte{0}, buffer.bytes()); }
  void settle() override { place_.synchronize(); }

 private:
  device::MemorySpace place_;
};

}  // namespace

std::shared_ptr<BucketMemory> memory_of(const device::MemorySpace& place) {
  if (place.is_host()) return host_memory();
  return std::make_shared<DeviceMemory>(place);
}

}  // namespace plumbline::bucketing
