#include <limits>

#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/training/gradient_settings.hpp"

namespace plumbline::training {
namespace {

constexpr double kLargest = std::numeric_limits<double>::infinity();

TEST(PrecisionSettings, ClipAsTheSpecificationSays) {
  job::RunSpec spec;
  EXPECT_EQ(with_clip_of(spec, {.clip_norm = 3, .norm_type = 1}).clip_norm, 3);
  spec.clip = job::Clip{.max_norm = 1, .norm_type = kLargest};
  // What does not clip says nothing of the norm's type.
  for (const PrecisionSettings& given : {PrecisionSettings{}, {.clip_norm = 1, .norm_type = kLargest}}) {
    EXPECT_EQ(with_clip_of(spec, given).clip_norm, 1);
    EXPECT_EQ(with_clip_of(spec, given).norm_type, kLargest);
  }
}

TEST(PrecisionSettings, AreRefusedWhereTheSpecificationClipsInAnotherWay) {
  job::RunSpec spec;
  spec.clip = job::Clip{.max_norm = 1, .norm_type = 2};
  EXPECT_THROW((void)with_clip_of(spec, {.clip_norm = 2}), InvalidArgument);
  EXPECT_THROW((void)with_clip_of(spec, {.clip_norm = 1, .norm_type = kLargest}), InvalidArgument);
  EXPECT_NO_THROW((void)with_clip_of(spec, {.clip_norm = 1}));
}

TEST(PrecisionSettings, DoNotClipWhereStepsOrParametersHaveRulesOfTheirOwn) {
  job::RunSpec scheduled, grouped, frozen;
  scheduled.rate_schedule = job::RateSchedule{};
  grouped.no_decay = {"0.bias"};
  frozen.frozen = {"0.bias"};
  for (const job::RunSpec& spec : {scheduled, grouped, frozen}) {
    EXPECT_THROW(require_possible(spec, {.clip_norm = 1}), InvalidArgument);
    EXPECT_NO_THROW(require_possible(spec, PrecisionSettings{}));
  }
}

}  // namespace
}  // namespace plumbline::training
