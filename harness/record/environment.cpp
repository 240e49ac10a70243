#include "harness/record/environment.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "reference/support/fnv1a.hpp"

extern char** environ;

namespace plumbline::record {
namespace {

std::string first_line(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::string field_of(const std::string& file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with(name)) {
      const auto begin = line.find_first_not_of(" \t:", name.size());
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  return "";
}

bool decides_behaviour(std::string_view variable) {
  constexpr std::array<std::string_view, 12> prefixes{"OMPI_", "PMIX_", "UCX_", "NCCL_",  "GLOO_", "MPICH_",
                                                      "FI_",   "OMP_",  "MKL_", "TORCH_", "ATEN_", "ONEDNN_"};
  for (const std::string_view prefix : prefixes)
    if (variable.starts_with(prefix)) return true;
  return variable == "CUDA_VISIBLE_DEVICES" || variable == "LD_PRELOAD";
}

// Whether the value may be a secret, by the words of the name.
bool may_be_secret(std::string name) {
  constexpr std::array<std::string_view, 7> words{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY", "AUTH"};
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return std::ranges::any_of(words, [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

int usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

HostFacts host_facts() {
  utsname system{};
  ::uname(&system);
  std::error_code error;
  return {.name = system.nodename,
          .machine = first_line("/etc/machine-id"),
          .boot = first_line("/proc/sys/kernel/random/boot_id"),
          .processes = std::filesystem::read_symlink("/proc/self/ns/pid", error).string()};
}

std::string host_identity(const HostFacts& facts) {
  comm::Fnv1a hash;
  for (const std::string& part : {facts.name, facts.machine, facts.boot, facts.processes}) hash.add(part).add("\n");
  return fmt::format("{:016x}", hash.value());
}

std::uint64_t available_memory() {
  const auto number_in = [](const std::string& text) -> std::uint64_t {
    return std::strtoull(text.c_str(), nullptr, 10);
  };
  std::uint64_t bytes = number_in(field_of("/proc/meminfo", "MemAvailable")) * 1024;
  // Of a control group: version 2, or 1. Without a limit the word is "max", or a number that no machine has.
  for (const auto& [most, used] :
       {std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        std::pair{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    const std::uint64_t limit = number_in(first_line(most));
    const std::uint64_t taken = std::min(limit, number_in(first_line(used)));
    if (limit > 0) bytes = std::min(bytes, limit - taken);
  }
  return bytes;
}

nlohmann::json capture_environment() {
  utsname system{};
  ::uname(&system);
  nlohmann::json environment{
      {"host", system.nodename},
      {"host_identity", host_identity(host_facts())},
      {"cpu", field_of("/proc/cpuinfo", "model name")},
      {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
      {"usable_cores", usable_cores()},
      {"memory_bytes", static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE)},
      {"kernel", std::string(system.sysname) + " " + system.release + " " + system.machine},
      {"governor", first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")},
      {"clock_source", first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource")},
      {"container", std::filesystem::exists("/.dockerenv") || std::filesystem::exists("/run/.containerenv")},
      {"load_before", first_line("/proc/loadavg")},
#if defined(__clang__)
      {"compiler", "clang " __clang_version__},
#else
      {"compiler", "g++ " __VERSION__},
#endif
      {"gpus", 0},
  };
  nlohmann::json& variables = environment["variables"] = nlohmann::json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (!decides_behaviour(text)) continue;
    const std::string name = text.substr(0, text.find('='));
    variables[name] = may_be_secret(name) ? "(withheld)" : text.substr(std::min(text.size(), name.size() + 1));
  }
  return environment;
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string utc_now() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

}  // namespace plumbline::record
