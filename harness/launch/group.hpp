// harness/launch/group.hpp: the worker processes that together are the ranks of one world, from start to end.
//
// Model   One process with a thread per rank for `local`, and one of one rank for adapters and jobs; one process per
//         rank for process backends, started by us, or where they need it (MPI) by mpirun or srun; or processes that
//         the user's own mpirun or srun started (attached). A group lives through many cases, until one of them leaves
//         it in doubt. Ending a group ends every process of it, stopped ones too.
#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/launch/control.hpp"
#include "harness/launch/launch_program.hpp"
#include "harness/launch/process.hpp"
#include "harness/suite/door.hpp"

namespace plumbline::launch {

/// What is being tested, as a worker is told.
struct Subject {
  std::string backend;                       // "local", or a module's name
  std::vector<std::string> backend_options;  // key=value
  std::string adapter;                       // a command line, or "reference"
  std::string job;                           // a command line that trains
  bool job_launches_ranks = false;           // it is started once, not once a rank
  bool job_serves_ranks = false;             // it is started once for many runs, and forks their ranks
  std::string mutant;
  /// "backend mpi", "backend mpi segment_elements=7", "adapter ./my_adapter", "job 'python train.py'", with ", mutant
  /// …" where there is one.
  [[nodiscard]] std::string describe() const;
  /// The same as options of `plumbline check`.
  [[nodiscard]] std::vector<std::string> arguments() const;
  [[nodiscard]] suite::Door door() const { return suite::door_of(adapter, job); }
  /// Whether each rank is a process of its own.
  [[nodiscard]] bool has_processes() const { return door() == suite::Door::backend && backend != "local"; }
  /// Whether such processes find each other only when mpirun or srun started them.
  [[nodiscard]] bool needs_launcher() const { return has_processes() && backend == "mpi"; }
};

/// The environment in which ranks compute, whoever started them: one thread a rank, and products whose bits do not
/// depend on alignment.
inline constexpr std::array<std::pair<const char*, const char*>, 2> kComputing{
    {{"OMP_NUM_THREADS", "1"}, {"MKL_CBWR", "AVX2"}}};

/// What starts the ranks of a process backend: the driver itself, on its host; a program; or the user, before us.
enum class Launcher { fork, program, attached };

/// Where a rank that the driver started finds its number, and how many there are.
inline constexpr const char* kRankVariable = "PLUMBLINE_RANK";
inline constexpr const char* kRanksVariable = "PLUMBLINE_RANKS";
inline constexpr const char* kGroupVariable = "PLUMBLINE_GROUP";
inline constexpr const char* kScratchVariable = "PLUMBLINE_SCRATCH";

/// Which variables of their environment the driver sets for each rank by itself.
inline constexpr std::array<std::string_view, 6> kVariablesOfRanks{kTokenVariable,   kControlVariable, kGroupVariable,
                                                                   kScratchVariable, kRankVariable,    kRanksVariable};

struct GroupOptions {
  Subject subject;
  Launcher launcher = Launcher::fork;
  std::string launcher_name;             // of Launcher::program: in PATH, or a path; empty: the first that is there
  std::optional<LaunchProgram> program;  // which the driver finds by that
  std::filesystem::path executable;      // of plumbline
  std::vector<std::string> worker_options;
  std::vector<std::pair<std::string, std::string>> variables;  // of the environment of the ranks, beside ours
  int attached_processes = 0;                                  // of Launcher::attached

  /// Whether ranks may be on other hosts than the driver's: the launcher has an allocation or a list of hosts, as the
  /// environment says, or is the user's own.
  [[nodiscard]] bool may_span_hosts() const;
};

class WorkerGroup {
 public:
  /// Starts the processes. Throws RuntimeFailure.
  WorkerGroup(const GroupOptions& options, const ControlServer& server, const std::string& token,
              const std::filesystem::path& scratch, int number, int world);
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int world() const { return world_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// Readable when one of the processes that we started has ended.
  void add_to(std::vector<pollfd>& descriptors) const;
  [[nodiscard]] std::chrono::steady_clock::time_point started() const { return started_; }

  /// A worker of this group has joined, said that it is ready, or is gone. ready() throws RuntimeFailure for a rank
  /// that cannot be, or that another worker has.
  void joined(int connection, const nlohmann::json& hello);
  void ready(int connection, const nlohmann::json& message);
  void left(int connection);
  [[nodiscard]] bool has(int connection) const { return workers_.contains(connection); }
  /// Whether all have joined.
  [[nodiscard]] bool is_whole() const { return static_cast<int>(workers_.size()) == processes_; }
  /// Whether all that have joined are on the driver's host, and those that were ready and are gone.
  [[nodiscard]] bool is_on_one_host() const;
  /// The name of the host that `rank` is or was on, with a part of its identity where another one has that name; empty
  /// where it never was ready.
  [[nodiscard]] std::string host_of(int rank) const;
  [[nodiscard]] bool is_ready() const { return ready_ == processes_; }
  /// Whether a worker that had joined is gone.
  [[nodiscard]] bool lost_one() const { return lost_one_; }
  /// What the worker of rank 0 said of its backend.
  [[nodiscard]] const nlohmann::json& description() const { return description_; }

  /// Sends to the workers of the first `world` ranks.
  void send(ControlServer& server, const nlohmann::json& message, int world) const;
  [[nodiscard]] int processes(int world) const { return processes_ == 1 ? 1 : world; }
  /// Ranks that the worker at this connection hosts in a world.
  [[nodiscard]] std::vector<int> ranks_of(int connection, int world) const;
  /// How the launcher's process ended, if it has; of several that we started, the first that has.
  std::optional<std::string> launcher_ended();
  /// How the process of that rank ended: "exited with status 3", "was killed by signal 9 (Killed)", as the kernel says
  /// of one that we started, or else as the launcher does; nothing where nobody says.
  std::optional<std::string> end_of(int rank);
  /// Whether all processes that we started have.
  bool all_ended();
  /// State of the process that hosts `rank`: "stopped", "sleeping", …; empty when gone or on another host.
  [[nodiscard]] std::string process_state(int rank) const;

  /// The processes on this host that host any of `ranks`.
  [[nodiscard]] std::vector<pid_t> processes_of(const std::vector<int>& ranks) const;

  /// Where each process' output stands now; what comes later is tail().
  void mark_output();
  [[nodiscard]] std::string tail() const;

  /// Ends all processes; poll has_ended() until it says true.
  void end(ControlServer& server);
  bool has_ended();
  /// Tells workers that somebody else started to end by themselves.
  void dismiss(ControlServer& server);
  /// Has them end by themselves with that exit status, once the driver is gone.
  void end_with(ControlServer& server, int status);

 private:
  struct Host {
    bool here = false;  // the driver's
    std::string identity, name;
  };
  struct Worker {
    int rank = -1;  // once ready; of a process that hosts all ranks 0
    pid_t pid = 0;
    Host host;
    std::unique_ptr<ProcessHandle> process;
  };
  std::string name_;
  int world_;
  int processes_;
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<Child>> children_;  // a launcher, or all ranks
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::map<int, Worker> workers_;  // by connection
  std::map<int, pid_t> pids_;      // by rank, of all that were ready
  std::map<int, Host> hosts_;      // by rank, of all that were ready
  int ready_ = 0;
  bool lost_one_ = false;
  nlohmann::json description_ = nlohmann::json::object();
  std::map<std::filesystem::path, std::uintmax_t> output_marks_;
  bool ending_ = false;
  std::chrono::steady_clock::time_point end_begun_{};
};

}  // namespace plumbline::launch
