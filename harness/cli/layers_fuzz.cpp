// Layers that nobody would write: each file is read, with a cost for each description, or rejected with its line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harness/cli/layer_file.hpp"
#include "reference/comm/errors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  try {
    const cli::LayerFile read = cli::parse_layers("layers", {reinterpret_cast<const char*>(data), size}, 16);
    if (read.costs.size() != read.descriptions.size() || read.names.size() != read.costs.size()) std::abort();
  } catch (const InvalidArgument& error) {
    if (!std::string_view(error.what()).starts_with("--layers: layers:")) std::abort();
  }
  return 0;
}
