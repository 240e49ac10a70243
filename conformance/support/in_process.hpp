// conformance/support/in_process.hpp: runs one case on the local backend inside a test, without the harness.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "harness/suite/execution_mode.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// What failed: "rank 1: file.cpp:12: words".
struct Failure {
  std::string text;
  bool uncaught = false;  // an exception that ended a body: no assertion has judged anything by it
  friend std::ostream& operator<<(std::ostream& stream, const Failure& failure) { return stream << failure.text; }
};

/// Makes a wrong communicator of a right one.
using Wrap = std::function<std::unique_ptr<comm::Communicator>(std::unique_ptr<comm::Communicator>)>;
/// Runs a case of the backend door with a thread per rank. Returns what failed: nothing when it passed. A rank that
/// only suffered from another's failure is left out, unless all did. The arm stands directly around the backend's
/// communicator, below `wrap`.
[[nodiscard]] std::vector<Failure> run_in_process(const suite::Case& one, const Wrap& wrap = {},
                                                  const suite::ExecutionMode& mode = {});

/// Why a case of the backend door judges nothing there (suite::Skipped); empty where it does.
[[nodiscard]] std::string reason_to_skip(const suite::Case& one, const Wrap& wrap = {});

/// Runs a case of the backend door on two emulated devices whose streams dawdle, as `plumbline check --device emulated`
/// does: one that uses no device itself is staged.
[[nodiscard]] std::vector<Failure> run_on_devices(const suite::Case& one, const Wrap& wrap = {});

/// Runs a case of the adapter door on answers that a test makes up. Returns what failed.
[[nodiscard]] std::vector<Failure> run_in_process(const suite::Case& one, suite::Adapter& adapter);

}  // namespace plumbline::conformance
