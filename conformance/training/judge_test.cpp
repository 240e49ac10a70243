// The judge against honest records and against records with one fault each. Free of LibTorch: the model is
// linear with a mean squared error, whose gradient is written out here.
#include "conformance/training/judge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/training/single_device.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/run_files.hpp"
#include "reference/record/safetensors.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::conformance {
namespace {

using job::Moment;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using training::Arithmetic;
using training::Values;

constexpr int kIn = 5;
constexpr int kOut = 3;

// y = W x + b, mean over rows and outputs of (y - target)^2, in the arithmetic of T.
template <class T>
training::LossGradient linear_gradient(const job::RunSpec& spec, const Values& at,
                                       const std::vector<job::RowRange>& parts) {
  const job::RunFiles files(spec);
  std::vector<T> weight_sum(kOut * kIn), bias_sum(kOut);
  T loss_sum = 0;
  T rows_sum = 0;
  for (const job::RowRange& part : parts) {
    std::vector<float> x(static_cast<std::size_t>(part.rows * kIn)), target(static_cast<std::size_t>(part.rows * kOut));
    files.read_x(part, std::span(x));
    files.read_y(part, std::span(target));
    const std::span<const float> weights = files.row_weights(part);
    for (std::int64_t row = 0; row < part.rows; ++row) {
      const T weight = weights.empty() ? T{1} : static_cast<T>(weights[static_cast<std::size_t>(row)]);
      rows_sum += weight * static_cast<T>(kOut);
      for (int o = 0; o < kOut; ++o) {
        T y = static_cast<T>(at.at("0.bias")[static_cast<std::size_t>(o)]);
        const auto input = [&](int i) { return static_cast<T>(x[static_cast<std::size_t>(row * kIn + i)]); };
        for (int i = 0; i < kIn; ++i)
          y += static_cast<T>(at.at("0.weight")[static_cast<std::size_t>(o * kIn + i)]) * input(i);
        const T error = y - static_cast<T>(target[static_cast<std::size_t>(row * kOut + o)]);
        loss_sum += weight * error * error;
        bias_sum[static_cast<std::size_t>(o)] += weight * 2 * error;
        for (int i = 0; i < kIn; ++i)
          weight_sum[static_cast<std::size_t>(o * kIn + i)] += weight * 2 * error * input(i);
      }
    }
  }
  training::LossGradient result{.gradients = {}, .loss = static_cast<double>(loss_sum / rows_sum)};
  for (const T value : weight_sum) result.gradients["0.weight"].push_back(static_cast<double>(value / rows_sum));
  for (const T value : bias_sum) result.gradients["0.bias"].push_back(static_cast<double>(value / rows_sum));
  return result;
}

class LinearTraining : public training::Training {
 public:
  std::map<std::string, std::string> environment() const override { return {}; }
  void run(const job::RunSpec&, comm::Communicator&, const std::filesystem::path&, const training::Progress&,
           const training::RunSettings&) override {
    throw StateError("not needed here");
  }
  std::unique_ptr<training::PipelineSession> pipeline(const job::RunSpec&, comm::Communicator&,
                                                      const training::RunSettings&) override {
    throw StateError("not needed here");
  }
  training::Baseline baseline(const job::RunSpec& spec, const std::vector<training::Slice>& slices,
                              const Values& before, Arithmetic arithmetic, const std::string&) override {
    training::Baseline result;
    for (const training::Slice& slice : slices) result.slices.push_back(gradient(spec, before, slice, arithmetic));
    if (spec.row_weights) put_over_all_rows(spec, slices, result.slices);
    result.mean = result.slices.front();
    for (auto& [name, mean] : result.mean.gradients)
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] = 0;
        for (const training::LossGradient& slice : result.slices) mean[i] += slice.gradients.at(name)[i];
        mean[i] /= spec.parallel.data;
      }
    return result;
  }
  training::LossGradient union_batch(const job::RunSpec& spec, int step, const Values& before, Arithmetic arithmetic,
                                     const std::string&) override {
    std::vector<job::RowRange> parts;
    for (int i = 0; i < spec.run.accumulation; ++i)
      parts.push_back({step * spec.run.accumulation + i, 0, spec.run.global_batch});
    return gradient(spec, before, parts, arithmetic);
  }
  double accuracy(const job::RunSpec&, const Values&, const training::LabelledRows&, const std::string&) override {
    throw StateError("not needed here");
  }

 private:
  // From the mean over a slice's weights to the sum over the weight of all slices, times their number.
  static void put_over_all_rows(const job::RunSpec& spec, const std::vector<training::Slice>& slices,
                                std::vector<training::LossGradient>& gradients) {
    const job::RunFiles files(spec);
    double all = 0;
    for (const training::Slice& slice : slices) all += files.weight_of(slice);
    for (std::size_t i = 0; i < slices.size(); ++i)
      for (auto& [name, values] : gradients[i].gradients)
        for (double& value : values) value *= files.weight_of(slices[i]) * static_cast<double>(slices.size()) / all;
  }
  static training::LossGradient gradient(const job::RunSpec& spec, const Values& at,
                                         const std::vector<job::RowRange>& parts, Arithmetic arithmetic) {
    return arithmetic == Arithmetic::float64 ? linear_gradient<double>(spec, at, parts)
                                             : linear_gradient<float>(spec, at, parts);
  }
};

// Of a weight with a tied layer: the sum of the gradients of both uses, which are known where each has its own.
class TiedTraining final : public LinearTraining {
 public:
  training::Baseline baseline(const job::RunSpec& spec, const std::vector<training::Slice>& slices,
                              const Values& before, Arithmetic, const std::string&) override {
    training::Gradients gradients{{"0.weight", {1, 2, 3, 4}}};
    if (std::holds_alternative<job::TiedLinear>(spec.layers[1])) {
      gradients["0.weight"] = {11, 22, 33, 44};
    } else {
      EXPECT_EQ(before.at("1.weight"), before.at("0.weight"));
      EXPECT_EQ(job::SafetensorsReader(spec.weights_file()).tensors().size(), 2u);
      gradients["1.weight"] = {10, 20, 30, 40};
    }
    const training::LossGradient one{.gradients = gradients, .loss = 1};
    return {.slices = std::vector(slices.size(), one), .mean = one};
  }
  training::LossGradient union_batch(const job::RunSpec&, int, const Values&, Arithmetic, const std::string&) override {
    return {.gradients = {{"0.weight", {11, 22, 33, 44}}}, .loss = 1};
  }
};

TEST(OtherUses, LeaveOutAndDoubleEachUseOfAWeight) {
  job::RunSpec spec;
  spec.run.global_batch = 1;
  spec.layers = {job::Linear{.in = 2, .out = 2, .bias = false}, job::TiedLinear{0}};
  const Values before{{"0.weight", {5, 6, 7, 8}}};
  TiedTraining training;
  const SingleDevice single(spec, 0, before, training, "cpu");
  std::map<std::string, std::vector<double>> sums;
  for (const SingleDevice::OtherSum& sum : single.by_other_uses("0.weight")) sums[sum.name] = sum.gradient;
  EXPECT_THAT(sums,
              ElementsAre(Pair("the gradient of its use in layer 0 (linear) twice", ElementsAre(12, 24, 36, 48)),
                          Pair("the gradient of its use in layer 1 (tied_linear) twice", ElementsAre(21, 42, 63, 84)),
                          Pair("without the gradient of its use in layer 0 (linear)", ElementsAre(10, 20, 30, 40)),
                          Pair("without the gradient of its use in layer 1 (tied_linear)", ElementsAre(1, 2, 3, 4))));
  EXPECT_THAT(single.by_other_uses("1.weight"), IsEmpty());
}

// What a fault can change. Values are by rank.
struct Faults {
  std::function<void(Values& start, int rank)> start = [](Values&, int) {};
  std::function<int(int rank)> rows_of = [](int rank) { return rank; };
  std::function<void(std::vector<Values>& used, const std::vector<Values>& local, int step)> reduced =
      [](std::vector<Values>&, const std::vector<Values>&, int) {};
  job::Sgd applied{.lr = 0.125, .momentum = 0.5, .weight_decay = 0.25};
  std::function<void(Values& before, int step, int rank)> recorded_before = [](Values&, int, int) {};
  std::function<bool(int step, int rank, Moment moment)> recorded = [](int, int, Moment) { return true; };
  // Of a run with a scaler.
  std::function<bool(bool right, int step, int rank)> skips = [](bool right, int, int) { return right; };
  std::function<bool(int step, int rank)> has_scale = [](int, int) { return true; };
  std::function<bool(int step, int rank)> has_flag = [](int, int) { return true; };
  std::function<float(float right, int step, int rank)> scale = [](float right, int, int) { return right; };
  std::function<void(Values& values, Values& buffers)> skipped = [](Values&, Values&) {};
  // Of a run whose rule changes from step to step, or from parameter to parameter.
  std::function<void(job::Sgd& applied, int step, const std::string& parameter)> rule = [](job::Sgd&, int,
                                                                                           const std::string&) {};
  // Of a run that continues from a checkpoint: what comes back, and whose rows a step uses.
  std::function<void(Values& values, Values& buffers)> restored = [](Values&, Values&) {};
  std::function<int(int step)> rows_of_step = [](int step) { return step; };
};

class JudgeTest : public testing::Test {
 protected:
  JudgeTest() {
    spec_.parallel.data = 3;
    spec_.run = {.steps = 3, .global_batch = 12, .micro_batches = 2, .accumulation = 2};
    spec_.layers = {job::Linear{kIn, kOut}};
    spec_.loss = job::Loss::mse;
    spec_.optimizer = job::Sgd{.lr = 0.125, .momentum = 0.5, .weight_decay = 0.25};
    spec_.folder = folder_.path();
    std::mt19937 random(3);
    const auto draw = [&](std::size_t count) {
      std::vector<float> values(count);
      for (float& value : values) value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
      return values;
    };
    job::SafetensorsWriter weights;
    given_ = {{"0.weight", draw(kOut * kIn)}, {"0.bias", draw(kOut)}};
    weights.add<float>("0.weight", {kOut, kIn}, given_["0.weight"]);
    weights.add<float>("0.bias", {kOut}, given_["0.bias"]);
    weights.write(spec_.weights_file());
    job::SafetensorsWriter batches;
    batches.add<float>("x", {6, 12, kIn}, draw(6 * 12 * kIn));
    batches.add<float>("y", {6, 12, kOut}, draw(6 * 12 * kOut));
    batches.write(spec_.batches_file());
  }

  // An honest run but for the faults: local gradients, their mean in rank order, SGD, all in float32.
  void run(const Faults& faults, const std::filesystem::path& folder) {
    const int ranks = spec_.parallel.data;
    std::vector<Values> values(3, given_), buffers(3);
    std::vector<job::RecordWriter> records;
    auto scale = static_cast<float>(spec_.scaler ? spec_.scaler->init_scale : 1);
    for (int rank = 0; rank < ranks; ++rank) {
      faults.start(values[static_cast<std::size_t>(rank)], rank);
      records.emplace_back(spec_, rank, "test", "1");
    }
    for (int step = 0; step < spec_.end_step(); ++step) {
      if (step > 0 && step == spec_.first_step())
        for (std::size_t r = 0; r < records.size(); ++r) faults.restored(values[r], buffers[r]);
      std::vector<Values> local;
      std::vector<float> losses;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto result =
            linear_gradient<float>(spec_, values[static_cast<std::size_t>(rank)],
                                   job::micro_batches_of(spec_, faults.rows_of_step(step), faults.rows_of(rank)));
        Values narrow;
        for (const auto& [name, wide] : result.gradients) narrow[name] = {wide.begin(), wide.end()};
        local.push_back(std::move(narrow));
        losses.push_back(static_cast<float>(result.loss));
      }
      for (const job::Injection& one : spec_.injections)
        if (one.step == step && !one.reduced)
          local[static_cast<std::size_t>(one.rank)].at(one.parameter)[static_cast<std::size_t>(one.index)] =
              static_cast<float>(one.value);
      std::vector<Values> used(local.size(), mean(local));
      for (const job::Injection& one : spec_.injections)
        if (one.step == step && one.reduced)
          used[static_cast<std::size_t>(one.rank)].at(one.parameter)[static_cast<std::size_t>(one.index)] =
              static_cast<float>(one.value);
      faults.reduced(used, local, step);
      const bool skips = spec_.scaler && std::ranges::any_of(used, has_non_finite);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        Values before = values[r];
        faults.recorded_before(before, step, rank);
        if (spec_.scaler && step >= spec_.first_step()) {
          if (faults.has_scale(step, rank)) records[r].add_scale(step, faults.scale(scale, step, rank));
          if (faults.has_flag(step, rank)) records[r].add_skipped(step, faults.skips(skips, step, rank));
        }
        if (faults.skips(skips, step, rank))
          faults.skipped(values[r], buffers[r]);
        else
          update(faults, step, values[r], used[r], buffers[r]);
        const auto note = [&](Moment moment, const Values& what) {
          if (step < spec_.first_step() || !faults.recorded(step, rank, moment)) return;
          for (const job::Parameter& parameter : job::parameters_of(spec_))
            if (job::has_moment(spec_, moment, parameter))
              records[r].add(step, moment, parameter, what.at(parameter.name));
        };
        note(Moment::before, before);
        note(Moment::local_grad, local[r]);
        note(Moment::grad, used[r]);
        note(Moment::after, values[r]);
        if (step >= spec_.first_step()) records[r].add_loss(step, losses[r]);
      }
      if (skips) scale /= 2;
    }
    std::filesystem::create_directories(folder);
    for (const job::RecordWriter& record : records) record.write(folder);
  }
  Judgement judged(const std::optional<Reduction>& reduction) {
    return judge(spec_, job::TrainingRecord(spec_, record_folder()), training_, {.reduction = reduction});
  }
  // What the second part of a run has wrong, which continues from a checkpoint before step 1.
  std::vector<std::string> violated_in_second_part(const Faults& faults) {
    spec_.checkpoint = job::CheckpointedSteps{.begin = 0, .end = 1};
    run({}, folder_.path() / "first");
    const job::RunSpec first = spec_;
    const job::TrainingRecord saved(first, folder_.path() / "first");
    spec_.checkpoint = job::CheckpointedSteps{.begin = 1, .end = spec_.run.steps};
    run(faults, record_folder());
    last_ = judge(spec_, job::TrainingRecord(spec_, record_folder()), training_,
                  {.earlier = EarlierRun{.spec = &first, .record = &saved}});
    return ids_of_last();
  }
  // The requirements that a run with these faults violates.
  std::vector<std::string> violated(const Faults& faults,
                                    const std::optional<Reduction>& reduction = Reduction{.rank_order = true}) {
    run(faults, record_folder());
    last_ = judged(reduction);
    return ids_of_last();
  }
  std::vector<std::string> ids_of_last() const {
    std::set<std::string> ids;
    for (const Finding& finding : last_.findings) ids.insert(finding.requirement);
    return {ids.begin(), ids.end()};
  }
  // The first finding of a requirement in the last judgement, as text.
  std::string first(const std::string& requirement) const {
    for (const Finding& finding : last_.findings)
      if (finding.requirement == requirement) return text_of(finding);
    return "none";
  }
  std::filesystem::path record_folder() const { return folder_.path() / "record"; }

  static constexpr std::optional<Reduction> kOtherProgram = std::nullopt;
  job::RunSpec spec_;
  Values given_;
  LinearTraining training_;
  Judgement last_;
  job::TemporaryFolder folder_;

 private:
  static Values mean(const std::vector<Values>& local) {
    Values sum = local[0];
    for (auto& [name, list] : sum)
      for (std::size_t i = 0; i < list.size(); ++i)
        for (std::size_t rank = 1; rank < local.size(); ++rank) list[i] += local[rank].at(name)[i];
    for (auto& [name, list] : sum)
      for (float& value : list) value /= static_cast<float>(local.size());
    return sum;
  }
  static bool has_non_finite(const Values& values) {
    return std::ranges::any_of(values, [](const auto& one) {
      return !std::ranges::all_of(one.second, [](float value) { return std::isfinite(value); });
    });
  }
  static void update(const Faults& faults, int step, Values& values, const Values& gradients, Values& buffers) {
    for (auto& [name, list] : values) {
      job::Sgd sgd = faults.applied;
      faults.rule(sgd, step, name);
      std::vector<float>& buffer = buffers[name];
      buffer.resize(list.size());
      for (std::size_t i = 0; i < list.size(); ++i) {
        buffer[i] = static_cast<float>(sgd.momentum) * buffer[i] + gradients.at(name)[i] +
                    static_cast<float>(sgd.weight_decay) * list[i];
        list[i] -= static_cast<float>(sgd.lr) * buffer[i];
      }
    }
  }
};

TEST_F(JudgeTest, FindsNothingInAnHonestRecord) {
  EXPECT_THAT(violated({}), IsEmpty()) << text_of(last_.findings.front());
  EXPECT_THAT(violated({}, Reduction{}), IsEmpty()) << text_of(last_.findings.front());
  EXPECT_THAT(violated({}, kOtherProgram), IsEmpty()) << text_of(last_.findings.front());
}

TEST_F(JudgeTest, TellsHowMuchOfItIsDone) {
  (void)violated({});
  std::vector<int> heard;
  int all = 0;
  const auto listen = [&](int done, int parts) {
    heard.push_back(done);
    all = parts;
  };
  (void)judge(spec_, job::TrainingRecord(spec_, record_folder()), training_, {.progress = listen});
  EXPECT_EQ(all, spec_.run.steps + 2) << "the updates of a weight and a bias";
  std::vector<int> each(static_cast<std::size_t>(all));
  std::iota(each.begin(), each.end(), 1);
  EXPECT_EQ(heard, each);
}

TEST_F(JudgeTest, SummarisesEachStep) {
  (void)violated({}, kOtherProgram);
  ASSERT_EQ(last_.steps.size(), 3u);
  for (const StepSummary& step : last_.steps) {
    EXPECT_GT(step.loss, 0.1);
    EXPECT_GT(step.gradient.difference, 0);
    EXPECT_LT(step.gradient.difference, step.gradient.bound);
    EXPECT_LT(step.gradient.bound, 1e-4);
    EXPECT_GT(step.update.difference, 0);
    EXPECT_LT(step.update.difference, step.update.bound);
    EXPECT_LT(step.update.bound, 1e-3);
  }
}

TEST_F(JudgeTest, FindsAParameterThatIsNotReduced) {
  const Faults faults{.reduced = [](std::vector<Values>& used, const std::vector<Values>& local, int) {
    for (std::size_t rank = 0; rank < 3; ++rank) used[rank]["0.bias"] = local[rank].at("0.bias");
  }};
  EXPECT_THAT(violated(faults), ElementsAre("TRAIN-004", "TRAIN-005", "TRAIN-006", "TRAIN-007", "TRAIN-008"));
  EXPECT_THAT(first("TRAIN-005"), HasSubstr("step 0, rank 1, 0.bias[0]: the gradient differs from that of rank 0"));
  EXPECT_THAT(first("TRAIN-004"), HasSubstr("step 0, rank 1, 0.bias[0]: the value after the step differs"));
}

TEST_F(JudgeTest, FindsGradientsThatAreSummedInsteadOfAveraged) {
  const Faults faults{.reduced = [](std::vector<Values>& used, const std::vector<Values>&, int) {
    for (Values& values : used)
      for (auto& [name, list] : values)
        for (float& value : list) value *= 3;
  }};
  EXPECT_THAT(violated(faults), ElementsAre("TRAIN-006", "TRAIN-007", "TRAIN-008"));
  EXPECT_THAT(violated(faults, kOtherProgram), ElementsAre("TRAIN-006", "TRAIN-008"));
  EXPECT_THAT(first("TRAIN-006"), HasSubstr("(15 of 15 elements)"));
}

TEST_F(JudgeTest, FindsAnotherDivisor) {
  const Faults faults{.reduced = [](std::vector<Values>& used, const std::vector<Values>&, int) {
    for (Values& values : used)
      for (auto& [name, list] : values)
        for (float& value : list) value *= 1.00001f;
  }};
  EXPECT_THAT(violated(faults), ElementsAre("TRAIN-006", "TRAIN-007", "TRAIN-008"));
}

TEST_F(JudgeTest, FindsAnotherOrderOfAdditionsOnlyByTheBits) {
  const Faults faults{.reduced = [](std::vector<Values>& used, const std::vector<Values>& local, int) {
    for (Values& values : used)
      for (auto& [name, list] : values)
        for (std::size_t i = 0; i < list.size(); ++i)
          list[i] = (local[0].at(name)[i] + (local[1].at(name)[i] + local[2].at(name)[i])) / 3.0f;
  }};
  EXPECT_THAT(violated(faults), ElementsAre("TRAIN-007"));
  EXPECT_THAT(violated(faults, Reduction{}), IsEmpty());
  EXPECT_THAT(violated(faults, kOtherProgram), IsEmpty());
}

TEST(AddsAsASingleDevice, WhereNoStageBackPropagatesInReverseAndNoParameterIsTied) {
  job::RunSpec spec;
  spec.layers = {job::Linear{2, 2}, job::Linear{2, 2}, job::TiedLinear{0}};
  EXPECT_TRUE(adds_as_a_single_device(spec)) << "one rank has the whole model";
  spec.parallel.pipeline = 2;
  EXPECT_FALSE(adds_as_a_single_device(spec)) << "each stage adds its own use of the tied weight";
  spec.layers.pop_back();
  EXPECT_TRUE(adds_as_a_single_device(spec));
  spec.run.schedule = "looped-bfs";
  EXPECT_FALSE(adds_as_a_single_device(spec));
}

TEST_F(JudgeTest, FindsALastElementThatIsDropped) {
  const Faults faults{.reduced = [](std::vector<Values>& used, const std::vector<Values>& local, int) {
    for (std::size_t rank = 0; rank < 3; ++rank) used[rank]["0.weight"].back() = local[rank].at("0.weight").back();
  }};
  EXPECT_THAT(violated(faults), testing::IsSupersetOf({"TRAIN-005", "TRAIN-006", "TRAIN-007", "TRAIN-008"}));
  EXPECT_THAT(first("TRAIN-006"), HasSubstr("step 0, rank 0, 0.weight[14]"));
  EXPECT_THAT(first("TRAIN-006"), HasSubstr("(1 of 15 elements)"));
}

TEST_F(JudgeTest, FindsARankThatStartsFromOtherWeights) {
  const Faults faults{.start = [](Values& start, int rank) {
    if (rank == 2) start["0.weight"][4] += 0x1p-20f;
  }};
  EXPECT_THAT(violated(faults), testing::IsSupersetOf({"TRAIN-002", "TRAIN-004"}));
  EXPECT_THAT(first("TRAIN-002"), HasSubstr("step 0, rank 2, 0.weight[4]: does not start from the given weights"));
}

TEST_F(JudgeTest, FindsARankThatUsesTheRowsOfAnother) {
  const Faults faults{.rows_of = [](int rank) { return rank == 1 ? 0 : rank; }};
  for (const auto& reduction : {std::optional(Reduction{}), kOtherProgram}) {
    EXPECT_THAT(violated(faults, reduction), ElementsAre("TRAIN-006", "TRAIN-008", "TRAIN-010", "TRAIN-011"));
    EXPECT_THAT(first("TRAIN-010"),
                HasSubstr("step 0, rank 1, loss[0]: the loss is not the mean over the rows of data rank 1"));
    EXPECT_THAT(first("TRAIN-011"), HasSubstr("step 0, rank 1, "));
  }
  const bool named = std::ranges::any_of(last_.findings, [](const Finding& finding) {
    return finding.what == "the loss is that of the rows of data rank 0" && finding.rank == 1;
  });
  EXPECT_TRUE(named);
}

TEST_F(JudgeTest, FindsRanksThatExchangedTheirRowsThoughTheMeanIsRight) {
  const Faults faults{.rows_of = [](int rank) { return rank == 0 ? 1 : rank == 1 ? 0 : 2; }};
  EXPECT_THAT(violated(faults, kOtherProgram), ElementsAre("TRAIN-010", "TRAIN-011"));
}

TEST_F(JudgeTest, FindsAStaleValueBeforeAStep) {
  const Faults faults{.recorded_before = [this](Values& before, int step, int rank) {
    if (step == 2 && rank == 1) before = given_;
  }};
  // The loss is that of the values which the rank really had.
  EXPECT_THAT(violated(faults), ElementsAre("TRAIN-003", "TRAIN-004", "TRAIN-009", "TRAIN-010", "TRAIN-011"));
  EXPECT_THAT(first("TRAIN-003"),
              HasSubstr("step 2, rank 1, 0.weight[0]: does not start from where the step before it ended"));
}

TEST_F(JudgeTest, FindsAWrongUpdate) {
  const job::Sgd wrong[] = {{.lr = 0.12501, .momentum = 0.5, .weight_decay = 0.25},
                            {.lr = 0.125, .momentum = 0.5},
                            {.lr = 0.125, .weight_decay = 0.25}};
  for (const job::Sgd& applied : wrong) EXPECT_THAT(violated({.applied = applied}), ElementsAre("TRAIN-009"));
  EXPECT_THAT(first("TRAIN-009"),
              HasSubstr("step 1, rank 0, 0.weight["));  // without momentum step 0 is right
}

TEST_F(JudgeTest, FindsNan) {
  const Faults faults{.reduced = [](std::vector<Values>& used, const std::vector<Values>&, int step) {
    if (step == 1) used[2]["0.bias"][1] = std::nanf("");
  }};
  EXPECT_THAT(violated(faults),
              testing::IsSupersetOf({"TRAIN-004", "TRAIN-005", "TRAIN-006", "TRAIN-007", "TRAIN-008"}));
  EXPECT_THAT(first("TRAIN-006"),
              HasSubstr("step 1, rank 2, 0.bias[1]: the gradient is not the mean of the single device's"));
  EXPECT_THAT(first("TRAIN-006"), HasSubstr("got nan"));
}

TEST_F(JudgeTest, JudgesWhatIsLeftWhenAFileIsMissing) {
  run({}, record_folder());
  std::filesystem::remove(job::record_file(record_folder(), 1));
  last_ = judged(Reduction{});
  EXPECT_THAT(first("TRAIN-001"), HasSubstr("TRAIN-001: rank 1: '"));
  EXPECT_THAT(first("TRAIN-001"), HasSubstr("rank1.safetensors': no such file"));
  for (const char* id : {"TRAIN-002", "TRAIN-003", "TRAIN-004", "TRAIN-005", "TRAIN-006", "TRAIN-008", "TRAIN-009",
                         "TRAIN-010", "TRAIN-011"})
    EXPECT_THAT(first(id), HasSubstr("not judged")) << id;
  for (const Finding& finding : last_.findings) {
    EXPECT_EQ(finding.rank, 1) << text_of(finding);
    EXPECT_TRUE(finding.requirement == "TRAIN-001" || finding.what.starts_with("not judged")) << text_of(finding);
  }
  EXPECT_LT(last_.findings.size(), 20u);
}

TEST_F(JudgeTest, ARankThatRecordedOnlyItsFirstStepIsNotJudgedAfterIt) {
  const Faults faults{.recorded = [](int step, int rank, Moment moment) {
    return rank != 2 || step == 0 || moment == Moment::local_grad;
  }};
  EXPECT_THAT(violated(faults), ElementsAre("TRAIN-001", "TRAIN-003", "TRAIN-004", "TRAIN-005", "TRAIN-006",
                                            "TRAIN-007", "TRAIN-008", "TRAIN-009", "TRAIN-010", "TRAIN-011"));
  for (const Finding& finding : last_.findings) EXPECT_EQ(finding.rank, 2) << text_of(finding);
  EXPECT_THAT(first("TRAIN-004"),
              HasSubstr("step 1, rank 2, 0.weight: not judged: the value before the step is missing in the record"));
}

TEST_F(JudgeTest, SaysByWhatItJudged) {
  const std::vector<std::string> always{"TRAIN-001", "TRAIN-002", "TRAIN-003", "TRAIN-004", "TRAIN-005",
                                        "TRAIN-006", "TRAIN-008", "TRAIN-009", "TRAIN-010", "TRAIN-011"};
  (void)violated({}, kOtherProgram);
  EXPECT_THAT(last_.judged, ElementsAreArray(always));
  (void)violated({});
  EXPECT_EQ(last_.judged.size(), always.size() + 1);
  EXPECT_TRUE(last_.judged.contains("TRAIN-007"));
  spec_.parallel.data = 1;
  spec_.run.steps = 1;
  spec_.run.accumulation = 6;  // the file has six batches
  (void)violated({}, kOtherProgram);
  EXPECT_THAT(last_.judged,
              ElementsAre("TRAIN-001", "TRAIN-002", "TRAIN-006", "TRAIN-008", "TRAIN-009", "TRAIN-010", "TRAIN-011"));
}

TEST_F(JudgeTest, AStartThatIsMissingEverywhereCostsTheUpdates) {
  const Faults faults{.recorded = [](int step, int, Moment moment) { return step != 0 || moment != Moment::before; }};
  EXPECT_THAT(violated(faults), testing::IsSupersetOf({"TRAIN-002", "TRAIN-009"}));
  EXPECT_THAT(first("TRAIN-009"), HasSubstr("step 0, rank 0, 0.weight: not judged from here on"));
}

TEST_F(JudgeTest, SaysWhatItCouldNotJudge) {
  const auto lacks = [](Moment which) {
    return Faults{.recorded = [which](int step, int, Moment moment) { return step != 1 || moment != which; }};
  };
  EXPECT_THAT(violated(lacks(Moment::before)),
              ElementsAre("TRAIN-001", "TRAIN-003", "TRAIN-004", "TRAIN-006", "TRAIN-007", "TRAIN-008", "TRAIN-009",
                          "TRAIN-010", "TRAIN-011"));
  EXPECT_THAT(first("TRAIN-006"), HasSubstr("step 1: not judged: 'before' of some parameter is missing in the record"));
  EXPECT_THAT(violated(lacks(Moment::grad)),
              ElementsAre("TRAIN-001", "TRAIN-005", "TRAIN-006", "TRAIN-007", "TRAIN-008", "TRAIN-009"));
  EXPECT_THAT(first("TRAIN-009"), HasSubstr("step 1, rank 0, 0.weight: not judged from here on"));
  EXPECT_THAT(violated(lacks(Moment::after)), ElementsAre("TRAIN-001", "TRAIN-003", "TRAIN-004", "TRAIN-009"));
  EXPECT_THAT(violated(lacks(Moment::local_grad)), IsEmpty());
  std::filesystem::remove_all(record_folder());
  last_ = judged(Reduction{});
  EXPECT_THAT(first("TRAIN-002"), HasSubstr("not judged"));
  EXPECT_EQ(last_.steps.size(), 3u);
}

TEST_F(JudgeTest, DoesNotComeDownOverNonsense) {
  run({}, record_folder());
  std::ofstream(job::record_file(record_folder(), 0)) << "nonsense nonsense nonsense";
  last_ = judged(kOtherProgram);
  EXPECT_THAT(first("TRAIN-001"), HasSubstr("rank 0"));
  EXPECT_THAT(first("TRAIN-006"), HasSubstr("step 0, rank 0, 0.weight: not judged: the gradient is missing"));
}

// Of three steps the middle one is skipped, for an infinity in rank 1's gradient.
class ScaledJudgeTest : public JudgeTest {
 protected:
  ScaledJudgeTest() {
    spec_.scaler = job::Scaler{.init_scale = 1024};
    spec_.injections = {
        {.step = 1, .rank = 1, .parameter = "0.bias", .value = std::numeric_limits<double>::infinity()}};
  }
};

TEST_F(ScaledJudgeTest, FindsNothingInAnHonestRecord) {
  EXPECT_THAT(violated({}, kOtherProgram), IsEmpty()) << text_of(last_.findings.front());
  EXPECT_THAT(last_.judged, testing::IsSupersetOf({"SCALER-091", "SCALER-092", "SCALER-093"}));
  EXPECT_EQ(last_.steps[1].scale, 1024);
  EXPECT_TRUE(last_.steps[1].skipped);
  EXPECT_EQ(last_.steps[2].scale, 512);
  EXPECT_FALSE(last_.steps[2].skipped);
}

TEST_F(ScaledJudgeTest, AsksReplicasTooWhereAnInjectionComesAfterTheReduction) {
  spec_.injections[0].reduced = true;
  EXPECT_THAT(violated({}, kOtherProgram), IsEmpty()) << text_of(last_.findings.front());
}

TEST_F(ScaledJudgeTest, FindsARankThatDoesNotSkip) {
  const Faults faults{.skips = [](bool right, int, int rank) { return right && rank != 2; }};
  EXPECT_THAT(violated(faults, kOtherProgram), testing::Contains("SCALER-091"));
  EXPECT_THAT(first("SCALER-091"), HasSubstr("step 1, rank 2, 0.bias: the step was made, although inf was written"));
}

TEST_F(ScaledJudgeTest, FindsAStepSkippedWithoutCause) {
  const Faults faults{.skips = [](bool right, int step, int) { return right || step == 2; }};
  EXPECT_THAT(violated(faults, kOtherProgram), ElementsAre("SCALER-091"));
  EXPECT_THAT(first("SCALER-091"),
              HasSubstr("step 2, rank 0: the step was skipped, although every gradient is finite"));
}

TEST_F(ScaledJudgeTest, FindsScalesThatAreNotTheRules) {
  const Faults faults{.scale = [](float right, int step, int rank) { return step == 2 && rank == 1 ? 1024 : right; }};
  EXPECT_THAT(violated(faults, kOtherProgram), ElementsAre("SCALER-092"));
  EXPECT_THAT(first("SCALER-092"), HasSubstr("step 2, rank 1, scale"));
}

TEST_F(ScaledJudgeTest, FindsASkippedStepThatChangesValuesOrMomentum) {
  EXPECT_THAT(violated({.skipped = [](Values& values, Values&) { values["0.bias"][0] += 1; }}, kOtherProgram),
              ElementsAre("SCALER-093"));
  EXPECT_THAT(violated({.skipped = [](Values&, Values& buffers) { buffers["0.bias"][0] += 1; }}, kOtherProgram),
              ElementsAre("SCALER-093", "TRAIN-009"));
  EXPECT_THAT(first("SCALER-093"), HasSubstr("step 2, rank 0, 0.bias[0]: the update after a skipped step is not"));
}

TEST_F(ScaledJudgeTest, DoesNotBlameASkippedStepForUpdatesBeforeIt) {
  spec_.optimizer = job::Sgd{.lr = 0.125};  // without a momentum that remembers
  const Faults faults{.applied = {.lr = 0.125}, .recorded_before = [](Values& before, int step, int) {
                        if (step == 0) before["0.bias"][0] += 1;
                      }};
  EXPECT_THAT(violated(faults, kOtherProgram), testing::Contains("TRAIN-009"));
  EXPECT_EQ(first("SCALER-093"), "none");
}

TEST_F(ScaledJudgeTest, SaysWhatItCouldNotJudge) {
  const auto lacks = [](Moment which) {
    return Faults{
        .recorded = [which](int step, int rank, Moment moment) { return step != 1 || rank != 2 || moment != which; }};
  };
  for (const Moment moment : {Moment::before, Moment::after}) {
    EXPECT_THAT(violated(lacks(moment), kOtherProgram), testing::Contains("SCALER-093"));
    EXPECT_THAT(first("SCALER-093"), HasSubstr("step 1, rank 2, 0.weight: not judged: '"));
  }
  EXPECT_THAT(violated({.has_scale = [](int step, int rank) { return step != 1 || rank != 2; }}, kOtherProgram),
              ElementsAre("SCALER-092", "TRAIN-001"));
  EXPECT_THAT(first("SCALER-092"), HasSubstr("step 1, rank 2, scale: not judged: the scale is missing"));
  EXPECT_THAT(violated({.has_flag = [](int step, int rank) { return step != 0 || rank != 2; }}, kOtherProgram),
              ElementsAre("SCALER-091", "SCALER-093", "TRAIN-001"));
  EXPECT_THAT(first("SCALER-091"), HasSubstr("step 0, rank 2, skipped: not judged: whether the step was skipped is"));
}

TEST_F(ScaledJudgeTest, StillLooksAtTheOtherGradientsOfASkippedStep) {
  const Faults faults{.reduced = [](std::vector<Values>& used, const std::vector<Values>&, int step) {
    for (Values& values : used)
      if (step == 1) values["0.weight"][3] *= 2;
  }};
  EXPECT_THAT(violated(faults, kOtherProgram), ElementsAre("TRAIN-006", "TRAIN-008"));
}

// ---- clipped runs ----

class ClippedJudgeTest : public JudgeTest {
 protected:
  // Every rank has these gradients of the one step, clipped by `coefficient`.
  Faults uses(const training::Gradients& gradients, double coefficient) {
    return {.reduced = [=](std::vector<Values>& used, const std::vector<Values>&, int) {
      for (Values& values : used)
        for (auto& [name, list] : values)
          for (std::size_t i = 0; i < list.size(); ++i)
            list[i] = static_cast<float>(coefficient * gradients.at(name)[i]);
    }};
  }
  // Of the run's rows, each with its weight or with none.
  training::LossGradient gradient(bool weighted) {
    job::RunSpec spec = spec_;
    spec.row_weights = weighted;
    return training_.union_batch(spec, 0, given_, Arithmetic::float64, "cpu");
  }
  static double norm(const training::Gradients& gradients, const std::string& only = "") {
    double sum = 0;
    for (const auto& [name, values] : gradients)
      if (only.empty() || name == only)
        for (const double value : values) sum += value * value;
    return std::sqrt(sum);
  }
  // The batches of one step, of rows with weights or without.
  void write_batches(bool weighted) {
    const int rows = 2 * 12;
    std::vector<float> x, y, weights;
    for (int i = 0; i < rows * kIn; ++i) x.push_back(static_cast<float>(i * 37 % 101) / 50 - 1);
    for (int i = 0; i < rows * kOut; ++i) y.push_back(static_cast<float>(i * 53 % 97) / 48 - 1);
    for (int i = 0; i < rows; ++i) weights.push_back(static_cast<float>(i % 5));
    job::SafetensorsWriter batches;
    batches.add<float>("x", {2, 12, kIn}, x);
    batches.add<float>("y", {2, 12, kOut}, y);
    if (weighted) batches.add<float>("w", {2, 12}, weights);
    batches.write(spec_.batches_file());
    spec_.row_weights = weighted;
  }
  ClippedJudgeTest() {
    spec_.run.steps = 1;
    spec_.clip = job::Clip{.max_norm = kMost, .norm_type = 2};
    write_batches(false);
  }
  static constexpr double kMost = 0.125;
};

TEST_F(ClippedJudgeTest, NamesTheNormThatWasTakenInstead) {
  const training::Gradients right = gradient(false).gradients;
  EXPECT_THAT(violated(uses(right, kMost / (norm(right) + 1e-6)), kOtherProgram), IsEmpty());
  EXPECT_THAT(violated(uses(right, kMost / (norm(right, "0.weight") + 1e-6)), kOtherProgram),
              testing::Contains("TRAIN-006"));
  EXPECT_THAT(first("TRAIN-006"), HasSubstr("clipped by the norm of this parameter alone"));
  EXPECT_THAT(violated(uses(right, kMost / (std::sqrt(3.0) * norm(right) + 1e-6)), kOtherProgram),
              testing::Contains("TRAIN-006"));
  EXPECT_THAT(first("TRAIN-006"), HasSubstr("clipped by a norm in which each data rank's copy counts"));
}

TEST_F(ClippedJudgeTest, NamesAnotherRuleForWeightsThatIsClippedByItsOwnNorm) {
  write_batches(true);
  const training::Gradients right = gradient(true).gradients, plain = gradient(false).gradients;
  (void)violated(uses(right, kMost / (norm(right) + 1e-6)), kOtherProgram);
  EXPECT_EQ(first("TRAIN-016"), "none");
  (void)violated(uses(plain, kMost / (norm(plain) + 1e-6)), kOtherProgram);
  EXPECT_THAT(first("TRAIN-016"), HasSubstr("the mean over all rows, whatever their weights"));
}

TEST_F(JudgeTest, HoldsUpdatesToTheLearningRatesOfASchedule) {
  spec_.rate_schedule = job::RateSchedule{.decay = "linear", .warmup_steps = 1};
  const auto with = [](const std::array<double, 3>& factors) {
    return Faults{.rule = [factors](job::Sgd& sgd, int step, const std::string&) {
      sgd.lr *= factors[static_cast<std::size_t>(step)];
    }};
  };
  EXPECT_THAT(violated(with({0, 1, 0.5}), kOtherProgram), IsEmpty()) << text_of(last_.findings.front());
  EXPECT_THAT(violated(with({1, 0.5, 0}), kOtherProgram), ElementsAre("TRAIN-019"));
  EXPECT_THAT(first("TRAIN-019"), testing::ContainsRegex("step 0, rank 0, 0.weight.*; hypothesis: the learning rate of "
                                                         "step 1, the next one: 0.125; hypothesis: the learning rate "
                                                         "without the schedule: 0.125$"));
  EXPECT_THAT(violated(with({0, 1, 0.75}), kOtherProgram), ElementsAre("TRAIN-019"));
  EXPECT_THAT(first("TRAIN-019"), testing::ContainsRegex("step 2, rank 0, 0.weight[^;]*$")) << "a rate of no rule";
}

TEST_F(JudgeTest, HoldsUpdatesToTheWeightDecayOfTheirGroup) {
  spec_.no_decay = {"0.bias"};
  const auto decaying = [](const std::string& decays) {
    return Faults{.rule = [decays](job::Sgd& sgd, int, const std::string& parameter) {
      if (parameter != decays) sgd.weight_decay = 0;
    }};
  };
  EXPECT_THAT(violated(decaying("0.weight"), kOtherProgram), IsEmpty()) << text_of(last_.findings.front());
  EXPECT_THAT(violated({}, kOtherProgram), ElementsAre("TRAIN-020")) << "all parameters decay";
  EXPECT_THAT(first("TRAIN-020"), testing::ContainsRegex("step 0, rank 0, 0.bias.*; hypothesis: with weight decay$"));
  EXPECT_THAT(violated(decaying("none"), kOtherProgram), ElementsAre("TRAIN-020"));
  EXPECT_THAT(first("TRAIN-020"),
              testing::ContainsRegex("step 0, rank 0, 0.weight.*; hypothesis: without weight decay$"));
}

TEST_F(JudgeTest, NamesTheWrongGroupInARunWithAScheduleToo) {
  spec_.rate_schedule = job::RateSchedule{.decay = "linear", .warmup_steps = 1};
  spec_.no_decay = {"0.bias"};
  const auto decaying = [](const std::string& decays) {
    return Faults{.rule = [decays](job::Sgd& sgd, int step, const std::string& parameter) {
      sgd.lr *= std::array{0.0, 1.0, 0.5}[static_cast<std::size_t>(step)];
      if (!decays.empty() && parameter != decays) sgd.weight_decay = 0;
    }};
  };
  EXPECT_THAT(violated(decaying("0.weight"), kOtherProgram), IsEmpty()) << text_of(last_.findings.front());
  EXPECT_THAT(violated(decaying(""), kOtherProgram), ElementsAre("TRAIN-020")) << "all parameters decay";
  EXPECT_THAT(first("TRAIN-020"), testing::ContainsRegex("step 1, rank 0, 0.bias.*; hypothesis: with weight decay$"));
}

TEST_F(JudgeTest, HoldsFrozenParametersToTheGivenWeights) {
  spec_.frozen = {"0.bias"};
  const auto changed_from = [](int first, int rank_of_fault) {
    Faults faults{.rule = [](job::Sgd& sgd, int, const std::string& parameter) {
      if (parameter == "0.bias") sgd.lr = 0;
    }};
    faults.recorded_before = [=](Values& before, int step, int rank) {
      if (step >= first && rank == rank_of_fault) before["0.bias"][1] += 0.5f;
    };
    return faults;
  };
  EXPECT_THAT(violated(changed_from(9, 0)), IsEmpty()) << text_of(last_.findings.front());
  EXPECT_THAT(violated(changed_from(9, 0), kOtherProgram), IsEmpty()) << text_of(last_.findings.front());
  EXPECT_THAT(violated(changed_from(2, 1), kOtherProgram), testing::Contains("TRAIN-021"));
  EXPECT_THAT(first("TRAIN-021"),
              HasSubstr("step 2, rank 1, 0.bias[1]: the value before the step of a frozen parameter "
                        "is not the given one"));
  EXPECT_THAT(violated({}, kOtherProgram), ElementsAre("TRAIN-021")) << "it trains";
  spec_.frozen.clear();
  run({}, record_folder());
  spec_.frozen = {"0.bias"};
  last_ = judged(kOtherProgram);
  EXPECT_THAT(first("TRAIN-021"), HasSubstr("step 0, rank 0, 0.bias: the record has 'grad' of a frozen parameter"));
}

TEST_F(JudgeTest, HoldsARunThatContinuesToTheOneThatSaved) {
  EXPECT_THAT(violated_in_second_part({}), IsEmpty()) << text_of(last_.findings.front());
  EXPECT_THAT(last_.judged, testing::IsSupersetOf({"TRAIN-060", "TRAIN-061", "TRAIN-062"}));
  EXPECT_THAT(last_.judged, testing::Not(testing::Contains("TRAIN-002")));

  EXPECT_THAT(violated_in_second_part({.restored = [](Values&, Values& buffers) { buffers.clear(); }}),
              ElementsAre("TRAIN-061"));
  EXPECT_THAT(first("TRAIN-061"),
              testing::ContainsRegex("step 1, rank 0, 0.weight.*; hypothesis: the optimizer's state "
                                     "of before the checkpoint is lost$"));
  EXPECT_THAT(violated_in_second_part({.restored = [](Values& values, Values&) { values["0.bias"][1] += 0.5f; }}),
              ElementsAre("TRAIN-060"));
  EXPECT_THAT(first("TRAIN-060"), HasSubstr("step 1, rank 0, 0.bias[1]: does not start from where"));
  EXPECT_THAT(violated_in_second_part({.rows_of_step = [](int step) { return step == 0 ? 0 : step - 1; }}),
              testing::Contains("TRAIN-062"));
  EXPECT_THAT(first("TRAIN-062"), testing::ContainsRegex("step 1, .*; hypothesis: the rows of step 0, from the first "
                                                         "batch again$"));
}

TEST_F(JudgeTest, ComparesRunsBitForBit) {
  run({}, folder_.path() / "first");
  run({}, folder_.path() / "second");
  run({.recorded_before =
           [](Values& before, int step, int rank) {
             if (step == 2 && rank == 1) before["0.bias"][2] = std::nextafter(before["0.bias"][2], 9.0f);
           }},
      folder_.path() / "third");
  const job::TrainingRecord first(spec_, folder_.path() / "first");
  EXPECT_THAT(compare_runs(spec_, first, job::TrainingRecord(spec_, folder_.path() / "second")), IsEmpty());
  const auto findings = compare_runs(spec_, first, job::TrainingRecord(spec_, folder_.path() / "third"));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(text_of(findings[0]),
              HasSubstr("TRAIN-013: step 2, rank 1, 0.bias[2]: the second run recorded other bits"));
  EXPECT_FALSE(compare_runs(spec_, first, job::TrainingRecord(spec_, folder_.path() / "none")).empty());
}

}  // namespace
}  // namespace plumbline::conformance
