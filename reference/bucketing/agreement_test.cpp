// All ranks learn of the same first difference, and of none where there is none.
#include "reference/bucketing/detail/agreement.hpp"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/plan_samples_test.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::bucketing {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

// What a rank brings.
struct Ours {
  std::vector<Gradient> gradients = samples::of_sizes({6, 4, 2});
  std::vector<std::string> names{"embedding", "weight", "bias"};
  std::vector<Shape> shapes{{3, 2}, {4}, {2}};
  std::vector<std::int64_t> limits{32};
  std::vector<int> order{};
  [[nodiscard]] Plan plan() const { return plan_by_size(gradients, limits, order); }
};

// The words of each rank's disagreement, "" for none.
std::vector<std::string> disagreements(int ranks, const std::function<void(int rank, Ours&)>& change) {
  std::vector<std::string> words(static_cast<std::size_t>(ranks));
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    Ours ours;
    change(world.rank(), ours);
    try {
      verify_agreement(world, ours.plan(), ours.gradients, ours.names, ours.shapes);
    } catch (const PlanDisagreement& error) {
      words[static_cast<std::size_t>(world.rank())] = error.what();
    }
    world.barrier();  // the group goes on
  });
  return words;
}

TEST(Agreement, IsSilentWhereAllHaveTheSame) {
  for (const int ranks : {1, 2, 5}) EXPECT_THAT(disagreements(ranks, [](int, Ours&) {}), Each(""));
}

TEST(Agreement, NamesTheParameterAndWhoHasWhat) {
  const auto words = disagreements(4, [](int rank, Ours& ours) {
    if (rank == 2) ours.gradients[1].elements = 5, ours.shapes[1] = {5};
  });
  EXPECT_THAT(words, Each(words.front()));
  EXPECT_THAT(words.front(), HasSubstr("ranks disagree on weight: ranks 0 1 3: shape [4] of f32 on cpu"));
  EXPECT_THAT(words.front(), HasSubstr("; rank 2: shape [5] of f32"));
}

TEST(Agreement, FindsShapesOfTheSameSize) {
  const auto words = disagreements(2, [](int rank, Ours& ours) {
    if (rank == 1) ours.shapes[0] = {2, 3};
  });
  EXPECT_THAT(words, Each(HasSubstr("embedding: rank 0: shape [3, 2]")));
}

TEST(Agreement, FindsTypes) {
  const auto words = disagreements(2, [](int rank, Ours& ours) {
    if (rank == 0) ours.gradients[2].dtype = comm::DType::f16;
  });
  EXPECT_THAT(words, Each(HasSubstr("bias: rank 0: shape [2] of f16")));
}

TEST(Agreement, NamesWhoeverIsMissingRatherThanWhatFollows) {
  const auto words = disagreements(3, [](int rank, Ours& ours) {
    if (rank == 1) return;
    ours.gradients.insert(ours.gradients.begin() + 1, Gradient{.elements = 9});
    ours.names.insert(ours.names.begin() + 1, "adapter");
    ours.shapes.insert(ours.shapes.begin() + 1, Shape{9});
  });
  EXPECT_THAT(words, Each(HasSubstr("ranks disagree on adapter: ranks 0 2: shape [9]")));
  EXPECT_THAT(words, Each(HasSubstr("rank 1: nothing")));
  const auto emptied = disagreements(3, [](int rank, Ours& ours) {
    if (rank == 2) ours.gradients.clear(), ours.names.clear(), ours.shapes.clear();
  });
  EXPECT_THAT(emptied, Each(HasSubstr("embedding: ranks 0 1: shape")));
}

TEST(Agreement, FindsPlansOfTheSameGradients) {
  const auto capped = disagreements(2, [](int rank, Ours& ours) {
    if (rank == 1) ours.limits = {4};
  });
  EXPECT_THAT(capped, Each(HasSubstr("weight: rank 0:")));
  EXPECT_THAT(capped, Each(HasSubstr("in bucket 0 from 6; rank 1:")));
  const auto ordered = disagreements(2, [](int rank, Ours& ours) {
    ours.limits = {1};
    ours.order = rank == 0 ? std::vector{2, 1, 0} : std::vector{1, 2, 0};
  });
  EXPECT_THAT(ordered, Each(HasSubstr("weight: rank 0:")));
  const auto limited = disagreements(2, [](int rank, Ours& ours) { ours.limits = {1000 + rank}; });
  EXPECT_THAT(limited, Each(HasSubstr("bucket 0: rank 0: 12 elements of f32 on cpu, group 0, limit 1000 bytes")));
}

TEST(Agreement, TellsNamesThatAreEqualApartByTheirOrder) {
  const auto words = disagreements(2, [](int rank, Ours& ours) {
    ours.names = {"same", "same", "other"};
    if (rank == 1) ours.names = {"same", "other", "same"};
  });
  EXPECT_THAT(words, Each(HasSubstr("ranks disagree on same")));
}

TEST(Agreement, NumbersGradientsWithoutNames) {
  const auto words = disagreements(2, [](int rank, Ours& ours) {
    ours.names.clear();
    ours.shapes.clear();
    ours.gradients[2].elements += rank;
  });
  EXPECT_THAT(words, Each(HasSubstr("gradient 2: rank 0: 2 elements")));
}

TEST(Agreement, HasTheRanksAndValuesAsFields) {
  comm::run_ranks(3, [&](comm::Communicator& world) {
    Ours ours;
    ours.gradients[2].sparse = world.rank() == 1;
    try {
      verify_agreement(world, ours.plan(), ours.gradients, ours.names);
      ADD_FAILURE() << "no difference was found";
    } catch (const PlanDisagreement& error) {
      EXPECT_EQ(error.subject(), "bias");
      ASSERT_THAT(error.opinions(), SizeIs(2));
      EXPECT_THAT(error.opinions()[0].ranks, ElementsAre(0, 2));
      EXPECT_THAT(error.opinions()[1].ranks, ElementsAre(1));
      EXPECT_THAT(error.opinions()[1].value, HasSubstr("sparse"));
    }
  });
}

TEST(Agreement, RefusesDescriptionsThatDoNotFit) {
  comm::run_ranks(1, [&](comm::Communicator& world) {
    Ours ours;
    const auto verify = [&] { verify_agreement(world, ours.plan(), ours.gradients, ours.names, ours.shapes); };
    ours.names.pop_back();
    EXPECT_THAT(verify, ThrowsMessage<InvalidArgument>(HasSubstr("2 names for 3 gradients")));
    ours = {};
    ours.shapes.pop_back();
    EXPECT_THAT(verify, ThrowsMessage<InvalidArgument>(HasSubstr("2 shapes for 3 gradients")));
    for (const Shape& shape : {Shape{3}, Shape{}, Shape{0, 1}, Shape{-2, -1}, Shape{std::int64_t{1} << 62, 4}}) {
      ours = {};
      ours.shapes[2] = shape;
      EXPECT_THAT(verify, ThrowsMessage<InvalidArgument>(HasSubstr("shapes[2] is [")));
    }
  });
}

}  // namespace
}  // namespace plumbline::bucketing
