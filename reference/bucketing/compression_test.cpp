// Bytes in place of numbers, and columns made orthonormal.
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/power_sgd.hpp"
#include "reference/bucketing/quantised.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/half.hpp"
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

// What a hook makes of one bucket that holds one gradient.
void exchange(Communicator& group, const CommunicationHook& hook, Buffer values) {
  const std::vector<Member> members{{0, 0}};
  const HookedBucket bucket{.index = 0, .values = values, .members = members};
  hook.start(group, bucket).wait();
  hook.finish(group, bucket);
}
std::vector<float> quantised(std::vector<float> values, std::int64_t channel = kWholeBucket) {
  run_ranks(
      1, [&](Communicator& world) { exchange(world, quantising_hook(channel), {values.data(), std::ssize(values)}); });
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
      exchange(world, quantising_hook(channel), {values.data(), 600});
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

TEST(Orthonormalising, DropsWhatDependsOnOthers) {
  std::vector<double> matrix{1, 2, 0, 2, 4, 0, 2, 4, 0};  // the second column is twice the first, the third is zero
  orthonormalise(matrix, 3, 0);
  for (const std::size_t row : {0U, 1U, 2U}) EXPECT_THAT(std::span(matrix).subspan(3 * row + 1, 2), ElementsAre(0, 0));
}

TEST(PowerSgd, RefusesWhatItCannotDo) {
  const auto refused = [](std::vector<MatrixShape> shapes, PowerSgdOptions options = {}) {
    return said_by<InvalidArgument>([&] { PowerSgd sgd(std::move(shapes), options); });
  };
  EXPECT_THAT(refused({{2, 2}, {0, 5}}), HasSubstr("gradient 1 has 0 rows and 5 columns"));
  EXPECT_THAT(refused({}, {.rank = 0}), HasSubstr("rank 0; 1 or more"));
  EXPECT_THAT(refused({}, {.start = -1}), HasSubstr("start after -1 reductions"));
  EXPECT_THAT(refused({}, {.least_rate = -2}), HasSubstr("rate -2"));
  EXPECT_THAT(refused({}, {.epsilon = std::nan("")}), HasSubstr("epsilon nan"));
  run_ranks(1, [](Communicator& world) {
    std::vector<float> values(4);
    EXPECT_THAT(said_by<InvalidArgument>([&] { exchange(world, PowerSgd({}).hook(), {values.data(), 4}); }),
                HasSubstr("gradient 0; the shapes of 0 are known"));
    EXPECT_THAT(said_by<InvalidArgument>([&] {
                  exchange(world, PowerSgd({{3, 3}}, {.start = 0, .least_rate = 0}).hook(), {values.data(), 4});
                }),
                HasSubstr("gradient 0 has 3 x 3 numbers from 0 on in a bucket of 4"));
    EXPECT_THAT(said_by<OutOfRange>([] { (void)PowerSgd({}).error(0); }), HasSubstr("gradient 0; there are 0"));
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
    for (int step = 0; step < 3; ++step) exchange(world, sgd.hook(), {values.data(), 16});
  });
  EXPECT_THAT(values, testing::Each(0));
}

// A direction that a step of zeros has lost is found again.
TEST(PowerSgd, BeginsLostDirectionsAnew) {
  run_ranks(1, [&](Communicator& world) {
    const PowerSgd sgd({{2, 2}}, {.rank = 2, .start = 0, .least_rate = 0});
    std::vector<float> zeros(4), values{1, 2, 3, 5};
    exchange(world, sgd.hook(), {zeros.data(), 4});
    exchange(world, sgd.hook(), {values.data(), 4});
    const std::vector<float> expected{1, 2, 3, 5};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(values[i], expected[i], 1e-4);
  });
}

}  // namespace
}  // namespace plumbline::bucketing
