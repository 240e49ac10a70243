// Files of tensors that nobody would write: a header that is taken has all its tensors in the file.
#include <cstdint>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"
#include "reference/record/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  static const int file = ::memfd_create("safetensors", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  try {
    const job::SafetensorsReader reader(path);
    for (const auto& [name, tensor] : reader.tensors())
      if (tensor.dtype == comm::DType::f32) (void)reader.read<float>(name);
  } catch (const Error&) {
  }
  return 0;
}
