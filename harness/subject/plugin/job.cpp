#include "harness/subject/plugin/job.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "harness/subject/backend_name.hpp"
#include "harness/subject/plugin/reply.hpp"
#include "harness/subject/plugin/translation.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::plugin {
namespace {

std::optional<int> variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (error != std::errc{} || end != all.data() + all.size())
    throw RuntimeFailure(fmt::format("backend plugin: {}='{}' in the environment is not a number", name, text));
  return value;
}

std::string file_in(const BackendOptions& options) {
  const auto file = options.find(kPluginLibrary);
  if (file == options.end() || file->second.empty())
    throw InvalidArgument("backend plugin: no library is named; give --backend plugin:FILE");
  return file->second;
}

}  // namespace

Place Place::from_environment() {
  // Of the driver, Open MPI, PMI (MPICH and Slurm's pmi2) and Slurm.
  constexpr std::pair<const char*, const char*> kNames[] = {{"PLUMBLINE_RANK", "PLUMBLINE_RANKS"},
                                                            {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                            {"PMI_RANK", "PMI_SIZE"},
                                                            {"SLURM_PROCID", "SLURM_NTASKS"}};
  Place place;
  for (const auto& [rank, ranks] : kNames)
    if (const auto mine = variable(rank), all = variable(ranks); mine && all) {
      place.rank = *mine;
      place.ranks = *all;
      if (place.ranks < 1 || place.ranks > kMostRanks || place.rank < 0 || place.rank >= place.ranks)
        throw RuntimeFailure(fmt::format("backend plugin: {}={} and {}={}: a job has 1 to {} ranks, numbered from 0",
                                         rank, *mine, ranks, *all, kMostRanks));
      break;
    }
  const char* const folder = std::getenv("PLUMBLINE_SCRATCH");
  place.scratch = folder == nullptr ? "" : folder;
  if (place.ranks > 1 && !std::filesystem::is_directory(place.scratch))
    throw RuntimeFailure(
        fmt::format("backend plugin: PLUMBLINE_SCRATCH='{}' is not a folder of this host; all ranks "
                    "must be on the driver's host",
                    place.scratch));
  return place;
}

Job::Job(const BackendOptions& options, Place place_)
    : place(std::move(place_)), library(file_in(options)), capabilities(capabilities_of(*library)) {
  open(options);
}

Job::~Job() { library->close(context_); }

void Job::open(const BackendOptions& options) {
  std::vector<plumbline_option> list;
  for (const auto& [key, value] : options)
    if (key != kPluginLibrary) list.push_back({key.c_str(), value.c_str()});
  const plumbline_job job{place.rank, place.ranks, place.scratch.c_str(), list.data(), list.size()};
  call([&] { return fmt::format("backend plugin: open of '{}'", capabilities.backend); },
       [&](plumbline_error* error) { return library->open(&job, &context_, error); });
}

int Job::next_creation(std::uint64_t parent, std::span<const int> world_ranks) {
  const std::lock_guard hold(mutex_);
  return ++creations_[{parent, {world_ranks.begin(), world_ranks.end()}}];
}

}  // namespace plumbline::subject::plugin
