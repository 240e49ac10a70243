// harness/subject/backend.hpp: what a backend module gives the harness.
//
// Model   A module lib/plumbline/libplumbline_<name>.so exports one factory, opened when the backend is chosen, in
//         each process of a worker group. Opening it starts its runtime (MPI_Init); destroying the Backend ends it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "reference/comm/communicator.hpp"
#include "reference/comm/interface.hpp"

namespace plumbline::device {
class Runtime;  // reference/device/runtime.hpp
}

namespace plumbline::subject {

/// Settings of a backend as the user gave them: --backend-option key=value.
using BackendOptions = std::map<std::string, std::string>;

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual const comm::Capabilities& capabilities() const = 0;
  /// This process among those of the job, and their number.
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// A fresh group of the job's first `ranks` processes. Collective over those. Throws InvalidArgument, RuntimeFailure.
  [[nodiscard]] virtual std::unique_ptr<comm::Communicator> world(int ranks) = 0;
  /// The runtime's own words on itself: name, version, settings; kept in the record's environment.
  [[nodiscard]] virtual std::map<std::string, std::string> environment() const = 0;
  /// The device whose memory this process' calls are on, and what it is asked by; no runtime for a backend of host
  /// memory.
  struct OwnDevice {
    std::shared_ptr<device::Runtime> runtime;
    comm::Device device;
  };
  [[nodiscard]] virtual OwnDevice own_device() const { return {}; }
  /// Called by a process that waits for its next case, while others may still be in the last one: lets messages go that
  /// this process' finished calls have left to a later call, as MPI may do. False where the runtime leaves none.
  [[nodiscard]] virtual bool progress() { return false; }
};

/// The factory's name in a module, and its type. Throws InvalidArgument for an unknown option or a bad value, and
/// RuntimeFailure when the runtime does not start. The module defines it with PLUMBLINE_EXPORT, which also
/// makes it say the interface that it was compiled with (interface.hpp).
inline constexpr const char* kBackendFactory = "plumbline_open_backend";
using BackendFactory = Backend*(const BackendOptions& options);

}  // namespace plumbline::subject
