#include "conformance/slowmo/slowmo_training.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace plumbline::conformance {

using comm::Buffer;
using comm::DType;
using slowmo::ParameterGroup;
using slowmo::SlowMo;

namespace {

// A number in [-1, 1) that differs from all others.
double noise(std::uint64_t seed) {
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
  seed ^= seed >> 31;
  return static_cast<double>(static_cast<std::int64_t>(seed >> 40)) * 0x1p-23 - 1.0;
}

std::size_t elements_of(const SlowMoTraining& training) {
  std::size_t count = 0;
  for (const std::int64_t size : training.sizes) count += static_cast<std::size_t>(size);
  return count;
}

// Values of one type, as tensors that lie one after the other.
class TrainedTensors {
 public:
  TrainedTensors(const SlowMoTraining& training) : dtype_(training.dtype), sizes_(training.sizes) {
    wide_.resize(elements_of(training));
    narrow_.resize(wide_.size());
  }
  [[nodiscard]] std::vector<Buffer> views() {
    std::vector<Buffer> views;
    std::int64_t at = 0;
    for (const std::int64_t size : sizes_) {
      views.push_back(
          {dtype_ == DType::f64 ? static_cast<void*>(wide_.data() + at) : narrow_.data() + at, size, dtype_});
      at += size;
    }
    return views;
  }
  void set(const SlowMoValues& values) {
    wide_ = values;
    std::ranges::transform(values, narrow_.begin(), [](double value) { return static_cast<float>(value); });
  }
  [[nodiscard]] SlowMoValues values() const {
    return dtype_ == DType::f64 ? wide_ : SlowMoValues(narrow_.begin(), narrow_.end());
  }

 private:
  DType dtype_;
  std::vector<std::int64_t> sizes_;
  SlowMoValues wide_;
  std::vector<float> narrow_;
};

class Run {
 public:
  Run(comm::Communicator& world, const SlowMoTraining& training)
      : world_(world), training_(training), parameters_(training), gradients_(training) {
    parameters_.set(initial_values(training, training.starts_apart ? world.rank() : 0));
    make();
  }

  SlowMoRankResult run() {
    SlowMoRankResult trained;
    for (step_ = 0; step_ < training_.steps; ++step_) {
      if (training_.resumes_before == step_) resume();
      slowmo_->before_forward();
      gradients_.set(gradients_at(parameters_.values(), world_.rank(), step_));
      slowmo_->after_backward(gradients_.views());
      SlowMoValues descent = descend();
      slowmo_->step();
      if (training_.evaluates_after(step_)) evaluate();
      trained.steps.push_back(
          {parameters_.values(), slowmo_->push_sum_weight(), slowmo_->slow_state(), std::move(descent)});
    }
    trained.warnings = slowmo_->warnings();
    return trained;
  }

 private:
  void make() {
    slowmo_.reset();
    slowmo_ = std::make_unique<SlowMo>(
        world_, slowmo::Tensors{.parameters = parameters_.views()}, [this] { return groups(); }, training_.options);
  }
  [[nodiscard]] std::vector<ParameterGroup> groups() {
    const std::vector<Buffer> all = parameters_.views();
    const double rate = training_.rate(step_);
    if (training_.groups == 1) return {{all, rate}};
    return {{{all.begin(), all.end() - 1}, rate}, {{all.back()}, rate / 2}};
  }
  SlowMoValues descend() {
    SlowMoValues values = parameters_.values(), descent = gradients_.values();
    const std::size_t last = values.size() - static_cast<std::size_t>(training_.sizes.back());
    for (std::size_t i = 0; i < values.size(); ++i) {
      descent[i] *= training_.rate(step_) / (training_.groups > 1 && i >= last ? 2 : 1);
      values[i] -= descent[i];
    }
    parameters_.set(values);
    return descent;
  }
  void resume() {
    const slowmo::Checkpoint checkpoint = slowmo_->checkpoint();
    const SlowMoValues parameters = parameters_.values();
    make();
    parameters_.set(parameters);
    slowmo_->load(checkpoint);
  }
  // A forward, and what would be a step if this were training.
  void evaluate() {
    slowmo_->evaluate();
    slowmo_->before_forward();
    slowmo_->after_backward({});
    slowmo_->step();
    slowmo_->train();
  }

  comm::Communicator& world_;
  const SlowMoTraining& training_;
  TrainedTensors parameters_, gradients_;
  std::unique_ptr<SlowMo> slowmo_;
  int step_ = 0;
};

// ---- what it must come to ----

using Nodes = std::vector<SlowMoValues>;

SlowMoValues mean_of(const Nodes& nodes) {
  SlowMoValues mean(nodes.front().size());
  for (const SlowMoValues& node : nodes)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += node[i] / static_cast<double>(nodes.size());
  return mean;
}

// Every rank of a node makes its gradients at the node's estimate.
void descend_all(const SlowMoTraining& training, const ExpectedSlowMoRun& run, int step, ExpectedSlowMoStep& now) {
  const std::size_t last = now.numerators.front().size() - static_cast<std::size_t>(training.sizes.back());
  for (std::size_t node = 0; node < now.numerators.size(); ++node) {
    SlowMoValues& x = now.numerators[node];
    SlowMoValues seen = x;
    for (double& value : seen) value /= now.weights[node];
    for (int local = 0; local < run.ranks_per_node; ++local) {
      const SlowMoValues gradients = gradients_at(seen, static_cast<int>(node) * run.ranks_per_node + local, step);
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] -= training.rate(step) / (training.groups > 1 && i >= last ? 2 : 1) * gradients[i] / run.ranks_per_node;
    }
  }
}

void gossip_all(const std::vector<SlowMoValues>& shares, ExpectedSlowMoStep& now) {
  const ExpectedSlowMoStep before = now;
  for (std::size_t to = 0; to < now.numerators.size(); ++to) {
    now.weights[to] = 0;
    std::ranges::fill(now.numerators[to], 0.0);
    for (std::size_t from = 0; from < now.numerators.size(); ++from) {
      now.weights[to] += shares[to][from] * before.weights[from];
      for (std::size_t i = 0; i < now.numerators[to].size(); ++i)
        now.numerators[to][i] += shares[to][from] * before.numerators[from][i];
    }
  }
}

}  // namespace

SlowMoValues SlowMoStepResult::estimate() const {
  SlowMoValues values = parameters;
  for (double& value : values) value /= weight;
  return values;
}

SlowMoValues initial_values(const SlowMoTraining& training, int rank) {
  SlowMoValues values(elements_of(training));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = noise(1000 * static_cast<std::uint64_t>(rank) + i + 1);
  return values;
}

SlowMoValues gradients_at(const SlowMoValues& seen, int rank, int step) {
  SlowMoValues gradients(seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto seed = static_cast<std::uint64_t>((step + 1) * 97 + rank) * 0x9e3779b97f4a7c15u + i;
    gradients[i] = 0.5 * seen[i] * (1 + 0.25 * rank) + noise(seed);
  }
  return gradients;
}

SlowMoRankResult train_with_slowmo(comm::Communicator& world, const SlowMoTraining& training) {
  return Run(world, training).run();
}

std::vector<ExpectedSlowMoStep> expected_run(const SlowMoTraining& training, const ExpectedSlowMoRun& run) {
  const auto nodes = static_cast<std::size_t>(run.ranks / run.ranks_per_node);
  ExpectedSlowMoStep now{Nodes(nodes, initial_values(training)), SlowMoValues(nodes, 1.0)};
  const std::size_t elements = now.numerators.front().size();
  const std::size_t last = elements - static_cast<std::size_t>(training.sizes.back());
  Nodes old = now.numerators, slow(nodes, SlowMoValues(elements));
  std::vector<ExpectedSlowMoStep> steps;
  int rounds = 0;
  for (int step = 0; step < training.steps; ++step) {
    descend_all(training, run, step, now);
    const bool is_slow = run.slow_every > 0 && (step + 1) % run.slow_every == 0;
    const bool averages = (run.average_every > 0 && (step + 1) % run.average_every == 0) ||
                          (is_slow && run.averages_at_slow_steps) || (run.averages && run.averages(step));
    if (run.mixing && !averages) gossip_all(run.mixing(rounds++), now);
    if (averages) {
      now.numerators = Nodes(nodes, mean_of(now.numerators));
      now.weights = SlowMoValues(nodes, 1.0);
    }
    for (std::size_t node = 0; is_slow && node < nodes; ++node)
      for (std::size_t i = 0; i < elements; ++i) {
        if (run.outer) {
          run.outer(old[node][i], now.numerators[node][i], slow[node][i]);
          now.numerators[node][i] = old[node][i];
          continue;
        }
        const double gamma = training.rate(step) / (training.groups > 1 && i >= last ? 2 : 1);
        slow[node][i] = run.beta * slow[node][i] + (old[node][i] - now.numerators[node][i] / now.weights[node]) / gamma;
        old[node][i] -= run.alpha * gamma * slow[node][i];
        now.numerators[node][i] = old[node][i] * now.weights[node];
      }
    steps.push_back(now);
  }
  return steps;
}

std::string problem_of_run(comm::Communicator& world, const SlowMoTraining& training, const ExpectedSlowMoRun& run) {
  const SlowMoRankResult trained = train_with_slowmo(world, training);
  const std::vector<ExpectedSlowMoStep> expected = expected_run(training, run);
  const auto node = static_cast<std::size_t>(world.rank() / run.ranks_per_node);
  const double tolerance = training.dtype == comm::DType::f64 ? 1e-11 : 1e-4;
  for (std::size_t step = 0; step < expected.size(); ++step) {
    const SlowMoStepResult& got = trained.steps.at(step);
    std::string problem = difference_of(expected[step].numerators[node], got.parameters, tolerance);
    if (problem.empty()) problem = difference_of({expected[step].weights[node]}, {got.weight}, tolerance);
    if (!problem.empty()) return fmt::format("after step {} of {} (from 0): {}", step, training.steps, problem);
  }
  return {};
}

std::string difference_of(const SlowMoValues& expected, const SlowMoValues& got, double tolerance) {
  if (expected.size() != got.size()) return fmt::format("{} values, there must be {}", got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double scale = std::max({1.0, std::abs(expected[i]), std::abs(got[i])});
    if (!(std::abs(expected[i] - got[i]) <= tolerance * scale))
      return fmt::format("element {} is {}, it must be {}", i, got[i], expected[i]);
  }
  return {};
}

}  // namespace plumbline::conformance
