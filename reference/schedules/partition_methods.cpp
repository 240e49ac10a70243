#include <algorithm>
#include <charconv>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/partition.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::schedules {
namespace {

constexpr std::string_view kOfType = "type:";

// A state machine has as many states as its repetitions multiply to, and is walked by recursion.
void require_small(std::string_view expression) {
  constexpr std::size_t kMostCharacters = 256;
  constexpr std::int64_t kMostRepetitions = 1000;
  if (expression.size() > kMostCharacters)
    throw InvalidArgument(fmt::format("partition method: an expression of {} characters is longer than {}",
                                      expression.size(), kMostCharacters));
  std::int64_t repetitions = 1;
  for (std::size_t at = expression.find('{'); at != expression.npos; at = expression.find('{', at + 1)) {
    std::int64_t most = 1;
    for (std::size_t i = at + 1; i < expression.size() && expression[i] != '}'; ++i) {
      int count = 0;
      const std::errc error = std::from_chars(&expression[i], expression.data() + expression.size(), count).ec;
      most = std::max<std::int64_t>(most, error == std::errc::result_out_of_range ? kMostRepetitions + 1 : count);
    }
    repetitions = std::min(repetitions * most, kMostRepetitions + 1);
  }
  if (repetitions > kMostRepetitions)
    throw InvalidArgument(fmt::format("partition method: the repetitions of '{}' multiply to more than {}", expression,
                                      kMostRepetitions));
}

std::regex compiled(std::string_view expression) {
  require_small(expression);
  auto flags = std::regex::ECMAScript | std::regex::icase;
#ifdef __GLIBCXX__
  flags |= std::regex_constants::__polynomial;  // without going back: some expressions would take years
#endif
  try {
    return std::regex(expression.begin(), expression.end(), flags);
  } catch (const std::regex_error& error) {
    throw InvalidArgument(fmt::format("partition method: '{}' is no regular expression: {}", expression, error.what()));
  }
}

std::vector<double> weights_of(std::span<const LayerDescription> layers, const std::vector<bool>& found) {
  std::vector<double> weights;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) weights.push_back(found[layer] ? 1 : 0);
  return weights;
}

using Uniform = Boundaries (*)(int items, int parts);
using Balanced = Boundaries (*)(std::span<const double> weights, int parts);

Boundaries by_method(std::span<const LayerDescription> layers, int parts, std::string_view given, Uniform uniform,
                     Balanced balanced) {
  const std::string method = in_lower_case(given);
  if (method == "uniform") return uniform(static_cast<int>(layers.size()), parts);
  if (method == "parameters") {
    std::vector<double> weights;
    for (const LayerDescription& layer : layers) weights.push_back(static_cast<double>(layer.parameters));
    return balanced(weights, parts);
  }
  if (!method.starts_with(kOfType))
    throw InvalidArgument(
        fmt::format("partition method '{}' is not there; DeepSpeed has uniform, parameters, type:EXPRESSION", given));
  const std::string_view rest = std::string_view(method).substr(kOfType.size());
  return balanced(weights_of(layers, types_with(layers, rest.substr(0, rest.find(':')))), parts);
}

}  // namespace

std::vector<bool> types_with(std::span<const LayerDescription> layers, std::string_view expression) {
  const std::regex pattern = compiled(expression);
  std::vector<bool> found;
  for (const LayerDescription& layer : layers) found.push_back(layer.type && std::regex_search(*layer.type, pattern));
  if (std::ranges::count(found, true) > 0) return found;
  std::set<std::string> types;
  for (const LayerDescription& layer : layers)
    if (layer.type) types.insert(*layer.type);
  throw NotFound(fmt::format("partition method: '{}' is found in no type of the {} layers: {}", expression,
                             layers.size(), fmt::join(types, ", ")));
}

Boundaries deepspeed_by_method(std::span<const LayerDescription> layers, int parts, std::string_view method) {
  return by_method(layers, parts, method, deepspeed_uniform, deepspeed_balanced);
}

Boundaries deepspeed06_by_method(std::span<const LayerDescription> layers, int parts, std::string_view method) {
  return by_method(layers, parts, method, deepspeed06_uniform, deepspeed06_balanced);
}

ColossalaiPartition colossalai_by_method(std::span<const LayerDescription> layers, int stages, int chunks,
                                         std::string_view method) {
  if (method == "layer") return colossalai_uniform(static_cast<int>(layers.size()), stages, chunks);
  if (method != "parameter")
    throw InvalidArgument(
        fmt::format("partition method '{}' is not there; ColossalAI has layer and parameter", method));
  std::vector<std::int64_t> weights;
  for (const LayerDescription& layer : layers) weights.push_back(layer.parameters);
  return colossalai_balanced(weights, stages, chunks);
}

}  // namespace plumbline::schedules
