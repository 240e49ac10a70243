// Flight rings of processes that died while they wrote: what can be read is, and nothing else happens.
#include <cstdint>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "harness/launch/flight.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("flight", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  (void)plumbline::launch::read_flight(path);
  return 0;
}
