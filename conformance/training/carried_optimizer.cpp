#include "conformance/training/carried_optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "conformance/training/bounds.hpp"

namespace plumbline::conformance {

CarriedOptimizer::CarriedOptimizer(const job::Optimizer& optimizer, std::size_t elements)
    : optimizer_(optimizer), moments_(elements) {}

ExpectedUpdate CarriedOptimizer::step(std::span<const float> before, std::span<const float> gradient) {
  ++steps_;
  const double slack = 16.0 * steps_;  // steps_ is S+1
  ExpectedUpdate expected;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto value = static_cast<double>(before[i]);
    const auto slope = static_cast<double>(gradient[i]);
    const Change made =
        std::visit([&](const auto& rule) { return change(rule, value, slope, moments_[i]); }, optimizer_);
    expected.after.push_back(value - made.value);
    expected.bound.push_back(slack *
                             (unit_roundoff(comm::DType::f32) * (std::fabs(value) + made.largest) + kSmallestFloat));
  }
  return expected;
}

CarriedOptimizer CarriedOptimizer::mean_of(const std::vector<CarriedOptimizer>& ranks) {
  CarriedOptimizer mean = ranks.front();
  for (std::size_t i = 0; i < mean.moments_.size(); ++i) {
    mean.moments_[i] = {};
    for (const CarriedOptimizer& rank : ranks) {
      mean.moments_[i].first += rank.moments_[i].first / static_cast<double>(ranks.size());
      mean.moments_[i].second += rank.moments_[i].second / static_cast<double>(ranks.size());
      mean.moments_[i].largest = std::max(mean.moments_[i].largest, rank.moments_[i].largest);
    }
  }
  return mean;
}

CarriedOptimizer::Change CarriedOptimizer::change(const job::Sgd& sgd, double before, double gradient,
                                                  Moments& moments) const {
  const double decay = sgd.weight_decay * before;
  const double slope = gradient + decay;
  const double term = std::max(std::fabs(gradient), std::fabs(decay));
  // Without momentum the buffer is the slope itself.
  moments.first = sgd.momentum * moments.first + slope;
  moments.largest = std::max(sgd.momentum * moments.largest, term);
  if (!sgd.nesterov) return {sgd.lr * moments.first, sgd.lr * moments.largest};
  return {sgd.lr * (slope + sgd.momentum * moments.first), sgd.lr * std::max(term, sgd.momentum * moments.largest)};
}

CarriedOptimizer::Change CarriedOptimizer::change(const job::Adam& adam, double, double gradient,
                                                  Moments& moments) const {
  const auto [beta1, beta2] = adam.betas;
  moments.first = beta1 * moments.first + (1 - beta1) * gradient;
  moments.largest = std::max(beta1 * moments.largest, (1 - beta1) * std::fabs(gradient));
  moments.second = beta2 * moments.second + (1 - beta2) * gradient * gradient;
  const double rate = adam.lr / (1 - std::pow(beta1, steps_));
  const double root = std::sqrt(moments.second / (1 - std::pow(beta2, steps_)));
  return {rate * moments.first / (root + adam.eps), rate * moments.largest / (root + adam.eps)};
}

}  // namespace plumbline::conformance
