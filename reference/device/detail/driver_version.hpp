// reference/device/detail/driver_version.hpp: whether a CUDA driver serves the toolkit that this was built with, in
// words. Free of CUDA.
#pragma once

#include <optional>
#include <string>

namespace plumbline::device {

/// What CUDA's runtime says of the driver and its devices. Versions as CUDA counts them: 13000 is 13.0.
struct DriverFacts {
  int driver = 0;             // 0: there is none
  int built = 0;              // the toolkit's
  bool insufficient = false;  // the runtime says that the driver is too old
  int devices = 0;
};

/// 13000 as "13.0".
[[nodiscard]] std::string cuda_version(int number);

/// Why no GPU can be used, and what would help, in a line; nothing where one can.
[[nodiscard]] std::optional<std::string> why_no_gpu(const DriverFacts& facts);

}  // namespace plumbline::device
