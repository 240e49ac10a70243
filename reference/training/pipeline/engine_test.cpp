// The engine against the same layers on one device: every schedule, any tensors between stages, shapes that change.
#include "reference/training/pipeline/engine.hpp"

#include <map>
#include <mutex>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/tanh.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/training/pipeline/deferred.hpp"
#include "reference/training/pipeline/toy_stage_test.hpp"

namespace plumbline::training {
namespace {

using schedules::ScheduleKind;
using testing::HasSubstr;

constexpr std::int64_t kWidth = 6;

// A model of `count` stages, each x -> tanh(linear(x)), with what else `between` hands on.
using Maker = std::function<std::unique_ptr<Stage>(int stage, int stages)>;

std::unique_ptr<Stage> perceptron(int stage, int) {
  RandomTensors random(100 + static_cast<std::uint64_t>(stage));
  return std::make_unique<ToyStage>(stage, Tensors{random.normal({kWidth, kWidth}), random.normal({kWidth})},
                                    [](const Tensors& in, const Tensors& own, const Pass& pass) -> Tensors {
                                      return {at::tanh(linear(in.at(0), own[0], own[1], pass))};
                                    });
}

// Between stages: two activations of one shape, row numbers, nothing at all, and a number that no gradient reaches.
std::unique_ptr<Stage> several_tensors(int stage, int stages) {
  RandomTensors random(200 + static_cast<std::uint64_t>(stage));
  return std::make_unique<ToyStage>(
      stage, Tensors{random.normal({2 * kWidth, kWidth}), random.normal({kWidth, kWidth})},
      [stage, stages](const Tensors& in, const Tensors& own, const Pass& pass) -> Tensors {
        const at::Tensor x = stage == 0 ? in.at(0) : in.at(0) + in.at(1).mul(in.at(2).unsqueeze(1));
        const Tensors halves = at::tanh(linear(x, own[0], {}, pass)).split(kWidth, 1);
        const at::Tensor second = linear(halves[1], own[1], {}, pass);
        if (stage + 1 == stages) return {halves[0] + second};
        const at::Tensor numbers = stage == 0 ? in.at(1) : in.at(2);
        return {halves[0], second, numbers, at::empty({0, 3}), numbers.to(at::kFloat)};
      });
}

at::Tensor criterion(const Tensors& outputs, const Tensors& labels) {
  return at::mse_loss(outputs.at(0), labels.at(0));
}

struct Data {
  std::vector<Tensors> inputs, labels;
};
// Micro-batches of these numbers of rows.
Data data_of(const std::vector<std::int64_t>& rows, std::uint64_t seed = 7) {
  RandomTensors random(seed);
  Data data;
  for (const std::int64_t count : rows) {
    data.inputs.push_back({random.normal({count, kWidth}), random.below(3, {count})});
    data.labels.push_back({random.normal({count, kWidth})});
  }
  return data;
}

using Gradients = std::map<std::string, at::Tensor>;

Gradients gradients_of(const std::vector<NamedTensor>& parameters) {
  Gradients gradients;
  for (const auto& [name, tensor] : parameters) gradients[name] = tensor.grad();
  return gradients;
}

// Micro-batch after micro-batch through all stages.
struct Alone {
  Gradients gradients;
  std::vector<double> losses;
};
Alone alone(const Maker& make, int stages, const std::vector<Data>& calls) {
  std::vector<std::unique_ptr<Stage>> model;
  for (int stage = 0; stage < stages; ++stage) model.push_back(make(stage, stages));
  Alone result;
  for (const Data& data : calls)
    for (std::size_t i = 0; i < data.inputs.size(); ++i) {
      Tensors values = data.inputs[i];
      for (const auto& stage : model) values = stage->forward(values, {});
      const at::Tensor loss = criterion(values, data.labels[i]);
      torch::autograd::backward({loss.div(static_cast<double>(data.inputs.size() * calls.size()))}, {});
      result.losses.push_back(loss.item<double>());
    }
  for (const auto& stage : model) result.gradients.merge(gradients_of(stage->parameters()));
  return result;
}

// What a pipeline shall be, and what its ranks found.
struct Setting {
  ScheduleKind schedule_kind = ScheduleKind::one_f_one_b;
  int ranks = 2;
  int chunks = 1;
  Maker make = perceptron;
  std::function<void(EngineOptions&)> options = {};
};
struct Rank {
  PipelineEngine& engine;
  comm::Communicator& group;
  bool first, last;

  EngineCall call(const Data& data) const {
    EngineCall call{.micro_batches = static_cast<int>(data.inputs.size())};
    if (first) call.inputs = data.inputs;
    if (last) call.labels = data.labels;
    return call;
  }
};

void on_ranks(const Setting& setting, const std::function<void(Rank&)>& body) {
  comm::run_ranks(setting.ranks, [&](comm::Communicator& group) {
    at::set_num_threads(1);
    const auto schedule_for = [&](int micro_batches) {
      return schedules::generate(setting.schedule_kind, {setting.ranks, micro_batches, setting.chunks});
    };
    // Of any number of micro-batches that the schedule has.
    const schedules::Schedule shape = schedule_for(2 * setting.ranks);
    std::map<int, std::unique_ptr<Stage>> owned;
    std::map<int, Stage*> stages;
    for (int stage = 0; stage < shape.stages; ++stage)
      if (shape.stage_to_rank[static_cast<std::size_t>(stage)] == group.rank())
        stages[stage] = (owned[stage] = setting.make(stage, shape.stages)).get();
    EngineOptions options{.criterion = criterion};
    if (setting.options) setting.options(options);
    PipelineEngine engine(group, schedule_for, stages, options);
    Rank rank{engine, group, stages.contains(0), stages.contains(shape.stages - 1)};
    body(rank);
  });
}

// All ranks' gradients together.
class Gathered {
 public:
  void add(const PipelineEngine& engine) {
    const std::lock_guard lock(mutex_);
    gradients_.merge(gradients_of(engine.parameters()));
  }
  void expect_equal(const Gradients& expected) const {
    ASSERT_EQ(gradients_.size(), expected.size());
    for (const auto& [name, gradient] : expected)
      EXPECT_TRUE(gradients_.at(name).defined() && at::equal(gradients_.at(name), gradient)) << name;
  }

 private:
  std::mutex mutex_;
  Gradients gradients_;
};

class EverySchedule : public testing::TestWithParam<std::tuple<ScheduleKind, int, int>> {
 protected:
  Setting setting() const {
    const auto [schedule_kind, ranks, chunks] = GetParam();
    return {.schedule_kind = schedule_kind, .ranks = ranks, .chunks = chunks};
  }
};

TEST_P(EverySchedule, HasTheBitsOfOneDeviceAndKeepsWhatTheScheduleSays) {
  for (const Maker& make : {Maker(perceptron), Maker(several_tensors)}) {
    Setting setting = this->setting();
    setting.make = make;
    const int count = 2 * setting.ranks;
    const std::vector<Data> calls{data_of(std::vector<std::int64_t>(static_cast<std::size_t>(count), 3), 1),
                                  data_of(std::vector<std::int64_t>(static_cast<std::size_t>(count), 3), 2)};
    const Alone expected = alone(make, setting.ranks * setting.chunks, calls);
    const schedules::Schedule schedule =
        schedules::generate(setting.schedule_kind, {setting.ranks, count, setting.chunks});
    Gathered gathered;
    on_ranks(setting, [&](Rank& rank) {
      std::vector<double> losses;
      for (const Data& data : calls) {
        EngineCall call = rank.call(data);
        call.calls = static_cast<int>(calls.size());
        const EngineResult result = rank.engine.run(call);
        losses.insert(losses.end(), result.losses.begin(), result.losses.end());
        EXPECT_EQ(result.peak_activations,
                  check(schedule).peak_activations[static_cast<std::size_t>(rank.group.rank())]);
      }
      EXPECT_EQ(losses, rank.last ? expected.losses : std::vector<double>());
      gathered.add(rank.engine);
    });
    gathered.expect_equal(expected.gradients);
  }
}

// Backwards in reverse order are left out: their sums round otherwise.
INSTANTIATE_TEST_SUITE_P(
    Families, EverySchedule,
    testing::Values(std::tuple(ScheduleKind::gpipe, 2, 1), std::tuple(ScheduleKind::gpipe, 3, 1),
                    std::tuple(ScheduleKind::one_f_one_b, 1, 1), std::tuple(ScheduleKind::one_f_one_b, 3, 1),
                    std::tuple(ScheduleKind::interleaved, 2, 2), std::tuple(ScheduleKind::interleaved, 3, 2),
                    std::tuple(ScheduleKind::zb_h1, 3, 1), std::tuple(ScheduleKind::zb_h2, 3, 1),
                    std::tuple(ScheduleKind::interleaved_zero_bubble, 2, 2), std::tuple(ScheduleKind::zbv, 1, 2),
                    std::tuple(ScheduleKind::zbv, 2, 2), std::tuple(ScheduleKind::dualpipev, 2, 2)));

TEST(PipelineEngine, ShapesMayChangeFromCallToCallAndFromMicroBatchToMicroBatch) {
  const std::vector<std::vector<std::int64_t>> rows{{2, 2, 2}, {5, 5, 5}, {1, 4, 2}, {2, 2, 2}, {2, 2, 2}, {0, 3, 7}};
  for (const Maker& make : {Maker(perceptron), Maker(several_tensors)}) {
    std::vector<Data> calls;
    for (const auto& one : rows) calls.push_back(data_of(one, 10 + calls.size()));
    const Alone expected = alone(make, 3, calls);
    Gathered gathered;
    on_ranks({.schedule_kind = ScheduleKind::zb_h1, .ranks = 3, .make = make}, [&](Rank& rank) {
      std::vector<std::size_t> descriptions;
      for (const Data& data : calls) {
        EngineCall call = rank.call(data);
        call.calls = static_cast<int>(calls.size());
        const EngineResult result = rank.engine.run(call);
        descriptions.push_back(static_cast<std::size_t>(
            std::ranges::count(result.actions, schedules::ActionKind::recv_metadata, &schedules::Action::kind)));
      }
      if (!rank.first) {
        EXPECT_THAT(descriptions, testing::ElementsAre(1, 1, 3, 1, 0, 3)) << "descriptions received";
      }
      gathered.add(rank.engine);
    });
    gathered.expect_equal(expected.gradients);
  }
}

TEST(PipelineEngine, EvaluationChangesNothingAndMayReturnOutputsLabelsAndLosses) {
  const Data data = data_of({3, 3});
  for (const auto& [schedule_kind, chunks] : {std::pair{ScheduleKind::one_f_one_b, 1}, {ScheduleKind::zbv, 2}}) {
    std::vector<std::unique_ptr<Stage>> model;
    const int stages = 2 * chunks;
    Tensors values = data.inputs[1];
    for (int stage = 0; stage < stages; ++stage) values = perceptron(stage, stages)->forward(values, {});
    on_ranks({.schedule_kind = schedule_kind, .chunks = chunks}, [&](Rank& rank) {
      (void)rank.engine.run(rank.call(data));
      const Gradients before = gradients_of(rank.engine.parameters());
      EngineCall call = rank.call(data);
      call.forward_only = true;
      call.return_outputs = true;
      const EngineResult full = rank.engine.run(call);
      call.return_loss = false;
      call.labels.clear();
      const EngineResult alone = rank.engine.run(call);
      for (const auto& [name, gradient] : gradients_of(rank.engine.parameters())) {
        EXPECT_EQ(gradient.data_ptr(), before.at(name).data_ptr()) << name;
      }
      EXPECT_TRUE(alone.losses.empty() && alone.labels.empty());
      if (!rank.last) {
        EXPECT_TRUE(full.outputs.empty() && full.losses.empty());
        return;
      }
      EXPECT_TRUE(at::equal(full.outputs.at(1).at(0), values.at(0)));
      EXPECT_TRUE(at::equal(alone.outputs.at(1).at(0), values.at(0)));
      EXPECT_FALSE(full.outputs.at(1).at(0).requires_grad());
      EXPECT_TRUE(at::equal(full.labels.at(1).at(0), data.labels[1][0]));
      EXPECT_EQ(full.losses.at(1), criterion(values, data.labels[1]).item<double>());
      EXPECT_EQ(joined(full.outputs).at(0).sizes(), (std::vector<std::int64_t>{6, kWidth}));
    });
  }
}

// Counts the tensors of its results that still are somewhere.
TEST(PipelineEngine, ActivationsAreGivenUpWhenTheScheduleSaysSo) {
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> seen;
  const auto watched = [&](int stage, int stages) -> std::unique_ptr<Stage> {
    if (stage > 0) return perceptron(stage, stages);
    RandomTensors random(1);
    return std::make_unique<ToyStage>(
        stage, Tensors{random.normal({kWidth, kWidth})}, [&](const Tensors& in, const Tensors& own, const Pass& pass) {
          const at::Tensor hidden = at::tanh(linear(in.at(0), own[0], {}, pass));
          const auto alive = std::ranges::count_if(seen, [](const auto& one) { return one.use_count() > 0; });
          EXPECT_LE(alive, 2) << "1F1B keeps two on the first of two ranks";
          seen.emplace_back(hidden.getIntrusivePtr());
          return Tensors{at::tanh(linear(hidden, own[0], {}, pass))};
        });
  };
  on_ranks({.make = watched}, [&](Rank& rank) {
    (void)rank.engine.run(rank.call(data_of({2, 2, 2, 2, 2, 2})));
    if (!rank.first) return;
    EXPECT_EQ(seen.size(), 6u);
    for (const auto& one : seen) EXPECT_EQ(one.use_count(), 0u) << "after the call";
  });
}

TEST(PipelineEngine, HalfPrecisionTravelsAndIsWidened) {
  const Data data = data_of({3, 3});
  Tensors hidden = perceptron(0, 2)->forward(data.inputs[0], {});
  hidden[0] = hidden[0].to(at::kHalf).to(at::kFloat);
  const double expected = criterion(perceptron(1, 2)->forward(hidden, {}), data.labels[0]).item<double>();
  const double unrounded = alone(perceptron, 2, {data}).losses[0];
  EXPECT_NE(expected, unrounded);
  on_ranks({.options = [](EngineOptions& options) { options.wire = at::kHalf; }}, [&](Rank& rank) {
    const EngineResult result = rank.engine.run(rank.call(data));
    if (rank.last) {
      EXPECT_EQ(result.losses[0], expected);
    }
  });
}

std::string error_of(const Setting& setting, const std::function<void(Rank&)>& body) {
  try {
    on_ranks(setting, body);
  } catch (const Error& error) {
    return std::string(error.kind()) + ": " + error.what();
  }
  return "no error";
}

TEST(PipelineEngine, APromiseSparesDescriptionsAndIsKept) {
  const Setting setting{.options = [](EngineOptions& options) {
    options.promised = describe({at::empty({3, kWidth}).requires_grad_()});
  }};
  EXPECT_EQ(error_of(setting,
                     [](Rank& rank) {
                       const EngineResult result = rank.engine.run(rank.call(data_of({3, 3})));
                       for (const schedules::Action& action : result.actions)
                         EXPECT_NE(action.kind, schedules::ActionKind::recv_metadata);
                       EngineCall evaluation = rank.call(data_of({3, 3}));
                       evaluation.forward_only = true;
                       (void)rank.engine.run(evaluation);
                     }),
            "no error");
  EXPECT_EQ(error_of(setting, [](Rank& rank) { (void)rank.engine.run(rank.call(data_of({3, 4}))); }),
            "invalid_argument: stage 0, micro-batch 1: the output is f32[4,6], and f32[3,6] was promised; "
            "promise nothing where shapes change");
}

TEST(PipelineEngine, SaysInOneLineWhatACallLacks) {
  const Data data = data_of({2, 2});
  EXPECT_EQ(error_of({},
                     [&](Rank& rank) {
                       EngineCall call = rank.call(data);
                       call.return_loss = false;
                       (void)rank.engine.run(call);
                     }),
            "invalid_argument: a call that trains returns its loss: return_loss = false needs forward_only = true");
  for (const bool of_inputs : {true, false})
    EXPECT_EQ(
        error_of({},
                 [&](Rank& rank) {
                   EngineCall call = rank.call(data);
                   call.micro_batches = 3;
                   (of_inputs ? call.labels : call.inputs).resize(3);
                   (void)rank.engine.run(call);
                 }),
        std::string("invalid_argument: ") + (of_inputs ? "inputs" : "labels") + ": 2 micro-batches given, 3 announced");
  EXPECT_EQ(error_of({},
                     [&](Rank& rank) {
                       EngineCall call = rank.call(data_of(std::vector<std::int64_t>(rank.first ? 2 : 4, 1)));
                       (void)rank.engine.run(call);
                     }),
            "invalid_argument: rank 1 runs 4 micro-batches of training, the rank of the first stage 2 of training");
  comm::run_ranks(1, [&](comm::Communicator& group) {
    const auto stage = perceptron(0, 2);
    PipelineEngine engine(
        group, [](int micro_batches) { return schedules::generate(ScheduleKind::gpipe, {1, micro_batches, 1}); },
        {{1, stage.get()}}, {.criterion = criterion});
    try {
      (void)engine.run({.micro_batches = 1});
      ADD_FAILURE() << "no error";
    } catch (const InvalidArgument& error) {
      EXPECT_STREQ(error.what(), "rank 0 was given the stages [1]; the schedule puts [0] on it");
    }
  });
}

TEST(Batch, TensorsListsAndDictionariesAreCutAlike) {
  RandomTensors random(1);
  const at::Tensor x = random.normal({6, 2}), y = random.normal({6, 3});
  EXPECT_EQ(tensors_of(x).size(), 1u);
  EXPECT_EQ(tensors_of(Tensors{x, y}).size(), 2u);
  const Batch named = NamedTensors{{"unused", y}, {"x", x}, {"y", y}};
  EXPECT_THROW((void)tensors_of(named), InvalidArgument) << "what a stage takes is said";
  const Tensors list = tensors_of(named, {"y", "x"});
  const std::vector<Tensors> parts = micro_batches_of(list, 3, "inputs");
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_TRUE(at::equal(parts[2][1], x.narrow(0, 4, 2)));
  EXPECT_EQ(parts[1][0].data_ptr(), y.narrow(0, 2, 2).data_ptr()) << "a view";
  const Tensors placed = placed_on(c10::DeviceType::CPU, parts[1]);
  EXPECT_NE(placed[0].data_ptr(), parts[1][0].data_ptr()) << "memory of its own";
  EXPECT_TRUE(at::equal(joined(parts)[0], y));
}

TEST(Batch, SaysInOneLineWhatCannotBeCut) {
  RandomTensors random(1);
  const auto error_of_cut = [](const Tensors& batch, int micro_batches) -> std::string {
    try {
      (void)micro_batches_of(batch, micro_batches, "labels");
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of_cut({random.normal({8, 2})}, 3), "labels: 8 rows cannot be cut into 3 equal micro-batches");
  EXPECT_EQ(error_of_cut({random.normal({8, 2})}, 0), "labels: 8 rows cannot be cut into 0 equal micro-batches");
  EXPECT_EQ(error_of_cut({random.normal({8, 2}), random.normal({6})}, 2),
            "labels: tensor 1 has 6 rows, tensor 0 has 8; all must have the same number");
  EXPECT_EQ(error_of_cut({random.normal({})}, 2), "labels: tensor 0 has no dimension of rows");
  EXPECT_EQ(error_of_cut({}, 2), "labels: the batch has no tensor");
  try {
    (void)tensors_of(NamedTensors{{"a", random.normal({2})}, {"b", random.normal({2})}}, {"c"});
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "the batch has no entry 'c'; it has a, b");
  }
}

}  // namespace
}  // namespace plumbline::training
