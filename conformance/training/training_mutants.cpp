// Devices of training that are wrong in one way.
#include "conformance/training/training_mutants.hpp"

#include <memory>
#include <string>

#include "reference/device/kernel.hpp"
#include "reference/device/scaled_copies.hpp"

namespace plumbline::mutants {

namespace {

// LibTorch, which computes in the order of its own stream, does not wait for the default one.
class NotAwaited final : public device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void synchronize(int device, device::Stream stream) override {
    if (stream != nullptr) RuntimeDecorator::synchronize(device, stream);
  }
};

// The last block of a kernel that copies into a bucket's type, or back, is not launched.
class LastBlockLeftOut final : public device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void launch(int device, const device::Kernel& kernel, const void* work, std::int32_t chunks,
              device::Stream stream) override {
    const bool copies = kernel.name == device::ScaledCopyWork::kName;
    RuntimeDecorator::launch(device, kernel, work, copies ? chunks - 1 : chunks, stream);
  }
};

template <class Wrong>
WrapRuntime wrong_runtime() {
  return [](std::shared_ptr<device::Runtime> inner) { return std::make_shared<Wrong>(std::move(inner)); };
}

std::string stays_there(const std::string& parts, int world) {
  return "training.device.stays_there[parts=" + parts + ",world=" + std::to_string(world) + "]";
}

}  // namespace

std::vector<Mutant> training_mutants() {
  return {
      {"train.read_before_the_stream", "TRAIN-210",
       "LibTorch reads a bucket before the device's stream is done with it",
       "a library with a stream of its own, which nobody made wait", stays_there("data", 2), "",
       "every run on a device's memory waits for it", wrong_runtime<NotAwaited>()},
      {"train.last_block_left_out", "TRAIN-210",
       "on devices, the last block of gradients that travel in 16 bits is not copied", "a count that is rounded down",
       stays_there("narrow", 2), stays_there("data", 2), "gradients travel as they are",
       wrong_runtime<LastBlockLeftOut>()},
  };
}

}  // namespace plumbline::mutants
