#include "harness/subject/mpi/options.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::mpi {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 4> kThreadLevels{{{"single", MPI_THREAD_SINGLE},
                                                                         {"funneled", MPI_THREAD_FUNNELED},
                                                                         {"serialized", MPI_THREAD_SERIALIZED},
                                                                         {"multiple", MPI_THREAD_MULTIPLE}}};

[[noreturn]] void refuse(const std::string& key, const std::string& value, std::string_view right) {
  throw InvalidArgument(fmt::format("backend mpi: {}={}: {}", key, value, right));
}

int parse_thread_level(const std::string& key, const std::string& value) {
  for (const auto& [name, level] : kThreadLevels)
    if (name == value) return level;
  refuse(key, value, "no thread level; use single, funneled, serialized or multiple");
}

std::int64_t parse_segment(const std::string& key, const std::string& value) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  std::int64_t elements = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), elements);
  if (error != std::errc{} || end != value.data() + value.size() || elements < 1 || elements > most)
    refuse(key, value, fmt::format("no segment length; use a whole number from 1 to {}", most));
  return elements;
}

}  // namespace

Options Options::parse(const BackendOptions& given) {
  Options options;
  for (const auto& [key, value] : given) {
    if (key == "threads")
      options.thread_level = parse_thread_level(key, value);
    else if (key == "segment_elements")
      options.segment_elements = parse_segment(key, value);
    else
      refuse(key, value, "no such option; there are threads and segment_elements");
  }
  return options;
}

std::string_view name_of_thread_level(int level) {
  for (const auto& [name, known] : kThreadLevels)
    if (known == level) return name;
  return "unknown";
}

}  // namespace plumbline::subject::mpi
