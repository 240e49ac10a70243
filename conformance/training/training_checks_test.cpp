// The checks themselves on the local backend, and on one that is wrong on purpose.
#include "conformance/training/training_checks.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/components.hpp"
#include "conformance/training/attention_faults.hpp"
#include "conformance/training/finding.hpp"
#include "conformance/training/in_process.hpp"
#include "conformance/training/judge.hpp"
#include "conformance/training/routing.hpp"
#include "conformance/training/single_device.hpp"
#include "harness/mutants/record_rewriting.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/record/run_files.hpp"
#include "reference/record/training_record.hpp"
#include "reference/support/temporary_folder.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::conformance {
namespace {

suite::Suite complete_suite() {
  suite::Suite suite;
  add_training(suite);
  return suite;
}

TEST(TrainingSuite, HasACheckForEachRequirementAndCitesWhatIsWritten) {
  EXPECT_THAT(complete_suite().problems(), testing::IsEmpty());
}

class TrainingCheck : public testing::TestWithParam<int> {
 protected:
  static const suite::Suite& suite() {
    static const suite::Suite suite = complete_suite();
    return suite;
  }
};

TEST_P(TrainingCheck, PassesOnLocal) {
  const suite::Case& one = suite().cases().at(static_cast<std::size_t>(GetParam()));
  SCOPED_TRACE(one.id());
  run_case(one);
}

INSTANTIATE_TEST_SUITE_P(Cases, TrainingCheck, testing::Range(0, static_cast<int>(complete_suite().cases().size())));

// The specification that a check runs with that seed, on that device.
job::RunSpec spec_of_run(const suite::Case& one, std::uint64_t seed, const std::string& device = "cpu") {
  const job::TemporaryFolder scratch;
  comm::run_ranks(one.world(), [&](comm::Communicator& world) {
    ThreadContext context(world, one.parameters, {.scratch = scratch.path().string(), .seed = seed, .device = device});
    one.check->body(context);
  });
  return job::read_run_spec(scratch.path() / "run" / "spec.toml");
}

TEST(TrainingRuns, HaveTheirSeedAndDevice) {
  const suite::Suite suite = complete_suite();
  const suite::Case& one = suite.cases().at(1);
  for (const std::uint64_t seed : {2u, 3u}) EXPECT_EQ(spec_of_run(one, seed).seed, seed);
  EXPECT_EQ(spec_of_run(one, 0xfedcba9876543210u).seed, 0x7edcba9876543210u);
  try {
    (void)spec_of_run(one, 1, "cuda:99");
    ADD_FAILURE() << "no error";
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("device 'cuda:99': this "));
  }
}

// What is not computed has no verdict: replicas where there is one rank, the union batch where rows mix.
TEST(TrainingJudge, HasNoVerdictByWhatItDoesNotCompare) {
  const job::TemporaryFolder folder;
  const job::RunSpec spec =
      training::write_digits_run({.model = "conv_norm", .data = 1, .steps = 2}, training::digits(), folder.path());
  comm::run_ranks(1, [&](comm::Communicator& world) { module().run(spec, world, folder.path() / "record", {}, {}); });
  const Judgement judgement = judge(spec, job::TrainingRecord(spec, folder.path() / "record"), module(), {});
  EXPECT_THAT(judgement.findings, testing::IsEmpty());
  EXPECT_THAT(judgement.judged, testing::ElementsAre("TRAIN-001", "TRAIN-002", "TRAIN-003", "TRAIN-006", "TRAIN-009",
                                                     "TRAIN-010", "TRAIN-011"));
}

TEST(TrainingJudge, FindsNothingWrongWithARunThatDivergesAsTheSingleDeviceDoes) {
  const job::TemporaryFolder folder;
  job::RunSpec spec = training::write_digits_run({.data = 2, .steps = 4}, training::digits(), folder.path());
  std::get<job::Sgd>(spec.optimizer).lr = 1e30;
  comm::run_ranks(2, [&](comm::Communicator& world) { module().run(spec, world, folder.path() / "record", {}, {}); });
  for (const bool reference : {true, false}) {
    JudgeOptions options;
    if (reference) options.reduction = Reduction{.rank_order = true};
    const Judgement judgement = judge(spec, job::TrainingRecord(spec, folder.path() / "record"), module(), options);
    EXPECT_FALSE(std::isfinite(judgement.steps.back().loss));
    for (const Finding& finding : judgement.findings) ADD_FAILURE() << text_of(finding);
  }
}

// Every rank but rank 0 keeps its own first element of each reduction, which is of the last layer.
class DropsFirstElement final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    const bool reduces = call.operation == comm::Operation::all_reduce && rank() != 0;
    const float own = reduces ? *static_cast<const float*>(call.in.data) : 0;
    CommunicatorDecorator::do_run(call, timeout);
    if (reduces) *static_cast<float*>(call.out.data) = own;
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    for (const comm::Call& call : calls) do_run(call, {});
    return {};
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<DropsFirstElement>(std::move(group));
  }
};

TEST(TrainingCheckFailure, NamesRequirementStepRankParameterAndValues) {
  const suite::Suite suite = complete_suite();
  const auto drops = [](std::unique_ptr<comm::Communicator> world) {
    return std::make_unique<DropsFirstElement>(std::move(world));
  };
  const suite::Case& one = suite.cases().at(1);
  ASSERT_EQ(one.id(), "training.single_device[model=mlp,optimizer=sgd,accumulation=1,world=2]");
  const std::string text = failures_of(one, {.wrap = drops});
  EXPECT_THAT(text,
              testing::ContainsRegex("TRAIN-005: step 0, rank 1, 2.bias.0.: the gradient differs from that of rank 0: "
                                     "expected [-0-9.e]+, got [-0-9.e]+, the bits must be equal .1 of 10 elements."));
  EXPECT_THAT(text, testing::ContainsRegex("TRAIN-006: step 0, rank 1, 2.bias.0.: the gradient is not the mean"));
  EXPECT_THAT(text, testing::HasSubstr(" more findings"));
  EXPECT_LT(std::ranges::count(text, '\n'), 60);
}

// Of another program only the bounds are known: the same fault is found by them.
TEST(TrainingCheckFailure, IsFoundInTheRecordOfAJob) {
  const suite::Suite suite = complete_suite();
  const auto drops = [](std::unique_ptr<comm::Communicator> world) {
    return std::make_unique<DropsFirstElement>(std::move(world));
  };
  const auto one = std::ranges::find(
      suite.cases(), "training.job.single_device[model=mlp,optimizer=sgd,micro_batches=1,accumulation=1,world=2]",
      &suite::Case::id);
  ASSERT_NE(one, suite.cases().end());
  const std::string text = failures_of(*one, {.wrap = drops});
  EXPECT_THAT(text, testing::ContainsRegex("TRAIN-004: step 0, rank 1, 2.bias.0.: "));
  EXPECT_THAT(text, testing::ContainsRegex("TRAIN-005: step 0, rank 1, 2.bias.0.: "));
  EXPECT_THAT(text,
              testing::ContainsRegex("TRAIN-006: step 0, rank 1, 2.bias.0.: the gradient is not the mean .*bound "));
}

// Runs that record what layers put out, and what the judge finds in their records once `change` has been at them.
std::vector<Finding> findings_of_recorded(training::DigitsRun run, const mutants::ChangeRecord& change = {}) {
  const job::TemporaryFolder folder;
  run.steps = 3;
  run.global_batch = std::int64_t{12} * run.data;
  job::RunSpec spec = training::write_digits_run(run, training::digits(), folder.path());
  spec.run.activations = true;
  comm::run_ranks(spec.parallel.world(),
                  [&](comm::Communicator& world) { module().run(spec, world, folder.path() / "record", {}, {}); });
  if (change) change(spec, folder.path() / "record");
  const job::TrainingRecord record(spec, folder.path() / "record");
  EXPECT_TRUE(record.has_activations());
  return judge(spec, record, module(), {}).findings;
}

TEST(RecordedActivations, OfRightRunsAreRight) {
  const job::Scaler scaler{.init_scale = 0x1p26, .backoff_factor = 0x1p-6, .growth_interval = 2};
  const std::vector<training::DigitsRun> runs{
      {.model = "conv_norm", .data = 2, .accumulation = 2},
      {.model = "mlp", .data = 3, .rows = "padding"},
      {.model = "conv_norm", .data = 2, .frozen = "first_layer"},
      {.model = "pairs", .data = 1, .micro_batches = 4, .pipeline = 2, .schedule = "zb-h1", .tensor = 2},
      {.model = "pairs", .data = 1, .micro_batches = 4, .pipeline = 2, .chunks = 2, .schedule = "zbv"},
      {.model = "pairs", .data = 2, .pipeline = 2, .dtype = "bfloat16"},
      {.model = "mlp", .data = 1, .tensor = 3, .dtype = "float16", .scaler = scaler}};
  for (const training::DigitsRun& run : runs)
    for (const Finding& finding : findings_of_recorded(run)) ADD_FAILURE() << run.model << ": " << text_of(finding);
}

training::Values given_values(const job::RunSpec& spec) {
  const job::RunFiles files(spec);
  training::Values values;
  for (const job::Parameter& parameter : job::parameters_of(spec))
    values[parameter.name] = files.weight(parameter.name);
  return values;
}

// A program whose input has a gradient, as checkpointing with reentrant autograd needs, records it in front of frozen
// layers, too: there is one, whoever trains.
TEST(RecordedActivations, HaveTheSameGradientsInFrontOfFrozenLayers) {
  const job::TemporaryFolder folder;
  job::RunSpec spec = training::write_digits_run({.model = "mlp", .data = 1, .frozen = "first_layer"},
                                                 training::digits(), folder.path());
  const training::Values values = given_values(spec);
  const auto of_first_layer = [&] {
    return module()
        .activations(spec, slices_of(spec, 0), values, training::Arithmetic::float64, {}, "cpu")
        .at(0)
        .at(0)
        .at(0)
        .gradient;
  };
  const std::vector<double> frozen = of_first_layer();
  spec.frozen.clear();
  EXPECT_EQ(frozen, of_first_layer());
  EXPECT_TRUE(std::ranges::any_of(frozen, [](double value) { return value != 0; }));
}

// The first finding of a run over two tensor ranks and two micro-batches, one tensor of whose record was changed.
std::string first_wrong(const std::string& name, int rank,
                        const std::function<void(mutants::RecordedTensor&)>& change) {
  const std::vector<Finding> findings =
      findings_of_recorded({.model = "pairs", .data = 1, .tensor = 2},
                           mutants::with_tensors([&](const job::RunSpec&, int at, mutants::RecordedTensor& tensor) {
                             if (at == rank && tensor.name == name) change(tensor);
                           }));
  return findings.empty() ? "nothing" : text_of(findings.front());
}

TEST(RecordedActivations, AreNamedWhereTheyAreWrong) {
  using mutants::RecordedTensor;
  const auto scale = [](RecordedTensor& tensor) {
    for (float& value : tensor.values) value *= 1.5f;
  };
  const auto shift = [](RecordedTensor& tensor) { tensor.values[3] += 1e-3f; };
  EXPECT_THAT(
      first_wrong("step1/activation/1/1@1", 1, scale),
      testing::ContainsRegex("^TRAIN-030: step 1, rank 1, activation/1/1.[0-9]+.: forward of layer 1 .gelu., "
                             "micro-batch 1: the output is not the single device's: expected .*; hypothesis: the "
                             "expected output times 1.5: residual "));
  EXPECT_THAT(
      first_wrong("step0/activation_grad/2/0", 0, scale),
      testing::HasSubstr(": backward of the loss, micro-batch 0: the gradient that it passes to layer 2 is not"));
  EXPECT_THAT(first_wrong("step0/activation_grad/0/1@1", 1, shift),
              testing::ContainsRegex("^TRAIN-030: step 0, rank 1, activation_grad/0/1.3.: backward of layer 1 .gelu., "
                                     "micro-batch 1: the gradient that it passes to layer 0 is not .*.1 of "));
}

TEST(RecordedActivations, NameWhatAttentionDidWrong) {
  job::Shape shape;
  std::vector<double> input;
  const std::vector<Finding> findings =
      findings_of_recorded({.model = "transformer", .data = 1},
                           mutants::with_tensors([&](const auto&, int, mutants::RecordedTensor& tensor) {
                             if (tensor.name == "step0/activation/2/0") {
                               shape = tensor.shape;
                               input.assign(tensor.values.begin(), tensor.values.end());
                             } else if (tensor.name == "step0/activation/3/0") {
                               const std::vector<double> wrong = attention_of(input, shape, 2, {.is_split = false});
                               tensor.values.assign(wrong.begin(), wrong.end());
                             }
                           }));
  ASSERT_FALSE(findings.empty());
  EXPECT_THAT(text_of(findings.front()),
              testing::ContainsRegex("^TRAIN-030: step 0, rank 0, activation/3/0.*forward of layer 3 .attention.*; "
                                     "hypothesis: heads not split: one softmax over all features: residual "));
}

TEST(RecordedActivations, AreNamedWhereTheirFormIsWrong) {
  using mutants::RecordedTensor;
  EXPECT_THAT(first_wrong("step0/activation/2/0", 1, [](RecordedTensor& tensor) { tensor.shape = {10, 6}; }),
              testing::StrEq("TRAIN-030: step 0, rank 1, activation/2/0: it is [10, 6]; it must be [6, 10]"));
  EXPECT_THAT(
      first_wrong("step0/activation/0/0@1", 1,
                  [](RecordedTensor& tensor) {
                    tensor.shape = {6, 11};
                    tensor.values.resize(66);
                  }),
      testing::StrEq("TRAIN-030: step 0, rank 0, activation/0/0: the tensor ranks' parts make 24 of dimension 1; "
                     "the whole is [6, 25]"));
  EXPECT_THAT(first_wrong("step0/activation/0/0@1", 0, [](RecordedTensor& tensor) { tensor.name += "23"; }),
              testing::HasSubstr("TRAIN-001: step 0, rank 0, step0/activation/0/0@123: is no tensor's name"));
  EXPECT_THAT(
      first_wrong("step0/activation/0/0@1", 0, [](RecordedTensor& tensor) { tensor.name = "step0/activation/0/0@7"; }),
      testing::StrEq("TRAIN-030: step 0, rank 0, activation/0/0: it is [6, 13]; it must be a part along dimension 7 "
                     "of [6, 25]"));
  EXPECT_THAT(
      first_wrong("step0/activation/0/0@1", 0, [](RecordedTensor& tensor) { tensor.name = "step0/activation/9/0"; }),
      testing::HasSubstr("TRAIN-001: step 0, rank 0, step0/activation/9/0: is of no layer of the run, 0 to 2"));
}

TEST(Routing, IsUnsureWhereExpertsAreEquallyProbable) {
  const job::TemporaryFolder folder;
  const job::RunSpec spec = training::write_digits_run({.model = "moe", .data = 1, .steps = 1, .global_batch = 8},
                                                       training::digits(), folder.path());
  training::Values values = given_values(spec);
  EXPECT_FALSE(is_routing_unsure(spec, 0, values, module(), "cpu"));
  std::ranges::fill(values.at("7.weight"), 0.0f);
  EXPECT_TRUE(is_routing_unsure(spec, 0, values, module(), "cpu"));
}

TEST(Mixtures, LeaveExpertsUnusedWhereDataRanksHaveFewRows) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    const job::TemporaryFolder folder;
    const job::RunSpec spec = training::write_digits_run(
        {.model = "moe", .data = 3, .steps = 1, .global_batch = 3, .micro_batches = 1, .accumulation = 2, .seed = seed},
        training::digits(), folder.path());
    const training::Baseline step =
        module().baseline(spec, slices_of(spec, 0), given_values(spec), training::Arithmetic::float64, "cpu");
    int unused = 0;
    for (const training::LossGradient& slice : step.slices)
      for (const auto& [name, gradient] : slice.gradients)
        unused += std::ranges::all_of(gradient, [](double value) { return value == 0; }) ? 1 : 0;
    EXPECT_GT(unused, 0) << "seed " << seed;
  }
}

TEST(JobCases, AreFewAndHaveEachPairOfSettings) {
  const std::string kPlain = "training.job.single_device";
  const std::string kOnce = "sgd_decay";  // touches nothing but the optimizer
  std::set<std::string> pairs, planned;
  int cases = 0, with_decay = 0;
  const suite::Suite suite = complete_suite();
  for (const suite::Check& check : suite.checks())
    if (check.id == kPlain)
      for (const suite::Axis& one : check.axes)
        for (const suite::Axis& other : check.axes)
          for (const std::string& value : one.values)
            for (const std::string& beside : other.values)
              if (&one < &other && value != kOnce && beside != kOnce)
                pairs.insert(one.name + "=" + value + " " + other.name + "=" + beside);
  for (const suite::Case& one : suite.cases()) {
    if (one.check->id != kPlain) continue;
    ++cases;
    EXPECT_EQ(one.world(), 1) << "one rank runs the body";
    with_decay += one.parameters.text("optimizer") == kOnce ? 1 : 0;
    for (const auto& [name, value] : one.parameters.all())
      for (const auto& [other, beside] : one.parameters.all())
        planned.insert(name + "=" + value + " " + other + "=" + beside);
  }
  EXPECT_LE(cases, 12);
  EXPECT_EQ(with_decay, 1);
  EXPECT_FALSE(pairs.empty());
  for (const std::string& pair : pairs) EXPECT_TRUE(planned.contains(pair)) << pair;
}

}  // namespace
}  // namespace plumbline::conformance
