#include "harness/launch/attach.hpp"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"

namespace plumbline::launch {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto kTimeToAppear = 60s;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<int> number(const char* name) {
  const auto text = variable(name);
  int value = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc{}) return std::nullopt;
  return value;
}

// File names may hold no more than this.
std::string plain(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  return text;
}

std::optional<Rendezvous> read_rendezvous(const fs::path& file) {
  std::ifstream stream(file);
  const auto json = nlohmann::json::parse(stream, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return Rendezvous{json.value("endpoint", ""), json.value("token", ""), json.value("group", ""),
                    json.value("folder", "")};
}

int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

// The rendezvous, or the driver's exit status when it ended without giving one.
std::optional<Rendezvous> await_rendezvous(const fs::path& file, pid_t driver, int& status) {
  for (const auto begin = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - begin < kTimeToAppear;) {
    if (const auto rendezvous = read_rendezvous(file)) return rendezvous;
    int ended = 0;
    if (driver > 0 && ::waitpid(driver, &ended, WNOHANG) == driver) {
      status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 3;
      return std::nullopt;
    }
    std::this_thread::sleep_for(20ms);
  }
  throw RuntimeFailure(
      fmt::format("no driver within {} s: rank 0 did not write '{}'; is the --out folder shared by all ranks?",
                  kTimeToAppear.count(), file.string()));
}

}  // namespace

std::optional<JobPlace> job_place() {
  const auto place = [](const char* rank, const char* size, const std::string& job) -> std::optional<JobPlace> {
    const auto r = number(rank);
    const auto n = number(size);
    if (!r || !n) return std::nullopt;
    return JobPlace{*r, *n, plain(job)};
  };
  if (const auto mpi =
          place("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                "ompi-" + variable("PMIX_NAMESPACE").value_or(variable("OMPI_MCA_ess_base_jobid").value_or(""))))
    return mpi;
  // A batch script has SLURM_PROCID too, but only a step's tasks have a step id.
  if (variable("SLURM_STEP_ID"))
    if (const auto slurm =
            place("SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                  fmt::format("slurm-{}-{}", variable("SLURM_JOB_ID").value_or(""), *variable("SLURM_STEP_ID"))))
      return slurm;
  return place("PMI_RANK", "PMI_SIZE", "pmi-" + variable("PMI_JOBID").value_or(variable("PMI_FD").value_or("")));
}

fs::path rendezvous_file(const fs::path& folder, const JobPlace& place) { return folder / (".control-" + place.job); }

void write_rendezvous(const fs::path& file, const Rendezvous& rendezvous) {
  const std::string text = nlohmann::json{
      {"endpoint", rendezvous.endpoint},
      {"token", rendezvous.token},
      {"group", rendezvous.group},
      {"folder",
       rendezvous.folder}}.dump();
  const fs::path fresh = file.string() + ".new";
  const int descriptor = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written =
      descriptor >= 0 && ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (descriptor >= 0) ::close(descriptor);
  if (!written || ::rename(fresh.c_str(), file.c_str()) != 0)
    throw RuntimeFailure(fmt::format("cannot write '{}': {}", file.string(), std::strerror(errno)));
}

int run_attached(const JobPlace& place, const fs::path& folder, const std::function<int()>& driver,
                 const std::function<int()>& worker) {
  const fs::path file = rendezvous_file(folder, place);
  pid_t child = 0;
  if (place.rank == 0) {
    std::error_code error;
    fs::remove(file, error);
    child = ::fork();
    if (child < 0) throw RuntimeFailure(fmt::format("cannot start the driver: {}", std::strerror(errno)));
    if (child == 0) {
      ::setsid();  // the launcher signals rank 0's process group when a rank dies; the driver still has to say so
      const int status = driver();
      std::cout.flush();
      fs::remove(file, error);
      ::_exit(status);
    }
  }
  int status = 3;
  const auto rendezvous = await_rendezvous(file, child, status);
  if (!rendezvous) return status;
  ::setenv(kControlVariable, rendezvous->endpoint.c_str(), 1);
  ::setenv(kTokenVariable, rendezvous->token.c_str(), 1);
  ::setenv("PLUMBLINE_GROUP", rendezvous->group.c_str(), 1);
  ::setenv("PLUMBLINE_SCRATCH", rendezvous->folder.c_str(), 1);
  const int own = worker();
  return place.rank == 0 ? status_of(child) : own;
}

}  // namespace plumbline::launch
