// A run that is continued from a checkpoint against one that never stopped.
#include "reference/training/detail/checkpoint_tensors.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/trainer/batch_tensors.hpp"
#include "harness/trainer/data/batches.hpp"
#include "harness/trainer/models/resnet.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::training {
namespace {

// A small residual network on augmented digits, one rank.
class SmallRun {
 public:
  explicit SmallRun(const job::Optimizer& rule, std::uint64_t seed = 1)
      : store_(seed),
        stage_(make_stage(blocks(), {0, 6}, store_)),
        optimizer_(rule, stage_->parameters().size()),
        images_(data::cifar10_of_digits(digits(), 24).training) {}

  void train(std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step < to; ++step) {
      const auto epoch = static_cast<int>(step / 3);
      const auto rows = data::batches_of_epoch({.rows = images_.size(), .batch = 8, .seed = 4}, epoch);
      optimizer_.set_learning_rate(0.01 / (1 + epoch));
      train(data::training_batch(images_, rows[static_cast<std::size_t>(step % 3)], 4, epoch));
    }
  }
  void save(const std::filesystem::path& folder, std::int64_t step) const {
    Checkpoint checkpoint{.configuration = {{"model", "small"}}, .at = {.step = step}, .seed = 4};
    add_training(checkpoint, stage_->parameters(), stage_->buffers(), optimizer_);
    (void)write_checkpoint(checkpoint, folder);
  }
  void restore(const std::filesystem::path& folder, std::int64_t step) {
    restore_training(read_checkpoint(checkpoint_file(folder, step, 0), {{"model", "small"}}, 0, 1),
                     stage_->parameters(), stage_->buffers(), optimizer_);
  }
  std::vector<NamedTensor> everything() const {
    std::vector<NamedTensor> all = stage_->parameters();
    for (const NamedTensor& buffer : stage_->buffers()) all.push_back(buffer);
    for (const auto& [first, second] : optimizer_.moments()) {
      if (first.defined()) all.push_back({"first", first});
      if (second.defined()) all.push_back({"second", second});
    }
    return all;
  }

 private:
  static Blocks blocks() {
    return resnet({.block = ResidualBlock::basic, .layers = {1, 1, 1, 1}, .classes = 10, .planes = 4});
  }
  void train(const data::ImageBatch& batch) {
    const auto [x, y] = tensors_of(batch);
    at::cross_entropy_loss(stage_->forward({x}, {}).at(0), y).backward();
    std::vector<at::Tensor> values, gradients;
    for (const NamedTensor& parameter : stage_->parameters()) {
      values.push_back(parameter.tensor.detach());
      gradients.push_back(parameter.tensor.grad().clone());
      parameter.tensor.mutable_grad().reset();
    }
    optimizer_.step(values, gradients);
  }

  TensorStore store_;
  std::unique_ptr<Stage> stage_;
  OptimizerState optimizer_;
  data::LabelledImages images_;
};

void expect_same_bits(const std::vector<NamedTensor>& got, const std::vector<NamedTensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i].tensor, expected[i].tensor)) << got[i].name;
}

class Continued : public testing::TestWithParam<job::Optimizer> {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  job::TemporaryFolder folder;
};

TEST_P(Continued, HasTheBitsOfARunThatNeverStopped) {
  SmallRun whole(GetParam()), first(GetParam()), second(GetParam(), 2);
  whole.train(0, 6);
  first.train(0, 4);
  first.save(folder.path(), 4);
  second.train(0, 1);  // has values and moments of its own, which must not stay
  second.restore(folder.path(), 4);
  expect_same_bits(second.everything(), first.everything());
  second.train(4, 6);
  expect_same_bits(second.everything(), whole.everything());
}

TEST_P(Continued, FromBeforeTheFirstStepHasNoMoments) {
  SmallRun first(GetParam()), second(GetParam(), 2);
  first.save(folder.path(), 0);
  second.train(0, 1);
  second.restore(folder.path(), 0);
  expect_same_bits(second.everything(), first.everything());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Continued,
                         testing::Values(job::Optimizer(job::Adam{.lr = 0.01}),
                                         job::Optimizer(job::Sgd{.lr = 0.01, .momentum = 0.9}),
                                         job::Optimizer(job::Sgd{.lr = 0.01})));

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error.kind()) + ": " + error.what();
  }
  return "no error";
}

TEST(CheckpointTensors, KeepLayoutAndType) {
  Checkpoint checkpoint;
  const at::Tensor last = at::full({2, 3, 4, 5}, 1.5, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
  last.select(1, 2).fill_(-2);
  add_tensors(checkpoint, "parameter", {{"w", last}, {"half", at::full({3}, 0.1, at::kBFloat16)}});
  const at::Tensor w = at::zeros({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor half = at::zeros({3}, at::kBFloat16);
  restore_tensors(checkpoint, "parameter", {{"w", w}, {"half", half}});
  EXPECT_TRUE(at::equal(w, last));
  EXPECT_TRUE(w.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(half, at::full({3}, 0.1, at::kBFloat16)));
}

TEST(CheckpointTensors, SayWhatDoesNotFitAndChangeNothing) {
  Checkpoint checkpoint;
  add_tensors(checkpoint, "parameter", {{"a", at::full({2}, 1.0f)}, {"b", at::full({3}, 2.0f)}});
  const NamedTensor a{"a", at::zeros({2})};
  const auto restoring = [&](std::vector<NamedTensor> tensors) {
    return error_of([&] { restore_tensors(checkpoint, "parameter", tensors); });
  };
  EXPECT_EQ(restoring({a, {"c", at::zeros({3})}}), "invalid_argument: the checkpoint has no 'parameter/c'");
  EXPECT_EQ(restoring({a, {"b", at::zeros({4})}}),
            "invalid_argument: 'parameter/b' is f32 [3] in the checkpoint and f32 [4] in the model");
  EXPECT_EQ(restoring({a, {"b", at::zeros({3}, at::kDouble)}}),
            "invalid_argument: 'parameter/b' is f32 [3] in the checkpoint and f64 [3] in the model");
  EXPECT_EQ(restoring({a}), "invalid_argument: the checkpoint has 'parameter/b', which the model has not");
  EXPECT_TRUE(at::equal(a.tensor, at::zeros({2})));
  EXPECT_EQ(error_of([&] { add_tensors(checkpoint, "parameter", {a}); }),
            "invalid_argument: two tensors 'parameter/a'");
  EXPECT_EQ(error_of([&] { add_tensors(checkpoint, "x", {{"z", at::zeros({1}, at::kBool)}}); }),
            "unsupported: tensor 'z' has elements of type Bool");
}

TEST(CheckpointTensors, NeedTheOptimizerOfTheParameters) {
  Checkpoint checkpoint;
  OptimizerState two(job::Adam{.lr = 1}, 2);
  const std::vector<NamedTensor> one{{"a", at::zeros({2})}};
  EXPECT_EQ(error_of([&] { add_training(checkpoint, one, {}, two); }),
            "invalid_argument: 1 parameters, and an optimizer of 2");
  OptimizerState right(job::Adam{.lr = 1}, 1);
  EXPECT_EQ(error_of([&] { restore_training(checkpoint, one, {}, right); }),
            "invalid_argument: the checkpoint has no optimizer's steps");
  checkpoint.states["optimizer.steps"] = "-1";
  EXPECT_EQ(error_of([&] { restore_training(checkpoint, one, {}, right); }),
            "invalid_argument: the checkpoint's optimizer made '-1' steps; it must be a whole number");
  EXPECT_THROW(right.restore(1, {}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::training
