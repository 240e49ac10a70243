// harness/worker/crash.hpp: what a rank leaves behind when a signal ends it.
#pragma once

#include "harness/launch/flight.hpp"

namespace plumbline::worker {

/// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT print rank and stack before they end the process as they
/// would have done. Not under AddressSanitizer and ThreadSanitizer, whose reports say more. At launch::stack_signal() a
/// thread prints the same and goes on.
void install_crash_handlers();

/// While it lives, the calling thread is `rank`, and its death is noted in `ring`.
class CrashNote {
 public:
  CrashNote(launch::FlightRing& ring, int rank);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;
};

}  // namespace plumbline::worker
