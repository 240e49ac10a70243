// harness/worker/host.hpp: the ranks that a worker process hosts: threads of `local`, or this process as one rank of a
// job.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/subject/backend.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::worker {

/// One rank's place in a case.
class Seat {
 public:
  virtual ~Seat() = default;
  [[nodiscard]] virtual int rank() const = 0;
  /// The rank's handle on a fresh group of all ranks of the case. Collective.
  [[nodiscard]] virtual std::unique_ptr<comm::Communicator> open() = 0;
  /// Tells the other ranks, where the backend can, that this one has failed.
  virtual void abort(const std::string& reason) noexcept = 0;
};

class Host {
 public:
  virtual ~Host() = default;
  [[nodiscard]] virtual const comm::Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual std::map<std::string, std::string> environment() const = 0;
  /// What the ranks of runs from now on are to serve memory of devices with; nothing where they know no device, or know
  /// it themselves.
  virtual void serve_devices(std::shared_ptr<comm::DeviceCalls> /*calls*/) {}
  /// The device of a backend that has one of its own; no runtime for others.
  [[nodiscard]] virtual subject::Backend::OwnDevice own_device() const { return {}; }
  /// Whether this process is one rank, and no other is in it.
  [[nodiscard]] virtual bool is_one_rank() const { return false; }
  /// Backend::progress() of a backend.
  [[nodiscard]] virtual bool progress() { return false; }
  /// Runs body(seat) for each rank of `world` that is here, at once, and returns when all have ended. `body` must not
  /// throw.
  virtual void run(int world, std::chrono::nanoseconds timeout, const std::function<void(Seat&)>& body) = 0;
};

/// A thread per rank of the local backend, which claims memory of that kind of device.
[[nodiscard]] std::unique_ptr<Host> make_local_host(comm::Device::Kind kind = comm::Device::Kind::cpu);
/// This process is one rank of `backend`'s job.
[[nodiscard]] std::unique_ptr<Host> make_process_host(std::unique_ptr<subject::Backend> backend);
/// One rank without a communicator, for adapters and jobs.
[[nodiscard]] std::unique_ptr<Host> make_single_host();

}  // namespace plumbline::worker
