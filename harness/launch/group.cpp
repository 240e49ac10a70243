#include "harness/launch/group.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/record/environment.hpp"
#include "harness/subject/place.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::launch {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;

std::string Subject::describe() const {
  std::string what = !adapter.empty() ? "adapter " + adapter
                     : !job.empty()   ? fmt::format("job '{}'{}", job,
                                                    job_launches_ranks ? " (starts its ranks)"
                                                    : job_serves_ranks ? " (serves its ranks)"
                                                                       : "")
                                      : "backend " + backend;
  for (const std::string& option : backend_options) what += " " + option;
  return mutant.empty() ? what : what + ", mutant " + mutant;
}

std::vector<std::string> Subject::arguments() const {
  std::vector<std::string> list{"--backend", backend};
  if (!adapter.empty()) list = {"--adapter", adapter};
  if (!job.empty()) list = {"--job", job};
  if (job_launches_ranks) list.emplace_back("--job-launches-ranks");
  if (job_serves_ranks) list.emplace_back("--job-serves-ranks");
  for (const std::string& option : backend_options) list.insert(list.end(), {"--backend-option", option});
  if (!mutant.empty()) list.insert(list.end(), {"--mutant", mutant});
  return list;
}

bool GroupOptions::may_span_hosts() const {
  if (launcher == Launcher::attached) return true;
  if (launcher == Launcher::fork || !subject.has_processes()) return false;
  constexpr std::array lists{"PBS_NODEFILE",   "LSB_MCPU_HOSTS",
                             "PE_HOSTFILE",    "OMPI_MCA_orte_default_hostfile",
                             "SLURM_JOB_ID",   "PRTE_MCA_prte_default_hostfile",
                             "HYDRA_HOST_FILE"};
  return fs::path(launcher_name).filename() == "srun" ||
         std::ranges::any_of(lists, [](const char* name) { return std::getenv(name) != nullptr; });
}

WorkerGroup::WorkerGroup(const GroupOptions& options, const ControlServer& server, const std::string& token,
                         const fs::path& scratch, int number, int world)
    : name_(fmt::format("g{}", number)),
      world_(world),
      processes_(options.subject.has_processes() ? world : 1),
      folder_(scratch / name_) {
  std::error_code error;
  fs::create_directory(folder_, error);
  if (error) throw RuntimeFailure(fmt::format("cannot make folder '{}': {}", folder_.string(), error.message()));
  if (options.launcher == Launcher::attached) {
    processes_ = options.attached_processes;
    return;
  }
  const bool is_launched = options.launcher == Launcher::program && options.subject.has_processes();
  std::vector<std::string> command;
  if (is_launched) {
    std::vector<std::string> names;
    for (const auto& [name, value] : options.variables) names.push_back(name);
    command = command_to_start(options.program.value(), world_, folder_, names);
  }
  command.insert(command.end(), {options.executable.string(), "worker"});
  const auto subject = options.subject.arguments();
  command.insert(command.end(), subject.begin(), subject.end());
  command.insert(command.end(), options.worker_options.begin(), options.worker_options.end());
  Child::Options child{.arguments = std::move(command),
                       .environment = {{kTokenVariable, token},
                                       {kControlVariable, server.endpoint()},
                                       {kGroupVariable, name_},
                                       {kScratchVariable, folder_.string()}},
                       .output = folder_ / "launcher.log",
                       // mpirun ends its ranks when it gets SIGTERM; a worker needs no farewell.
                       .death_signal = is_launched ? SIGTERM : SIGKILL};
  child.environment.insert(child.environment.end(), kComputing.begin(), kComputing.end());
  // In place of one of that name: getenv() finds the first.
  for (const auto& variable : options.variables) {
    std::erase_if(child.environment, [&](const auto& one) { return one.first == variable.first; });
    child.environment.push_back(variable);
  }
  // A launcher around us is not that of these ranks.
  if (options.subject.has_processes()) child.without = subject::launcher_variables();
  if (is_launched && ::geteuid() == 0) {
    child.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT", "1");
    child.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  if (is_launched || !options.subject.has_processes()) {
    children_.push_back(std::make_unique<Child>(child));
    return;
  }
  child.environment.emplace_back(kRanksVariable, std::to_string(world_));
  child.environment.emplace_back(kRankVariable, "");
  for (int rank = 0; rank < world_; ++rank) {
    child.environment.back().second = std::to_string(rank);
    children_.push_back(std::make_unique<Child>(child));
  }
}

WorkerGroup::~WorkerGroup() {
  for (const auto& [connection, worker] : workers_)
    if (worker.process) worker.process->kill();
  children_.clear();
  std::error_code error;
  fs::remove_all(folder_, error);
}

void WorkerGroup::joined(int connection, const json& hello) {
  Worker worker{.pid = hello.value("pid", 0),
                .host = {.here = hello.value("host", "") == record::host_identity(record::host_facts()),
                         .identity = hello.value("host", ""),
                         .name = hello.value("host_name", "")}};
  if (worker.host.here && worker.pid > 0) worker.process = std::make_unique<ProcessHandle>(worker.pid);
  workers_[connection] = std::move(worker);
}

void WorkerGroup::ready(int connection, const json& message) {
  Worker& worker = workers_.at(connection);
  const int rank = message.at("rank").get<int>();
  const bool taken = std::ranges::any_of(
      workers_, [&](const auto& other) { return other.first != connection && other.second.rank == rank; });
  if (rank < 0 || rank >= processes_ || taken)
    throw RuntimeFailure(fmt::format("a worker reports that it is rank {}, {}", rank,
                                     taken ? "and so does another" : fmt::format("and there are {}", processes_)));
  if (worker.rank < 0) ++ready_;
  worker.rank = rank;
  pids_[rank] = worker.pid;
  hosts_[rank] = worker.host;
  if (worker.rank == 0) description_ = message;
}

void WorkerGroup::left(int connection) {
  const auto worker = workers_.find(connection);
  if (worker == workers_.end()) return;
  if (worker->second.rank >= 0) --ready_;
  lost_one_ = true;
  workers_.erase(worker);
}

std::vector<int> WorkerGroup::ranks_of(int connection, int world) const {
  const auto worker = workers_.find(connection);
  if (worker == workers_.end() || worker->second.rank < 0) return {};
  if (processes_ > 1 || world == 1)
    return worker->second.rank < world ? std::vector{worker->second.rank} : std::vector<int>{};
  std::vector<int> all;
  for (int rank = 0; rank < world; ++rank) all.push_back(rank);
  return all;
}

void WorkerGroup::send(ControlServer& server, const json& message, int world) const {
  for (const auto& [connection, worker] : workers_)
    if (!ranks_of(connection, world).empty()) server.send(connection, message);
}

std::string WorkerGroup::process_state(int rank) const {
  for (const auto& [connection, worker] : workers_) {
    const auto ranks = ranks_of(connection, world_);
    if (worker.process && std::ranges::count(ranks, rank) > 0) return worker.process->state();
  }
  return "";
}

bool WorkerGroup::is_on_one_host() const {
  return std::ranges::all_of(workers_, [](const auto& entry) { return entry.second.host.here; }) &&
         std::ranges::all_of(hosts_, [](const auto& entry) { return entry.second.here; });
}

std::string WorkerGroup::host_of(int rank) const {
  const auto found = hosts_.find(processes_ == 1 ? 0 : rank);
  if (found == hosts_.end()) return "";
  const Host& host = found->second;
  const bool is_ambiguous = std::ranges::any_of(hosts_, [&](const auto& entry) {
    return entry.second.name == host.name && entry.second.identity != host.identity;
  });
  return is_ambiguous ? fmt::format("{} ({})", host.name, host.identity.substr(0, 8)) : host.name;
}

std::vector<pid_t> WorkerGroup::processes_of(const std::vector<int>& ranks) const {
  std::vector<pid_t> processes;
  for (const auto& [connection, worker] : workers_) {
    const auto hosted = ranks_of(connection, world_);
    const bool wanted = std::ranges::any_of(ranks, [&](int rank) { return std::ranges::count(hosted, rank) > 0; });
    if (worker.process && wanted) processes.push_back(worker.pid);
  }
  return processes;
}

void WorkerGroup::mark_output() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error))
    if (entry.path().extension() == ".log") output_marks_[entry.path()] = entry.file_size(error);
}

std::string WorkerGroup::tail() const {
  constexpr std::size_t kBytes = 20'000;  // a process: the stacks of its threads, under long paths
  std::string text;
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder_, error))
    if (entry.path().extension() == ".log") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    const auto mark = output_marks_.find(file);
    text += tail_of(file, mark == output_marks_.end() ? 0 : mark->second, kBytes);
  }
  return text;
}

void WorkerGroup::end(ControlServer& server) {
  if (std::exchange(ending_, true)) return;
  end_begun_ = std::chrono::steady_clock::now();
  for (const auto& [connection, worker] : workers_) {
    if (worker.process) worker.process->kill();  // SIGKILL ends stopped processes too
    server.close(connection);
  }
  workers_.clear();
  ready_ = 0;
  // mpirun is told alone: a signal to its whole process group makes it leave its segments behind.
  for (const auto& child : children_) child->signal(SIGTERM);
}

void WorkerGroup::dismiss(ControlServer& server) {
  for (auto& [connection, worker] : workers_) {
    server.send(connection, {{"type", "quit"}});
    worker.process.reset();
  }
}

void WorkerGroup::end_with(ControlServer& server, int status) {
  for (auto& [connection, worker] : workers_) {
    server.send(connection, {{"type", "end_with"}, {"status", status}});
    worker.process.reset();  // it is not to be killed
  }
}

bool WorkerGroup::has_ended() {
  std::erase_if(children_, [](const auto& child) { return child->ended().has_value(); });
  const auto elapsed = std::chrono::steady_clock::now() - end_begun_;
  if (elapsed > 3s)
    for (const auto& child : children_) child->signal_group(SIGKILL);
  return children_.empty();
}

void WorkerGroup::add_to(std::vector<pollfd>& descriptors) const {
  for (const auto& child : children_) descriptors.push_back({child->pidfd(), POLLIN, 0});
}

bool WorkerGroup::all_ended() {
  return !children_.empty() &&
         std::ranges::all_of(children_, [](const auto& child) { return child->ended().has_value(); });
}

std::optional<std::string> WorkerGroup::end_of(int rank) {
  if (children_.size() == static_cast<std::size_t>(processes_) && rank < processes_)
    return children_[static_cast<std::size_t>(rank)]->ended();
  if (processes_ == 1) return launcher_ended();
  const auto process = pids_.find(rank);
  if (auto words = end_in_words_of_launcher(tail(), rank, process == pids_.end() ? 0 : process->second)) return words;
  // A launcher that is killed takes its ranks with it, and says nothing.
  if (const auto end = launcher_ended(); end && end->starts_with("was killed by"))
    return fmt::format("ended with its launcher, which {},", *end);
  return std::nullopt;
}

std::optional<std::string> WorkerGroup::launcher_ended() {
  for (const auto& child : children_)
    if (auto end = child->ended()) return end;
  return std::nullopt;
}

}  // namespace plumbline::launch
