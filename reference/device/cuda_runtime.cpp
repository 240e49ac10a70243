#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/device/detail/cuda_kernels.hpp"
#include "reference/device/detail/driver_version.hpp"
#include "reference/device/kernel.hpp"
#include "reference/device/launch.cuh"
#include "reference/device/runtimes.hpp"

namespace plumbline::device {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, device) == cudaSuccess) return value;
  (void)cudaGetLastError();
  return 0;
}

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t native_event(Event event) { return static_cast<cudaEvent_t>(event); }

// How many there are. Says why none can be used.
int usable_devices() {
  DriverFacts facts;
  (void)cudaDriverGetVersion(&facts.driver);
  (void)cudaRuntimeGetVersion(&facts.built);
  const cudaError_t status = cudaGetDeviceCount(&facts.devices);
  facts.insufficient = status == cudaErrorInsufficientDriver;
  if (status == cudaErrorNoDevice) facts.devices = 0;
  const bool is_told = facts.driver == 0 || facts.insufficient || status == cudaErrorNoDevice;
  if (!is_told) expect(status, "cudaGetDeviceCount");
  (void)cudaGetLastError();
  if (const auto why = why_no_gpu(facts)) throw RuntimeFailure("device cuda: " + *why);
  return facts.devices;
}

class Cuda final : public Runtime {
 public:
  explicit Cuda(std::vector<CudaKernel> kernels) : count_(usable_devices()), kernels_(std::move(kernels)) {}

  [[nodiscard]] comm::Device::Kind kind() const override { return comm::Device::Kind::cuda; }
  [[nodiscard]] int count() const override { return count_; }
  [[nodiscard]] Description describe(int device) const override {
    expect_device(device);
    cudaDeviceProp properties{};
    expect(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    // Twice a clock, kilohertz; bits.
    const double transfers = 2e3 * attribute(cudaDevAttrMemoryClockRate, device);
    return {.name = properties.name,
            .compute_capability = fmt::format("{}.{}", properties.major, properties.minor),
            .memory_bytes = properties.totalGlobalMem,
            .multiprocessors = properties.multiProcessorCount,
            .memory_bytes_per_second = transfers * attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8};
  }
  [[nodiscard]] std::map<std::string, std::string> environment() const override {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    std::map<std::string, std::string> all{{"device.runtime", "CUDA " + cuda_version(runtime)},
                                           {"device.driver", "CUDA " + cuda_version(driver)},
                                           {"device.count", std::to_string(count_)}};
    for (int device = 0; device < count_; ++device) {
      cudaDeviceProp one{};
      if (cudaGetDeviceProperties(&one, device) != cudaSuccess) {
        (void)cudaGetLastError();
        continue;
      }
      all[fmt::format("device.{}", device)] = fmt::format(
          "{}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB, clocks {} and {} MHz (memory)", one.name,
          one.major, one.minor, one.multiProcessorCount, static_cast<double>(one.totalGlobalMem) / (1 << 30),
          attribute(cudaDevAttrClockRate, device) / 1000, attribute(cudaDevAttrMemoryClockRate, device) / 1000);
    }
    return all;
  }

  [[nodiscard]] void* allocate(int device, std::size_t bytes) override {
    expect_device(device);
    if (bytes == 0) return nullptr;
    const Current current(device);
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      std::size_t free = 0, total = 0;
      (void)cudaMemGetInfo(&free, &total);
      throw OutOfMemory(
          fmt::format("cuda:{}: no memory for {} bytes; {} of {} bytes are free", device, bytes, free, total));
    }
    expect(status, "cudaMalloc");
    return memory;
  }
  void release(int device, void* memory) noexcept override {
    give_back(device, [memory] { return cudaFree(memory); });
  }
  [[nodiscard]] std::optional<int> holder_of(const void* address) const override {
    const std::optional<int> used = device_in_use();
    if (!used) return std::nullopt;  // then no memory is a device's
    const Current current(*used);
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
      (void)cudaGetLastError();
      return std::nullopt;
    }
    const bool on_device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    return on_device ? std::optional(attributes.device) : std::nullopt;
  }
  void connect(int device, int other) override {
    expect_device(device);
    expect_device(other);
    if (device == other) return;
    const std::lock_guard hold(mutex_);
    if (connected_.contains({device, other})) return;
    int possible = 0;
    expect(cudaDeviceCanAccessPeer(&possible, device, other), "cudaDeviceCanAccessPeer");
    if (possible == 0)
      throw Unsupported(
          fmt::format("cuda:{} cannot read the memory of cuda:{}; put all ranks on one of them: --device "
                      "cuda:{}",
                      device, other, device));
    const Current current(device);
    const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled)
      (void)cudaGetLastError();
    else
      expect(status, "cudaDeviceEnablePeerAccess");
    connected_.emplace(device, other);
  }

  void reach(int device, const void* address) override {
    expect_device(device);
    const Current current(device);  // whose access is told
    // The driver is asked of the context that this thread has, and a thread that has chosen none has none.
    expect(cudaSetDevice(device), fmt::format("cudaSetDevice({})", device));
    unsigned access = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
    if (!tell(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, address, &access))
      return;  // an old driver: connected is all that can be
    if (access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE) return;
    cudaMemPool_t pool = nullptr;
    if (!tell(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address, &pool) || pool == nullptr)
      throw closed(device, address,
                   "it was mapped by hand, and for other GPUs (PyTorch's allocator does so with "
                   "expandable_segments:True)");
    cudaMemAccessDesc open{};
    open.location.type = cudaMemLocationTypeDevice;
    open.location.id = device;
    open.flags = cudaMemAccessFlagsProtReadWrite;
    const cudaError_t status = cudaMemPoolSetAccess(pool, &open, 1);
    if (status == cudaSuccess) return;
    (void)cudaGetLastError();
    throw closed(device, address,
                 fmt::format("its pool stays closed: {} ({})", cudaGetErrorString(status), cudaGetErrorName(status)));
  }

  [[nodiscard]] Stream create_stream(int device) override {
    expect_device(device);
    const Current current(device);
    cudaStream_t stream = nullptr;
    expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
  }
  void destroy_stream(int device, Stream stream) noexcept override {
    give_back(device, [stream] { return cudaStreamDestroy(native(stream)); });
  }
  void synchronize(int device, Stream stream) override {
    expect_device(device);
    const Current current(device);
    expect(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
  }

  [[nodiscard]] Event create_event(int device, bool timed) override {
    expect_device(device);
    const Current current(device);
    cudaEvent_t event = nullptr;
    expect(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
           "cudaEventCreateWithFlags");
    return event;
  }
  void destroy_event(int device, Event event) noexcept override {
    give_back(device, [event] { return cudaEventDestroy(native_event(event)); });
  }
  void record(int device, Event event, Stream stream) override {
    const Current current(device);
    expect(cudaEventRecord(native_event(event), native(stream)), "cudaEventRecord");
  }
  void wait(int device, Stream stream, Event event) override {
    const Current current(device);
    expect(cudaStreamWaitEvent(native(stream), native_event(event), 0), "cudaStreamWaitEvent");
  }
  [[nodiscard]] bool is_reached(int device, Event event) override {
    const Current current(device);
    const cudaError_t status = cudaEventQuery(native_event(event));
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    expect(status, "cudaEventQuery");
    return true;
  }
  [[nodiscard]] double seconds_between(Event begin, Event end) override {
    const Current current(device_in_use().value_or(0));
    float milliseconds = 0;
    expect(cudaEventElapsedTime(&milliseconds, native_event(begin), native_event(end)), "cudaEventElapsedTime");
    return milliseconds / 1e3;
  }

  void copy(int device, void* to, const void* from, std::size_t bytes, Stream stream) override {
    if (bytes == 0) return;
    const Current current(device);
    expect(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)), "cudaMemcpyAsync");
  }
  void fill(int device, void* to, std::byte value, std::size_t bytes, Stream stream) override {
    if (bytes == 0) return;
    const Current current(device);
    expect(cudaMemsetAsync(to, std::to_integer<int>(value), bytes, native(stream)), "cudaMemsetAsync");
  }
  void fold(int device, const FoldTable& table, Stream stream) override {
    const Current current(device);
    expect(launch_fold(table, native(stream)), "the launch of a fold");
  }
  void move(int device, const MoveTable& table, Stream stream) override {
    const Current current(device);
    expect(launch_move(table, native(stream)), "the launch of a move");
  }
  void launch(int device, const Kernel& kernel, const void* work, std::int32_t chunks, Stream stream) override {
    const auto found = std::ranges::find(kernels_, kernel.name, &CudaKernel::name);
    if (found == kernels_.end())
      throw Unsupported(fmt::format("cuda:{}: this runtime was made without the kernel of {}", device, kernel.name));
    if (found->bytes != kernel.bytes)
      throw Unsupported(
          fmt::format("cuda:{}: module cuda has the kernel of {} for works of {} bytes, and this program's have {}; "
                      "build both from one tree",
                      device, kernel.name, found->bytes, kernel.bytes));
    const Current current(device);
    found->launch(work, chunks, stream);
  }
  void pause(int device, std::chrono::nanoseconds duration, Stream stream) override {
    const Current current(device);
    expect(launch_pause(duration.count(), native(stream)), "the launch of a pause");
  }

 private:
  void expect_device(int device) const {
    if (device < 0 || device >= count_)
      throw InvalidArgument(fmt::format("there is no cuda:{}; this process has {}, from cuda:0", device, count_));
  }

  // Calls what gives something of the device back. Where that has failed for good, there is nobody left to tell.
  template <class Call>
  static void give_back(int device, const Call& call) noexcept {
    try {
      const Current current(device);
      if (call() != cudaSuccess) (void)cudaGetLastError();
    } catch (const std::exception&) {
      return;
    }
  }

  // One that this process has a context on, first of all the current one: what is asked of pointers and events opens
  // one on the device that is current.
  [[nodiscard]] std::optional<int> device_in_use() const {
    int current = 0;
    expect(cudaGetDevice(&current), "cudaGetDevice");
    if (has_context(current)) return current;
    for (int device = 0; device < count_; ++device)
      if (has_context(device)) return device;
    return std::nullopt;
  }

  static Unsupported closed(int device, const void* address, const std::string& why) {
    return Unsupported(fmt::format(
        "cuda:{} may not use the memory at {} of another GPU: {}; allocate it with cudaMalloc or from a pool, "
        "or put all ranks on one GPU: --device cuda:{}",
        device, address, why, device));
  }

  // What the driver says of a pointer, seen from the device that is current; false where it does not know the question,
  // or no answer for this pointer. Throws DeviceFailure where it says that something is wrong.
  static bool tell(CUpointer_attribute what, const void* address, void* answer) {
    using Get = CUresult(void*, CUpointer_attribute, CUdeviceptr);
    static Get* const get = driver_function<Get>("cuPointerGetAttribute", 4000);
    if (get == nullptr) return false;
    const CUresult status = get(answer, what, reinterpret_cast<CUdeviceptr>(address));
    if (status == CUDA_SUCCESS || status == CUDA_ERROR_INVALID_VALUE) return status == CUDA_SUCCESS;
    throw DeviceFailure(fmt::format("CUDA: cuPointerGetAttribute for {}: error {}", address, static_cast<int>(status)));
  }

  const int count_;
  const std::vector<CudaKernel> kernels_;
  std::mutex mutex_;
  std::set<std::pair<int, int>> connected_;
};

}  // namespace

std::unique_ptr<Runtime> make_cuda(std::vector<CudaKernel> kernels) {
  return std::make_unique<Cuda>(std::move(kernels));
}

}  // namespace plumbline::device
