// The trainer's order of things, its hooks, rates and timers.
#include "harness/trainer/trainer.hpp"

#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/trainer/hooks.hpp"

namespace plumbline::training {
namespace {

using testing::ElementsAre;

// The loss of batch b in epoch e is 10 e + b; of eight rows, b are right.
BatchResult result_of(int epoch, std::int64_t batch) {
  return {.loss = 10.0 * epoch + static_cast<double>(batch), .right = batch, .rows = 8};
}
TrainingProgram program(std::int64_t training, std::int64_t test) {
  return {.training_batches = training, .test_batches = test, .train = result_of, .test = [](std::int64_t batch) {
            return result_of(100, batch);
          }};
}

class Listener final : public Hook {
 public:
  Listener(std::string name, int rank, std::vector<std::string>& heard)
      : name_(std::move(name)), rank_(rank), heard_(heard) {}
  int rank() const override { return rank_; }
  void before_training(const Position& at) override { hear("start", at); }
  void before_part(Part part, const Position& at) override { hear(part == Part::training ? "train" : "test", at); }
  void after_batch(Part, const Position& at, const BatchResult& batch) override {
    hear(fmt::format("batch({})", batch.loss), at);
  }
  void after_part(Part, const Position& at, EpochResult&) override { hear("part", at); }
  void after_epoch(const Position& at, const EpochResult&) override { hear("epoch", at); }

 private:
  void hear(const std::string& what, const Position& at) {
    heard_.push_back(fmt::format("{}{} {}.{}/{}", name_, what, at.epoch, at.batch, at.step));
  }
  std::string name_;
  int rank_;
  std::vector<std::string>& heard_;
};

TEST(Trainer, RunsBatchesThenTestsEpochByEpoch) {
  std::vector<std::string> heard;
  Listener listener("", 1, heard);
  Hook* const hooks[] = {&listener};
  Timers timers;
  const auto results = fit(program(2, 1), {.epochs = 2, .test_interval = 2}, timers, hooks);
  EXPECT_EQ(results.size(), 2u);
  EXPECT_THAT(heard, ElementsAre("start 0.0/0", "train 0.0/0", "batch(0) 0.1/1", "batch(1) 0.2/2", "part 0.2/2",
                                 "epoch 1.0/2", "train 1.0/2", "batch(10) 1.1/3", "batch(11) 1.2/4", "part 1.2/4",
                                 "test 1.2/4", "batch(1000) 1.2/4", "part 1.2/4", "epoch 2.0/4"));
  EXPECT_EQ(results[1].seconds.at("train batch").count, 2);
  EXPECT_EQ(results[1].seconds.at("test batch").count, 1);
  EXPECT_EQ(results[0].seconds.count("test epoch"), 0u);
}

TEST(Trainer, CallsHooksByTheirRanks) {
  std::vector<std::string> heard;
  Listener last("c", 9, heard), first("a", 1, heard), second("b", 1, heard);
  Hook* const hooks[] = {&last, &first, &second};
  Timers timers;
  (void)fit(program(1, 0), {}, timers, hooks);
  EXPECT_THAT(std::vector(heard.begin(), heard.begin() + 3),
              ElementsAre("astart 0.0/0", "bstart 0.0/0", "cstart 0.0/0"));
}

TEST(Trainer, GoesOnWhereARunWas) {
  std::vector<std::string> heard;
  Listener listener("", 1, heard);
  Hook* const hooks[] = {&listener};
  Timers timers;
  const auto results = fit(program(3, 0), {.epochs = 2, .from = {.epoch = 1, .batch = 2, .step = 5}}, timers, hooks);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(heard, ElementsAre("start 1.2/5", "train 1.2/5", "batch(12) 1.3/6", "part 1.3/6", "epoch 2.0/6"));
  EXPECT_TRUE(fit(program(3, 0), {.epochs = 2, .from = {.epoch = 2, .step = 6}}, timers, hooks).empty());
}

TEST(Trainer, MetricsAreMeansOverBatchesAndRows) {
  LossHook loss;
  AccuracyHook accuracy;
  Hook* const hooks[] = {&loss, &accuracy};
  Timers timers;
  const auto results = fit(program(4, 3), {.epochs = 2}, timers, hooks);
  EXPECT_EQ(results[0].training, (Metrics{{"Loss", 1.5}, {"Accuracy", 6.0 / 32}}));
  EXPECT_EQ(results[1].training, (Metrics{{"Loss", 11.5}, {"Accuracy", 6.0 / 32}}));
  EXPECT_EQ(results[1].test, (Metrics{{"Loss", 1001.0}, {"Accuracy", 3.0 / 24}}));
}

TEST(Trainer, AFewRowsCountAsTheyAre) {
  AccuracyHook accuracy;
  Hook* const hooks[] = {&accuracy};
  Timers timers;
  TrainingProgram uneven = program(2, 0);
  uneven.train = [](int, std::int64_t batch) {
    return batch == 0 ? BatchResult{.right = 1, .rows = 8} : BatchResult{.right = 2, .rows = 2};
  };
  EXPECT_EQ(fit(uneven, {}, timers, hooks)[0].training.at("Accuracy"), 0.3);
}

std::string stop_of(TrainingProgram program, FitOptions options, std::span<Hook* const> hooks) {
  Timers timers;
  try {
    (void)fit(program, options, timers, hooks);
  } catch (const NonFiniteLoss& stop) {
    return fmt::format("{} {}: {}", stop.step(), stop.rank(), stop.what());
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Trainer, StopsAtALossThatIsNoNumberAndSavesNothingOfIt) {
  std::vector<std::int64_t> saved;
  CheckpointHook checkpoint([&](const Position& at) { saved.push_back(at.step); }, 0, 1);
  std::vector<std::string> heard;
  Listener listener("", 1, heard);
  Hook* const hooks[] = {&checkpoint, &listener};
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    saved.clear();
    heard.clear();
    TrainingProgram broken = program(4, 0);
    broken.train = [&](int epoch, std::int64_t batch) {
      BatchResult result = result_of(epoch, batch);
      if (epoch == 1 && batch == 2) result = {.loss = bad, .loss_rank = 3};
      return result;
    };
    EXPECT_EQ(stop_of(broken, {.epochs = 2, .last_checkpoint = [] { return "run/step-6"; }}, hooks),
              fmt::format("6 3: the loss is {} on rank 3, training step 6 (epoch 1, batch 2); the last checkpoint is "
                          "'run/step-6'",
                          bad));
    EXPECT_THAT(saved, ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_EQ(heard.back(), "batch(11) 1.2/6");
  }
  TrainingProgram broken = program(1, 1);
  broken.test = [](std::int64_t) { return BatchResult{.loss = std::nan("")}; };
  EXPECT_EQ(stop_of(broken, {}, {}),
            "1 0: the loss is nan on rank 0, testing after step 1 (epoch 0, batch 1); no checkpoint was written");
}

TEST(Trainer, SaysWhatMakesNoRun) {
  EXPECT_EQ(stop_of(program(0, 0), {}, {}), "0 batches to train on and 0 to test; at least 1 and 0 are needed");
  EXPECT_EQ(stop_of({.training_batches = 1}, {}, {}), "the program has batches, and no function that runs them");
  EXPECT_EQ(stop_of(program(1, 0), {.epochs = 0}, {}), "0 epochs, a test every 1; both must be at least 1");
  EXPECT_EQ(stop_of(program(4, 0), {.epochs = 2, .from = {.epoch = 1, .batch = 4}}, {}),
            "a run from epoch 1, batch 4; it has 2 epochs of 4 batches");
  EXPECT_EQ(stop_of(program(4, 0), {.epochs = 2, .from = {.epoch = 2, .batch = 1}}, {}),
            "a run from epoch 2, batch 1; it has 2 epochs of 4 batches");
}

// Its numbers for LinearWarmupLR(lr 1e-3, 60 epochs, warm-up 5), by its rule: (e + 1) / 6, then (60 - e) / 55.
TEST(LearningRate, RisesThenFalls) {
  const RateSchedule rate = linear_warmup(1e-3, 60, 5);
  EXPECT_DOUBLE_EQ(rate(0), 1e-3 / 6);
  EXPECT_DOUBLE_EQ(rate(4), 5e-3 / 6);
  EXPECT_DOUBLE_EQ(rate(5), 1e-3);
  EXPECT_DOUBLE_EQ(rate(6), 54e-3 / 55);
  EXPECT_DOUBLE_EQ(rate(59), 1e-3 / 55);
  EXPECT_EQ(rate(60), 0);
  EXPECT_EQ(linear_warmup(1, 3, 0)(0), 1);
  EXPECT_EQ(linear_warmup(1, 3, 3)(3), 0);
  EXPECT_THROW((void)rate(61), OutOfRange);
  EXPECT_THROW((void)rate(-1), OutOfRange);
  EXPECT_THROW((void)linear_warmup(1, 3, 4), InvalidArgument);
  EXPECT_THROW((void)linear_warmup(1, 0, 0), InvalidArgument);
}

TEST(LearningRate, IsSetBeforeTheBatchesItIsFor) {
  std::vector<double> set, used;
  double now = -1;
  const auto setter = [&](double rate) { set.push_back(now = rate); };
  TrainingProgram noting = program(2, 0);
  noting.train = [&](int epoch, std::int64_t batch) {
    used.push_back(now);
    return result_of(epoch, batch);
  };
  const auto rate = [](int number) { return static_cast<double>(number); };
  Timers timers;
  LearningRateHook by_epoch(rate, setter);
  Hook* const epochs[] = {&by_epoch};
  const auto results = fit(noting, {.epochs = 3, .from = {.epoch = 1, .batch = 1, .step = 3}}, timers, epochs);
  EXPECT_THAT(used, ElementsAre(1, 2, 2));
  EXPECT_EQ(results[1].training.at("LR"), 2);
  used.clear();
  LearningRateHook by_step(rate, setter, false);
  Hook* const steps[] = {&by_step};
  (void)fit(noting, {.epochs = 3, .from = {.epoch = 1, .batch = 1, .step = 3}}, timers, steps);
  EXPECT_THAT(used, ElementsAre(3, 4, 5));
}

TEST(HookTexts, AreWhatPeopleRead) {
  std::string log, display;
  LossHook loss;
  AccuracyHook accuracy;
  LogByEpochHook logging([&](const std::string& text) { log += text + "\n"; });
  ProgressHook progress([&](const std::string& text) { display += text; }, 2, 1);
  Hook* const hooks[] = {&logging, &loss, &accuracy, &progress};
  double now = 0;
  Timers timers([&] { return now; });
  TrainingProgram slow = program(2, 1);
  slow.train = [&](int epoch, std::int64_t batch) {
    now += 2;
    return result_of(epoch, batch);
  };
  const auto results = fit(slow, {}, timers, hooks);
  EXPECT_EQ(log,
            "epoch 0, training: Accuracy 0.0625, Loss 0.5 (4.0 s)\n"
            "epoch 0, test: Accuracy 0, Loss 1000 (0.0 s)\n");
  EXPECT_EQ(display,
            "\repoch 0, training: batch 1 of 2, loss 0\repoch 0, training: batch 2 of 2, loss 1\n"
            "\repoch 0, test: batch 1 of 1, loss 1000\n");
  EXPECT_EQ(results[0].seconds.at("train batch").mean(), 2);
}

TEST(CheckpointHookTest, SavesByEpochOrStep) {
  std::vector<Position> saved;
  const auto save = [&](const Position& at) { saved.push_back(at); };
  CheckpointHook every_second(save, 2), every_third_step(save, 0, 3);
  Timers timers;
  Hook* const epochs[] = {&every_second};
  (void)fit(program(2, 1), {.epochs = 5}, timers, epochs);
  EXPECT_THAT(saved, ElementsAre(Position{2, 0, 4}, Position{4, 0, 8}));
  saved.clear();
  Hook* const steps[] = {&every_third_step};
  (void)fit(program(2, 1), {.epochs = 3}, timers, steps);
  EXPECT_THAT(saved, ElementsAre(Position{1, 1, 3}, Position{2, 2, 6}));
  EXPECT_THROW(CheckpointHook(save, 0), InvalidArgument);
  EXPECT_THROW(CheckpointHook(save, -1, 1), InvalidArgument);
}

TEST(TimersTest, AddUpPhases) {
  double now = 10;
  Timers timers([&] { return now; });
  timers.start("a");
  now = 13;
  timers.start("b");
  now = 14;
  EXPECT_EQ(timers.stop("b"), 1);
  EXPECT_EQ(timers.stop("a"), 4);
  timers.start("a");
  now = 16;
  timers.stop("a");
  EXPECT_EQ(timers.phases().at("a").count, 2);
  EXPECT_EQ(timers.phases().at("a").total, 6);
  EXPECT_EQ(timers.phases().at("a").last, 2);
  EXPECT_EQ(timers.phases().at("a").mean(), 3);
  EXPECT_THROW(timers.stop("a"), StateError);
  timers.start("a");
  EXPECT_THROW(timers.start("a"), StateError);
  timers.reset();
  EXPECT_TRUE(timers.phases().empty());
  EXPECT_EQ(PhaseTime{}.mean(), 0);
  Timers real;
  real.start("x");
  EXPECT_GE(real.stop("x"), 0);
}

}  // namespace
}  // namespace plumbline::training
