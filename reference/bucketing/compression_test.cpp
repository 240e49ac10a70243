// Bytes in place of numbers, and columns made orthonormal.
#include "reference/bucketing/compression.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::bucketing {
namespace {

using comm::Buffer;
using comm::Communicator;
using comm::DType;
using comm::run_ranks;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Thrown, class Part>
std::string said_by(const Part& part) {
  try {
    part();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "nothing";
}

// What a hook makes of one bucket that holds gradients of so many elements, or one of all.
void exchange(Communicator& group, const CommunicationHook& hook, Buffer values,
              std::vector<std::int64_t> elements = {}) {
  if (elements.empty()) elements = {values.count};
  std::vector<Member> members;
  std::vector<Gradient> gradients;
  std::int64_t begin = 0;
  for (const std::int64_t count : elements) {
    members.push_back({static_cast<int>(members.size()), begin});
    gradients.push_back({.elements = count, .dtype = values.dtype});
    begin += count;
  }
  const HookedBucket bucket{.index = 0, .values = values, .members = members, .gradients = gradients};
  hook.start(group, bucket).wait();
  hook.finish(group, bucket);
}
std::vector<float> quantised(std::vector<float> values, std::int64_t channel = kWholeBucket) {
  run_ranks(1, [&](Communicator& world) { exchange(world, quantising_hook(channel), Buffer::of(values)); });
  return values;
}

// Recorded from torch 2.13: MinMaxObserver, and the arithmetic of quantization_pertensor_hook.
TEST(Quantising, IsPyTorchs) {
  const auto expect = [](const std::vector<float>& values, float scale, float zero_point,
                         const std::vector<float>& back) {
    const Quantisation by = quantisation_of(values);
    EXPECT_EQ(by.scale, scale);
    EXPECT_EQ(by.zero_point, zero_point);
    EXPECT_EQ(quantised(values), back);
  };
  expect({1.0F, -2.0F, 0.5F, 3.1F}, 0.019999999552965164F, 100, {1.0F, -2.0F, 0.5F, 3.0999999046325684F});
  expect({0.25F, 0.75F, 1.0F}, 0.003921568859368563F, 0, {0.250980406999588F, 0.7490196228027344F, 1.0F});
  expect({-4.0F, -0.1F}, 0.01568627543747425F, 255, {-4.0F, -0.0941176563501358F});
  expect({2.55F, -0.0149F, 0.015F, 0.025F, 0.035F}, 0.010058430954813957F, 1,
         {2.5548415184020996F, -0.010058430954813957F, 0.010058430954813957F, 0.020116861909627914F,
          0.03017529286444187F});
}

// Recorded likewise of two ranks: the observers and arithmetic of both hooks.
TEST(Quantising, IsPyTorchsOverRanks) {
  const std::vector<std::size_t> places{0, 1, 2, 255, 511, 512, 599};
  const std::vector<float> by_bucket{-9.13165283203125F,    -1.204481840133667F, 6.694677829742432F,
                                     -0.11204484105110168F, -4.817927360534668F, 3.0812325477600098F,
                                     0.30812326073646545F};
  std::vector<float> by_channel = by_bucket;
  by_channel[5] = 3.07619047164917F;
  by_channel[6] = 0.31232497096061707F;
  for (const auto& [channel, expected] : {std::pair(kWholeBucket, by_bucket), std::pair(kUsualChannel, by_channel)})
    run_ranks(2, [&](Communicator& world) {
      std::vector<float> values;
      for (int i = 0; i < 600; ++i)
        values.push_back(static_cast<float>((i * 37 + world.rank() * 11) % 101 - 50) / 7 *
                         static_cast<float>(1 + world.rank()));
      exchange(world, quantising_hook(channel), {values.data(), 600, DType::f32});
      for (std::size_t i = 0; i < places.size(); ++i)
        EXPECT_EQ(values[places[i]], expected[i]) << "channel " << channel << ", number " << places[i];
    });
}

TEST(Quantising, TakesWhatIsSmallerThanAnyScaleForZero) {
  EXPECT_EQ(quantisation_of(std::vector{0.0F, 0.0F}).scale, 0x1p-23F);
  EXPECT_THAT(quantised({1e-9F, -1e-9F}), ElementsAre(0, 0));
  EXPECT_THAT(quantised({}), ElementsAre());
}

TEST(Quantising, GivesEachChannelAScale) {
  EXPECT_THAT(quantised({1000, 0, 1, 0.5F}, 2), ElementsAre(1000, 0, 1, testing::FloatNear(0.5F, 0.5F / 255)));
  EXPECT_THAT(quantised({1000, 1, 0.5F}, 2), ElementsAre(1000, 0, 0.5F)) << "the last one may be shorter";
}

TEST(Quantising, HandsOnWhatIsNoNumberInItsChannelAlone) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> back = quantised({1, infinity, 1, 0}, 2);
  EXPECT_TRUE(std::isnan(back[0]) && std::isnan(back[1]));
  EXPECT_THAT(std::span(back).last(2), ElementsAre(1, 0));
  const float most = std::numeric_limits<float>::max();
  EXPECT_TRUE(std::isnan(quantised({most, -most})[0])) << "their distance is no number";
}

TEST(Quantising, TakesHalves) {
  std::vector<comm::BFloat16> values{comm::to_bfloat16(255), comm::to_bfloat16(-0.25F), comm::to_bfloat16(7.25F)};
  run_ranks(1, [&](Communicator& world) { exchange(world, quantising_hook(), {values.data(), 3, DType::bf16}); });
  EXPECT_EQ(comm::to_float(values[0]), 255);
  EXPECT_EQ(comm::to_float(values[1]), 0);
  EXPECT_EQ(comm::to_float(values[2]), 7);
}

TEST(Quantising, RefusesWhatItCannotDo) {
  EXPECT_THAT(said_by<InvalidArgument>([] { (void)quantising_hook(-1); }), HasSubstr("channels of -1 numbers"));
  run_ranks(1, [](Communicator& world) {
    std::vector<std::int64_t> values{1};
    EXPECT_THAT(said_by<Unsupported>([&] { exchange(world, quantising_hook(), {values.data(), 1, DType::i64}); }),
                HasSubstr("bucket 0 of i64: only floating numbers are quantised"));
  });
}

TEST(Orthonormalising, LeavesColumnsOfLengthOneAtRightAngles) {
  std::vector<double> matrix{3, 1, 4, 1};  // rows (3 1) and (4 1)
  orthonormalise(matrix, 2, 0);
  EXPECT_DOUBLE_EQ(matrix[0], 0.6);
  EXPECT_DOUBLE_EQ(matrix[2], 0.8);
  EXPECT_NEAR(matrix[0] * matrix[1] + matrix[2] * matrix[3], 0, 1e-15);
  EXPECT_NEAR(std::hypot(matrix[1], matrix[3]), 1, 1e-15);
}

TEST(Orthonormalising, TakesColumnsOfAnyLength) {
  for (const double length : {1e-30, 1.0, 1e12, 1e38}) {
    std::vector<double> matrix{3 * length, length, 4 * length, length};
    orthonormalise(matrix, 2, 0);
    EXPECT_DOUBLE_EQ(matrix[0], 0.6) << length;
    EXPECT_DOUBLE_EQ(matrix[2], 0.8) << length;
    EXPECT_NEAR(std::hypot(matrix[1], matrix[3]), 1, 1e-14) << length;
  }
}

TEST(Orthonormalising, DropsWhatDependsOnOthers) {
  std::vector<double> matrix{1, 2, 0, 2, 4, 0, 2, 4, 0};  // the second column is twice the first, the third is zero
  orthonormalise(matrix, 3, 0);
  for (const std::size_t row : {0U, 1U, 2U}) EXPECT_THAT(std::span(matrix).subspan(3 * row + 1, 2), ElementsAre(0, 0));
}

TEST(PowerSgd, RefusesWhatItCannotDo) {
  const auto refused = [](std::vector<MatrixShape> shapes, PowerSgdOptions options = {}) {
    return said_by<InvalidArgument>([&] { PowerSgd sgd(std::move(shapes), options); });
  };
  EXPECT_THAT(refused({{2, 2}, {-1, 5}}), HasSubstr("gradient 1 has -1 rows and 5 columns; 0 or more"));
  EXPECT_THAT(refused({}, {.rank = 0}), HasSubstr("rank 0; 1 or more"));
  EXPECT_THAT(refused({}, {.start = -1}), HasSubstr("start after -1 reductions"));
  EXPECT_THAT(refused({}, {.least_rate = -2}), HasSubstr("rate -2"));
  EXPECT_THAT(refused({}, {.epsilon = std::nan("")}), HasSubstr("epsilon nan"));
  run_ranks(1, [](Communicator& world) {
    std::vector<float> values(4);
    EXPECT_THAT(said_by<InvalidArgument>([&] { exchange(world, PowerSgd({}).hook(), {values.data(), 4, DType::f32}); }),
                HasSubstr("gradient 0; the shapes of 0 are known"));
    EXPECT_THAT(said_by<InvalidArgument>([&] {
                  exchange(world, PowerSgd({{3, 3}}, {.start = 0, .least_rate = 0}).hook(),
                           {values.data(), 4, DType::f32}, {9});
                }),
                HasSubstr("gradient 0 has 3 x 3 numbers from 0 on in a bucket of 4"));
    EXPECT_THAT(said_by<OutOfRange>([] { (void)PowerSgd({}).error(0); }), HasSubstr("gradient 0; there are 0"));
  });
}

// A shape of fewer numbers would leave the others each rank's own; one of more would take the next gradient's.
TEST(PowerSgd, RefusesShapesOfOtherGradients) {
  run_ranks(1, [](Communicator& world) {
    std::vector<float> values(12);
    const auto refused = [&](MatrixShape shape) {
      return said_by<InvalidArgument>([&] {
        const PowerSgd sgd({{2, 3}, shape}, {.start = 0, .least_rate = 0});
        exchange(world, sgd.hook(), {values.data(), 12, DType::f32}, {6, 6});
      });
    };
    EXPECT_EQ(refused({3, 2}), "nothing");
    EXPECT_THAT(refused({2, 2}), HasSubstr("gradient 1 of 6 elements was given as 2 x 2"));
    EXPECT_THAT(refused({6, 2}), HasSubstr("gradient 1 of 6 elements was given as 6 x 2"));
    EXPECT_THAT(refused({0, 6}), HasSubstr("gradient 1 of 6 elements was given as 0 x 6"));
    EXPECT_THAT(refused({INT64_MAX / 2 + 4, 2}), HasSubstr("gradient 1 of 6 elements"));
  });
}

TEST(PowerSgd, LeavesGradientsWithoutElementsAlone) {
  run_ranks(2, [](Communicator& world) {
    std::vector<float> values(2, static_cast<float>(world.rank()));
    const PowerSgd sgd({{0, 0}, {2, 1}}, {.start = 0, .least_rate = 0});
    exchange(world, sgd.hook(), {values.data(), 2, DType::f32}, {0, 2});
    EXPECT_THAT(values, testing::Each(testing::FloatNear(0.5F, 1e-6F)));
  });
}

// All that has come, in the end or in what is left over, is all that there was: to the rounding of f32, not of halves.
TEST(PowerSgd, KeepsWhatRoundingToHalvesTakesOff) {
  run_ranks(1, [](Communicator& world) {
    constexpr int steps = 40;
    std::vector<float> gradient;
    for (int i = 0; i < 6 * 5; ++i) gradient.push_back(static_cast<float>((i * 37 + i * i) % 101 - 50) / 64);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const PowerSgd sgd({{6, 5}}, {.rank = 2, .start = 0, .least_rate = 0});
      std::vector<double> come(gradient.size());
      for (int step = 0; step < steps; ++step) {
        std::vector<std::uint16_t> halves(gradient.size());
        std::vector<float> back(gradient.size());
        const Buffer values{halves.data(), std::ssize(halves), dtype};
        copy_divided(Buffer::of(gradient), values, 1);
        exchange(world, sgd.hook(), values);
        copy_divided(values, Buffer::of(back), 1);
        for (std::size_t i = 0; i < come.size(); ++i) come[i] += static_cast<double>(back[i]);
      }
      for (std::size_t i = 0; i < come.size(); ++i)
        EXPECT_NEAR(come[i] + static_cast<double>(sgd.error(0)[i]), steps * static_cast<double>(gradient[i]), 1e-4)
            << name_of(dtype) << ", number " << i;
    }
  });
}

// Approximations whose numbers are larger than all of the gradient's. What comes after them is as if they had not been.
TEST(PowerSgd, ForgetsProductsThatAreBeyondTheType) {
  run_ranks(1, [](Communicator& world) {
    int beyond = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const PowerSgd sgd({{3, 3}}, {.rank = 2, .start = 0, .least_rate = 0, .seed = seed});
      std::vector<float> values{-1.7e38F, -0.3e38F, 2.7e38F, -0.3e38F, -0.3e38F, -3.2e38F, 2.9e38F, -1.4e38F, 0.6e38F};
      exchange(world, sgd.hook(), {values.data(), 9, DType::f32});
      if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
      ++beyond;
      values = {1, 2, 3, 4, 5, 6, 7, 8, 10};
      exchange(world, sgd.hook(), {values.data(), 9, DType::f32});
      EXPECT_THAT(values, testing::Each(testing::Truly([](float value) { return std::abs(value) < 20; }))) << seed;
    }
    EXPECT_GT(beyond, 0) << "the test is wrong";
  });
}
TEST(PowerSgd, ForgetsProductsThatAreBeyondHalves) {
  run_ranks(1, [](Communicator& world) {
    const PowerSgd sgd({{2, 2}}, {.start = 0, .least_rate = 0});
    const auto step = [&](const std::vector<float>& gradient) {
      std::vector<comm::Float16> halves;
      for (const float value : gradient) halves.push_back(comm::to_float16(value));
      exchange(world, sgd.hook(), {halves.data(), 4, DType::f16});
      return std::ranges::all_of(halves, [](comm::Float16 half) { return std::isfinite(comm::to_float(half)); });
    };
    int beyond = 0;
    for (int i = 0; i < 4; ++i) beyond += step({60000, 60000, 60000, 0}) ? 0 : 1;  // it nears 60000 x 1.17
    EXPECT_GT(beyond, 0) << "the test is wrong";
    EXPECT_TRUE(step({1, 2, 3, 5}));
    EXPECT_TRUE(step({1, 2, 3, 5}));
  });
}

TEST(PowerSgd, AveragesTypesThatItDoesNotCompress) {
  run_ranks(2, [](Communicator& world) {
    std::vector<double> values(16, world.rank() == 0 ? 1e300 : 3e300);
    const PowerSgd sgd({{4, 4}}, {.start = 0, .least_rate = 0});
    exchange(world, sgd.hook(), {values.data(), 16, DType::f64});
    EXPECT_DOUBLE_EQ(values.back(), 2e300);
    EXPECT_TRUE(sgd.error(0).empty());
  });
}

TEST(PowerSgd, LeavesZerosZero) {
  std::vector<float> values(16);
  run_ranks(1, [&](Communicator& world) {
    const PowerSgd sgd({{4, 4}}, {.rank = 2, .start = 0, .least_rate = 0, .epsilon = 0});
    for (int step = 0; step < 3; ++step) exchange(world, sgd.hook(), {values.data(), 16, DType::f32});
  });
  EXPECT_THAT(values, testing::Each(0));
}

// A direction that a step of zeros has lost is found again.
TEST(PowerSgd, BeginsLostDirectionsAnew) {
  run_ranks(1, [&](Communicator& world) {
    const PowerSgd sgd({{2, 2}}, {.rank = 2, .start = 0, .least_rate = 0});
    std::vector<float> zeros(4), values{1, 2, 3, 5};
    exchange(world, sgd.hook(), {zeros.data(), 4, DType::f32});
    exchange(world, sgd.hook(), {values.data(), 4, DType::f32});
    const std::vector<float> expected{1, 2, 3, 5};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(values[i], expected[i], 1e-4);
  });
}

}  // namespace
}  // namespace plumbline::bucketing
