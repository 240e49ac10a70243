// The plain loop beside the run of one rank that averages with nobody: two ways to the same values.
#include "harness/trainer/oracles/one_device.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "reference/comm/local.hpp"
#include "reference/support/temporary_folder.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"
#include "reference/training/slowmo/averaged_run.hpp"

namespace plumbline::training {
namespace {

struct Trained {
  std::vector<double> losses;
  std::vector<float> values;  // in the order of job::parameters_of()
};

std::vector<float> flat_of(const job::RunSpec& spec, const Values& values) {
  std::vector<float> flat;
  for (const job::Parameter& parameter : job::parameters_of(spec)) {
    const std::vector<float>& own = values.at(parameter.name);
    flat.insert(flat.end(), own.begin(), own.end());
  }
  return flat;
}

Trained on_one_device(const job::RunSpec& spec, double rate_decay) {
  Trained trained;
  const Values values = train_on_one_device(spec, rate_decay, [&](int step, double loss) {
    EXPECT_EQ(step, std::ssize(trained.losses));
    trained.losses.push_back(loss);
  });
  trained.values = flat_of(spec, values);
  return trained;
}

Trained on_one_rank(job::RunSpec spec, double rate_decay) {
  spec.parallel.data = 1;
  Trained trained;
  comm::run_ranks(1, [&](comm::Communicator& world) {
    const auto session = averaged_run(spec, world, {.algorithm = "localsgd", .rate_decay = rate_decay}, {});
    for (int step = 0; step < spec.run.steps; ++step) {
      const AveragedStep done = session->step(step);
      trained.losses.push_back(done.loss);
      trained.values = done.after;
    }
  });
  return trained;
}

double largest_difference(const std::vector<float>& one, const std::vector<float>& other) {
  EXPECT_EQ(one.size(), other.size());
  double largest = 0;
  for (std::size_t i = 0; i < one.size() && i < other.size(); ++i)
    largest = std::max(largest, std::fabs(double{one[i]} - double{other[i]}));
  return largest;
}

void expect_equal_runs(const DigitsRun& settings, double rate_decay) {
  const job::TemporaryFolder folder;
  const job::RunSpec spec = write_digits_run(settings, digits(), folder.path());
  const Trained one = on_one_device(spec, rate_decay), other = on_one_rank(spec, rate_decay);
  ASSERT_EQ(one.losses.size(), other.losses.size());
  for (std::size_t step = 0; step < one.losses.size(); ++step)
    EXPECT_NEAR(one.losses[step], other.losses[step], 1e-5) << "step " << step;
  EXPECT_LT(largest_difference(one.values, other.values), 1e-5);
  EXPECT_GT(largest_difference(one.values, flat_of(spec, given_weights(spec))), 1e-2) << "nothing was trained";
}

TEST(OneDevice, TakesTheStepsOfARunOfOneRank) {
  for (const char* optimizer : {"sgd", "adam"}) {
    SCOPED_TRACE(optimizer);
    expect_equal_runs({.optimizer = optimizer, .data = 4, .steps = 6, .micro_batches = 1}, 1);
  }
}

TEST(OneDevice, AccumulatesItsMicroBatchesAndDecaysItsRate) {
  expect_equal_runs({.model = "conv", .data = 2, .steps = 5, .micro_batches = 3, .accumulation = 2}, 0.7);
}

}  // namespace
}  // namespace plumbline::training
