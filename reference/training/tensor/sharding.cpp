#include "reference/training/tensor/sharding.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>

namespace plumbline::training {
namespace {

bool is_activation(const job::Layer& layer) {
  return std::holds_alternative<job::Relu>(layer) || std::holds_alternative<job::Gelu>(layer) ||
         std::holds_alternative<job::Tanh>(layer);
}

// A linear layer that may be cut.
const job::Linear* cuttable(const job::RunSpec& spec, std::size_t layer) {
  const auto* linear = std::get_if<job::Linear>(&spec.layers[layer]);
  if (linear == nullptr || linear->out < spec.parallel.tensor) return nullptr;
  const bool is_shared = std::ranges::any_of(spec.layers, [layer](const job::Layer& other) {
    const auto* tied = std::get_if<job::TiedLinear>(&other);
    return tied != nullptr && static_cast<std::size_t>(tied->with) == layer;
  });
  return is_shared ? nullptr : linear;
}

bool is_added(const job::RunSpec& spec, std::size_t layer) {
  return std::ranges::any_of(spec.layers, [layer](const job::Layer& other) {
    const auto* add = std::get_if<job::Add>(&other);
    return add != nullptr && static_cast<std::size_t>(add->with) == layer;
  });
}

// Whether a layer can take parts and make parts.
bool keeps_parts(const job::RunSpec& spec, std::size_t layer) {
  const auto* attention = std::get_if<job::Attention>(&spec.layers[layer]);
  return (is_activation(spec.layers[layer]) || (attention != nullptr && attention->heads >= spec.parallel.tensor)) &&
         !is_added(spec, layer);
}

// Features are cut by the heads of one attention: another's may lie across the cuts.
bool has_one_attention_at_most(const job::RunSpec& spec, std::size_t begin, std::size_t end) {
  const auto layers = std::span(spec.layers).subspan(begin, end - begin);
  return std::ranges::count_if(
             layers, [](const job::Layer& layer) { return std::holds_alternative<job::Attention>(layer); }) <= 1;
}

// The linear layer of the same stage that takes what this one makes, activations and one attention aside.
std::optional<std::size_t> partner_of(const job::RunSpec& spec, std::size_t layer) {
  if (is_added(spec, layer)) return {};
  std::size_t next = layer + 1;
  while (next < spec.layers.size() && keeps_parts(spec, next)) ++next;
  if (next == spec.layers.size() || cuttable(spec, next) == nullptr) return {};
  if (!has_one_attention_at_most(spec, layer, next)) return {};
  const bool is_one_stage =
      job::stage_of_layer(spec, static_cast<int>(layer)) == job::stage_of_layer(spec, static_cast<int>(next));
  return is_one_stage ? std::optional(next) : std::nullopt;
}

}  // namespace

std::vector<LinearForm> linear_forms(const job::RunSpec& spec) {
  std::vector<LinearForm> forms(spec.layers.size(), LinearForm::whole);
  if (spec.parallel.tensor == 1) return forms;
  for (std::size_t layer = 0; layer < forms.size(); ++layer) {
    if (forms[layer] != LinearForm::whole || cuttable(spec, layer) == nullptr) continue;
    const std::optional<std::size_t> partner = partner_of(spec, layer);
    forms[layer] = partner ? LinearForm::column : LinearForm::gathered;
    if (!partner) continue;
    forms[*partner] = LinearForm::row;
    for (std::size_t between = layer + 1; between < *partner; ++between)
      if (std::holds_alternative<job::Attention>(spec.layers[between])) forms[between] = LinearForm::column;
  }
  return forms;
}

std::vector<bool> puts_out_parts(const job::RunSpec& spec) {
  const std::vector<LinearForm> forms = linear_forms(spec);
  std::vector<bool> list;
  for (std::size_t layer = 0; layer < forms.size(); ++layer)
    list.push_back(forms[layer] == LinearForm::column ||
                   (is_activation(spec.layers[layer]) && layer > 0 && list.back()));
  return list;
}

namespace {

// By how many features a cut layer's parts are cut: those of a head, where attention lies in its pair; 1 where there
// are fewer features than heads, which no row fits.
std::int64_t features_of_a_unit(const job::RunSpec& spec, const std::vector<LinearForm>& forms, std::size_t layer,
                                std::int64_t features) {
  if (forms[layer] == LinearForm::gathered) return 1;
  const bool is_row = forms[layer] == LinearForm::row;
  for (std::size_t other = is_row ? layer - 1 : layer + 1; other < forms.size(); is_row ? --other : ++other) {
    if (const auto* attention = std::get_if<job::Attention>(&spec.layers[other]))
      return std::max<std::int64_t>(1, features / attention->heads);
    if (!is_activation(spec.layers[other])) break;
  }
  return 1;
}

}  // namespace

Extent extent_of(std::int64_t count, int parts, int index) {
  const std::int64_t each = count / parts, more = count % parts;
  return {.begin = index * each + std::min<std::int64_t>(index, more), .size = each + (index < more ? 1 : 0)};
}

Shard shard_of(const job::RunSpec& spec, const std::vector<LinearForm>& forms, const job::Parameter& parameter,
               int tensor_rank) {
  const LinearForm form = forms[static_cast<std::size_t>(parameter.layer)];
  const bool is_bias = parameter.name.ends_with(".bias");
  if (form == LinearForm::whole || (form == LinearForm::row && is_bias)) return {};
  const int dim = form == LinearForm::row ? 1 : 0;
  const std::int64_t features = parameter.shape[static_cast<std::size_t>(dim)];
  const std::int64_t unit = features_of_a_unit(spec, forms, static_cast<std::size_t>(parameter.layer), features);
  const Extent units = extent_of(features / unit, spec.parallel.tensor, tensor_rank);
  return {.dim = dim, .part = {.begin = units.begin * unit, .size = units.size * unit}};
}

job::Parameter recorded(const job::Parameter& parameter, const Shard& shard) {
  if (shard.dim < 0) return parameter;
  job::Parameter part = parameter;
  part.name = fmt::format("{}@{}", parameter.name, shard.dim);
  part.shape[static_cast<std::size_t>(shard.dim)] = shard.part.size;
  return part;
}

}  // namespace plumbline::training
