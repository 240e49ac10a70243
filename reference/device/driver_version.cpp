#include "reference/device/detail/driver_version.hpp"

#include <fmt/format.h>

namespace plumbline::device {
namespace {

constexpr int kLeastDriver = 12010;  // 12.1, the first whose kernels take the 32 KB of our tables by value

}  // namespace

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

std::optional<std::string> why_no_gpu(const DriverFacts& facts) {
  if (facts.driver == 0)
    return "there is no CUDA driver (libcuda.so.1) on this machine; install NVIDIA's, or use --device emulated";
  if (facts.insufficient)
    return fmt::format(
        "the driver is for CUDA {}, this was built with {}; install a newer driver, or build with a toolkit of that "
        "version",
        cuda_version(facts.driver), cuda_version(facts.built));
  if (facts.devices == 0) return "the CUDA driver is here and sees no GPU";
  if (facts.driver < kLeastDriver)
    return fmt::format("the driver is for CUDA {}; one for CUDA {} or newer is needed", cuda_version(facts.driver),
                       cuda_version(kLeastDriver));
  return std::nullopt;
}

}  // namespace plumbline::device
