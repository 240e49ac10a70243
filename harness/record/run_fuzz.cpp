// Records that were cut short or written by others: each is read, or refused in a line.
#include <cstdint>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "harness/record/file.hpp"
#include "reference/comm/errors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  static const int file = ::memfd_create("run", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  try {
    (void)record::read(path);
  } catch (const Error&) {
  }
  return 0;
}
