#include "harness/run/launches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::run {
namespace {

using record::Launch;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Launches, CountOnceEach) {
  const std::vector<Launch> launches{{.samples = {1, 1, 9}}, {.samples = {3}}, {.samples = {5, 5, 5, 5, 5}}};
  EXPECT_THAT(medians_of(launches), ElementsAre(1, 3, 5));
  EXPECT_EQ(center_of({.samples = {1, 1, 9, 3, 5, 5, 5, 5, 5}, .launches = launches}), 3);
  EXPECT_EQ(center_of({.samples = {2, 4, 6}}), 4) << "a record without launches";
}

// By the tables of the sign test: of 6 values the extremes (97 %), of 20 the 6th and the 15th (96 %).
TEST(Launches, IntervalHoldsTheMedianAt95Percent) {
  std::vector<double> values{5, 3, 1, 4, 2};
  EXPECT_FALSE(interval_of_median(values)) << "2^-4 is more than 5 %";
  EXPECT_FALSE(interval_of_median({}));
  values.push_back(6);
  EXPECT_EQ(interval_of_median(values), std::pair(1.0, 6.0));
  values.clear();
  for (int i = 20; i > 0; --i) values.push_back(i);
  EXPECT_EQ(interval_of_median(values), std::pair(6.0, 15.0));
  values.clear();
  for (int i = 1; i <= 2000; ++i) values.push_back(i);
  EXPECT_EQ(interval_of_median(values), std::pair(956.0, 1045.0)) << "by scipy's binomial distribution";
}

TEST(Launches, HaveTheWorstOfTheirWindows) {
  const Launch good{.samples = {1}, .host = {{"load", 1}, {"window_seconds", 1e-5}, {"windows_missed_ratio", 0.1}}};
  Launch longer = good, missed = good;
  longer.host["window_seconds"] = 4e-5;
  missed.host["windows_missed_ratio"] = 0.9;
  EXPECT_EQ(worst_of_windows({longer, missed, good}),
            (std::map<std::string, double>{{"window_seconds", 4e-5}, {"windows_missed_ratio", 0.9}}));
  EXPECT_TRUE(worst_of_windows({{.samples = {1}, .host = {{"load", 1}}}}).empty()) << "none had windows";
}

TEST(Launches, AreNoisyWhereAQuarterWas) {
  const Launch quiet{.samples = {1}, .host = {{"steal", 0}, {"waited", 0.001}, {"calibration_seconds", 1e-4}}};
  Launch waits = quiet;
  waits.host["waited"] = 0.31;
  Launch slow = quiet;
  slow.host["calibration_seconds"] = 1.4e-4;
  Launch stolen = quiet;
  stolen.host["steal"] = 0.5;
  EXPECT_EQ(why_noisy({quiet, quiet, quiet, waits}, 1e-4), "");
  EXPECT_EQ(why_noisy({quiet, quiet, slow, waits}, 1e-4),
            "2 of 4 launches: ranks without a core 31 % of the time, calibration loop 1.40 times its best");
  EXPECT_THAT(why_noisy({stolen}, 1e-4), HasSubstr("50 % of the processors' time stolen"));
  EXPECT_EQ(why_noisy({{.samples = {1}}}, 1e-4), "") << "nobody looked";
}

}  // namespace
}  // namespace plumbline::run
