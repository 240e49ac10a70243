#include "conformance/support/recorded.hpp"

#include <fstream>

#include <fmt/format.h>

#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

nlohmann::json recorded(const std::string& component, const std::string& name) {
  const auto file = subject::data_folder() / "vectors" / component / (name + ".json");
  std::ifstream stream(file);
  if (!stream) throw RuntimeFailure(fmt::format("'{}' cannot be read; it is part of an installation", file.string()));
  return nlohmann::json::parse(stream);
}

}  // namespace plumbline::conformance
