#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/training/averaging.hpp"

namespace plumbline::training {
namespace {

double distance_between(const std::vector<float>& values, const std::vector<double>& mean) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += (values[i] - mean[i]) * (values[i] - mean[i]);
  return std::sqrt(sum);
}

ConsensusDistance of_distances(const std::vector<double>& distances) {
  return {.largest = std::ranges::max(distances),
          .mean = std::accumulate(distances.begin(), distances.end(), 0.0) / static_cast<double>(distances.size())};
}

}  // namespace

std::vector<float> model_behind(const AveragedStep& step) {
  std::vector<float> values = step.halves.empty() ? step.after : step.halves;
  const auto weight = static_cast<float>(step.weight);
  for (float& value : values) value /= weight;
  return values;
}

ConsensusDistance consensus_distance(comm::Communicator& world, const std::vector<float>& estimate) {
  std::vector<double> mean(estimate.begin(), estimate.end());
  const comm::Buffer sum{mean.data(), static_cast<std::int64_t>(mean.size()), comm::DType::f64};
  world.all_reduce(sum, sum, comm::ReduceOp::sum);
  for (double& value : mean) value /= world.size();
  double own = distance_between(estimate, mean);
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  world.all_gather({&own, 1, comm::DType::f64}, {all.data(), world.size(), comm::DType::f64});
  return of_distances(all);
}

ConsensusDistance consensus_distance(const std::vector<std::vector<float>>& estimates) {
  std::vector<double> mean(estimates.front().size());
  for (const std::vector<float>& one : estimates)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += one[i];
  for (double& value : mean) value /= static_cast<double>(estimates.size());
  std::vector<double> all;
  for (const std::vector<float>& one : estimates) all.push_back(distance_between(one, mean));
  return of_distances(all);
}

}  // namespace plumbline::training
