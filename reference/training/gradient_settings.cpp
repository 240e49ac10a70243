#include "reference/training/gradient_settings.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::training {
namespace {

void check_name(const char* what, const std::string& name, std::span<const std::string_view> known) {
  if (!name.empty() && std::ranges::find(known, name) == known.end())
    throw InvalidArgument(fmt::format("{} '{}'; it must be {}", what, name, fmt::join(known, ", ")));
}

}  // namespace

void require_possible(const GradientSettings& settings) {
  check_name("compression", settings.compression, kCompressions);
  check_name("join", settings.join, kJoins);
  if (settings.bucket_bytes < 0)
    throw InvalidArgument(fmt::format("buckets of {} bytes; 0 or more are possible", settings.bucket_bytes));
  if (settings.static_graph && !settings.join.empty())
    throw InvalidArgument(fmt::format(
        "join '{}' with a static graph: a rank without rows has no gradients, so not each step has those of "
        "the first",
        settings.join));
}

std::optional<comm::DType> wire_of(const GradientSettings& settings) {
  require_possible(settings);
  if (settings.compression.empty()) return std::nullopt;
  return settings.compression == "fp16" ? comm::DType::f16 : comm::DType::bf16;
}

bucketing::ReducerOptions options_of(const GradientSettings& settings) {
  bucketing::ReducerOptions options{.wire = wire_of(settings), .join = !settings.join.empty()};
  if (settings.join == "present") options.join_divisor = bucketing::JoinDivisor::present_ranks;
  if (settings.static_graph) options.unused = bucketing::Unused::learned;
  return options;
}

}  // namespace plumbline::training
