// harness/bench/benchmark.hpp: a benchmark, written once, run on any backend and world size.
//
// Model   A benchmark prepares one operation on every rank; the runner repeats it. Rank 0 leads: Google Benchmark, on
//         rank 0, decides how many iterations a repetition has, the other ranks follow. The time of a repetition is
//         that of the slowest rank, from a barrier on; in a device's memory, that between two events of the rank's
//         stream. The answer is checked outside the timed region. A benchmark whose iterations say more than their time
//         repeats by itself.
// Units   seconds per iteration; bytes as nccl-tests counts them (busbw_factor turns algbw into busbw).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reference/comm/communicator.hpp"
#include "reference/device/memory_space.hpp"

namespace plumbline::bench {

/// One rank's side of a measurement, ready to run.
class Operation {
 public:
  virtual ~Operation() = default;
  /// One iteration. Timed.
  virtual void run() = 0;
  /// Whether the answer of an iteration is right; nothing where it has none. Not timed. Throws RuntimeFailure where it
  /// can say more of a wrong one.
  [[nodiscard]] virtual std::optional<bool> check() = 0;
  /// The bytes that one iteration is about, as nccl-tests count them; nothing less than what was asked for is possible.
  [[nodiscard]] virtual std::int64_t bytes() const { return 0; }
  /// What else is to be known of an iteration, such as how many collectives it starts.
  [[nodiscard]] virtual std::map<std::string, double> derived() const { return {}; }
};

struct Parameters {
  std::int64_t bytes = 0;
  comm::DType dtype = comm::DType::f32;
  device::MemorySpace place = {};  // of the data; its stream is the communicator's
};

struct Benchmark {
  std::string name;   // "collectives.all_reduce"
  std::string title;  // one line
  bool has_sizes = true;
  std::string size_label{};  // what the sizes are, where they are not the bytes that an iteration is about
  int least_world = 1;
  /// Why its data can be in the host's memory alone, as in "its copies go around the processor's cache"; "": they may
  /// be in a device's as well. Of a study, the command that runs it says so.
  std::string only_on_host{};
  std::string baseline{};  // one that is measured before it in the same run, and of whose time its own is a multiple
  /// The worlds that it can be measured in, where those are not all from least_world on.
  std::function<bool(int world)> fits = {};
  /// busbw = algbw * this; 0 where bandwidth means nothing.
  std::function<double(int world)> busbw_factor = {};
  std::function<std::unique_ptr<Operation>(comm::Communicator&, const Parameters&)> prepare = {};
  /// In place of prepare: all that `measure` does, with the benchmark's own arguments and results, and the place whose
  /// stream is the communicator's. It is what a sub-command of `plumbline bench` runs.
  std::function<nlohmann::json(comm::Communicator&, const device::MemorySpace&, const nlohmann::json& arguments)>
      study = {};
};

/// All that benchmarks/ contributes.
using Registry = std::vector<Benchmark>;

/// What `measure` is told: {"benchmark","bytes","dtype","repetitions","min_seconds","sync","pin"}; a study, what it
/// wants. Data are in the memory of `place`, whose stream is of no account. On every rank; returns, on rank 0,
/// {"samples":[seconds…],"iterations":n,"bytes":n,"checked":b,"derived":{…},"host":{…}}, else null; "host" is that of
/// record::Launch. Throws InvalidArgument for arguments that make no sense, Unsupported for windows of ranks without a
/// clock in common, RuntimeFailure for a wrong answer.
nlohmann::json measure(const Registry& registry, comm::Communicator& world, const device::MemorySpace& place,
                       const nlohmann::json& arguments);

/// The symbol of module "benchmarks" and its type.
inline constexpr const char* kBenchmarksSymbol = "plumbline_benchmarks";
struct Module {
  Registry registry;
  nlohmann::json (*measure)(const Registry&, comm::Communicator&, const device::MemorySpace&, const nlohmann::json&);
};
using BenchmarksFunction = const Module*();

}  // namespace plumbline::bench
