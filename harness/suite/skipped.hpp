// harness/suite/skipped.hpp: a case that can judge nothing of this subject, or on this machine, ends as a skip with
// the reason.
#pragma once

#include <string>

namespace plumbline::suite {

/// No check catches it, for it is no std::exception. A check throws it on every rank, before any of them waits for
/// another.
struct Skipped {
  std::string what;
};

}  // namespace plumbline::suite
