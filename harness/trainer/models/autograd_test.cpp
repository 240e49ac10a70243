// Models whose gradients a reducer adds while LibTorch back-propagates: each rank's are those of one device.
#include "reference/training/bucketing/autograd.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/trainer/models/resnet.hpp"
#include "harness/trainer/models/transformer.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/training/bucketing/flat_tensors.hpp"

namespace plumbline::training {
namespace {

using bucketing::GradientMemory;
using comm::Communicator;
using comm::run_ranks;
using testing::HasSubstr;

// A model of one stage, with a rank's batches of its own.
class Replica {
 public:
  explicit Replica(const Blocks& blocks)
      : store_(7, c10::Device(c10::kCPU)), stage_(make_stage(blocks, {0, static_cast<int>(blocks.size())}, store_)) {}
  [[nodiscard]] std::vector<NamedTensor> leaves() const { return stage_->parameters(); }
  [[nodiscard]] at::Tensor loss(const at::Tensor& x, const at::Tensor& y) {
    return at::cross_entropy_loss(stage_->forward({x}, {}).at(0), y);
  }

 private:
  TensorStore store_;
  std::unique_ptr<Stage> stage_;
};

struct Batch {
  at::Tensor x, y;
};
using MakeBatch = std::function<Batch(int rank, int pass)>;

// The means that one device computes: of each rank the sum of its passes, in order; then over the ranks, in order.
std::vector<at::Tensor> on_one_device(const Blocks& blocks, const MakeBatch& batch, int ranks, int passes) {
  std::vector<at::Tensor> sums;
  Replica replica(blocks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (NamedTensor& leaf : replica.leaves()) leaf.tensor.mutable_grad().reset();
    for (int pass = 0; pass < passes; ++pass) {
      const Batch rows = batch(rank, pass);
      replica.loss(rows.x, rows.y).div(passes).backward();
    }
    const std::vector<NamedTensor> leaves = replica.leaves();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const at::Tensor& gradient = leaves[i].tensor.grad();
      if (rank == 0)
        sums.push_back(gradient.clone());
      else
        sums[i].add_(gradient);
    }
  }
  for (at::Tensor& sum : sums) sum.div_(ranks);
  return sums;
}

void expect_one_device(const Blocks& blocks, const MakeBatch& batch, int ranks, int passes, AutogradOptions options,
                       const std::shared_ptr<device::Runtime>& devices = nullptr) {
  at::set_num_threads(1);
  const std::vector<at::Tensor> expected = on_one_device(blocks, batch, ranks, passes);
  comm::LocalOptions local;
  if (devices) local.device_calls = device::make_calls(devices);
  const auto train = [&](Communicator& world) {
    at::set_num_threads(1);
    Replica replica(blocks);
    const std::vector<NamedTensor> leaves = replica.leaves();
    AutogradOptions own = options;
    if (devices) own.where = RankDevice("emulated", world, devices);
    AutogradReducer reducer(world, leaves, own);
    for (int pass = 0; pass < passes; ++pass) {
      const Batch rows = batch(world.rank(), pass);
      const at::Tensor loss = replica.loss(rows.x, rows.y).div(passes);
      reducer.begin(pass + 1 == passes, {loss});
      loss.backward();
      (void)reducer.finish();
    }
    ASSERT_EQ(leaves.size(), expected.size());
    for (std::size_t i = 0; i < leaves.size(); ++i)
      EXPECT_TRUE(leaves[i].tensor.grad().equal(expected[i])) << leaves[i].name << " of rank " << world.rank();
  };
  comm::run_ranks(ranks, train, local);
}

Batch images(int rank, int pass, std::int64_t size) {
  at::Tensor x = at::full({2, 3, size, size}, 0.0);
  float* value = x.data_ptr<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i)
    value[i] = static_cast<float>((i * 37 + rank * 101 + pass * 53) % 211) / 105.0F - 1.0F;
  at::Tensor y = at::full({2}, rank + pass, at::kLong);
  return {x, y};
}
Batch tokens(int rank, int pass) {
  at::Tensor x = at::full({2, 16}, 0, at::kLong), y = at::full({2, 16}, 0, at::kLong);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    x.data_ptr<std::int64_t>()[i] = (i * 7 + rank * 3 + pass) % 64;
    y.data_ptr<std::int64_t>()[i] = (i * 5 + rank + 1) % 64;
  }
  return {x, y};
}

TEST(AutogradReducer, ResNet50sGradientsAreThoseOfOneDevice) {
  const auto batch = [](int rank, int pass) { return images(rank, pass, 32); };
  expect_one_device(resnet50(), batch, 2, 1, {});
}

TEST(AutogradReducer, ConvolutionsLieChannelsLastInTheirBuckets) {
  const Blocks blocks = resnet({.block = ResidualBlock::basic, .layers = {1, 1, 1, 1}, .classes = 10, .planes = 8});
  const auto batch = [](int rank, int pass) { return images(rank, pass, 16); };
  for (const GradientMemory memory : {GradientMemory::views, GradientMemory::copies})
    for (const int passes : {1, 2})
      expect_one_device(blocks, batch, 3, passes, {.reducer = {.memory = memory}, .bucket_bytes = 4096});
}

TEST(AutogradReducer, BucketsOnADeviceAreWaitedForAndMovedToANewPlan) {
  const Blocks blocks = resnet({.block = ResidualBlock::basic, .layers = {1, 1, 1, 1}, .classes = 10, .planes = 8});
  const auto batch = [](int rank, int pass) { return images(rank, pass, 16); };
  for (const bool rebuild : {false, true}) {
    const auto devices = device::make_emulated({.devices = 2, .longest_delay = std::chrono::microseconds(300)});
    expect_one_device(blocks, batch, 3, 2, {.bucket_bytes = 4096, .rebuild = rebuild}, devices);
  }
}

TEST(AutogradReducer, WhoIsToldOfABucketFindsWhatASlowDeviceMadeOfIt) {
  const auto devices = device::make_emulated({.devices = 2});
  const auto train = [&](Communicator& world) {
    const RankDevice where("emulated", world, devices);
    const NamedTensor leaf{"leaf", where.empty({64}, at::kFloat).fill_(1).requires_grad_()};
    int told = 0;
    AutogradOptions options{.where = where};
    options.reducer.reduced = [&](int) {
      ++told;
      EXPECT_TRUE(leaf.tensor.grad().equal(at::full({64}, 1.5))) << "rank " << world.rank();
    };
    AutogradReducer reducer(world, {leaf}, options);
    const at::Tensor loss = leaf.tensor.mul(world.rank() + 1.0).sum();
    reducer.begin();
    devices->pause(where.device().index, std::chrono::milliseconds(20), nullptr);
    loss.backward();
    (void)reducer.finish();
    EXPECT_EQ(told, 1);
  };
  comm::run_ranks(2, train, {.device_calls = device::make_calls(devices)});
}

TEST(AutogradReducer, LeavesAndGradientsMustLieWhereCallsAreMade) {
  const auto devices = device::make_emulated({.devices = 1});
  comm::run_ranks(
      1,
      [&](Communicator& world) {
        const RankDevice where("emulated", world, devices);
        const NamedTensor here{"here", at::zeros({2}).requires_grad_()};
        const NamedTensor there{"there", at::zeros({2}, at::kMeta).requires_grad_()};
        EXPECT_THAT([&] { (void)AutogradReducer(world, {there}, {.where = where}); },
                    testing::ThrowsMessage<Unsupported>(
                        "leaf 'there' lies on meta; gradients in memory of emulated:0 are reduced"));
        EXPECT_THAT(
            [&] {
              (void)AutogradReducer(world, {here}, {.where = where, .reducer = {.memory = GradientMemory::copies}});
            },
            testing::ThrowsMessage<Unsupported>(
                testing::StartsWith("gradients that stay where LibTorch has made them")));
        EXPECT_THAT([&] { (void)AutogradReducer(world, {here}, {.where = where, .sparse = {"here"}}); },
                    testing::ThrowsMessage<Unsupported>(testing::HasSubstr("is sparse and lies on emulated:0")));
      },
      {.device_calls = device::make_calls(devices)});
}

TEST(AutogradReducer, ATransformersTiedWeightIsOneGradient) {
  const Blocks blocks = transformer({.tokens = 64, .length = 16, .width = 16, .heads = 2, .layers = 2});
  for (const GradientMemory memory : {GradientMemory::views, GradientMemory::copies})
    for (const bool rebuild : {false, true})
      expect_one_device(blocks, tokens, 2, 3,
                        {.reducer = {.memory = memory}, .bucket_bytes = 2048, .rebuild = rebuild});
}

TEST(AutogradReducer, SearchesTheGraphForWhatIsNotUsed) {
  run_ranks(2, [](Communicator& world) {
    at::set_num_threads(1);
    std::vector<NamedTensor> leaves;
    for (const char* name : {"used", "of_rank_1", "of_nobody"})
      leaves.push_back({name, at::full({3}, 2.0).requires_grad_()});
    AutogradReducer reducer(world, leaves, {.reducer = {.unused = bucketing::Unused::find_unused}, .bucket_bytes = 1});
    for (int step = 0; step < 3; ++step) {
      at::Tensor loss = leaves[0].tensor.sum();
      if (world.rank() == 1) loss = loss.add(leaves[1].tensor.mul(4).sum());
      reducer.begin(true, {loss});
      loss.backward();
      EXPECT_THAT(reducer.finish().produced, testing::ElementsAre(true, true, false));
      EXPECT_EQ(leaves[1].tensor.grad()[0].item<float>(), 2);
      EXPECT_FALSE(leaves[2].tensor.grad().defined());
      reducer.clear();
    }
  });
}

TEST(AutogradReducer, TellsOfBucketsWhoseResultsAreTheLeavesGradients) {
  for (const GradientMemory memory : {GradientMemory::views, GradientMemory::copies})
    run_ranks(2, [&](Communicator& world) {
      at::set_num_threads(1);
      std::vector<NamedTensor> leaves;
      for (const char* name : {"a", "b", "other order"})
        leaves.push_back({name, at::full({3, 2}, 2.0).requires_grad_()});
      AutogradOptions options{.reducer = {.memory = memory}, .bucket_bytes = 1};
      options.reducer.hook.start = [](Communicator& group, const bucketing::HookedBucket& bucket) {
        group.all_reduce(bucket.values, bucket.values, comm::ReduceOp::sum);
        return comm::Work();  // so that it is told of within backward
      };
      std::vector<int> told;
      std::function<void(int)> reduced;
      options.reducer.reduced = [&](int bucket) { reduced(bucket); };
      AutogradReducer reducer(world, leaves, options);
      reduced = [&](int bucket) {
        const bucketing::Plan& plan = reducer.plan();
        for (const auto& member : plan.members_of(plan.buckets.at(static_cast<std::size_t>(bucket)))) {
          const NamedTensor& leaf = leaves.at(static_cast<std::size_t>(member.gradient));
          told.push_back(member.gradient);
          EXPECT_TRUE(leaf.tensor.grad().equal(at::full({3, 2}, 3.0))) << leaf.name;
        }
      };
      for (int step = 0; step < 2; ++step) {
        told.clear();
        leaves[2].tensor.mutable_grad() = at::full({2, 3}, 0.0).t();  // what is added to it lies as it does
        at::Tensor loss = at::full({}, 0.0);
        for (const NamedTensor& leaf : leaves) loss = loss.add(leaf.tensor.mul(world.rank() + 1).sum());
        reducer.begin();
        loss.backward();
        EXPECT_EQ(told.size(), 3U) << "within backward";
        (void)reducer.finish();
        reducer.clear();
      }
    });
}

// Rank 0 looks up one row twice, rank 1 others, rank 2 none; what is dense beside it is as ever.
TEST(AutogradReducer, AddsSparseRowsOfEmbeddings) {
  const std::vector<std::vector<std::int64_t>> looked_up{{2, 5, 2}, {6, 0}, {}};
  const auto loss = [&](const at::Tensor& table, const at::Tensor& head, int rank, bool sparse) {
    const auto& rows = looked_up[static_cast<std::size_t>(rank)];
    const at::Tensor indices = at::tensor(rows, at::kLong);
    return at::embedding(table, indices, -1, false, sparse).matmul(head).square().sum().add(head.sum(), rank + 1);
  };
  const auto leaf = [](std::vector<std::int64_t> shape) {
    return at::arange(1, 1 + shape[0] * shape[1], at::kFloat).reshape(shape).requires_grad_();
  };
  at::Tensor expected = at::zeros({7, 3});
  for (int rank = 0; rank < 3; ++rank) {
    const at::Tensor table = leaf({7, 3});
    loss(table, leaf({3, 2}), rank, false).backward();
    expected.add_(table.grad());
  }
  expected.div_(3);
  for (const GradientMemory memory : {GradientMemory::views, GradientMemory::copies})
    run_ranks(3, [&](Communicator& world) {
      at::set_num_threads(1);
      const std::vector<NamedTensor> leaves{{"table", leaf({7, 3})}, {"head", leaf({3, 2})}};
      AutogradReducer reducer(world, leaves, {.reducer = {.memory = memory}, .sparse = {"table"}});
      for (int step = 0; step < 2; ++step) {
        reducer.begin();
        loss(leaves[0].tensor, leaves[1].tensor, world.rank(), true).backward();
        (void)reducer.finish();
        const at::Tensor sum = leaves[0].tensor.grad();
        ASSERT_TRUE(sum.is_sparse() && sum.is_coalesced());
        EXPECT_EQ(sum._nnz(), 4);
        EXPECT_TRUE(sum.to_dense().equal(expected));
        EXPECT_FALSE(leaves[1].tensor.grad().is_sparse());
        reducer.clear();
      }
    });
}

TEST(AutogradReducer, RefusesGradientsOfTheOtherKind) {
  run_ranks(1, [](Communicator& world) {
    const auto refused = [&](std::vector<std::string> named, bool sparse) -> std::string {
      const std::vector<NamedTensor> leaves{{"table", at::full({4, 2}, 1.0).requires_grad_()}};
      try {
        AutogradReducer reducer(world, leaves, {.sparse = std::move(named)});
        reducer.begin();
        at::embedding(leaves[0].tensor, at::tensor({1L}), -1, false, sparse).sum().backward();
      } catch (const InvalidArgument& error) {
        return error.what();
      }
      return "nothing";
    };
    EXPECT_EQ(refused({"table"}, true), "nothing");
    EXPECT_THAT(refused({}, true), HasSubstr("leaf 'table': its gradient is sparse, and it is not among those named"));
    EXPECT_THAT(refused({"table"}, false),
                HasSubstr("leaf 'table': its gradient is dense, and it is among those named"));
    EXPECT_THAT(refused({"tables"}, true), HasSubstr("'tables' is to be treated apart: no such leaf"));
  });
}

TEST(AutogradReducer, LeavesFrozenLeavesAlone) {
  run_ranks(2, [](Communicator& world) {
    at::set_num_threads(1);
    const std::vector<NamedTensor> leaves{{"free", at::full({3}, 2.0).requires_grad_()},
                                          {"frozen", at::full({5}, 2.0, at::kDouble)}};
    AutogradReducer reducer(world, leaves);
    EXPECT_EQ(reducer.plan().buckets.size(), 1u);
    const at::Tensor loss = leaves[0].tensor.mul(world.rank() + 1).sum().add(leaves[1].tensor.sum());
    reducer.begin();
    loss.backward();
    (void)reducer.finish();
    EXPECT_EQ(leaves[0].tensor.grad()[2].item<float>(), 1.5F);
    EXPECT_FALSE(leaves[1].tensor.grad().defined());
  });
}

TEST(AutogradReducer, LeavesAloneAndDelaysWhatItIsTold) {
  run_ranks(2, [](Communicator& world) {
    at::set_num_threads(1);
    std::vector<NamedTensor> leaves;
    for (const char* name : {"first", "own", "last"}) leaves.push_back({name, at::full({3}, 2.0).requires_grad_()});
    AutogradReducer reducer(world, leaves, {.bucket_bytes = 1, .left_alone = {"own"}, .delayed = {"last"}});
    for (int step = 0; step < 2; ++step) {
      at::Tensor loss = leaves[0].tensor.sum();
      for (const std::size_t i : {1, 2}) loss = loss.add(leaves[i].tensor.mul(world.rank() + 1).sum());
      reducer.begin();
      loss.backward();
      const bucketing::Outcome& outcome = reducer.finish();
      EXPECT_THAT(outcome.produced, testing::ElementsAre(true, false, true));
      ASSERT_EQ(reducer.plan().buckets.size(), 2u);
      EXPECT_EQ(reducer.plan().members_of(reducer.plan().buckets[1]).front().gradient, 2) << "the delayed one";
      EXPECT_EQ(leaves[1].tensor.grad()[0].item<float>(), static_cast<float>(world.rank() + 1));
      EXPECT_EQ(leaves[2].tensor.grad()[0].item<float>(), 1.5F);
      reducer.clear();
    }
    EXPECT_THROW(AutogradReducer(world, leaves, {.delayed = {"lost"}}), InvalidArgument);
  });
}

TEST(AutogradReducer, NamesTheLeavesWhoseGradientsNeverCame) {
  run_ranks(1, [](Communicator& world) {
    const std::vector<NamedTensor> leaves{{"used", at::full({3}, 2.0).requires_grad_()},
                                          {"forgotten", at::full({3}, 2.0).requires_grad_()}};
    AutogradReducer reducer(world, leaves);
    const at::Tensor loss = leaves[0].tensor.sum();
    reducer.begin();
    loss.backward();
    try {
      (void)reducer.finish();
      FAIL() << "nothing was thrown";
    } catch (const StateError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("'forgotten'"));
    }
  });
}

TEST(AutogradReducer, RefusesASecondBackwardOfTheSamePass) {
  run_ranks(1, [](Communicator& world) {
    const std::vector<NamedTensor> leaves{{"weight", at::full({3}, 2.0).requires_grad_()}};
    AutogradReducer reducer(world, leaves);
    reducer.begin();
    leaves[0].tensor.sum().backward();
    EXPECT_THROW(leaves[0].tensor.sum().backward(), StateError);
  });
}

TEST(AutogradReducer, LeavesGradientsBehindThatOutliveIt) {
  at::Tensor leaf = at::full({3}, 2.0).requires_grad_();
  run_ranks(1, [&](Communicator& world) {
    AutogradReducer reducer(world, {{"weight", leaf}});
    const at::Tensor loss = leaf.mul(5).sum();
    reducer.begin();
    loss.backward();
    (void)reducer.finish();
  });
  EXPECT_EQ(leaf.grad()[1].item<float>(), 5);
  leaf.sum().backward();  // no hook is left
  EXPECT_EQ(leaf.grad()[1].item<float>(), 6);
}

TEST(AutogradReducer, GivesEveryRankTheFirstOnesValues) {
  run_ranks(3, [](Communicator& world) {
    const at::Tensor a = at::full({2, 3}, world.rank() + 1.0), b = at::full({4}, world.rank() + 10.0, at::kDouble);
    broadcast_from_rank_0(world, {a, b});
    EXPECT_EQ(a[1][2].item<float>(), 1);
    EXPECT_EQ(b[3].item<double>(), 10);
  });
}

}  // namespace
}  // namespace plumbline::training
