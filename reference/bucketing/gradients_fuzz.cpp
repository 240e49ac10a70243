// Tables of gradients that nobody would write: one that is read has as many names as gradients.
#include <cstdint>
#include <cstdlib>

#include "reference/bucketing/plan_json.hpp"
#include "reference/comm/errors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  try {
    const bucketing::NamedGradients read = bucketing::gradients_of_csv({reinterpret_cast<const char*>(data), size});
    if (read.names.size() != read.gradients.size()) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
