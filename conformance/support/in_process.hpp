// conformance/support/in_process.hpp: runs one case on the local backend inside a test, without the harness.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/suite/arm.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Makes a wrong communicator of a right one.
using Wrap = std::function<std::unique_ptr<comm::Communicator>(std::unique_ptr<comm::Communicator>)>;
/// Makes the steps of one rank.
using MakeSteps = std::function<suite::Steps()>;

/// Runs a case of the backend door with a thread per rank. Returns what failed, "rank 1: file.cpp:12: words", a line each:
/// nothing when it passed. A rank that only suffered from another's failure is left out, unless all did. `patience` is the
/// limit of waits that are given none. The arm stands directly around the backend's communicator, below `wrap`. Each rank's
/// components run with the steps that `make_steps` makes for it; without, with the right ones.
[[nodiscard]] std::vector<std::string> run_in_process(const suite::Case& one, const Wrap& wrap = {},
                                                      std::chrono::milliseconds patience = std::chrono::seconds(20),
                                                      const suite::Arm& arm = {}, const MakeSteps& make_steps = {});

/// Makes a wrong runtime of a right one.
using WrapRuntime = std::function<std::shared_ptr<device::Runtime>(std::shared_ptr<device::Runtime>)>;

/// Runs a case of the backend door on two emulated devices whose streams dawdle, as `plumbline check --device emulated` does: one that
/// uses no device itself is staged. The backend's calls and the check's are made by runtimes that `wrap_runtime` makes, where it is
/// given, by one each.
[[nodiscard]] std::vector<std::string> run_on_devices(const suite::Case& one, const WrapRuntime& wrap_runtime = {},
                                                      const Wrap& wrap = {},
                                                      std::chrono::milliseconds patience = std::chrono::seconds(20),
                                                      const MakeSteps& make_steps = {});

/// Runs a case of the adapter door on answers that a test makes up. Returns what failed.
[[nodiscard]] std::vector<std::string> run_in_process(const suite::Case& one, suite::Adapter& adapter);

}  // namespace plumbline::conformance
