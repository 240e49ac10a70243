// harness/worker/worker.hpp: a worker process: takes cases from the driver one at a time, runs them as the ranks that
// it hosts, and reports rank by rank.
//
// Messages driver -> worker: {"type":"run","run":R,"case":N,"world":W,"seed":S,"limit":seconds,"scratch":folder}
//                            (and "device" where it is not cpu, "arm" where it is not plain)
//                            {"type":"task","run":R,"name":T,"world":W,"limit":seconds,"arguments":{…}} (and "device"
//                            where it is not cpu, "trains" where LibTorch computes there) {"type":"quit"}
//          worker -> driver: hello {"group","pid","host": its identity, "host_name"};
//          {"type":"ready","rank","size","capabilities","environment"} or
//                            {"type":"cannot_start","kind","message"};
//                            {"type":"rank","run":R,"result":{…}}; {"type":"progress","run":R,"rank":r,"what":…};
//                            {"type":"ends","run":R} of a rank that has reported, and is killed as its check wants;
//                            {"type":"output","run":R,"rank":r,"value":{…}} of a task
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/suite/suite.hpp"
#include "harness/worker/host.hpp"
#include "reference/device/memory_space.hpp"

namespace plumbline::worker {

/// What a task's rank is given beside its communicator.
struct TaskRank {
  comm::Communicator& world;
  const nlohmann::json& arguments;
  std::function<void(const nlohmann::json&)> output;  // to the driver
  device::MemorySpace place = {};                     // of its data, in the device's default stream
};
/// A job that ranks run for a command other than check: "train", "bench". Throws to fail.
using Task = std::function<void(TaskRank&)>;

struct Options {
  std::string backend;  // "local" or a module's name; empty for the other doors
  subject::BackendOptions backend_options;
  std::string adapter;  // a command line, or "reference"
  std::string job;      // a command line
  bool job_launches_ranks = false;
  bool job_serves_ranks = false;
  std::string device = "cpu";  // whose memory cases may use
  std::string mutant;          // of the door that backend, adapter or job leads through
  bool flight = true;

  /// The one that leads to the subject.
  [[nodiscard]] suite::Door door() const { return suite::door_of(adapter, job); }
};

/// Serves the driver that PLUMBLINE_CONTROL and PLUMBLINE_TOKEN name until it says quit. Returns the exit status.
int serve(const suite::Suite& suite, const std::map<std::string, Task>& tasks, const Options& options);

/// The command line of `plumbline worker`; the rest as serve().
int main(int argc, char** argv, const suite::Suite& suite, const std::map<std::string, Task>& tasks);

}  // namespace plumbline::worker
