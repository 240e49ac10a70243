#include "harness/subject/nccl/options.hpp"

#include <charconv>

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

}  // namespace plumbline::subject::nccl
