#include "conformance/training/routing.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "conformance/training/single_device.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/run_files.hpp"

namespace plumbline::conformance {
namespace {

// By how much the logit of the last expert that a token goes through is larger than that of the next one.
double margin_of(const job::Moe& layer, std::span<const float> router, std::span<const double> token) {
  std::vector<double> logits(static_cast<std::size_t>(layer.experts));
  for (std::size_t i = 0; i < router.size(); ++i) logits[i / token.size()] += router[i] * token[i % token.size()];
  std::ranges::sort(logits, std::greater());
  const auto chosen = static_cast<std::size_t>(layer.top_k);
  return chosen == logits.size() ? kUnsureLogits : logits[chosen - 1] - logits[chosen];
}

// What a layer takes of a micro-batch.
std::vector<double> input_of(const job::RunSpec& spec, const training::SliceActivations& slice, std::size_t part,
                             const job::RowRange& rows, std::size_t layer) {
  if (layer > 0) return slice[part][layer - 1].output;
  const job::RunFiles files(spec);
  std::vector<float> x(static_cast<std::size_t>(rows.rows * job::elements_of(files.row())));
  files.read_x(rows, std::span(x));
  return {x.begin(), x.end()};
}

}  // namespace

bool is_routing_unsure(const job::RunSpec& spec, int step, const training::Values& before, training::Training& training,
                       const std::string& device) {
  const auto is_mixture = [](const job::Layer& layer) { return std::holds_alternative<job::Moe>(layer); };
  if (std::ranges::none_of(spec.layers, is_mixture)) return false;
  const std::vector<training::Slice> slices = slices_of(spec, step);
  const std::vector<training::SliceActivations> all =
      training.activations(spec, slices, before, training::Arithmetic::float64, {}, device);
  for (std::size_t number = 0; number < spec.layers.size(); ++number) {
    const auto* const layer = std::get_if<job::Moe>(&spec.layers[number]);
    if (layer == nullptr) continue;
    const std::vector<float>& router = before.at(fmt::format("{}.weight", number));
    const auto features = static_cast<std::size_t>(layer->features);
    for (std::size_t data = 0; data < slices.size(); ++data)
      for (std::size_t part = 0; part < slices[data].size(); ++part) {
        const std::vector<double> tokens = input_of(spec, all[data], part, slices[data][part], number);
        for (std::size_t at = 0; at < tokens.size(); at += features)
          if (margin_of(*layer, router, std::span(tokens).subspan(at, features)) < kUnsureLogits) return true;
      }
  }
  return false;
}

}  // namespace plumbline::conformance
