#include "conformance/bucketing/reducer_training.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/bench/gradient_lists.hpp"

namespace plumbline::conformance {

using bucketing::Bucket;
using bucketing::Gradient;
using bucketing::Plan;
using bucketing::Reducer;

namespace {

// A number in [-1, 1) that differs from all others.
float noise(std::uint64_t seed) {
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
  seed ^= seed >> 31;
  return static_cast<float>(static_cast<std::int64_t>(seed >> 40)) * 0x1p-23F - 1.0F;
}

// What one pass of a rank adds to a number's gradient.
float contribution(const ReducerTraining& training, int step, int pass, int rank, int gradient, std::size_t at,
                   float value) {
  std::uint64_t seed = static_cast<std::uint64_t>(step) * 31 + static_cast<std::uint64_t>(pass);
  seed = seed * 31 + static_cast<std::uint64_t>(rank);
  seed = seed * 4099 + static_cast<std::uint64_t>(gradient);
  seed = (seed + 1) * 0x9e3779b97f4a7c15u + at;
  return static_cast<float>(training.magnitude) * (noise(seed) + 0.125F * value);
}

int steps_of(const ReducerTraining& training, int rank) {
  return training.steps_of_rank ? training.steps_of_rank(rank) : training.steps;
}

std::vector<int> backwards(const ReducerTraining& training) {
  std::vector<int> order(training.sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}
std::vector<int> ready_order(const ReducerTraining& training, int rank) {
  return training.order ? training.order(rank) : backwards(training);
}

Vectors initial(const ReducerTraining& training) {
  Vectors parameters;
  for (const std::int64_t size : training.sizes) {
    parameters.emplace_back(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < parameters.back().size(); ++i)
      parameters.back()[i] = noise(parameters.size() * 100'003 + i);
  }
  return parameters;
}

std::span<float> floats(const comm::Buffer& buffer) {
  return {static_cast<float*>(buffer.data), static_cast<std::size_t>(buffer.count)};
}

// One rank of the run.
class Run {
 public:
  Run(comm::Communicator& world, const ReducerTraining& training)
      : rank_(world.rank()),
        training_(training),
        parameters_(initial(training)),
        moments_(training.sizes.size()),
        own_(training.sizes.size()),
        has_(training.sizes.size()),
        reducer_({&world}, gradients_of_training(training), plan_of_training(training, backwards(training)),
                 options_of(training)) {}

  Trained run() {
    Trained trained;
    for (int step = 0; step < steps_of(training_, rank_); ++step) trained.push_back(one_step(step));
    std::fill(has_.begin(), has_.end(), false);
    if (training_.options.join)
      (void)reducer_.join([&](const bucketing::Outcome& outcome) {
        trained.push_back({.before = parameters_, .gradients = used(outcome), .passes = {outcome}});
        update(trained.back().gradients);
      });
    return trained;
  }

 private:
  static bucketing::ReducerOptions options_of(const ReducerTraining& training) {
    bucketing::ReducerOptions options = training.options;
    options.names = names_of_training(training);
    options.memory =
        training.made_in == MadeIn::own_memory ? bucketing::GradientMemory::copies : bucketing::GradientMemory::views;
    return options;
  }

  TrainedStep one_step(int step) {
    TrainedStep done{.before = parameters_, .gradients = {}, .passes = {}};
    std::fill(has_.begin(), has_.end(), false);
    const int passes = training_.passes(step);
    for (int pass = 0; pass < passes; ++pass) {
      bucketing::Pass kind{.synchronise = pass + 1 == passes};
      for (int gradient = 0; gradient < count(); ++gradient)
        if (!training_.produces(step, pass, rank_, gradient)) kind.unused.push_back(gradient);
      if (training_.options.unused != bucketing::Unused::find_unused) kind.unused.clear();
      poison();
      reducer_.begin(kind);
      back_propagate(step, pass);
      done.passes.push_back(reducer_.finish());
    }
    done.gradients = used(done.passes.back());
    update(done.gradients);
    reducer_.clear();
    return done;
  }

  // What was not written is no number.
  void poison() {
    for (int gradient = 0; gradient < count() && training_.made_in == MadeIn::views; ++gradient)
      if (!has_[static_cast<std::size_t>(gradient)])
        std::ranges::fill(floats(reducer_.view(gradient)), std::numeric_limits<float>::quiet_NaN());
  }

  void back_propagate(int step, int pass) {
    for (const int gradient : ready_order(training_, rank_)) {
      if (!training_.produces(step, pass, rank_, gradient)) continue;
      training_.watch(step, gradient);
      make(step, pass, gradient);
    }
  }

  void make(int step, int pass, int gradient) {
    const auto i = static_cast<std::size_t>(gradient);
    const bool adds = has_[i];
    has_[i] = true;
    std::vector<float>& own = own_[i];
    own.resize(parameters_[i].size());
    const std::span<float> view = floats(reducer_.view(gradient));
    const std::span<float> so_far = training_.made_in == MadeIn::own_memory ? std::span<float>(own) : view;
    const std::span<float> to = training_.made_in == MadeIn::views ? view : std::span<float>(own);
    for (std::size_t at = 0; at < to.size(); ++at) {
      const float more = contribution(training_, step, pass, rank_, gradient, at, parameters_[i][at]);
      to[at] = adds ? so_far[at] + more : more;
    }
    if (training_.made_in == MadeIn::views)
      reducer_.ready(gradient);
    else
      reducer_.ready(gradient, comm::Buffer::of(own));
  }

  Vectors used(const bucketing::Outcome& outcome) {
    Vectors gradients(training_.sizes.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!outcome.produced.at(i)) continue;
      const std::span<float> view = floats(reducer_.view(static_cast<int>(i)));
      if (training_.made_in == MadeIn::own_memory && has_[i])
        gradients[i] = own_[i];
      else
        gradients[i].assign(view.begin(), view.end());
    }
    return gradients;
  }

  void update(const Vectors& gradients) {
    constexpr float rate = 0.125F;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].empty()) continue;  // neither the value nor its momentum moves
      moments_[i].resize(gradients[i].size());
      for (std::size_t at = 0; at < gradients[i].size(); ++at) {
        moments_[i][at] = static_cast<float>(training_.momentum) * moments_[i][at] + gradients[i][at];
        parameters_[i][at] -= rate * moments_[i][at] / static_cast<float>(training_.magnitude);
      }
    }
  }
  [[nodiscard]] int count() const { return static_cast<int>(training_.sizes.size()); }

  int rank_;
  const ReducerTraining& training_;
  Vectors parameters_;
  Vectors moments_;
  Vectors own_;  // memory of gradients
  std::vector<bool> has_;
  Reducer reducer_;
};

// What one rank makes of a gradient in a step, pass by pass; nothing where it makes none.
std::vector<float> local_gradient(const ReducerTraining& training, int step, int rank, int gradient,
                                  const std::vector<float>& before) {
  std::vector<float> sum;
  for (int pass = 0; pass < training.passes(step); ++pass) {
    if (!training.produces(step, pass, rank, gradient)) continue;
    const bool adds = !sum.empty();
    sum.resize(before.size());
    for (std::size_t at = 0; at < sum.size(); ++at) {
      const float more = contribution(training, step, pass, rank, gradient, at, before[at]);
      sum[at] = adds ? sum[at] + more : more;
    }
  }
  return sum;
}

// The first number that is not near enough, in words.
std::string difference(const std::vector<float>& expected, const std::vector<float>& found,
                       const std::vector<double>& magnitudes, const Nearness& near, int ranks) {
  if (found.size() != expected.size())
    return fmt::format("{} numbers, not {}: a gradient that no rank has is absent, and others are there", found.size(),
                       expected.size());
  for (std::size_t at = 0; at < found.size(); ++at) {
    const double bound = near.bitwise ? 0 : (ranks + 3) * (near.unit * magnitudes[at] + near.least);
    const double by = std::abs(static_cast<double>(found[at]) - static_cast<double>(expected[at]));
    if (!(by <= bound)) return fmt::format("number {}: {}, expected {} within {}", at, found[at], expected[at], bound);
  }
  return {};
}

void expect_same_everywhere(suite::Context& context, const Trained& trained, const std::string& requirement) {
  std::vector<float> own;
  for (const TrainedStep& step : trained) {
    for (const auto& values : step.before) own.insert(own.end(), values.begin(), values.end());
    for (const auto& values : step.gradients) own.insert(own.end(), values.begin(), values.end());
  }
  std::int64_t size = static_cast<std::int64_t>(own.size()), least = 0, most = 0;
  context.world().all_reduce({&size, 1, comm::DType::i64}, {&least, 1, comm::DType::i64}, comm::ReduceOp::min);
  context.world().all_reduce({&size, 1, comm::DType::i64}, {&most, 1, comm::DType::i64}, comm::ReduceOp::max);
  ASSERT_EQ(least, most) << requirement << ": ranks have other gradients";
  std::vector<float> of_rank_0 = own;
  context.world().broadcast({of_rank_0.data(), size, comm::DType::f32}, 0);
  EXPECT_TRUE(std::memcmp(own.data(), of_rank_0.data(), own.size() * sizeof(float)) == 0)
      << requirement << ": values or gradients differ from rank 0's";
}

}  // namespace

std::vector<std::int64_t> sizes_of_model(const std::string& model) {
  if (model == "mlp") return {64 * 9, 9, 9 * 7, 7, 31, 1, 130, 33};
  if (model == "equal") return {33, 33, 33, 33};
  if (model == "one") return {257};
  std::vector<std::int64_t> sizes;
  for (const auto& parameter : bucketing::resnet50_gradients())
    sizes.push_back(std::max<std::int64_t>(1, parameter.elements / 64));
  return sizes;
}

std::vector<Gradient> gradients_of_training(const ReducerTraining& training) {
  std::vector<Gradient> gradients;
  for (const std::int64_t size : training.sizes) gradients.push_back({.elements = size});
  return gradients;
}

std::vector<std::string> names_of_training(const ReducerTraining& training) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < training.sizes.size(); ++i) names.push_back(fmt::format("p{}", i));
  return names;
}

Plan plan_of_training(const ReducerTraining& training, const std::vector<int>& order) {
  Plan plan;
  bool open = false;
  for (const int gradient : order) {
    if (!open) plan.buckets.push_back({.first_member = static_cast<int>(plan.members.size())});
    Bucket& bucket = plan.buckets.back();
    plan.members.push_back({gradient, bucket.elements});
    ++bucket.members;
    const std::int64_t end = bucket.elements + training.sizes[static_cast<std::size_t>(gradient)];
    bucket.elements = (end + training.aligned - 1) / training.aligned * training.aligned;
    open = bucket.bytes() < training.limit_bytes;
  }
  return plan;
}

Trained train_with_reducer(comm::Communicator& world, const ReducerTraining& training) {
  return Run(world, training).run();
}

Nearness nearness_of(const comm::Capabilities& capabilities) {
  return {.bitwise = capabilities.has(comm::Capability::rank_order)};
}

std::vector<float> mean_gradient(const ReducerTraining& training, int ranks, int step, int gradient,
                                 const std::vector<float>& before, double* magnitude) {
  std::vector<float> mean;
  int present = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (step >= steps_of(training, rank)) continue;
    ++present;
    const std::vector<float> local = local_gradient(training, step, rank, gradient, before);
    if (local.empty()) continue;
    mean.resize(local.size());
    for (std::size_t at = 0; at < local.size(); ++at) {
      mean[at] += local[at];
      if (magnitude != nullptr) magnitude[at] += std::abs(static_cast<double>(local[at]));
    }
  }
  const bool by_present = training.options.join_divisor == bucketing::JoinDivisor::present_ranks;
  const int divisor = !training.options.average ? 1 : by_present ? present : ranks;
  for (std::size_t at = 0; at < mean.size(); ++at) {
    mean[at] /= static_cast<float>(divisor);
    if (magnitude != nullptr) magnitude[at] /= divisor;
  }
  return mean;
}

void judge_training(suite::Context& context, const ReducerTraining& training, const Trained& trained, Nearness near,
                    const std::string& requirement) {
  expect_same_everywhere(context, trained, requirement);
  int most = 0;
  for (int rank = 0; rank < context.size(); ++rank) most = std::max(most, steps_of(training, rank));
  ASSERT_EQ(trained.size(), static_cast<std::size_t>(most)) << requirement << ": steps";
  for (std::size_t step = 0; step < trained.size(); ++step)
    for (std::size_t i = 0; i < training.sizes.size(); ++i) {
      std::vector<double> magnitudes(trained[step].before[i].size());
      const std::vector<float> expected =
          mean_gradient(training, context.size(), static_cast<int>(step), static_cast<int>(i), trained[step].before[i],
                        magnitudes.data());
      const std::string problem =
          difference(expected, trained[step].gradients[i], magnitudes, near, context.size() + training.passes(0));
      ASSERT_EQ(problem, "") << requirement << ": step " << step << ", gradient of p" << i;
    }
}

}  // namespace plumbline::conformance
