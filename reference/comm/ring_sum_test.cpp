#include "reference/comm/ring_sum.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

// Recorded sums of the real gloo are asked through the adapter door. Here: the rule against a ring that
// passes messages, rank order against the local backend, and what is refused.
namespace plumbline::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

template <class T>
using Columns = std::vector<std::vector<T>>;

template <class T>
std::vector<std::span<const T>> views(const Columns<T>& columns) {
  return {columns.begin(), columns.end()};
}

template <class T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, Float16>)
    return to_float16(value);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else
    return static_cast<T>(value);
}

template <class T>
T added(T a, T b) {
  if constexpr (sizeof(T) == 2)
    return rounded<T>(to_float(a) + to_float(b));
  else
    return a + b;
}

template <class T>
Columns<T> random_columns(int ranks, std::size_t elements) {
  std::mt19937 generator(static_cast<unsigned>(ranks * 1000 + static_cast<int>(elements)));
  std::normal_distribution<float> normal(0.0f, 3.0f);
  Columns<T> columns(static_cast<std::size_t>(ranks));
  for (auto& column : columns)
    for (std::size_t i = 0; i < elements; ++i) column.push_back(rounded<T>(normal(generator)));
  return columns;
}

template <class T>
std::vector<std::byte> bytes(const std::vector<T>& values) {
  std::vector<std::byte> raw(values.size() * sizeof(T));
  if (!raw.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  return raw;
}

// A ring of ranks that hold their own chunks and pass one a step to the rank below, which adds its own
// elements.
template <class T>
std::vector<T> passed_around(Columns<T> held) {
  const int n = static_cast<int>(held.size());
  const int elements = static_cast<int>(held[0].size());
  const int half_chunk = static_cast<int>(std::ceil(elements / (2.0 * n)));
  const auto begin = [&](int chunk) { return std::min(elements, chunk * 2 * half_chunk); };
  for (int step = 1; step < n; ++step) {
    const Columns<T> sent = held;
    for (int sender = 0; sender < n; ++sender) {
      const int receiver = (sender + n - 1) % n;
      const int chunk = (sender + step) % n;
      for (int i = begin(chunk); i < begin(chunk + 1); ++i)
        held[receiver][i] = added(sent[sender][i], held[receiver][i]);
    }
  }
  std::vector<T> result;
  for (int chunk = 0; chunk < n; ++chunk)
    for (int i = begin(chunk); i < begin(chunk + 1); ++i) result.push_back(held[chunk][i]);
  return result;
}

template <class T>
constexpr DType kDType = std::is_same_v<T, Float16>    ? DType::f16
                         : std::is_same_v<T, BFloat16> ? DType::bf16
                         : std::is_same_v<T, float>    ? DType::f32
                                                       : DType::f64;

template <class T>
class Sums : public testing::Test {};
using Types = testing::Types<Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(Sums, Types);

TYPED_TEST(Sums, InRingOrderAreThoseOfRanksThatPassChunksDown) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (const std::size_t elements : {0, 1, 2, 3, 5, 8, 17, 18, 19, 23, 64, 101}) {
      const auto columns = random_columns<TypeParam>(ranks, elements);
      ASSERT_EQ(bytes(ring_sum<TypeParam>(views(columns))), bytes(passed_around(columns)))
          << ranks << " ranks, " << elements << " elements";
    }
}

TYPED_TEST(Sums, InRankOrderAreThoseOfTheLocalBackend) {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (const std::size_t elements : {1, 7, 1000}) {
      const auto columns = random_columns<TypeParam>(ranks, elements);
      std::vector<TypeParam> reduced(elements);
      run_ranks(ranks, [&](Communicator& world) {
        const auto& mine = columns[static_cast<std::size_t>(world.rank())];
        const auto count = static_cast<std::int64_t>(elements);
        world.reduce({mine.data(), count, kDType<TypeParam>}, {reduced.data(), count, kDType<TypeParam>}, ReduceOp::sum,
                     0);
      });
      ASSERT_EQ(bytes(rank_order_sum<TypeParam>(views(columns))), bytes(reduced))
          << ranks << " ranks, " << elements << " elements";
    }
}

TYPED_TEST(Sums, OfNoElementsAreEmpty) {
  const Columns<TypeParam> columns(3);
  EXPECT_THAT(ring_sum<TypeParam>(views(columns)), IsEmpty());
  EXPECT_THAT(rank_order_sum<TypeParam>(views(columns)), IsEmpty());
}

TYPED_TEST(Sums, OfNoRanksAreRefused) {
  const Columns<TypeParam> columns;
  EXPECT_THAT([&] { (void)ring_sum<TypeParam>(views(columns)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("no ranks")));
  EXPECT_THAT([&] { (void)rank_order_sum<TypeParam>(views(columns)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("no ranks")));
}

TYPED_TEST(Sums, OfDifferentLengthsAreRefusedByName) {
  Columns<TypeParam> columns(3, std::vector<TypeParam>(4));
  columns[2].resize(5);
  const auto message = HasSubstr("rank 2 gives 5 elements, rank 0 gives 4");
  EXPECT_THAT([&] { (void)ring_sum<TypeParam>(views(columns)); }, ThrowsMessage<InvalidArgument>(message));
  EXPECT_THAT([&] { (void)rank_order_sum<TypeParam>(views(columns)); }, ThrowsMessage<InvalidArgument>(message));
}

TYPED_TEST(Sums, InRingOrderEndWhereGlooCutsOtherChunks) {
  const std::size_t limit = 2 * 2 * 1024 * 1024 / sizeof(TypeParam);
  Columns<TypeParam> columns(2, std::vector<TypeParam>(limit));
  EXPECT_EQ(ring_sum<TypeParam>(views(columns)).size(), limit);
  for (auto& column : columns) column.emplace_back();
  EXPECT_THAT([&] { (void)ring_sum<TypeParam>(views(columns)); },
              ThrowsMessage<Unsupported>(HasSubstr(std::to_string(limit))));
}

// One element is chunk 0, which starts with the last rank and falls: (c + b) + a.
TEST(RingSum, StartsWithTheRankBelowTheChunk) {
  const Columns<float> columns{{1.0f}, {1e8f}, {-1e8f}};
  EXPECT_THAT(ring_sum<float>(views(columns)), ElementsAre(1.0f));
  EXPECT_THAT(rank_order_sum<float>(views(columns)), ElementsAre(0.0f));
}

// 2048 + 1 is no binary16 and rounds back to 2048, once an addition or once at the end.
TEST(RingSum, RoundsHalfSumsAtEveryAdditionWhereRankOrderRoundsOnce) {
  const Columns<Float16> columns(3, {to_float16(1.0f)});
  auto large = columns;
  large[2] = {to_float16(2048.0f)};
  EXPECT_EQ(to_float(ring_sum<Float16>(views(large))[0]), 2048.0f);
  EXPECT_EQ(to_float(rank_order_sum<Float16>(views(large))[0]), 2050.0f);
}

TEST(RingSum, HandsOnInfinityNanAndTheSignOfZero) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const Columns<double> columns{{inf, -0.0, std::nan("")}, {-inf, -0.0, 1.0}};
  for (const auto& sum : {ring_sum<double>(views(columns)), rank_order_sum<double>(views(columns))}) {
    EXPECT_TRUE(std::isnan(sum[0]));
    EXPECT_TRUE(sum[1] == 0.0 && std::signbit(sum[1]));
    EXPECT_TRUE(std::isnan(sum[2]));
  }
}

}  // namespace
}  // namespace plumbline::comm
