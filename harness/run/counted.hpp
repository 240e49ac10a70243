// harness/run/counted.hpp: numbers of things in words.
#pragma once

#include <string>
#include <string_view>

namespace plumbline::run {

/// "1 case", "2 cases", "0 cases".
[[nodiscard]] inline std::string counted(auto number, std::string_view thing) {
  return std::to_string(number) + " " + std::string(thing) + (number == 1 ? "" : "s");
}

}  // namespace plumbline::run
