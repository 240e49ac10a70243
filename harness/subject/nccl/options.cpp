#include "harness/subject/nccl/options.hpp"

#include <charconv>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {
namespace {

std::optional<int> whole_number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int number_from(const std::string& key, const std::string& value, int least, int most) {
  const auto number = whole_number(value);
  if (!number || *number < least || *number > most)
    throw InvalidArgument(
        fmt::format("backend nccl: {}={}: it is a whole number from {} to {}", key, value, least, most));
  return *number;
}

std::optional<int> variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const auto number = whole_number(text);
  if (!number)
    throw RuntimeFailure(fmt::format("backend nccl: {}='{}' in the environment is no whole number", name, text));
  return number;
}

}  // namespace

Options Options::parse(const BackendOptions& given) {
  constexpr int kMostDevices = 1023, kMostSeconds = 86400;
  Options options;
  for (const auto& [key, value] : given) {
    if (key == "library") {
      if (value.empty()) throw InvalidArgument("backend nccl: library=: it is the file of a shared library");
      options.library = value;
    } else if (key == "runtime") {
      if (value != "cuda" && value != "emulated")
        throw InvalidArgument(fmt::format("backend nccl: runtime={}: it is cuda or emulated", value));
      options.runtime = value == "cuda" ? comm::Device::Kind::cuda : comm::Device::Kind::emulated;
    } else if (key == "device") {
      options.device = number_from(key, value, 0, kMostDevices);
    } else if (key == "start_limit") {
      options.start_limit = std::chrono::seconds(number_from(key, value, 1, kMostSeconds));
    } else {
      throw InvalidArgument(
          fmt::format("backend nccl: no option '{}'; there are library, runtime, device and start_limit", key));
    }
  }
  return options;
}

Place Place::from_environment() {
  // Of the driver, Open MPI, PMI (MPICH and Slurm's pmi2) and Slurm.
  constexpr std::pair<const char*, const char*> kNames[] = {{"PLUMBLINE_RANK", "PLUMBLINE_RANKS"},
                                                            {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                            {"PMI_RANK", "PMI_SIZE"},
                                                            {"SLURM_PROCID", "SLURM_NTASKS"}};
  Place place;
  for (const auto& [rank, size] : kNames)
    if (const auto mine = variable(rank), all = variable(size); mine && all) {
      place.rank = *mine;
      place.size = *all;
      if (place.size < 1 || place.rank < 0 || place.rank >= place.size)
        throw RuntimeFailure(fmt::format("backend nccl: {}={} and {}={}: a rank is from 0 to {}", rank, *mine, size,
                                         *all, place.size - 1));
      break;
    }
  const char* folder = std::getenv("PLUMBLINE_SCRATCH");
  place.folder = folder == nullptr ? std::filesystem::path() : std::filesystem::path(folder);
  if (place.size > 1 && !std::filesystem::is_directory(place.folder))
    throw RuntimeFailure(fmt::format(
        "backend nccl: PLUMBLINE_SCRATCH='{}' is no folder of this host; all ranks must be on the driver's host",
        place.folder.string()));
  return place;
}

}  // namespace plumbline::subject::nccl
