// harness/suite/coverage.hpp: what checks test: nobody, a subject behind a door, or the reference's own classes alone.
#pragma once

#include <set>
#include <string>
#include <string_view>
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

/// Whom the checks of a requirement can judge.
enum class Judged {
  backend,    // a communication library
  adapter,    // a program that answers questions
  job,        // a training program
  reference,  // the reference's own classes, which run over a backend: no subject but them
};
[[nodiscard]] std::string_view name_of(Judged judged);
/// In the order of the names.
[[nodiscard]] std::set<Judged> judged_by(const Suite& suite, const Requirement& requirement);

}  // namespace plumbline::suite
