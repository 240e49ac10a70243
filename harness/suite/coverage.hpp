// harness/suite/coverage.hpp: checks that test nobody.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/suite/suite.hpp"

namespace plumbline::suite {

/// A subject that everybody who builds the suite has.
struct KnownSubject {
  std::string name;            // "backend local"
  Door door = Door::backend;   // through which it is reached
  nlohmann::json description;  // what it says of itself when it is ready; see lacking()
  std::string device = "cpu";  // of the run
};

/// The checks of which no known subject runs a case, a line each that says what every one of them lacks. Such a check
/// may be wrong, or may not work at all, and nobody would see it. Empty is good.
[[nodiscard]] std::vector<std::string> dead_checks(const Suite& suite, const std::vector<KnownSubject>& known);

}  // namespace plumbline::suite
