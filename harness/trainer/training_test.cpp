// The training module against runs that torch.nn and torch.optim computed, and against itself on several
// ranks.
#include "reference/training/training.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/record/run_files.hpp"
#include "reference/record/training_record.hpp"
#include "reference/support/temporary_folder.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::training {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

Training& module() {
  static const std::unique_ptr<Training> training = [] {
    void* library = dlopen(PLUMBLINE_TRAINING_MODULE, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    return std::unique_ptr<Training>(reinterpret_cast<TrainingFactory*>(dlsym(library, kTrainingFactory))());
  }();
  return *training;
}

// As the executor's ranks cut a step.
std::vector<Slice> slices_of(const job::RunSpec& spec, int step) {
  std::vector<Slice> slices;
  for (int rank = 0; rank < spec.parallel.data; ++rank) slices.push_back(job::micro_batches_of(spec, step, rank));
  return slices;
}

// A recorded case as files of a run.
class RecordedRun {
 public:
  explicit RecordedRun(const json& recorded) : recorded_(recorded) {
    spec_ = job::parse_run_spec(recorded.at("spec").get<std::string>(), folder_.path() / "spec.toml");
    job::SafetensorsWriter weights;
    for (const job::Parameter& parameter : job::parameters_of(spec_))
      weights.add<float>(parameter.name, parameter.shape, values(recorded.at("weights").at(parameter.name)));
    weights.write(spec_.weights_file());
    job::SafetensorsWriter batches;
    add(batches, "x", std::holds_alternative<job::Embedding>(spec_.layers.front()));
    add(batches, "y", spec_.loss == job::Loss::cross_entropy);
    batches.write(spec_.batches_file());
  }
  const job::RunSpec& spec() const { return spec_; }
  const json& step(int number) const { return recorded_.at("steps").at(static_cast<std::size_t>(number)); }
  Values before(int step_number) const {
    const json& from = step_number == 0 ? recorded_.at("weights") : step(step_number - 1).at("after");
    Values result;
    for (const auto& [name, list] : from.items()) result[name] = values(list);
    return result;
  }
  std::filesystem::path folder() const { return folder_.path() / "record"; }

  static std::vector<float> values(const json& list) {
    const auto doubles = list.get<std::vector<double>>();
    return {doubles.begin(), doubles.end()};
  }

 private:
  void add(job::SafetensorsWriter& writer, const std::string& name, bool integers) const {
    const auto shape = recorded_.at(name + "_shape").get<job::Shape>();
    if (integers)
      writer.add<std::int64_t>(name, shape, recorded_.at(name).get<std::vector<std::int64_t>>());
    else
      writer.add<float>(name, shape, values(recorded_.at(name)));
  }

  const json& recorded_;
  job::TemporaryFolder folder_;
  job::RunSpec spec_;
};

std::vector<json> recorded_cases() {
  std::ifstream file(PLUMBLINE_TORCH_VECTORS);
  std::vector<json> cases;
  for (std::string line; std::getline(file, line);)
    if (json one = json::parse(line); one.contains("case")) cases.push_back(std::move(one));
  return cases;
}

class TorchNn : public testing::TestWithParam<json> {};

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::fabs(expected[i]))) << what << " element " << i;
}

TEST_P(TorchNn, BaselineHasItsGradientsAndLosses) {
  const RecordedRun run(GetParam());
  for (int step = 0; step < run.spec().run.steps; ++step) {
    const json& expected = run.step(step);
    for (const auto& [arithmetic, tolerance] : {std::pair{Arithmetic::float64, 1e-12}, {Arithmetic::float32, 1e-5}}) {
      const Baseline got =
          module().baseline(run.spec(), slices_of(run.spec(), step), run.before(step), arithmetic, "cpu");
      for (const auto& [name, gradient] : expected.at("grad").items())
        expect_near(got.mean.gradients.at(name), gradient.get<std::vector<double>>(), tolerance, name);
      std::vector<double> losses;
      for (const LossGradient& slice : got.slices) losses.push_back(slice.loss);
      expect_near(losses, expected.at("loss").get<std::vector<double>>(), tolerance, "loss");
    }
  }
}

TEST_P(TorchNn, ARunFollowsItsSteps) {
  const RecordedRun run(GetParam());
  comm::run_ranks(run.spec().parallel.data,
                  [&](comm::Communicator& world) { module().run(run.spec(), world, run.folder(), {}, {}); });
  const job::TrainingRecord record(run.spec(), run.folder());
  ASSERT_TRUE(record.findings().empty()) << record.findings().front().tensor << " " << record.findings().front().what;
  for (int step = 0; step < run.spec().run.steps; ++step)
    for (const job::Parameter& parameter : job::parameters_of(run.spec()))
      for (const job::Copy& copy : record.copies(step, job::Moment::after, parameter))
        expect_near({copy.values.begin(), copy.values.end()},
                    run.step(step).at("after").at(parameter.name).get<std::vector<double>>(), 1e-5,
                    parameter.name + " after step " + std::to_string(step));
}

TEST_P(TorchNn, TheUnionBatchIsTheMeanOfTheSlicesWhereRowsDoNotMix) {
  const RecordedRun run(GetParam());
  const bool mixes = std::ranges::any_of(
      run.spec().layers, [](const job::Layer& layer) { return std::holds_alternative<job::BatchNorm2d>(layer); });
  const LossGradient whole = module().union_batch(run.spec(), 1, run.before(1), Arithmetic::float64, "cpu");
  const Baseline parts =
      module().baseline(run.spec(), slices_of(run.spec(), 1), run.before(1), Arithmetic::float64, "cpu");
  if (mixes) {
    EXPECT_GT(std::fabs(whole.loss - parts.mean.loss), 1e-6);
    return;
  }
  for (const auto& [name, gradient] : whole.gradients)
    expect_near(parts.mean.gradients.at(name), gradient, 1e-12, name);
  EXPECT_NEAR(whole.loss, parts.mean.loss, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Recorded, TorchNn, testing::ValuesIn(recorded_cases()),
                         [](const auto& info) { return "case" + std::to_string(info.index); });

class TrainingTest : public testing::Test {
 protected:
  std::string error_of(const job::RunSpec& spec, int ranks = 1, const RunSettings& settings = {}) {
    try {
      comm::run_ranks(
          ranks, [&](comm::Communicator& world) { module().run(spec, world, folder.path() / "record", {}, settings); });
    } catch (const Error& error) {
      return std::string(error.kind()) + ": " + error.what();
    }
    return "no error";
  }
  job::RunSpec digits_run(const DigitsRun& settings) { return write_digits_run(settings, digits(), folder.path()); }

  job::TemporaryFolder folder;
};

TEST_F(TrainingTest, EveryRankUsesBitwiseTheBaselinesMeanOnABackendThatAddsInRankOrder) {
  const job::RunSpec spec = digits_run({.model = "conv_norm", .data = 3, .steps = 2, .accumulation = 2});
  std::vector<int> told(3);
  comm::run_ranks(3, [&](comm::Communicator& world) {
    const auto listen = [&](const StepProgress& progress) {
      told[static_cast<std::size_t>(world.rank())] += 1 + progress.step;
      EXPECT_EQ(progress.steps, 2);
      EXPECT_NEAR(progress.loss, 2.3, 0.3);
    };
    module().run(spec, world, folder.path() / "record", listen, {});
  });
  EXPECT_THAT(told, testing::Each(3));
  const job::TrainingRecord record(spec, folder.path() / "record");
  Values before;
  for (const job::Parameter& parameter : job::parameters_of(spec))
    before[parameter.name] = record.copies(1, job::Moment::before, parameter)[0].values;
  const Baseline baseline = module().baseline(spec, slices_of(spec, 1), before, Arithmetic::float32, "cpu");
  for (const job::Parameter& parameter : job::parameters_of(spec))
    for (const job::Copy& copy : record.copies(1, job::Moment::grad, parameter)) {
      const std::vector<double> got(copy.values.begin(), copy.values.end());
      EXPECT_EQ(got, baseline.mean.gradients.at(parameter.name)) << parameter.name << " of rank " << copy.rank;
    }
}

// Of a linear layer dL/dW = sum over micro-batches of (dL/dy)^T x, and dL/db that of dL/dy.
TEST_F(TrainingTest, OutputsOfLayersAndTheirGradientsMakeTheGradientsOfParameters) {
  const job::RunSpec spec = digits_run({.model = "pairs", .data = 3, .steps = 1, .accumulation = 2, .rows = "padding"});
  const Values before = given_weights(spec);
  const std::vector<Slice> slices = slices_of(spec, 0);
  const Baseline baseline = module().baseline(spec, slices, before, Arithmetic::float64, "cpu");
  const std::vector<SliceActivations> all =
      module().activations(spec, slices, before, Arithmetic::float64, std::nullopt, "cpu");
  ASSERT_EQ(all.size(), 3u);
  for (std::size_t slice = 0; slice < 3; ++slice) {
    ASSERT_EQ(all[slice].size(), 4u);
    std::vector<double> weight(10 * 25), bias(10);
    for (const std::vector<LayerActivation>& layers : all[slice]) {
      ASSERT_EQ(layers.size(), 3u);
      EXPECT_THAT(layers[2].shape, testing::ElementsAre(16, 10));
      for (std::size_t row = 0; row < 16; ++row)
        for (std::size_t out = 0; out < 10; ++out) {
          const double gradient = layers[2].gradient[row * 10 + out];
          bias[out] += gradient;
          for (std::size_t in = 0; in < 25; ++in) weight[out * 25 + in] += gradient * layers[1].output[row * 25 + in];
        }
    }
    expect_near(weight, baseline.slices[slice].gradients.at("2.weight"), 1e-12, "2.weight");
    expect_near(bias, baseline.slices[slice].gradients.at("2.bias"), 1e-12, "2.bias");
  }
}

// What an all-reduce makes of a rank's numbers is twice each of them, so that one in another place shows.
class DoublesNumbers final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    if (call.operation != comm::Operation::all_reduce || call.in.dtype != comm::DType::f32)
      return CommunicatorDecorator::do_run(call, timeout);
    std::transform(static_cast<const float*>(call.in.data), static_cast<const float*>(call.in.data) + call.in.count,
                   static_cast<float*>(call.out.data), [](float own) { return 2 * own; });
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    for (const comm::Call& call : calls) do_run(call, {});
    return {};
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<DoublesNumbers>(std::move(group));
  }
};

// Also of the second convolution, whose weights lie channels last.
TEST_F(TrainingTest, ReducesAllGradientsAndUsesWhatComesOfIt) {
  const job::RunSpec spec = digits_run({.model = "conv", .data = 2, .steps = 1});
  comm::run_ranks(2, [&](comm::Communicator& world) {
    DoublesNumbers wrong(world.duplicate());
    module().run(spec, wrong, folder.path() / "record", {}, {});
  });
  const job::TrainingRecord record(spec, folder.path() / "record");
  for (const job::Parameter& parameter : job::parameters_of(spec)) {
    const auto values = [&](job::Moment moment) { return record.copies(0, moment, parameter).at(0).values; };
    const std::vector<float> before = values(job::Moment::before), after = values(job::Moment::after);
    const float lr = static_cast<float>(std::get<job::Sgd>(spec.optimizer).lr);
    const std::vector<float> local = values(job::Moment::local_grad), grad = values(job::Moment::grad);
    ASSERT_EQ(grad.size(), local.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      ASSERT_EQ(grad[i], 2 * local[i]) << parameter.name << " " << i;
      ASSERT_NEAR(after[i], before[i] - lr * grad[i], 1e-6) << parameter.name << " " << i;
    }
  }
}

TEST_F(TrainingTest, AccuracyCountsRightRows) {
  job::RunSpec spec;
  spec.layers = {job::Linear{.in = 2, .out = 2, .bias = false}};
  const Values identity{{"0.weight", {1, 0, 0, 1}}};
  LabelledRows rows{.row = {2}, .x = {1, 0, 0, 1, 3, 2, 5, 6}, .labels = {0, 1, 1, 1}};
  EXPECT_EQ(module().accuracy(spec, identity, rows, "cpu"), 0.75);
  rows.labels.pop_back();
  EXPECT_THROW((void)module().accuracy(spec, identity, rows, "cpu"), InvalidArgument);
  EXPECT_THROW((void)module().accuracy(spec, identity, {.row = {3}, .x = {1, 2, 3}, .labels = {0}}, "cpu"),
               InvalidArgument);
  EXPECT_THROW((void)module().accuracy(spec, {}, {.row = {2}, .x = {1, 2}, .labels = {0}}, "cpu"), InvalidArgument);
}

TEST_F(TrainingTest, AccuracyOfTokensTakesWholeRowsAlone) {
  job::RunSpec spec;
  spec.layers = {job::Embedding{.rows = 2, .features = 2}};
  const Values identity{{"0.weight", {1, 0, 0, 1}}};
  const auto accuracy = [&](std::vector<float> x, std::vector<std::int64_t> labels) {
    return module().accuracy(spec, identity, {.row = {4}, .x = std::move(x), .labels = std::move(labels)}, "cpu");
  };
  EXPECT_EQ(accuracy({0, 1, 0, 1, 1, 1, 0, 0}, {0, 1, 0, 1, 0, 0, 0, 0}), 0.75);
  EXPECT_THROW((void)accuracy({0, 1, 0, 1, 1, 1}, {0, 1, 0, 1, 0, 0}), InvalidArgument);  // a row and a half
  EXPECT_THROW((void)accuracy({0, 1}, {0, 1}), InvalidArgument);
}

TEST_F(TrainingTest, SaysInOneLineWhatItDoesNotRun) {
  job::RunSpec spec = digits_run({.data = 1});
  RunSettings settings;
  settings.precision.autocast = true;
  EXPECT_EQ(error_of(spec, 1, settings),
            "invalid_argument: autocast with run.dtype = 'float32'; it must be 'float16' or 'bfloat16'");
  spec.run.dtype = "float16";
  settings.precision = {.clip_norm = -1};
  EXPECT_EQ(error_of(spec, 1, settings), "invalid_argument: clip norm -1; it must be a finite number above 0");
  settings.precision = {.clip_norm = 1, .norm_type = 0};
  EXPECT_EQ(error_of(spec, 1, settings), "invalid_argument: norm type 0; it must be a number above 0, or inf");
  spec = digits_run({.data = 1, .pipeline = 2, .schedule = "zb-h1"});
  spec.run.dtype = "bfloat16";
  settings.precision = {.autocast = true};
  EXPECT_EQ(
      error_of(spec, 2, settings),
      "unsupported: autocast: the reference's executor runs only schedules with whole backward passes, not 'zb-h1'");
  settings = {};
  settings.gradients.static_graph = true;
  const std::string static_graph = "unsupported: a static graph with ";
  for (const auto& [digits, why] : std::vector<std::pair<DigitsRun, std::string>>{
           {{.data = 1, .pipeline = 2}, "parallel.pipeline = 2"},
           {{.model = "pairs", .data = 1, .tensor = 2}, "parallel.tensor = 2"},
           {{.data = 2, .dtype = "bfloat16"}, "run.dtype = 'bfloat16'"}})
    EXPECT_THAT(error_of(digits_run(digits), 2, settings), StartsWith(static_graph + why));
  spec = digits_run({.model = "pairs", .data = 1, .tensor = 2, .scaler = job::Scaler{}});
  spec.injections = {{.rank = 1, .parameter = "0.weight", .index = 12 * 64}};
  EXPECT_EQ(error_of(spec, 2),
            "invalid_argument: an injection at element 768 of '0.weight'; rank 1 has 768 of them, '0.weight@0'");
  spec = digits_run({.data = 1});
  EXPECT_EQ(error_of(spec, 2), "invalid_argument: parallel.data = 1, but 2 ranks were started");
  spec.run.global_batch = 97;
  EXPECT_EQ(error_of(spec),
            "invalid_argument: run.global_batch = 97; it must be a multiple of parallel.data x run.micro_batches = 2");
}

TEST_F(TrainingTest, SaysInOneLineWhichPipelineItDoesNotRun) {
  job::RunSpec spec = digits_run({.data = 1, .pipeline = 2});
  EXPECT_EQ(error_of(spec, 1), "invalid_argument: parallel.pipeline = 2, parallel.data = 1, but 1 ranks were started");
  spec.stages = {0};
  EXPECT_EQ(error_of(spec, 2),
            "invalid_argument: model.stages = [0]; it must be the first layers of parallel.pipeline x run.chunks = 2 "
            "stages");
  EXPECT_THAT(
      error_of(digits_run({.data = 1, .pipeline = 2, .chunks = 2, .schedule = "dualpipev"}), 2),
      HasSubstr("invalid_argument: run.schedule = 'dualpipev' with parallel.pipeline = 2, run.micro_batches = 2: "));
}

// Each stage on its own rank, and two pipelines side by side: the gradient of each pipeline is that of one device.
TEST_F(TrainingTest, APipelineUsesBitwiseTheBaselinesMean) {
  const job::RunSpec spec = digits_run({.model = "conv_norm",
                                        .data = 2,
                                        .steps = 2,
                                        .micro_batches = 4,
                                        .accumulation = 2,
                                        .pipeline = 2,
                                        .chunks = 2,
                                        .schedule = "zbv"});
  std::vector<int> told(4);
  comm::run_ranks(4, [&](comm::Communicator& world) {
    const auto listen = [&](const StepProgress&) { ++told[static_cast<std::size_t>(world.rank())]; };
    module().run(spec, world, folder.path() / "record", listen, {});
  });
  EXPECT_THAT(told, testing::ElementsAre(2, 2, 0, 0)) << "the last stage of a V is on the first pipeline rank";
  const job::TrainingRecord record(spec, folder.path() / "record");
  ASSERT_TRUE(record.findings().empty()) << record.findings().front().tensor << " " << record.findings().front().what;
  Values before;
  for (const job::Parameter& parameter : job::parameters_of(spec))
    before[parameter.name] = record.copies(1, job::Moment::before, parameter)[0].values;
  const Baseline baseline = module().baseline(spec, slices_of(spec, 1), before, Arithmetic::float32, "cpu");
  for (const job::Parameter& parameter : job::parameters_of(spec)) {
    const std::vector<job::Copy> copies = record.copies(1, job::Moment::grad, parameter);
    EXPECT_EQ(copies.size(), 2u) << parameter.name;
    for (const job::Copy& copy : copies) {
      const std::vector<double> got(copy.values.begin(), copy.values.end());
      EXPECT_EQ(got, baseline.mean.gradients.at(parameter.name)) << parameter.name << " of rank " << copy.rank;
    }
  }
}

TEST_F(TrainingTest, ASessionEvaluatesWithTheLossesOfOneDeviceAndGathersNothing) {
  const job::RunSpec spec = digits_run({.model = "tied", .data = 1, .micro_batches = 2, .pipeline = 3});
  comm::run_ranks(3, [&](comm::Communicator& world) {
    const auto session = module().pipeline(spec, world, {});
    const std::vector<job::RowRange> rows{{0, 0, 5}, {0, 5, 2}};
    const PipelineOutcome evaluated = session->evaluate(rows);
    for (const auto& [name, gradient] : session->gradients()) EXPECT_THAT(gradient, testing::Each(0)) << name;
    const PipelineOutcome trained = session->train(rows, 1);
    EXPECT_EQ(evaluated.losses, trained.losses);
    EXPECT_EQ(evaluated.losses.size(), world.rank() == 2 ? 2u : 0u);
    EXPECT_EQ(evaluated.outputs.size(), world.rank() == 2 ? 70u : 0u);
    const LossGradient alone =
        module().baseline(spec, {rows}, given_weights(spec), Arithmetic::float32, "cpu").slices.front();
    if (world.rank() == 2) {
      EXPECT_EQ((evaluated.losses[0] + evaluated.losses[1]) / 2, alone.loss);
    }
    for (const auto& [name, gradient] : session->gradients())
      if (name != "2.weight") {
        EXPECT_EQ(gradient, alone.gradients.at(name)) << name;
      }
  });
}

// Counts the calls on numbers of a model, and messages of a pipeline, in the host's memory and in others.
class CountingMemories final : public comm::CommunicatorDecorator {
 public:
  struct Counts {
    std::atomic<int> on_host{0}, on_device{0};
  };
  CountingMemories(std::unique_ptr<comm::Communicator> inner, Counts& counts)
      : CommunicatorDecorator(std::move(inner)), counts_(counts) {}

 protected:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    count(call);
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    for (const comm::Call& call : calls) count(call);
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<CountingMemories>(std::move(group), counts_);
  }

 private:
  void count(const comm::Call& call) {
    const bool is_message = call.operation == comm::Operation::send && call.dtype() == comm::DType::u8;
    const bool has_numbers = call.operation != comm::Operation::barrier && comm::is_floating(call.dtype()) &&
                             call.dtype() != comm::DType::f64;  // times of buckets
    if (!is_message && !has_numbers) return;
    ++(call.device().kind == comm::Device::Kind::cpu ? counts_.on_host : counts_.on_device);
  }
  Counts& counts_;
};

class OnADevice : public TrainingTest, public testing::WithParamInterface<DigitsRun> {
 protected:
  ~OnADevice() override { module().use_devices(nullptr); }
  void run(const job::RunSpec& spec, const std::shared_ptr<device::Runtime>& devices, const std::string& record) {
    module().use_devices(devices);
    comm::LocalOptions options;
    if (devices != nullptr) options.device_calls = device::make_calls(devices);
    comm::run_ranks(
        spec.parallel.world(),
        [&](comm::Communicator& world) {
          CountingMemories counting(world.duplicate(), counts);
          module().run(spec, counting, folder.path() / record, {}, {});
        },
        options);
  }

  CountingMemories::Counts counts;
};

TEST_P(OnADevice, ARunHasTheBitsOfTheHostAndNothingGoesThroughItsMemory) {
  job::RunSpec spec = digits_run(GetParam());
  run(spec, nullptr, "host");
  EXPECT_EQ(counts.on_device, 0);
  EXPECT_GT(counts.on_host.exchange(0), 0);
  spec.run.device = "emulated";
  run(spec, device::make_emulated({.devices = 2, .longest_delay = std::chrono::microseconds(200)}), "device");
  EXPECT_GT(counts.on_device, 0);
  EXPECT_EQ(counts.on_host, 0);
  const job::TrainingRecord host(spec, folder.path() / "host"), device(spec, folder.path() / "device");
  ASSERT_TRUE(device.findings().empty()) << device.findings().front().what;
  for (int step = 0; step < spec.run.steps; ++step)
    for (const job::Moment moment : {job::Moment::local_grad, job::Moment::grad, job::Moment::after})
      for (const job::Parameter& parameter : job::parameters_of(spec)) {
        const auto expected = host.copies(step, moment, parameter), got = device.copies(step, moment, parameter);
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(got[i].values, expected[i].values)
              << parameter.name << ", step " << step << ", rank " << got[i].rank;
      }
}

INSTANTIATE_TEST_SUITE_P(
    Digits, OnADevice,
    testing::Values(DigitsRun{.model = "conv_norm", .data = 3, .steps = 3, .accumulation = 2, .bucket_bytes = 1024},
                    DigitsRun{.data = 2, .bucket_bytes = 0},
                    DigitsRun{.model = "conv_norm", .data = 2, .pipeline = 2, .chunks = 2, .schedule = "zbv"},
                    DigitsRun{.model = "tied", .data = 2, .pipeline = 3},
                    DigitsRun{.model = "pairs", .data = 1, .pipeline = 2, .tensor = 2}));

TEST_F(TrainingTest, SaysInOneLineWhichDeviceOrFileIsNotThere) {
  job::RunSpec spec = digits_run({.data = 1});
  spec.run.device = "cuda:99";
  EXPECT_THAT(error_of(spec), HasSubstr("unsupported: device 'cuda:99': this "));
  for (const char* name : {"tpu", "cuda:", "cuda:-1", "cuda:1x", "cpu:0", "emulated:"}) {
    spec.run.device = name;
    EXPECT_EQ(error_of(spec),
              "invalid_argument: device '" + std::string(name) + "' is not cpu, cuda, cuda:N, emulated or emulated:N");
  }
  spec.run.device = "emulated";
  EXPECT_EQ(
      error_of(spec),
      "unsupported: device 'emulated': this world of backend local serves memory of cpu alone; it must serve that "
      "of emulated devices");
  spec.run.device = "cpu";
  spec.weights = "none.safetensors";
  EXPECT_THAT(error_of(spec), HasSubstr("not_found: '" + (folder.path() / "none.safetensors").string()));
  EXPECT_THROW((void)module().union_batch(digits_run({}), 4, {}, Arithmetic::float32, "cpu"), OutOfRange);
}

TEST_F(TrainingTest, SaysWhatComputes) {
  const auto environment = module().environment();
  EXPECT_THAT(environment.at("libtorch"), testing::MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+"));
  EXPECT_FALSE(environment.at("cpu_capability").empty());
}

}  // namespace
}  // namespace plumbline::training
