#include "conformance/training/single_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <stdexcept>

#include <fmt/format.h>

#include "conformance/training/bounds.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/record/run_files.hpp"
#include "reference/record/safetensors.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::conformance {
namespace {

using training::Arithmetic;

// Each group of parts by its own weighted mean, which is 0 where it is all padding; then the plain mean of the groups.
training::Gradients mean_of_means(const job::RunFiles& files, const std::vector<training::Slice>& parts,
                                  const training::Baseline& apart, const std::function<int(std::size_t)>& group_of) {
  std::map<int, double> weights;
  double all = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    weights[group_of(part)] += files.weight_of(parts[part]);
    all += files.weight_of(parts[part]);
  }
  training::Gradients mean;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const double weight = weights.at(group_of(part));
    // Taken out of the sum over all rows, and put into that over its group.
    const double share =
        weight == 0 ? 0 : all / static_cast<double>(parts.size()) / weight / static_cast<double>(weights.size());
    for (const auto& [name, values] : apart.slices[part].gradients) {
      std::vector<double>& sum = mean[name];
      sum.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) sum[i] += share * values[i];
    }
  }
  return mean;
}

std::string weight_of(int layer) { return fmt::format("{}.weight", layer); }

// Writes values as the weights that `spec` names, in a folder; false where that cannot be.
bool write_weights(job::RunSpec& spec, const training::Values& values, std::optional<job::TemporaryFolder>& folder) {
  try {
    folder.emplace();
    spec.weights = (folder->path() / "weights.safetensors").string();
    job::SafetensorsWriter writer;
    for (const job::Parameter& parameter : job::parameters_of(spec))
      writer.add<float>(parameter.name, parameter.shape, values.at(parameter.name));
    writer.write(spec.weights);
  } catch (const std::runtime_error&) {
    return false;
  }
  return true;
}

// Each use with a weight of its own: the gradients of these are the parts of the shared one's. Nothing where the file
// that a run needs cannot be written.
std::map<int, std::vector<double>> gradients_of_uses(const job::RunSpec& spec, int step, const std::vector<int>& uses,
                                                     const training::Values& before, training::Training& training,
                                                     const std::string& device) {
  job::RunSpec untied = spec;
  training::Values values = before;
  const std::vector<job::Parameter> parameters = job::parameters_of(spec);
  const job::Shape shape = std::ranges::find(parameters, weight_of(uses.front()), &job::Parameter::name)->shape;
  for (const int layer : uses | std::views::drop(1)) {
    untied.layers[static_cast<std::size_t>(layer)] = job::Linear{.in = shape[1], .out = shape[0], .bias = false};
    values[weight_of(layer)] = before.at(weight_of(uses.front()));
  }
  std::optional<job::TemporaryFolder> folder;
  if (!write_weights(untied, values, folder)) return {};
  const training::Baseline apart =
      training.baseline(untied, slices_of(spec, step), values, Arithmetic::float64, device);
  std::map<int, std::vector<double>> gradients;
  for (const int layer : uses) gradients[layer] = apart.mean.gradients.at(weight_of(layer));
  return gradients;
}

}  // namespace

std::vector<int> uses_of(const job::RunSpec& spec, const std::string& weight) {
  std::vector<int> uses;
  for (int layer = 0; layer < static_cast<int>(spec.layers.size()); ++layer) {
    const auto* tied = std::get_if<job::TiedLinear>(&spec.layers[static_cast<std::size_t>(layer)]);
    if (weight == weight_of(tied == nullptr ? layer : tied->with)) uses.push_back(layer);
  }
  return uses;
}

// Written out here, so that a fault in the executor's own cut is seen.
std::vector<training::Slice> slices_of(const job::RunSpec& spec, int step) {
  const std::int64_t cuts = std::int64_t{spec.parallel.data} * spec.run.micro_batches;
  std::vector<training::Slice> slices(static_cast<std::size_t>(spec.parallel.data));
  for (std::int64_t batch = std::int64_t{step} * spec.run.accumulation;
       batch < (std::int64_t{step} + 1) * spec.run.accumulation; ++batch)
    for (std::int64_t cut = 0; cut < cuts; ++cut) {
      const std::int64_t begin = spec.run.global_batch * cut / cuts;
      const std::int64_t end = spec.run.global_batch * (cut + 1) / cuts;
      slices[static_cast<std::size_t>(cut / spec.run.micro_batches)].push_back({batch, begin, end - begin});
    }
  return slices;
}

bool mixes_rows(const job::RunSpec& spec) {
  return std::ranges::any_of(spec.layers,
                             [](const job::Layer& layer) { return std::holds_alternative<job::BatchNorm2d>(layer); });
}

GradientNorm::GradientNorm(const training::Gradients& gradients, double p) : p_(p) {
  for (const auto& [name, gradient] : gradients) {
    double& part = parts_[name];
    for (const double value : gradient)
      part = std::isinf(p) ? std::max(part, std::fabs(value)) : part + std::pow(std::fabs(value), p);
  }
}

double GradientNorm::of(const std::map<std::string, double>& counts) const {
  double sum = 0;
  for (const auto& [name, part] : parts_) {
    const auto found = counts.find(name);
    const double count = found == counts.end() ? 1 : found->second;
    if (count != 0) sum = std::isinf(p_) ? std::max(sum, part) : sum + count * part;
  }
  return std::isinf(p_) ? sum : std::pow(sum, 1 / p_);
}

double clip_coefficient(double most, double norm) { return std::min(1.0, most / (norm + 1e-6)); }

SingleDevice::SingleDevice(const job::RunSpec& spec, int step, const training::Values& before,
                           training::Training& training, const std::string& device)
    : spec_(spec),
      step_(step),
      before_(before),
      training_(training),
      device_(device),
      unit_roundoff_(unit_roundoff(compute_dtype(spec.run.dtype))),
      float32_(training.baseline(spec, slices_of(spec, step), before, Arithmetic::float32, device)),
      float64_(training.baseline(spec, slices_of(spec, step), before, Arithmetic::float64, device)) {
  if (!mixes_rows(spec)) union_ = training.union_batch(spec, step, before, Arithmetic::float64, device);
}

std::vector<float> SingleDevice::slice32(int data, const std::string& parameter) const {
  const std::vector<double>& wide = float32_.slices[static_cast<std::size_t>(data)].gradients.at(parameter);
  return {wide.begin(), wide.end()};
}

const training::Gradients& SingleDevice::slices64(int data) const {
  return float64_.slices[static_cast<std::size_t>(data)].gradients;
}

const std::vector<double>& SingleDevice::slice64(int data, const std::string& parameter) const {
  return slices64(data).at(parameter);
}

const std::vector<double>& SingleDevice::mean64(const std::string& parameter) const {
  return float64_.mean.gradients.at(parameter);
}

std::vector<double> SingleDevice::mean_of_slices(const std::string& parameter) const {
  std::vector<double> mean(float32_.mean.gradients.at(parameter).size());
  for (const training::LossGradient& slice : float32_.slices)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += slice.gradients.at(parameter)[i];
  for (double& value : mean) value /= static_cast<double>(float32_.slices.size());
  return mean;
}

std::vector<float> SingleDevice::rank_order_mean(const std::string& parameter) const {
  std::vector<float> sum = slice32(0, parameter);
  for (std::size_t data = 1; data < float32_.slices.size(); ++data) {
    const std::vector<float> slice = slice32(static_cast<int>(data), parameter);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += slice[i];
  }
  for (float& value : sum) value /= static_cast<float>(float32_.slices.size());
  return sum;
}

std::vector<double> SingleDevice::magnitudes(const std::string& parameter) const {
  std::vector<double> sum(float32_.mean.gradients.at(parameter).size());
  for (const training::LossGradient& slice : float32_.slices)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += std::fabs(slice.gradients.at(parameter)[i]);
  return sum;
}

void SingleDevice::compute_scaled(double scale) {
  scale_ = scale;
  scaled_ = training_.scaled_slices(spec_, slices_of(spec_, step_), before_, scale, device_);
}

std::vector<float> SingleDevice::scaled_slice(int data, const std::string& parameter) const {
  const auto inverse = static_cast<float>(1 / scale_);
  std::vector<float> slice;
  for (const double value : scaled_[static_cast<std::size_t>(data)].gradients.at(parameter))
    slice.push_back(static_cast<float>(value) * inverse);
  return slice;
}

std::vector<float> SingleDevice::scaled_mean(const std::string& parameter) const {
  const auto inverse = static_cast<float>(1 / scale_);
  const comm::DType type = compute_dtype(spec_.run.dtype);
  std::vector<float> mean;
  for (std::size_t i = 0; i < scaled_.front().gradients.at(parameter).size(); ++i) {
    float sum = 0;
    for (std::size_t data = 0; data < scaled_.size(); ++data) {
      const auto value = static_cast<float>(scaled_[data].gradients.at(parameter)[i]);
      sum = data == 0 ? value : sum + value;
    }
    mean.push_back(comm::rounded_to(type, sum / static_cast<float>(scaled_.size())) * inverse);
  }
  return mean;
}

const std::vector<double>& SingleDevice::union64(const std::string& parameter) const {
  return union_.gradients.at(parameter);
}

void SingleDevice::add_other_routings() const {
  const auto add = [&](std::string name, const std::function<void(job::Moe&)>& change) {
    job::RunSpec other = spec_;
    bool is_other = false;
    for (job::Layer& layer : other.layers)
      if (auto* mixture = std::get_if<job::Moe>(&layer)) {
        const job::Moe given = *mixture;
        change(*mixture);
        is_other |= mixture->top_k != given.top_k || mixture->normalize_gates != given.normalize_gates;
      }
    if (!is_other) return;
    other_rules_.push_back(
        {std::move(name),
         training_.baseline(other, slices_of(other, step_), before_, Arithmetic::float64, device_).mean.gradients});
  };
  add("each token goes through its first expert alone", [](job::Moe& layer) { layer.top_k = 1; });
  add("gates are normalized in every layer", [](job::Moe& layer) { layer.normalize_gates = true; });
  add("gates are normalized in no layer", [](job::Moe& layer) { layer.normalize_gates = false; });
}

const std::vector<SingleDevice::OtherRule>& SingleDevice::by_other_rules() const {
  if (!other_rules_.empty()) return other_rules_;
  add_other_routings();
  if (!spec_.row_weights) return other_rules_;
  // A slice for each micro-batch of the step: its gradient over the weight of all rows, times the number of slices.
  std::vector<training::Slice> parts;
  std::vector<int> ranks;
  for (std::size_t data = 0; const training::Slice& slice : slices_of(spec_, step_)) {
    for (const job::RowRange& part : slice) {
      parts.push_back({part});
      ranks.push_back(static_cast<int>(data));
    }
    ++data;
  }
  const training::Baseline apart = training_.baseline(spec_, parts, before_, Arithmetic::float64, device_);
  const auto means_of = [&](const std::string& groups, const auto& group_of) {
    other_rules_.push_back({fmt::format("the mean of the weighted means of the {}", groups),
                            mean_of_means(job::RunFiles(spec_), parts, apart, group_of)});
  };
  means_of("data ranks", [&](std::size_t part) { return ranks[part]; });
  means_of("micro-batches", [](std::size_t part) { return static_cast<int>(part); });
  means_of("accumulated batches", [&](std::size_t part) { return static_cast<int>(parts[part].front().batch); });
  job::RunSpec plain = spec_;
  plain.row_weights = false;
  other_rules_.push_back(
      {"the mean over all rows, whatever their weights",
       training_.baseline(plain, slices_of(plain, step_), before_, Arithmetic::float64, device_).mean.gradients});
  return other_rules_;
}

const std::vector<SingleDevice::OtherSum>& SingleDevice::by_other_uses(const std::string& weight) const {
  const auto [place, is_new] = other_sums_.try_emplace(weight);
  if (!is_new) return place->second;
  const std::vector<int> uses = uses_of(spec_, weight);
  if (uses.size() < 2) return place->second;
  const std::map<int, std::vector<double>> apart = gradients_of_uses(spec_, step_, uses, before_, training_, device_);
  const std::vector<double>& sum = mean64(weight);
  for (const auto& [layer, gradient] : apart) {
    const std::string use = fmt::format("the gradient of its use in layer {} ({})", layer,
                                        job::name_of(spec_.layers[static_cast<std::size_t>(layer)]));
    OtherSum without{"without " + use, sum}, twice{use + " twice", sum};
    for (std::size_t i = 0; i < sum.size(); ++i) {
      without.gradient[i] -= gradient[i];
      twice.gradient[i] += gradient[i];
    }
    place->second.push_back(std::move(without));
    place->second.push_back(std::move(twice));
  }
  return place->second;
}

double SingleDevice::gradient_bound(const std::string& parameter) const {
  double largest = 0;
  for (const training::LossGradient& slice : float64_.slices)
    largest = std::max(largest, largest_of(slice.gradients.at(parameter)));
  double d = distance(float32_.mean.gradients.at(parameter), float64_.mean.gradients.at(parameter));
  if (has_narrow()) {
    const std::vector<float> narrow = scaled_mean(parameter);
    d = std::max(d, distance({narrow.begin(), narrow.end()}, float64_.mean.gradients.at(parameter)));
  }
  return bound_beside(d, largest, unit_roundoff_);
}

double SingleDevice::slice_bound(int data, const std::string& parameter) const {
  const std::vector<double>& wide = slice64(data, parameter);
  const std::vector<double>& narrow = float32_.slices[static_cast<std::size_t>(data)].gradients.at(parameter);
  double d = distance(narrow, wide);
  if (has_narrow()) {
    const std::vector<float> scaled = scaled_slice(data, parameter);
    d = std::max(d, distance({scaled.begin(), scaled.end()}, wide));
  }
  return bound_beside(d, largest_of(wide), unit_roundoff_);
}

double SingleDevice::loss_bound(int data) const {
  double d = std::fabs(loss32(data) - loss64(data));
  if (has_narrow()) d = std::max(d, std::fabs(scaled_loss(data) - loss64(data)));
  return bound_beside(d, 1 + std::fabs(loss64(data)), unit_roundoff_);
}

}  // namespace plumbline::conformance
