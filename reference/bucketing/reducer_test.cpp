#include "reference/bucketing/reducer.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/detail/range.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/tuning.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::bucketing {
namespace {

using comm::Buffer;
using comm::Communicator;
using comm::DType;
using comm::run_ranks;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Gradient> gradients_of(const std::vector<std::int64_t>& sizes, DType dtype = DType::f32) {
  std::vector<Gradient> gradients;
  for (const std::int64_t size : sizes) gradients.push_back({.elements = size, .dtype = dtype});
  return gradients;
}

// Each list is a bucket of those gradients, one after the other.
Plan plan_of(const std::vector<Gradient>& gradients, const std::vector<std::vector<int>>& lists) {
  Plan plan;
  for (const auto& list : lists) {
    Bucket bucket{.first_member = static_cast<int>(plan.members.size()), .members = static_cast<int>(list.size())};
    for (const int gradient : list) {
      const Gradient& one = gradients[static_cast<std::size_t>(gradient)];
      bucket.dtype = one.dtype;
      bucket.group = one.group;
      plan.members.push_back({gradient, bucket.elements});
      bucket.elements += one.elements;
    }
    plan.buckets.push_back(bucket);
  }
  return plan;
}

std::span<float> floats(Buffer buffer) {
  return {static_cast<float*>(buffer.data), static_cast<std::size_t>(buffer.count)};
}
Buffer buffer_of(std::vector<float>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), DType::f32};
}

template <class Error, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// A reducer alone, for what is refused.
template <class Body>
void alone(const Body& body, ReducerOptions options = {}) {
  run_ranks(1, [&](Communicator& world) {
    const auto gradients = gradients_of({2, 3});
    options.names = {"weight", "bias"};
    Reducer reducer({&world}, gradients, plan_of(gradients, {{1, 0}}), options);
    body(reducer);
  });
}

TEST(Reducer, AveragesViewsInPlace) {
  run_ranks(3, [](Communicator& world) {
    const auto gradients = gradients_of({2, 3});
    Reducer reducer({&world}, gradients, plan_of(gradients, {{1}, {0}}));
    for (int step = 0; step < 3; ++step) {
      reducer.begin();
      for (const int gradient : {1, 0}) {
        std::ranges::fill(floats(reducer.view(gradient)), static_cast<float>(world.rank() + gradient + step));
        reducer.ready(gradient);
      }
      const Outcome& outcome = reducer.finish();
      for (const int gradient : {0, 1})
        for (const float value : floats(reducer.view(gradient)))
          EXPECT_EQ(value, static_cast<float>(1 + gradient + step));
      EXPECT_EQ(outcome.copied_in + outcome.copied_out, 0);
      EXPECT_EQ(outcome.launches.size(), 2u);
      EXPECT_EQ(outcome.launches[0].ready_before, 1) << "the second bucket was not there yet";
      reducer.clear();
    }
  });
}

TEST(Reducer, LeavesGradientsWhereTheCallerHasThem) {
  run_ranks(2, [](Communicator& world) {
    const auto gradients = gradients_of({2, 3});
    Reducer reducer({&world}, gradients, plan_of(gradients, {{1, 0}}),
                    {.memory = GradientMemory::copies, .average = false});
    std::vector<float> a{1, 2}, b{3, 4, 5};
    reducer.begin();
    reducer.ready(1, buffer_of(b));
    reducer.ready(0, buffer_of(a));
    const Outcome& outcome = reducer.finish();
    EXPECT_THAT(a, ElementsAre(2, 4));
    EXPECT_THAT(b, ElementsAre(6, 8, 10));
    EXPECT_EQ(outcome.copied_in, 20);
    EXPECT_EQ(outcome.copied_out, 20);
  });
}

TEST(Reducer, ReducesABucketOfOneWhereTheCallerHasIt) {
  run_ranks(2, [](Communicator& world) {
    const auto gradients = gradients_of({2, 3, 1});
    Reducer reducer({&world}, gradients, plan_of(gradients, {{2, 1}, {0}}),
                    {.memory = GradientMemory::copies, .split = Split{2, 1}, .unused = Unused::find_unused});
    std::vector<float> alone, b{3, 4, 5}, c{6};
    const auto step = [&](bool has_all) {
      alone = {1, 2};
      reducer.begin({.unused = has_all ? std::vector<int>{} : std::vector{0}});
      reducer.ready(2, buffer_of(c));
      reducer.ready(1, buffer_of(b));
      if (has_all) reducer.ready(0, buffer_of(alone));
      const Outcome& outcome = reducer.finish();
      EXPECT_EQ(outcome.copied_in, 16) << "the bucket of two alone";
      EXPECT_EQ(outcome.copied_out, 16);
      EXPECT_THAT(c, ElementsAre(6));
    };
    step(true);
    EXPECT_THAT(alone, ElementsAre(1, 2));
    reducer.clear();
    step(world.rank() == 0);
    const std::span<float> mean = world.rank() == 0 ? std::span(alone) : floats(reducer.view(0));
    EXPECT_THAT(mean, ElementsAre(0.5F, 1)) << "of a gradient that one rank has";
    reducer.clear();
  });
}

TEST(Reducer, RefusesMemoryThatAnotherGradientOfTheStepHas) {
  alone(
      [](Reducer& reducer) {
        std::vector<float> memory(8);
        const auto at = [&](std::size_t begin, std::int64_t count) {
          return Buffer{memory.data() + begin, count, DType::f32};
        };
        const auto refused = [&](Buffer weight, Buffer bias) {
          reducer.clear();
          reducer.begin({.synchronise = false});
          reducer.ready(0, weight);
          const std::string said = message_of<InvalidArgument>([&] { reducer.ready(1, bias); });
          reducer.finish();
          return said;
        };
        EXPECT_EQ(refused(at(0, 2), at(2, 3)), "nothing was thrown") << "side by side";
        EXPECT_EQ(refused(at(3, 2), at(0, 3)), "nothing was thrown") << "also where the other one was a step ago";
        for (const auto& [weight, bias] : {std::pair(4, 4), {4, 3}, {4, 2}, {4, 5}})
          EXPECT_THAT(refused(at(static_cast<std::size_t>(weight), 2), at(static_cast<std::size_t>(bias), 3)),
                      HasSubstr("ready, rank 0 of group world: the gradients 'weight' and 'bias' share memory"))
              << weight << ' ' << bias;
        // From pass to pass a gradient may move, and stay.
        reducer.clear();
        for (const auto& [weight, bias] : {std::pair(0, 2), {0, 2}, {5, 1}}) {
          reducer.begin({.synchronise = false});
          reducer.ready(0, at(static_cast<std::size_t>(weight), 2));
          reducer.ready(1, at(static_cast<std::size_t>(bias), 3));
          reducer.finish();
        }
      },
      {.memory = GradientMemory::copies});
}

TEST(Reducer, KeepsAStepAsItWasWhereItRefusesAGradient) {
  alone(
      [](Reducer& reducer) {
        std::vector<float> weight{1, 2, 0}, bias{3, 4, 5};
        const Buffer of_weight{weight.data(), 2, DType::f32};
        const auto refuses = [&] {
          EXPECT_THAT(message_of<InvalidArgument>([&] { reducer.ready(1, buffer_of(weight)); }),
                      HasSubstr("share memory"));
        };
        const auto pass = [&](bool synchronise, const auto& of_bias) {
          reducer.begin({.synchronise = synchronise, .unused = synchronise ? std::vector{1} : std::vector<int>{}});
          reducer.ready(0, of_weight);
          of_bias();
          return reducer.finish().produced;
        };
        const auto nothing = [] {};
        pass(false, refuses);
        EXPECT_THAT(pass(true, nothing), ElementsAre(true, false)) << "the step has none";
        reducer.clear();
        pass(false, [&] { reducer.ready(1, buffer_of(bias)); });
        pass(false, refuses);
        EXPECT_THAT(pass(true, nothing), ElementsAre(true, true)) << "the one of the first pass is there";
        EXPECT_THAT(bias, ElementsAre(3, 4, 5));
        reducer.clear();
        pass(false, [&] {
          refuses();
          reducer.ready(1, buffer_of(bias));
          EXPECT_THAT(message_of<StateError>([&] { reducer.ready(1, buffer_of(bias)); }), HasSubstr("ready before"));
        });
        EXPECT_THAT(pass(true, nothing), ElementsAre(true, true)) << "other memory was taken";
      },
      {.memory = GradientMemory::copies, .unused = Unused::find_unused});
}

TEST(Reducer, RefusesNumbersThatAreNotToBeReduced) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  constexpr double finite = std::numeric_limits<double>::max();
  const auto said = [](const std::vector<float>& values, double largest, GradientMemory memory) {
    std::string message;
    alone(
        [&](Reducer& reducer) {
          std::vector<float> own = values, other(2);
          for (const bool synchronise : {false, true}) {
            reducer.begin({.synchronise = synchronise});
            message = message_of<InvalidArgument>([&] { reducer.ready(1, buffer_of(own)); });
            EXPECT_TRUE(synchronise || message == "nothing was thrown") << "sums that are not reduced yet";
            if (!synchronise) reducer.ready(0, buffer_of(other)), reducer.finish();
          }
        },
        {.memory = memory, .largest = largest});
    return message;
  };
  for (const GradientMemory memory : {GradientMemory::views, GradientMemory::copies}) {
    EXPECT_EQ(said({1, -3e38F, 0}, finite, memory), "nothing was thrown");
    EXPECT_THAT(said({1, 2, none}, finite, memory), HasSubstr("the gradient of 'bias' has nan at element 2"));
    EXPECT_THAT(said({1, -infinity, none}, finite, memory), HasSubstr("'bias' has -inf at element 1"));
    EXPECT_THAT(said({-7, 2, 0}, 5, memory), HasSubstr("has -7 at element 0; magnitudes up to 5 are reduced"));
    EXPECT_EQ(said({-5, 5, 0}, 5, memory), "nothing was thrown");
  }
  std::vector<comm::BFloat16> half(3);
  half[1] = comm::to_bfloat16(-8);
  EXPECT_EQ(first_outside({half.data(), 3, DType::bf16}, 4), 1);
  std::int32_t whole = 5;
  EXPECT_THROW((void)first_outside({&whole, 1, DType::i32}, 4), Unsupported);
}

TEST(Reducer, TellsOfBucketsInTheirOrderOnceTheyAreReduced) {
  for (const GradientMemory memory : {GradientMemory::views, GradientMemory::copies})
    run_ranks(3, [&](Communicator& world) {
      const auto gradients = gradients_of({2, 3000, 1});
      std::vector<std::vector<float>> own{{1, 1}, std::vector<float>(3000, 1), {1}};
      std::vector<int> told;
      std::function<void(int)> reduced;
      Reducer reducer({&world}, gradients, plan_of(gradients, {{2, 1}, {0}}),
                      {.memory = memory, .average = false, .reduced = [&](int bucket) { reduced(bucket); }});
      reduced = [&](int bucket) {
        told.push_back(bucket);
        for (const Member& member : reducer.plan().members_of(reducer.plan().buckets.at(bucket))) {
          const auto i = static_cast<std::size_t>(member.gradient);
          const auto values =
              memory == GradientMemory::copies ? std::span(own[i]) : floats(reducer.view(member.gradient));
          EXPECT_EQ(std::ranges::count(values, 6.0F), std::ssize(values)) << "gradient " << i;
        }
      };
      for (int step = 0; step < 2; ++step) {
        told.clear();
        reducer.begin();
        for (const int gradient : {2, 1, 0}) {
          auto& values = own[static_cast<std::size_t>(gradient)];
          std::ranges::fill(values, static_cast<float>(world.rank() + 1));
          reducer.ready(gradient, buffer_of(values));
        }
        reducer.finish();
        EXPECT_THAT(told, ElementsAre(0, 1));
        reducer.clear();
      }
    });
}

// An optimizer looks at each bucket as it is reduced: dense ones have numbers, sparse ones rows.
TEST(Reducer, GivesResultsOfNoBucketThatHasNone) {
  run_ranks(1, [](Communicator& world) {
    auto gradients = gradients_of({8, 3});
    gradients[0].sparse = true;
    std::function<void(int)> reduced;
    ReducerOptions options{.names = {"embedding", "bias"}, .reduced = [&](int bucket) { reduced(bucket); }};
    Reducer reducer({&world}, gradients, plan_of(gradients, {{1}, {0}}), options);
    std::int64_t rows = 0;
    reduced = [&](int bucket) {
      if (bucket == 0)
        EXPECT_EQ(reducer.results(0).data, reducer.view(1).data);
      else
        rows = std::ssize(reducer.rows(0).indices);
    };
    reducer.begin();
    reducer.ready(1);
    const std::vector<std::int64_t> indices{1, 3};
    const std::vector<float> values{1, 2, 3, 4};
    reducer.ready(0, {indices, {values.data(), 4, DType::f32}});
    reducer.finish();
    EXPECT_EQ(rows, 2);
    EXPECT_THAT(message_of<InvalidArgument>([&] { (void)reducer.results(1); }),
                HasSubstr("results, rank 0 of group world: bucket 1 is that of 'embedding', which is sparse"));
  });
  alone(
      [](Reducer& reducer) {
        EXPECT_THAT(message_of<StateError>([&] { (void)reducer.results(0); }),
                    HasSubstr("the bucket of 'bias', 'weight' has no memory now"));
      },
      {.memory = GradientMemory::copies, .lazy = true});
}

TEST(Reducer, TellsOfBucketsInAnyCallOfAPass) {
  run_ranks(1, [](Communicator& world) {
    const auto gradients = gradients_of({2, 3, 1});
    std::vector<int> told;
    std::function<void(int)> reduced;
    ReducerOptions options{.average = false, .unused = Unused::zeros, .reduced = [&](int bucket) { reduced(bucket); }};
    options.hook.start = [](Communicator&, const HookedBucket&) {
      return comm::Work();
    };  // over as soon as it is started
    Reducer reducer({&world}, gradients, plan_of(gradients, {{2}, {1}, {0}}), options);
    reduced = [&](int bucket) {
      const Member& member = reducer.plan().members_of(reducer.plan().buckets.at(static_cast<std::size_t>(bucket)))[0];
      EXPECT_EQ(reducer.results(bucket).data, reducer.view(member.gradient).data);
      told.push_back(bucket);
    };
    reducer.begin({.unused = {2}});
    EXPECT_THAT(told, ElementsAre(0)) << "begin()";
    reducer.mark_unused(1);
    EXPECT_THAT(told, ElementsAre(0, 1)) << "lack()";
    reducer.ready(0);
    EXPECT_THAT(told, ElementsAre(0, 1, 2)) << "ready()";
    reducer.finish();
    EXPECT_EQ(told.size(), 3U);
  });
}

TEST(Reducer, SharesResultsOutInEqualParts) {
  for (const std::optional<DType> wire : {std::optional<DType>{}, std::optional(DType::f16)})
    run_ranks(3, [&](Communicator& world) {
      const auto gradients = gradients_of({2, 3});
      Plan plan = plan_of(gradients, {{1, 0}});
      const auto make = [&] {
        return std::make_unique<Reducer>(std::vector<Communicator*>{&world}, gradients, plan,
                                         ReducerOptions{.results = Results::sharded, .wire = wire});
      };
      EXPECT_THAT(message_of<InvalidArgument>([&] { (void)make(); }),
                  HasSubstr("a bucket of 5 elements, which cannot be sharded among 3 ranks in equal parts"));
      plan.buckets[0].elements = 6;
      const auto reducer = make();
      reducer->begin();
      for (const int gradient : {1, 0}) {
        for (int i = 0; i < 3 - (1 - gradient); ++i)
          floats(reducer->view(gradient))[static_cast<std::size_t>(i)] =
              static_cast<float>(10 * gradient + i + world.rank());
        reducer->ready(gradient);
      }
      const Outcome& outcome = reducer->finish();
      EXPECT_EQ(outcome.launches.back().elements, 6);
      const std::vector<float> mean{11, 12, 13, 1, 2, 0};  // the sixth is padding
      const std::span<float> part = floats(reducer->results(0));
      ASSERT_EQ(part.size(), 2u);
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(part[i], mean[static_cast<std::size_t>(2 * world.rank()) + i]);
      EXPECT_THROW((void)reducer->results(1), OutOfRange);
      EXPECT_THROW((void)reducer->results(-1), OutOfRange);
    });
}

TEST(Reducer, ReducesEachGradientOverItsOwnGroup) {
  run_ranks(4, [](Communicator& world) {
    const std::vector<int> pair = world.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3};
    const auto neighbours = world.create_group(pair);
    std::vector<Gradient> gradients = gradients_of({2, 2});
    gradients[1].group = 1;
    Reducer reducer({&world, neighbours.get()}, gradients, plan_of(gradients, {{0}, {1}}), {.average = false});
    reducer.begin();
    for (const int gradient : {0, 1}) {
      std::ranges::fill(floats(reducer.view(gradient)), static_cast<float>(world.rank()));
      reducer.ready(gradient);
    }
    reducer.finish();
    EXPECT_EQ(floats(reducer.view(0))[0], 6);
    EXPECT_EQ(floats(reducer.view(1))[1], world.rank() < 2 ? 1 : 5);
  });
}

TEST(Reducer, ExchangesAsAHookSays) {
  run_ranks(2, [](Communicator& world) {
    const auto gradients = gradients_of({2});
    ReducerOptions options;
    options.hook.start = [](Communicator& group, const HookedBucket& bucket) {
      return group.start(comm::Call{.operation = comm::Operation::all_reduce,
                                    .op = comm::ReduceOp::max,
                                    .in = bucket.values,
                                    .out = bucket.values});
    };
    options.hook.finish = [](Communicator&, const HookedBucket& bucket) { floats(bucket.values)[0] += 100; };
    Reducer reducer({&world}, gradients, plan_of(gradients, {{0}}), options);
    reducer.begin();
    std::ranges::fill(floats(reducer.view(0)), static_cast<float>(world.rank()));
    reducer.ready(0);
    reducer.finish();
    EXPECT_THAT(floats(reducer.view(0)), ElementsAre(101, 1));
  });
}

TEST(Reducer, LearnsWhatTheFirstPassDoesNotProduce) {
  run_ranks(2, [](Communicator& world) {
    const auto gradients = gradients_of({1, 1, 1});
    Reducer reducer({&world}, gradients, plan_of(gradients, {{2, 1}, {0}}),
                    {.names = {"a", "b", "c"}, .unused = Unused::static_graph});
    for (int step = 0; step < 3; ++step) {
      reducer.begin();
      floats(reducer.view(2))[0] = 3;
      for (int uses = 0; uses < 2; ++uses) reducer.ready(2);  // a parameter that is used twice
      floats(reducer.view(0))[0] = 5;
      if (world.rank() == 0) reducer.ready(0);
      const Outcome& outcome = reducer.finish();
      EXPECT_THAT(outcome.produced, ElementsAre(true, false, true));
      EXPECT_EQ(floats(reducer.view(2))[0], 3);
      EXPECT_EQ(floats(reducer.view(0))[0], 2.5F);
      const auto maps = std::ranges::count(outcome.launches, Launch::What::used, &Launch::what);
      EXPECT_EQ(maps, step == 0 ? 1 : 0);
      reducer.clear();
    }
    reducer.begin();
    EXPECT_THAT(message_of<StateError>([&] { reducer.ready(1); }),
                AllOf(HasSubstr("'b'"), HasSubstr("in the first pass was unused")));
    world.abort("the test is over");
  });
}

TEST(Reducer, TakesWhatARankLacksForZeros) {
  run_ranks(2, [](Communicator& world) {
    const auto gradients = gradients_of({2, 1, 3});
    Reducer reducer({&world}, gradients, plan_of(gradients, {{2, 1}, {0}}),
                    {.names = {"a", "b", "c"}, .average = false, .unused = Unused::zeros});
    for (const float value : {1.0F, 4.0F}) {
      reducer.begin();
      for (const int gradient : {2, 1, 0}) {
        std::ranges::fill(floats(reducer.view(gradient)), value);
        if (gradient == 2 || (gradient == 1 && world.rank() == 1))
          reducer.mark_unused(gradient);
        else
          reducer.ready(gradient);
      }
      const Outcome& outcome = reducer.finish();
      EXPECT_THAT(outcome.produced, ElementsAre(true, true, true));
      EXPECT_EQ(std::ranges::count(outcome.launches, Launch::What::used, &Launch::what), 0) << "nobody is told";
      EXPECT_THAT(floats(reducer.view(0)), ElementsAre(2 * value, 2 * value));
      EXPECT_THAT(floats(reducer.view(1)), ElementsAre(value));
      EXPECT_THAT(floats(reducer.view(2)), ElementsAre(0, 0, 0));
      reducer.clear();
    }
  });
}

TEST(Reducer, TakesPartInAStepForWhichItHasNoRows) {
  run_ranks(3, [](Communicator& world) {
    const auto gradients = gradients_of({2});
    Reducer reducer({&world}, gradients, plan_of(gradients, {{0}}),
                    {.join = true, .join_divisor = JoinDivisor::present_ranks});
    // In turn one rank has none; then it has some again.
    for (int step = 0; step < 3; ++step) {
      if (world.rank() == step) {
        EXPECT_TRUE(reducer.join_step());
      } else {
        reducer.begin();
        std::ranges::fill(floats(reducer.view(0)), static_cast<float>(2 + world.rank()));
        reducer.ready(0);
        EXPECT_EQ(reducer.finish().present, 2);
      }
      const float others = static_cast<float>(2 + 3 + 4 - (2 + step)) / 2;
      EXPECT_THAT(floats(reducer.view(0)), ElementsAre(others, others)) << "step " << step;
      reducer.clear();
    }
    EXPECT_FALSE(reducer.join_step()) << "nobody has rows";
  });
}

TEST(Reducer, NamesWhatNeverGotReady) {
  alone([](Reducer& reducer) {
    reducer.begin();
    reducer.ready(0);
    EXPECT_THAT(message_of<StateError>([&] { reducer.finish(); }),
                AllOf(HasSubstr("finish, rank 0 of group world"), HasSubstr("1 of 2"), HasSubstr("'bias'")));
  });
}

TEST(Reducer, RefusesWhatHasNoPlaceInAPass) {
  alone([](Reducer& reducer) {
    EXPECT_THAT(message_of<StateError>([&] { reducer.ready(0); }), HasSubstr("no pass is under way"));
    EXPECT_THAT(message_of<StateError>([&] { reducer.finish(); }), HasSubstr("no pass is under way"));
    EXPECT_THAT(message_of<StateError>([&] { (void)reducer.join_step(); }), HasSubstr("without the option to join"));
    reducer.begin();
    EXPECT_THAT(message_of<InvalidArgument>([&] { reducer.mark_unused(1); }),
                HasSubstr("lack, rank 0 of group world: 'bias' is marked unused, which this configuration"));
    EXPECT_THAT(message_of<StateError>([&] { reducer.begin(); }), HasSubstr("a pass is under way"));
    reducer.ready(0);
    EXPECT_THAT(message_of<StateError>([&] { reducer.ready(0); }), HasSubstr("'weight' was ready before"));
    EXPECT_THAT(message_of<OutOfRange>([&] { reducer.ready(2); }), HasSubstr("gradient 2; there are 0 to 1"));
    EXPECT_THAT(message_of<OutOfRange>([&] { reducer.ready(-1); }), HasSubstr("gradient -1"));
    EXPECT_THROW(reducer.clear(), StateError);
    reducer.ready(1);
    reducer.finish();
    EXPECT_THAT(message_of<StateError>([&] { reducer.begin(); }), HasSubstr("have been reduced"));
  });
}

TEST(Reducer, RefusesToLackWhatIsThere) {
  alone(
      [](Reducer& reducer) {
        EXPECT_THAT(message_of<StateError>([&] { reducer.mark_unused(0); }),
                    HasSubstr("'weight' is marked unused, and no"));
        EXPECT_THAT(message_of<OutOfRange>([&] { reducer.mark_unused(2); }), HasSubstr("gradient 2; there are 0 to 1"));
        reducer.begin();
        reducer.ready(0);
        EXPECT_THAT(message_of<StateError>([&] { reducer.mark_unused(0); }), HasSubstr("'weight' was ready before"));
        reducer.mark_unused(1);
        EXPECT_THAT(message_of<StateError>([&] { reducer.ready(1); }), HasSubstr("'bias' is ready, which was said"));
      },
      {.unused = Unused::find_unused});
}

TEST(Reducer, RefusesGradientsThatAreNotTheirParameters) {
  alone([](Reducer& reducer) {
    reducer.begin();
    std::vector<float> values(3);
    EXPECT_THAT(message_of<InvalidArgument>([&] { reducer.ready(0, buffer_of(values)); }),
                AllOf(HasSubstr("'weight' has 3 numbers of f32"), HasSubstr("the parameter 2 of f32")));
    EXPECT_THAT(message_of<InvalidArgument>([&] { reducer.ready(1, {values.data(), 3, DType::i32}); }),
                AllOf(HasSubstr("'bias' has 3 numbers of i32"), HasSubstr("3 of f32")));
  });
}

TEST(Reducer, RefusesPlansThatDoNotFit) {
  run_ranks(1, [](Communicator& world) {
    auto gradients = gradients_of({2, 3});
    const auto refused = [&](const Plan& plan, ReducerOptions options = {}) {
      options.names = {"weight", "bias"};
      return message_of<Error>([&] { const Reducer reducer({&world}, gradients, plan, options); });
    };
    const Plan right = plan_of(gradients, {{1, 0}});
    Plan twice = right;
    twice.members[1].gradient = 1;
    EXPECT_THAT(refused(twice), HasSubstr("'bias' is reduced twice"));
    Plan overlapping = right;
    overlapping.members[1].begin = 2;
    EXPECT_THAT(refused(overlapping), HasSubstr("'weight' has 2 elements from 2 on in a bucket of 5"));
    Plan far = right;
    far.members[1].begin = std::numeric_limits<std::int64_t>::max();
    EXPECT_THAT(refused(far), HasSubstr("'weight' has 2 elements from 9223372036854775807 on in a bucket of 5"));
    Plan many = right;
    many.buckets.push_back({.first_member = 1, .members = std::numeric_limits<int>::max()});
    EXPECT_THAT(refused(many), HasSubstr("a bucket has members that the plan has not"));
    Plan of_doubles = right;
    of_doubles.buckets[0].dtype = DType::f64;
    EXPECT_THAT(refused(of_doubles), HasSubstr("'bias' is of f32, its bucket of f64"));
    Plan unknown = right;
    unknown.members[0].gradient = 7;
    EXPECT_THAT(refused(unknown), HasSubstr("gradient 7 of 2"));
    Plan huge = right;
    huge.buckets[0].elements = std::int64_t{1} << 61;
    EXPECT_THAT(refused(huge),
                HasSubstr("a bucket of 2305843009213693952 elements of 1 numbers; their bytes are 0 or"));
    Plan negative = right;
    negative.buckets.push_back({.elements = -1});
    EXPECT_THAT(refused(negative), HasSubstr("a bucket of -1 elements"));
    Plan of_others = right;
    of_others.buckets.push_back({.group = 1});
    EXPECT_THAT(refused(of_others), HasSubstr("a bucket of group 1; there are 1"));
    const ReducerOptions sharded{.results = Results::sharded};
    EXPECT_EQ(refused(right, sharded), "nothing was thrown") << "one rank has all";
    EXPECT_THAT(refused(right, {.memory = GradientMemory::copies, .results = Results::sharded}),
                HasSubstr("sharded results need gradients in their buckets"));
    EXPECT_THAT(refused(right, {.unused = Unused::find_unused, .results = Results::sharded}),
                HasSubstr("gradients that are known in advance"));
    EXPECT_THAT(refused(right, {.split = Split{2, 1}}), HasSubstr("the product must be the 1 ranks"));
    EXPECT_THAT(refused(right, {.divisors = {2, 2}}), HasSubstr("2 divisors for 1 groups"));
    EXPECT_THAT(refused(right, {.divisors = {0}}), HasSubstr("divided by 0; 1 or more are possible"));
    EXPECT_THAT(refused(right, {.average = false, .divisors = {2}}), HasSubstr("are of averages"));
    EXPECT_THAT(refused(right, {.unused = Unused::static_graph, .join = true}),
                HasSubstr("is not learned from one where"));
    EXPECT_THAT(refused(right, {.unused = Unused::find_unused, .reduced = [](int) {}}),
                HasSubstr("gradients that are known before the pass ends"));
    EXPECT_THAT(refused(right, {.lazy = true}), HasSubstr("have their memory from the start"));
    EXPECT_THAT(refused(right, {.results = Results::sharded, .inter_instance = {nullptr}}),
                HasSubstr("1 inter-instance groups for 1 groups"));
    EXPECT_THAT(refused(right, {.results = Results::sharded, .inter_instance = {&world, &world}}),
                HasSubstr("2 inter-instance groups for 1 groups"));
    EXPECT_THAT(refused(right, {.inter_instance = {&world}}), HasSubstr("inter-instance groups need sharded results"));
    EXPECT_THAT(refused(right, {.wire = DType::i32}), HasSubstr("do not travel as i32"));
    gradients[0].sparse = true;
    gradients[0].dtype = DType::f16;
    EXPECT_THAT(refused(right), HasSubstr("'weight' is sparse and of f16"));
    gradients[0].dtype = DType::f32;
    EXPECT_THAT(refused(right, {.results = Results::sharded}), HasSubstr("'weight' is sparse; no hook exchanges it"));
    gradients[0] = {.elements = 2, .device = {comm::Device::Kind::cuda, 0}};
    EXPECT_THAT(refused(right), HasSubstr("'weight' lies on cuda:0"));
    gradients[0] = {.elements = 2, .group = 3};
    EXPECT_THAT(refused(right), HasSubstr("'weight' is of group 3; there are 1"));
  });
}

TEST(Reducer, SaysForWhomItWaited) {
  std::atomic<bool> over = false;
  run_ranks(2, [&](Communicator& world) {
    const auto gradients = gradients_of({600});
    Reducer reducer({&world}, gradients, plan_of(gradients, {{0}}),
                    {.names = {"weight"}, .timeout = std::chrono::seconds(5)});  // of begin(), too
    reducer.begin();
    if (world.rank() == 1) {  // its gradient is never there
      while (!over) std::this_thread::yield();
      return;
    }
    reducer.ready(0);
    EXPECT_THAT(message_of<comm::TimeoutError>([&] { reducer.finish(); }),
                AllOf(HasSubstr("finish, rank 0 of group world: bucket 0 of 1 ('weight')"), HasSubstr("rank 1")));
    over = true;
  });
}

TEST(Buckets, CloseAtTheirLimits) {
  std::vector<Gradient> gradients = gradients_of({10, 20, 30, 5});
  gradients[1].dtype = DType::f64;
  const std::vector<int> order{3, 2, 1, 0};
  const std::vector<std::int64_t> limits{20, 1000};
  const Plan plan = buckets_in_order(gradients, order, limits);
  const auto members = [&](std::size_t bucket) {
    std::vector<int> list;
    for (const Member& member : plan.members_of(plan.buckets.at(bucket))) list.push_back(member.gradient);
    return list;
  };
  ASSERT_EQ(plan.buckets.size(), 3u);
  EXPECT_THAT(members(0), ElementsAre(3)) << "20 bytes reach the first limit";
  EXPECT_THAT(members(1), ElementsAre(1)) << "of another type";
  EXPECT_THAT(members(2), ElementsAre(2, 0));
  EXPECT_EQ(plan.buckets[2].elements, 40);
  EXPECT_EQ(buckets_in_order(gradients, order, std::vector<std::int64_t>{0}).buckets.size(), 4u);
  EXPECT_EQ(buckets_in_order(gradients, std::vector{0}, std::vector{kNoLimit}).members.size(), 1u);
  EXPECT_THROW((void)buckets_in_order(gradients, std::vector{4}, limits), OutOfRange);
  EXPECT_THROW((void)buckets_in_order(gradients, order, {}), InvalidArgument);
}

TEST(Buckets, OfDelayedGradientsFollowAllOthers) {
  const std::vector<Gradient> gradients = gradients_of({10, 20, 30, 5});
  const std::vector<int> order{3, 0}, delayed{2, 1};
  const std::vector<std::int64_t> limits{4, 1000};
  const Plan plan = buckets_in_order(gradients, order, limits, delayed);
  ASSERT_EQ(plan.buckets.size(), 3U);
  EXPECT_EQ(plan.members_of(plan.buckets[0]).front(), (Member{3, 0}));
  EXPECT_EQ(plan.members_of(plan.buckets[1]).front(), (Member{0, 0}));
  EXPECT_THAT(plan.members_of(plan.buckets[2]), ElementsAre(Member{2, 0}, Member{1, 30}));
  EXPECT_EQ(plan.buckets[2].elements, 50);
  EXPECT_EQ(buckets_in_order(gradients, order, limits, {}), buckets_in_order(gradients, order, limits));
  EXPECT_THROW((void)buckets_in_order(gradients, order, limits, std::vector{0}), InvalidArgument);
  EXPECT_THROW((void)buckets_in_order(gradients, order, limits, std::vector{1, 1}), Error);
  EXPECT_THROW((void)buckets_in_order(gradients, order, {}, delayed), InvalidArgument);
}

TEST(Tuning, ChoosesTheSameOnAllRanksAndTriesEachGradientAlone) {
  std::vector<std::int64_t> chosen(3);
  run_ranks(3, [&](Communicator& world) {
    const auto gradients = gradients_of({100, 3, 2000});
    const Tuning tuning =
        fastest_limit(world, gradients, {.limits = {4096, kNoLimit}, .rounds = 5, .seconds = 0, .per_tensor = true});
    ASSERT_EQ(tuning.times.size(), 3u);
    EXPECT_EQ(tuning.times[0].limit_bytes, 0);
    const auto found = std::ranges::find(tuning.times, tuning.limit_bytes, &BucketTime::limit_bytes);
    ASSERT_NE(found, tuning.times.end());
    const BucketTime& best = *std::ranges::min_element(tuning.times, {}, &BucketTime::seconds);
    EXPECT_LE(found->seconds, best.high);
    for (const BucketTime& time : tuning.times) EXPECT_EQ(time.samples.size(), 3u) << "the time was up at once";
    EXPECT_EQ(tuning.per_tensor.samples.size(), 3u);
    EXPECT_EQ(tuning.times[0].launches, 3);
    EXPECT_EQ(tuning.times[2].launches, 1);
    chosen[static_cast<std::size_t>(world.rank())] = tuning.limit_bytes;
    EXPECT_THROW((void)fastest_limit(world, gradients, {.limits = {-1}}), InvalidArgument);
    EXPECT_THROW((void)fastest_limit(world, gradients, {.rounds = 0}), InvalidArgument);
    EXPECT_THROW((void)fastest_limit(world, gradients, {.seconds = NAN}), InvalidArgument);
  });
  EXPECT_EQ(chosen[1], chosen[0]);
  EXPECT_EQ(chosen[2], chosen[0]);
}

TEST(Tuning, ChoosesTheSmallestBucketsThatAreNotToldApartFromTheFastest) {
  EXPECT_EQ(chosen_limit(std::vector<BucketTime>{{0, 4, 3, 5}, {10, 2, 1.5, 2.5}, {20, 3, 3, 3}}), 10);
  EXPECT_EQ(chosen_limit(std::vector<BucketTime>{{20, 2, 1, 3}, {10, 2.125, 2, 3}, {0, 3.5, 3, 4}}), 10);
  EXPECT_EQ(chosen_limit(std::vector<BucketTime>{{20, 2, 1, 3}, {10, 2.5, 2, 3}, {0, 3.5, 3, 4}}), 20)
      << "however little is known, a tenth is too much";
  EXPECT_EQ(chosen_limit(std::vector<BucketTime>{{0, 2, 2, 2}, {kNoLimit, 2, 2, 2}}), 0) << "it costs the same";
  EXPECT_THROW((void)chosen_limit({}), InvalidArgument);
  EXPECT_THROW((void)chosen_limit(std::vector<BucketTime>{{0, NAN, 1, 2}}), InvalidArgument);
  EXPECT_THROW((void)chosen_limit(std::vector<BucketTime>{{0, 3, 1, 2}}), InvalidArgument);
}

TEST(Tuning, HasNoTimeWithoutSamples) { EXPECT_THROW((void)time_of(0, {}), InvalidArgument); }

TEST(Tuning, NeverChoosesWhatWasSlowerThanOneBucketAGradient) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> seconds(1e-6, 1), part(0, 1);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<BucketTime> times;
    for (const std::int64_t limit : usual_limits()) {
      const double median = seconds(random);
      times.push_back({limit, median, median * part(random), median * (1 + part(random))});
    }
    const std::int64_t chosen = chosen_limit(times);
    const auto found = std::ranges::find(times, chosen, &BucketTime::limit_bytes);
    ASSERT_NE(found, times.end());
    ASSERT_LE(found->seconds, times.front().seconds) << "trial " << trial;
    // Neither the unit nor the order in which they were tried matters.
    for (BucketTime& time : times) time = {time.limit_bytes, time.seconds * 4, time.low * 4, time.high * 4};
    std::ranges::shuffle(times, random);
    ASSERT_EQ(chosen_limit(times), chosen) << "trial " << trial;
  }
}

TEST(ScaledCopy, DividesWhileItCopies) {
  std::vector<float> from{3, 5, 1e-3F}, to(3);
  copy_divided(buffer_of(from), buffer_of(to), 3);
  EXPECT_THAT(to, ElementsAre(1.0F, 5.0F / 3.0F, 1e-3F / 3.0F));
  std::vector<comm::Float16> half(3);
  copy_divided(buffer_of(from), {half.data(), 3, DType::f16}, 1);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(half[i], comm::to_float16(from[i]));
  copy_divided({half.data(), 3, DType::f16}, buffer_of(to), 2);
  EXPECT_EQ(to[0], 1.5F);
  std::int32_t number = 1;
  EXPECT_THROW(copy_divided({&number, 1, DType::i32}, {&number, 1, DType::i32}, 2), Unsupported);
  EXPECT_THROW(copy_divided(buffer_of(from), {to.data(), 2, DType::f32}, 2), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::bucketing
