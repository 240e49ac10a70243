#include "reference/training/pipeline/shared.hpp"

#include <atomic>
#include <memory>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::training {
namespace {

// Counts by position, so that elements that are mixed up show.
at::Tensor counted(const std::vector<std::int64_t>& shape, double first, at::ScalarType type = at::kFloat) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return at::arange(first, first + static_cast<double>(count), at::TensorOptions(type)).view(shape);
}

struct Copies {
  at::Tensor all, pair, wide, image;
  explicit Copies(int rank)
      : all(counted({2, 3}, 10 * rank).requires_grad_()),
        pair(counted({4}, 100 * rank).requires_grad_()),
        wide(counted({3}, 5 * rank, at::kDouble).requires_grad_()),
        image(counted({1, 2, 3, 2}, rank)
                  .contiguous(rank == 1 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous)
                  .requires_grad_()) {}
};

// Counts the reductions of a rank's groups.
class Counting final : public comm::CommunicatorDecorator {
 public:
  Counting(std::unique_ptr<comm::Communicator> inner, std::atomic<int>& reductions)
      : CommunicatorDecorator(std::move(inner)), reductions_(reductions) {}

 private:
  void count(const comm::Call& call) {
    if (call.operation == comm::Operation::all_reduce) ++reductions_;
  }
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    count(call);
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    for (const comm::Call& call : calls) count(call);
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<Counting>(std::move(group), reductions_);
  }

  std::atomic<int>& reductions_;
};

TEST(SharedParameters, CopiesStartEqualAndGradientsAreSummedByPlaceOnce) {
  comm::run_ranks(3, [&](comm::Communicator& group) {
    const int rank = group.rank();
    const Copies own(rank);
    std::atomic<int> reductions = 0;
    Counting counting(group.duplicate(), reductions);
    std::vector<SharedParameter> given{{"all", own.all, {0, 1, 2}},
                                       {"wide", own.wide, {0, 1, 2}},
                                       {"image", own.image, {0, 1, 2}},
                                       {"all again", own.all, {0, 1, 2}}};
    if (rank != 0) given.push_back({"pair", own.pair, {1, 2}});
    SharedParameters shared(counting, given);
    EXPECT_TRUE(at::equal(own.all, counted({2, 3}, 0)));
    EXPECT_TRUE(at::equal(own.image, counted({1, 2, 3, 2}, 0)));
    if (rank != 0) {
      EXPECT_TRUE(at::equal(own.pair, counted({4}, 100))) << "the lowest rank that holds it";
    }
    for (int step = 0; step < 2; ++step) {
      // Rank 1 did not use the first at all.
      own.all.mutable_grad() = rank == 1 ? at::Tensor() : counted({2, 3}, 1 + rank);
      own.wide.mutable_grad() = counted({3}, rank, at::kDouble);
      own.image.mutable_grad() =
          counted({1, 2, 3, 2}, rank)
              .contiguous(rank == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
      own.pair.mutable_grad() = counted({4}, 10 * rank);
      shared.reduce();
      EXPECT_TRUE(at::equal(own.all.grad(), counted({2, 3}, 1) + counted({2, 3}, 3)));
      EXPECT_TRUE(at::equal(own.wide.grad(), counted({3}, 0, at::kDouble) * 3 + 3));
      EXPECT_TRUE(at::equal(own.image.grad(), counted({1, 2, 3, 2}, 0) * 3 + 3));
      const at::Tensor sum = counted({4}, 10) + counted({4}, 20);
      EXPECT_TRUE(at::equal(own.pair.grad(), rank == 0 ? counted({4}, 0) : sum));
    }
    // The same ranks and type are one bucket: float and double over all, float over two.
    EXPECT_EQ(reductions.load(), 2 * (rank == 0 ? 2 : 3));
  });
}

TEST(SharedParameters, SaysInOneLineWhatCannotBeShared) {
  const auto error_of = [&](const at::Tensor& tensor, std::vector<int> ranks) -> std::string {
    std::string what = "no error";
    comm::run_ranks(1, [&](comm::Communicator& group) {
      try {
        const SharedParameters shared(group, {{"w", tensor, ranks}});
      } catch (const InvalidArgument& error) {
        what = error.what();
      }
    });
    return what;
  };
  const at::Tensor weight = at::zeros({2});
  EXPECT_EQ(error_of(weight, {0}), "shared parameter 'w' on ranks [0]: it takes two ranks to share");
  EXPECT_EQ(error_of(weight, {1, 0}), "shared parameter 'w' on ranks [1, 0]: they must ascend");
  EXPECT_EQ(error_of(weight, {0, 0}), "shared parameter 'w' on ranks [0, 0]: they must ascend");
  EXPECT_EQ(error_of(weight, {0, 1}), "shared parameter 'w' on ranks [0, 1]: the group has ranks 0 to 0");
}

}  // namespace
}  // namespace plumbline::training
