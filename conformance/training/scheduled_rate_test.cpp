#include "conformance/training/scheduled_rate.hpp"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::conformance {
namespace {

job::RunSpec scheduled_spec(const char* decay, int warmup) {
  job::RunSpec spec;
  spec.optimizer = job::Sgd{.lr = 2};
  spec.run.steps = 6;
  spec.rate_schedule = job::RateSchedule{.decay = decay, .warmup_steps = warmup};
  return spec;
}

TEST(ScheduledRate, WarmsUpAndDecaysToZeroAfterTheLastStep) {
  const auto rates = [](const char* decay, int warmup) {
    const job::RunSpec spec = scheduled_spec(decay, warmup);
    std::vector<double> all;
    for (int step = 0; step <= spec.run.steps; ++step) all.push_back(scheduled_rate(spec, step));
    return all;
  };
  // By transformers.get_linear_schedule_with_warmup and get_cosine_schedule_with_warmup, of 6 steps.
  const auto near = [](const std::vector<double>& values) {
    return testing::Pointwise(testing::DoubleNear(1e-12), values);
  };
  EXPECT_THAT(rates("linear", 2), near({0, 1, 2, 1.5, 1, 0.5, 0}));
  EXPECT_THAT(rates("linear", 0), near({2, 5. / 3, 4. / 3, 1, 2. / 3, 1. / 3, 0}));
  EXPECT_THAT(rates("cosine", 2), near({0, 1, 2, 1 + std::sqrt(0.5), 1, 1 - std::sqrt(0.5), 0}));
}

TEST(ScheduledRate, HasWrongOnesBesideIt) {
  job::RunSpec spec = scheduled_spec("linear", 4);
  spec.run.micro_batches = 2;
  const auto names = [&](int step) {
    std::vector<std::string> all;
    for (const OtherRate& other : other_rates(spec, step)) all.push_back(fmt::format("{}: {}", other.name, other.rate));
    return all;
  };
  EXPECT_THAT(names(1), testing::UnorderedElementsAre("the learning rate of step 2, the next one: 1",
                                                      "the learning rate of step 0, the one before: 0",
                                                      "the learning rate without the schedule: 2",
                                                      "the learning rate of a warm-up that counts micro-batches: 1",
                                                      "the learning rate of a schedule that counts micro-batches: 1"));
  EXPECT_THAT(names(4), testing::UnorderedElementsAre("the learning rate of step 5, the next one: 1",
                                                      "the learning rate of step 3, the one before: 1.5"))
      << "in this step the schedule's rate is the whole one";
}

}  // namespace
}  // namespace plumbline::conformance
