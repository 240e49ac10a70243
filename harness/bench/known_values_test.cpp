#include "harness/bench/known_values.hpp"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

using comm::Buffer;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(KnownValues, DifferFromRankToRankAndPlaceToPlace) {
  std::vector<float> values(3000), sum(3000);
  for (int rank = 0; rank < 64; ++rank) {
    fill_known(Buffer::of(values), 5, factor_of_rank(rank));
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
  }
  EXPECT_NO_THROW(require_known(Buffer::of(sum), 5, factor_of_sum(64), "sum"));
  EXPECT_THROW(require_known(Buffer::of(sum), 6, factor_of_sum(64), "sum"), RuntimeFailure);
  sum[2999] -= factor_of_rank(0);
  EXPECT_THAT([&] { require_known(Buffer::of(sum), 5, factor_of_sum(64), "sum"); },
              ThrowsMessage<RuntimeFailure>(HasSubstr("sum, element 2999 of 3000: ")));
  std::rotate(values.begin(), values.begin() + 1, values.end());
  EXPECT_THROW(require_known(Buffer::of(values), 5, factor_of_rank(63), "own"), RuntimeFailure);
  EXPECT_EQ(factor_of_mean(3), 2);
}

}  // namespace
}  // namespace plumbline::bucketing
