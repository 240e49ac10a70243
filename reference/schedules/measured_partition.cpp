#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "reference/schedules/partition.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;  // beyond it a double skips numbers
constexpr std::size_t kMostSteps = std::size_t{1} << 33;

void require_layer(std::size_t position, const LayerCost& layer) {
  for (const auto& [name, seconds] :
       {std::pair{"forward", layer.forward}, {"backward", layer.backward}, {"weight_gradient", layer.weight_gradient}})
    if (!(seconds >= 0) || !std::isfinite(seconds))
      throw InvalidArgument(
          fmt::format("partition: {} of layer {} is {}; it is 0 seconds or more, and finite", name, position, seconds));
  for (const auto& [name, number] : {std::pair{"parameters", layer.parameters},
                                     {"parameter_bytes", layer.parameter_bytes},
                                     {"activation_bytes", layer.activation_bytes},
                                     {"output_bytes", layer.output_bytes}})
    if (number < 0 || number > kMostBytes)
      throw InvalidArgument(
          fmt::format("partition: {} of layer {} is {}; it is from 0 to 2^53", name, position, number));
  if (layer.weight_gradient > layer.backward)
    throw InvalidArgument(fmt::format("partition: weight_gradient of layer {} is {}, more than its backward of {}",
                                      position, layer.weight_gradient, layer.backward));
}

// What is asked, as numbers that are summed over a stage's layers.
class Costs {
 public:
  Costs(std::span<const LayerCost> layers, const StageLimits& limits) : layers_(layers), limits_(limits) {
    if (limits.kept.empty()) throw InvalidArgument("partition: there is no stage to give layers to");
    for (std::size_t stage = 0; stage < limits.kept.size(); ++stage)
      if (limits.kept[stage] < 0)
        throw InvalidArgument(fmt::format("partition: stage {} keeps {} activations", stage, limits.kept[stage]));
    if (limits.memory < 0) throw InvalidArgument(fmt::format("partition: a memory limit of {} bytes", limits.memory));
    if (!(limits.bandwidth > 0))
      throw InvalidArgument(fmt::format("partition: a bandwidth of {} bytes a second", limits.bandwidth));
    double seconds = 0, bytes = 0;
    const double most = std::ranges::max(limits.kept);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      require_layer(i, layers[i]);
      seconds += layers[i].forward + layers[i].backward;
      bytes += static_cast<double>(layers[i].parameter_bytes) + most * static_cast<double>(layers[i].activation_bytes);
      if (!std::isfinite(seconds) || bytes >= static_cast<double>(kMostBytes))
        throw InvalidArgument(fmt::format(
            "partition: up to layer {} they sum up to {} seconds, {} bytes; these stay below 2^53", i, seconds, bytes));
    }
  }

  [[nodiscard]] std::size_t layers() const { return layers_.size(); }
  [[nodiscard]] std::size_t stages() const { return limits_.kept.size(); }
  [[nodiscard]] double seconds(std::size_t layer) const { return layers_[layer].forward + layers_[layer].backward; }
  [[nodiscard]] std::int64_t bytes(std::size_t stage, std::size_t layer) const {
    return layers_[layer].parameter_bytes + limits_.kept[stage] * layers_[layer].activation_bytes;
  }
  // Of the message that the stage ending before `end` sends.
  [[nodiscard]] double message(std::size_t end) const {
    return end == layers() ? 0 : static_cast<double>(layers_[end - 1].output_bytes) / limits_.bandwidth;
  }
  [[nodiscard]] std::int64_t memory() const { return limits_.memory; }

 private:
  std::span<const LayerCost> layers_;
  const StageLimits& limits_;
};

// What the worst part is to be the least of: the period within the limit, or the bytes themselves.
enum class Measure { period, bytes };

// Sums of layers as differences of two sums from the first one on: near to the sums in the order of a stage's layers,
// by `error` at most.
class NearSums {
 public:
  NearSums(const Costs& costs, Measure measure) : costs_(costs), measure_(measure) {
    for (std::size_t i = 0; i < costs.layers(); ++i) {
      seconds_.push_back(seconds_.back() + costs.seconds(i));
      for (std::size_t stage = 0; stage < costs.stages(); ++stage)
        bytes_[stage].push_back(bytes_[stage].back() + costs.bytes(stage, i));
    }
    if (measure == Measure::period)
      error_ = 2 * seconds_.back() * static_cast<double>(costs.layers() + 1) * std::numeric_limits<double>::epsilon();
  }

  // A worst part that is reached certainly, and nearly the least; infinite where nothing fits.
  [[nodiscard]] double bound() const {
    if (!certainly_reached(kInfinity)) return kInfinity;
    double reached = measure_ == Measure::period ? seconds_.back() + error_ : 0;
    for (std::size_t end = 1; end < costs_.layers() && measure_ == Measure::period; ++end)
      reached = std::max(reached, costs_.message(end));
    for (const auto& sums : bytes_)
      if (measure_ == Measure::bytes) reached = std::max(reached, static_cast<double>(sums.back()));
    double missed = 0;
    for (int halving = 0; halving < 30; ++halving) {
      const double middle = missed + (reached - missed) / 2;
      (certainly_reached(middle) ? reached : missed) = middle;
    }
    return reached;
  }

  // Whether the layers before `begin` are certainly too many for the stages before `stage`, or the others for the
  // others.
  [[nodiscard]] bool is_beyond(double worst, std::size_t stage, std::size_t begin) const {
    if (measure_ == Measure::bytes) return false;
    const auto before = static_cast<double>(stage), others = static_cast<double>(costs_.stages() - stage);
    return seconds_[begin] > before * worst + error_ || seconds_.back() - seconds_[begin] > others * worst + error_;
  }

 private:
  [[nodiscard]] bool is_within(double worst, std::size_t stage, std::size_t begin, std::size_t end) const {
    const std::int64_t bytes = bytes_[stage][end] - bytes_[stage][begin];
    if (measure_ == Measure::bytes) return static_cast<double>(bytes) <= worst;
    return bytes <= costs_.memory() && seconds_[end] - seconds_[begin] + error_ <= worst;
  }
  // Stage by stage, where the next one may begin. The longest stage that begins later does not end earlier.
  [[nodiscard]] bool certainly_reached(double worst) const {
    std::vector<bool> begins(costs_.layers() + 1), ends;
    begins.front() = true;
    for (std::size_t stage = 0; stage < costs_.stages(); ++stage) {
      ends.assign(costs_.layers() + 1, false);
      std::size_t end = 0;
      for (std::size_t begin = 0; begin < costs_.layers(); ++begin) {
        if (!begins[begin]) continue;
        for (end = std::max(end, begin); end < costs_.layers() && is_within(worst, stage, begin, end + 1); ++end)
          ends[end + 1] = measure_ == Measure::bytes || costs_.message(end + 1) <= worst;
      }
      std::swap(begins, ends);
    }
    return begins.back();
  }

  const Costs& costs_;
  Measure measure_;
  std::vector<double> seconds_{0};
  std::vector<std::vector<std::int64_t>> bytes_ = std::vector(costs_.stages(), std::vector<std::int64_t>{0});
  double error_ = 0;
};

// least[s][i]: the least worst part when the layers from i on are dealt to the stages from s on; infinite where they
// do not fit, or are worse than a bound that is reached. A stage is lengthened layer by layer, as long as it fits and
// is better than what was found.
class Dealing {
 public:
  Dealing(const Costs& costs, Measure measure)
      : costs_(costs),
        measure_(measure),
        least_(costs.stages() + 1, std::vector<double>(costs.layers() + 1, kInfinity)) {
    const NearSums sums(costs, measure);
    bound_ = sums.bound();
    least_.back().back() = 0;
    for (std::size_t stage = costs.stages(); stage-- > 0;)
      for (std::size_t begin = stage; begin < costs.layers(); ++begin) {
        if (sums.is_beyond(bound_, stage, begin)) continue;
        double& least = least_[stage][begin];
        for_each_end(stage, begin, [&](std::size_t end, double worst) {
          least = std::min(least, std::max(worst, least_[stage + 1][end]));
          return worst < least;
        });
      }
  }

  [[nodiscard]] double worst() const { return least_.front().front(); }

  [[nodiscard]] Boundaries boundaries() const {
    Boundaries boundaries{0};
    for (std::size_t stage = 0; stage < costs_.stages(); ++stage) {
      std::size_t longest = 0;
      for_each_end(stage, static_cast<std::size_t>(boundaries.back()), [&](std::size_t end, double worst_here) {
        if (std::max(worst_here, least_[stage + 1][end]) <= worst()) longest = end;
        return true;
      });
      boundaries.push_back(static_cast<int>(longest));
    }
    return boundaries;
  }

 private:
  // Each end of a stage that begins there and fits, with the worst of it and its message, until `visit` says that it is
  // enough. What it has seen of a stage's own seconds or bytes, without the message, only grows.
  template <class Visit>
  void for_each_end(std::size_t stage, std::size_t begin, const Visit& visit) const {
    const std::size_t last = costs_.layers() - (costs_.stages() - stage - 1);
    double seconds = 0;
    std::int64_t bytes = 0;
    for (std::size_t end = begin + 1; end <= last; ++end) {
      seconds += costs_.seconds(end - 1);
      bytes += costs_.bytes(stage, end - 1);
      if (measure_ == Measure::period && bytes > costs_.memory()) return;
      const double own = measure_ == Measure::period ? seconds : static_cast<double>(bytes);
      if (own > bound_) return;
      const double message = measure_ == Measure::period ? costs_.message(end) : 0;
      if (!visit(end, std::max(own, message)) && own >= message) return;
    }
  }

  const Costs& costs_;
  Measure measure_;
  double bound_ = kInfinity;
  std::vector<std::vector<double>> least_;
};

[[noreturn]] void refuse_limits(std::span<const LayerCost> layers, const Costs& costs, const StageLimits& limits) {
  const Boundaries best = Dealing(costs, Measure::bytes).boundaries();
  const std::vector<StageCost> stages = stage_costs(layers, best, limits);
  const auto fullest = std::ranges::max_element(stages, {}, &StageCost::bytes);
  const auto stage = static_cast<std::size_t>(fullest - stages.begin());
  std::int64_t parameters = 0, activations = 0;
  for (int i = best[stage]; i < best[stage + 1]; ++i) {
    parameters += layers[static_cast<std::size_t>(i)].parameter_bytes;
    activations += layers[static_cast<std::size_t>(i)].activation_bytes;
  }
  const std::int64_t missing = fullest->bytes - limits.memory;
  throw NoPartitionFits(
      fmt::format(
          "partition: {} layers do not fit into {} stages of {} bytes each: at best stage {}, with layers {} to "
          "{}, has {} bytes, {} too many: {} of parameters and {} times {} of activations",
          layers.size(), stages.size(), limits.memory, stage, best[stage], best[stage + 1] - 1, fullest->bytes, missing,
          parameters, limits.kept[stage], activations),
      static_cast<int>(stage), missing);
}

}  // namespace

std::vector<int> kept_by_1f1b(int stages, int micro_batches) {
  if (stages < 1 || micro_batches < 1)
    throw InvalidArgument(fmt::format("1F1B of {} stages and {} micro-batches", stages, micro_batches));
  std::vector<int> kept;
  for (int stage = 0; stage < stages; ++stage) kept.push_back(std::min(stages - stage, micro_batches));
  return kept;
}

std::vector<int> kept_by(const Schedule& schedule, bool forward_only) {
  std::vector<int> kept(schedule.stage_to_rank.size());
  const Timeline timeline = simulate(schedule, {.forward_only = forward_only});
  if (timeline.ranks.size() != kept.size())
    throw InvalidArgument(
        fmt::format("partition: what a stage keeps is known where each rank has one; {} ranks have {}",
                    timeline.ranks.size(), kept.size()));
  for (std::size_t stage = 0; stage < kept.size(); ++stage)
    kept[stage] = timeline.ranks[static_cast<std::size_t>(schedule.stage_to_rank[stage])].peak_activations;
  return kept;
}

Boundaries partition_measured(std::span<const LayerCost> layers, const StageLimits& limits) {
  const Costs costs(layers, limits);
  const std::size_t n = costs.layers(), p = costs.stages();
  if (n < p) throw InvalidArgument(fmt::format("partition: {} stages need a layer each, there are {} layers", p, n));
  if (n > kMostSteps / n / p)
    throw InvalidArgument(
        fmt::format("partition: {} layers x {} layers x {} stages are more than {} steps", n, n, p, kMostSteps));
  const Dealing dealing(costs, Measure::period);
  if (std::isinf(dealing.worst())) refuse_limits(layers, costs, limits);
  return dealing.boundaries();
}

std::vector<StageCost> stage_costs(std::span<const LayerCost> layers, const Boundaries& boundaries,
                                   const StageLimits& limits) {
  const Costs costs(layers, limits);
  if (!is_partition(boundaries, static_cast<int>(layers.size()), static_cast<int>(costs.stages())))
    throw InvalidArgument(
        fmt::format("partition: the boundaries do not give {} layers to {} stages", layers.size(), costs.stages()));
  std::vector<StageCost> stages(costs.stages());
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const auto end = static_cast<std::size_t>(boundaries[stage + 1]);
    for (auto i = static_cast<std::size_t>(boundaries[stage]); i < end; ++i) {
      stages[stage].seconds += costs.seconds(i);
      stages[stage].bytes += costs.bytes(stage, i);
    }
    if (end > 0) stages[stage].message = costs.message(end);
  }
  return stages;
}

double period_of(std::span<const StageCost> stages) {
  double period = 0;
  for (const StageCost& stage : stages) period = std::max({period, stage.seconds, stage.message});
  return period;
}

}  // namespace plumbline::schedules
