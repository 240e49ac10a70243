// Which decision is enough when, by runs on live ranks: an infinity anywhere, at every moment.
#include "conformance/scaler/oracles/injection.hpp"

#include <cmath>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::scaler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// The decisions that were right for every rank and value of a moment.
std::set<Deciding> right_ones(const std::vector<InjectionOutcome>& outcomes, Moment moment) {
  std::map<Deciding, bool> right;
  for (const InjectionOutcome& one : outcomes)
    if (one.injection.moment == moment) {
      auto [at, is_new] = right.try_emplace(one.injection.deciding, true);
      at->second = at->second && one.is_right();
    }
  std::set<Deciding> all;
  for (const auto& [deciding, is_right] : right)
    if (is_right) all.insert(deciding);
  return all;
}

TEST(Injection, IsDecidedByTheModelGroupWhereGradientsWereReduced) {
  using enum Deciding;
  const InjectionWorld world{.tensor = 2, .pipeline = 3, .data = 2};
  const auto outcomes = inject(world, injections(world, {INFINITY, NAN}));
  const std::set<Deciding> of_model{tensor_then_pipeline, model, model_and_data};
  EXPECT_EQ(right_ones(outcomes, Moment::before_reduction), of_model);
  EXPECT_EQ(right_ones(outcomes, Moment::in_tied_module), of_model);
  EXPECT_EQ(right_ones(outcomes, Moment::after_reduction), std::set{model_and_data});
  EXPECT_EQ(right_ones(outcomes, Moment::never_reduced), std::set{model_and_data});
}

TEST(Injection, NamesWhoDidNotSkip) {
  const InjectionWorld world{.tensor = 2, .pipeline = 2, .data = 2};
  const auto outcomes =
      inject(world, {{.deciding = Deciding::tensor, .rank = 1, .value = INFINITY},
                     {.moment = Moment::never_reduced, .deciding = Deciding::model, .rank = 1, .value = INFINITY}});
  ASSERT_THAT(outcomes, SizeIs(2));
  EXPECT_THAT(outcomes[0].skipped, ElementsAre(0, 1, 4, 5)) << "its stage, on both replicas";
  EXPECT_THAT(outcomes[0].touched, ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(outcomes[0].scales, ElementsAre(32, 32, 64, 64, 32, 32, 64, 64));
  EXPECT_THAT(outcomes[0].not_finite, IsEmpty());
  EXPECT_THAT(outcomes[1].skipped, ElementsAre(0, 1, 2, 3)) << "its replica";
  EXPECT_THAT(outcomes[1].not_finite, ElementsAre(5)) << "which added the infinity up, and stepped";
  EXPECT_FALSE(outcomes[1].has_equal_replicas);
}

TEST(Injection, HidesWhereGroupsAreOfOneRank) {
  const InjectionWorld alone{.tensor = 1, .pipeline = 1, .data = 1};
  for (const InjectionOutcome& one : inject(alone, injections(alone, {-INFINITY})))
    EXPECT_TRUE(one.is_right()) << name_of(one.injection.deciding);
  const InjectionWorld columns{.tensor = 3, .pipeline = 1, .data = 1};
  EXPECT_TRUE(
      right_ones(inject(columns, injections(columns, {NAN})), Moment::before_reduction).contains(Deciding::tensor));
}

TEST(Injection, RefusesWhatMakesNoSense) {
  EXPECT_THROW((void)inject({.tensor = 0}, {}), InvalidArgument);
  EXPECT_THROW(comm::run_ranks(2, [](comm::Communicator& two) { const InjectionGroups groups(two, {.data = 1}); }),
               InvalidArgument)
      << "4 ranks of 2";
  EXPECT_THROW((void)inject({.tensor = 5, .pipeline = 5, .data = 5}, {}), InvalidArgument);
  EXPECT_THROW((void)inject({}, {{.rank = 8, .value = INFINITY}}), InvalidArgument);
  EXPECT_THROW((void)inject({}, {{.rank = 0, .value = 1}}), InvalidArgument);
  EXPECT_THROW((void)inject({.pipeline = 1}, {{.moment = Moment::in_tied_module, .value = NAN}}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::scaler
