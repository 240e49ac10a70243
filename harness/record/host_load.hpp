// harness/record/host_load.hpp: what the host did while something was measured, from the kernel's counters.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace plumbline::record {

class HostLoad {
 public:
  /// From now on.
  HostLoad();
  /// "steal": the share of all processor time that the hypervisor gave to others since then; "load": the runnable and
  /// waiting processes, the kernel's average over a minute. What the kernel does not say is absent.
  [[nodiscard]] std::map<std::string, double> until_now() const;

 private:
  struct Times {
    std::uint64_t all = 0, steal = 0;
  };
  static Times times();
  Times begin_;
};

}  // namespace plumbline::record
