// Logs of group creations that nobody would keep: one that is read is judged.
#include <cstdint>

#include "reference/comm/errors.hpp"
#include "reference/groups/lint.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  try {
    (void)groups::lint(groups::parse_creation_log({reinterpret_cast<const char*>(data), size}));
  } catch (const Error&) {
  }
  return 0;
}
