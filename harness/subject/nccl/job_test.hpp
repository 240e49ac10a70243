// harness/subject/nccl/job_test.hpp: what the NCCL backend's tests share. Every process runs all, in lock-step, over
// the double: they prove our side of NCCL's interface, and nothing of NCCL.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/subject/module_calls_test.hpp"
#include "harness/subject/nccl/communicator.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::subject::nccl {

/// Of this process: its devices, and the job on them, opened by main().
const std::shared_ptr<device::Runtime>& devices();
const std::shared_ptr<Job>& job();

/// Elements in the device's memory.
class OnDevice {
 public:
  explicit OnDevice(std::vector<float> values)
      : memory_(devices(), job()->process.device, std::max<std::size_t>(values.size(), 1) * sizeof(float)),
        count_(values.size()) {
    put(values);
  }
  explicit OnDevice(std::size_t count) : OnDevice(std::vector<float>(count, 77)) {}
  OnDevice(OnDevice&&) = default;
  OnDevice& operator=(OnDevice&&) = delete;
  // Calls are complete for the host before they are on the device.
  ~OnDevice() {
    if (memory_.data() != nullptr) devices()->synchronize(job()->process.device, nullptr);
  }

  [[nodiscard]] comm::Buffer view(std::size_t first = 0, std::size_t count = SIZE_MAX) const {
    count = std::min(count, count_ - first);
    return {count_ == 0 ? nullptr : memory_.data() + first * sizeof(float), static_cast<std::int64_t>(count),
            comm::DType::f32, place()};
  }
  [[nodiscard]] static comm::Device place() {
    return {comm::Device::Kind::emulated, static_cast<std::int16_t>(job()->process.device)};
  }
  /// In the order of the default stream.
  void put(const std::vector<float>& values) {
    devices()->copy(job()->process.device, memory_.data(), values.data(), values.size() * sizeof(float), nullptr);
    devices()->synchronize(job()->process.device, nullptr);
  }
  [[nodiscard]] std::vector<float> get() const {
    std::vector<float> values(count_);
    devices()->copy(job()->process.device, values.data(), memory_.data(), values.size() * sizeof(float), nullptr);
    devices()->synchronize(job()->process.device, nullptr);
    return values;
  }

 private:
  device::Memory memory_;
  std::size_t count_;
};

/// Elements of a dtype in the device's memory, between canaries: what lies outside must stay as it is.
class DeviceElements {
 public:
  DeviceElements(comm::DType dtype, const std::vector<double>& values)
      : dtype_(dtype),
        count_(values.size()),
        memory_(devices(), job()->process.device, 2 * kCanary + values.size() * size_of(dtype)) {
    std::vector<std::byte> bytes(size(), std::byte{0xa5});
    for (std::size_t i = 0; i < count_; ++i)
      module_test::put(bytes.data() + kCanary + i * size_of(dtype), dtype, values[i]);
    devices()->copy(job()->process.device, memory_.data(), bytes.data(), bytes.size(), nullptr);
    devices()->synchronize(job()->process.device, nullptr);
  }
  /// Poisoned.
  DeviceElements(comm::DType dtype, std::size_t count) : DeviceElements(dtype, std::vector<double>(count, 77)) {}
  DeviceElements(DeviceElements&&) = default;
  DeviceElements& operator=(DeviceElements&&) = delete;
  ~DeviceElements() {
    if (memory_.data() != nullptr) devices()->synchronize(job()->process.device, nullptr);
  }

  [[nodiscard]] comm::Buffer view() const { return part(0, count_); }
  [[nodiscard]] comm::Buffer part(std::size_t first, std::size_t count) const {
    return {memory_.data() + kCanary + first * size_of(dtype_), static_cast<std::int64_t>(count), dtype_,
            OnDevice::place()};
  }
  friend bool operator==(const DeviceElements& a, const DeviceElements& b) {
    return a.dtype_ == b.dtype_ && a.bytes() == b.bytes();
  }

 private:
  static constexpr std::size_t kCanary = 64;
  [[nodiscard]] std::size_t size() const { return 2 * kCanary + count_ * size_of(dtype_); }
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all(size());
    devices()->copy(job()->process.device, all.data(), memory_.data(), all.size(), nullptr);
    devices()->synchronize(job()->process.device, nullptr);
    return all;
  }
  comm::DType dtype_;
  std::size_t count_;
  device::Memory memory_;
};

/// Rank's element i.
inline float given(int rank, std::size_t i) { return static_cast<float>(1 + rank * 100 + static_cast<int>(i % 7)); }
inline std::vector<float> gift(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = given(rank, i);
  return values;
}
/// Of all ranks' elements i.
inline float sum_of(int ranks, std::size_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += given(rank, i);
  return sum;
}
inline std::vector<float> sums(int ranks, std::size_t count, std::size_t first = 0) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = sum_of(ranks, first + i);
  return all;
}

/// Looks until it is so. Throws with whom it waited for, so that one that never comes costs a test and not the whole
/// run.
inline void await(const std::function<bool()>& is_so, const std::string& whom,
                  std::chrono::seconds limit = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() >= end)
      throw std::runtime_error("waited " + std::to_string(limit.count()) + " s for " + whom);
    std::this_thread::yield();
  }
}

/// To the other ranks, beside NCCL: where a fault of the double would meet a barrier, too. Each word once in a run.
inline void tell(const std::string& word) { std::ofstream(job()->process.place.scratch / word).flush(); }
inline void await_word(const std::string& word, const std::string& whom) {
  await([&] { return std::filesystem::exists(job()->process.place.scratch / word); }, whom);
}

/// Another job of these processes, which shares nothing with the first: for what leaves its lanes broken.
inline std::shared_ptr<Job> make_job(const std::string& name, const std::string& start_limit = "60",
                                     const std::shared_ptr<device::Runtime>& runtime = devices()) {
  Place place = job()->process.place;
  place.scratch /= name;
  std::filesystem::create_directories(place.scratch);
  return std::make_shared<Job>(
      Options::parse({{"library", NCCL_DOUBLE}, {"runtime", "emulated"}, {"start_limit", start_limit}}), place,
      runtime);
}

class NcclTest : public testing::Test {
 protected:
  static std::unique_ptr<comm::Communicator> make_world(const std::shared_ptr<Job>& of = job(),
                                                        device::Stream stream = nullptr) {
    std::vector<int> ranks(static_cast<std::size_t>(of->process.place.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return std::make_unique<NcclCommunicator>(Group::create(of, nullptr, ranks, "world"), stream);
  }
  std::unique_ptr<comm::Communicator> world_ = make_world();
  comm::Communicator& world = *world_;
  const int n = world.size();
  const int me = world.rank();
  const std::size_t un = static_cast<std::size_t>(n);
  const std::size_t um = static_cast<std::size_t>(me);
  const module_test::Calls<DeviceElements> common{
      world, {{comm::DType::f32}, {0, 5, 20000}, {module_test::Mode::started}}};  // the double takes its time
};

/// Of this process, as long as it lives. Its threads ask for it, too: no variable of the environment may be set
/// meanwhile.
class DoubleFault {
 public:
  explicit DoubleFault(const char* name) { choose(name); }
  ~DoubleFault() { choose(""); }
  DoubleFault(const DoubleFault&) = delete;
  DoubleFault& operator=(const DoubleFault&) = delete;

 private:
  static void choose(const char* name) {
    void* const library = ::dlopen(NCCL_DOUBLE, RTLD_NOW | RTLD_NOLOAD);  // the job has opened it
    reinterpret_cast<void (*)(const char*)>(::dlsym(library, "nccl_double_fault"))(name);
  }
};

}  // namespace plumbline::subject::nccl
