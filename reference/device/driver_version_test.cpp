#include "reference/device/detail/driver_version.hpp"

#include <gtest/gtest.h>

namespace plumbline::device {
namespace {

TEST(DriverVersion, SaysWhatIsMissingAndWhatWouldHelp) {
  EXPECT_EQ(why_no_gpu({.built = 13000}),
            "there is no CUDA driver (libcuda.so.1) on this machine; install NVIDIA's, or use --device emulated");
  EXPECT_EQ(
      why_no_gpu({.driver = 12040, .built = 13000, .insufficient = true}),
      "the driver is for CUDA 12.4, this was built with 13.0; install a newer driver, or build with a toolkit of that "
      "version");
  EXPECT_EQ(why_no_gpu({.driver = 13000, .built = 13000}), "the CUDA driver is here and sees no GPU");
  EXPECT_EQ(why_no_gpu({.driver = 12000, .built = 12000, .devices = 1}),
            "the driver is for CUDA 12.0; one for CUDA 12.1 or newer is needed");
  EXPECT_EQ(why_no_gpu({.driver = 12010, .built = 12010, .devices = 1}), std::nullopt);
  EXPECT_EQ(why_no_gpu({.driver = 13010, .built = 13000, .devices = 8}), std::nullopt);
}

}  // namespace
}  // namespace plumbline::device
