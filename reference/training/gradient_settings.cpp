#include "reference/training/gradient_settings.hpp"

#include <algorithm>
#include <charconv>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/bucketing/compression.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::training {
namespace {

void check_name(const char* what, const std::string& name, std::span<const std::string_view> known) {
  if (!name.empty() && std::ranges::find(known, name) == known.end())
    throw InvalidArgument(fmt::format("{} '{}'; it must be {}", what, name, fmt::join(known, ", ")));
}

constexpr std::string_view kPowerSgd = "powersgd";

[[noreturn]] void refuse_compression(const std::string& compression, const std::string& why) {
  throw InvalidArgument(fmt::format("compression '{}'; {}", compression, why));
}

// What follows the name: ":RANK", or ":RANK:START".
bucketing::PowerSgdOptions parse_power_sgd(const std::string& compression) {
  std::vector<std::int64_t> numbers;
  for (std::string_view rest = std::string_view(compression).substr(kPowerSgd.size()); !rest.empty();) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), number);
    if (rest.front() != ':' || error != std::errc{} || number < 0 || number > INT32_MAX || numbers.size() == 2 ||
        (numbers.empty() && number == 0))
      refuse_compression(compression,
                         fmt::format("RANK is 1 or more, and START 0 or more, in {}", kCompressions.back()));
    numbers.push_back(number);
    rest = rest.substr(static_cast<std::size_t>(end - rest.data()));
  }
  bucketing::PowerSgdOptions options;
  if (!numbers.empty()) options.rank = static_cast<int>(numbers[0]);
  if (numbers.size() > 1) options.start = numbers[1];
  return options;
}

bool is_power_sgd(const GradientSettings& settings) { return settings.compression.starts_with(kPowerSgd); }

}  // namespace

void require_possible(const GradientSettings& settings) {
  if (is_power_sgd(settings))
    (void)parse_power_sgd(settings.compression);
  else
    check_name("compression", settings.compression, kCompressions);
  check_name("join", settings.join, kJoins);
  if (settings.bucket_bytes < 0)
    throw InvalidArgument(fmt::format("buckets of {} bytes; 0 or more are possible", settings.bucket_bytes));
  if (settings.static_graph && !settings.join.empty())
    throw InvalidArgument(fmt::format(
        "join '{}' with a static graph: a rank without rows has no gradients, so not each step has those of "
        "the first",
        settings.join));
  if (has_hook(settings) && settings.join == "present")
    refuse_compression(settings.compression, "its means are over all ranks: with join 'all', and not 'present'");
}

bool has_hook(const GradientSettings& settings) {
  return settings.compression.starts_with("int8") || is_power_sgd(settings);
}

std::optional<bucketing::PowerSgdOptions> power_sgd_of(const GradientSettings& settings) {
  require_possible(settings);
  if (!is_power_sgd(settings)) return std::nullopt;
  return parse_power_sgd(settings.compression);
}

std::optional<comm::DType> wire_of(const GradientSettings& settings) {
  require_possible(settings);
  if (settings.compression.empty() || is_power_sgd(settings)) return std::nullopt;
  if (settings.compression.starts_with("int8")) return comm::DType::u8;
  return settings.compression == "fp16" ? comm::DType::f16 : comm::DType::bf16;
}

bucketing::ReducerOptions options_of(const GradientSettings& settings, std::span<const bucketing::MatrixShape> shapes) {
  bucketing::ReducerOptions options{.join = !settings.join.empty()};
  if (const auto by = power_sgd_of(settings))
    options.hook = bucketing::PowerSgd({shapes.begin(), shapes.end()}, *by).hook();
  else if (has_hook(settings))
    options.hook =
        bucketing::quantising_hook(settings.compression == "int8" ? bucketing::kWholeBucket : bucketing::kUsualChannel);
  else
    options.wire = wire_of(settings);
  if (settings.join == "present") options.join_divisor = bucketing::JoinDivisor::present_ranks;
  if (settings.static_graph) options.unused = bucketing::Unused::static_graph;
  return options;
}

}  // namespace plumbline::training
