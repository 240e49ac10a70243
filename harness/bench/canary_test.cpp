// What a canary tells of two backends' answers: sums that round and sums that are wrong, and the order of additions.
#include <bit>
#include <cstring>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/bench/canary_probe.hpp"
#include "harness/bench/reduction_order.hpp"

namespace plumbline::bench {
namespace {

using comm::DType;
using comm::Operation;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// The ranks' f32 inputs, added one after another from `first` on, at every rank.
std::vector<Bytes> added_from(const CanaryProbe& probe, int first) {
  std::vector<float> sums(static_cast<std::size_t>(probe.elements));
  for (int r = 0; r < probe.ranks; ++r) {
    const Bytes in = canary_inputs(probe, (first + r) % probe.ranks);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      float x;
      std::memcpy(&x, in.data() + 4 * i, 4);
      sums[i] = r == 0 ? x : sums[i] + x;
    }
  }
  const auto bytes = std::as_bytes(std::span(sums));
  return std::vector<Bytes>(static_cast<std::size_t>(probe.ranks), Bytes(bytes.begin(), bytes.end()));
}

void change(Bytes& bytes, std::size_t element, const std::function<float(float)>& body) {
  float x;
  std::memcpy(&x, bytes.data() + 4 * element, 4);
  x = body(x);
  std::memcpy(bytes.data() + 4 * element, &x, 4);
}

TEST(Canary, ASumInAnyOrderIsRightAndOrdersDiffer) {
  const CanaryProbe probe{.ranks = 5, .elements = 1000, .seed = 3};
  const auto one = added_from(probe, 0), other = added_from(probe, 2);
  for (const auto& answer : {judge_canary(probe, one), judge_canary(probe, other)}) {
    EXPECT_EQ(answer.wrong, "");
    EXPECT_GT(answer.error, 0.01) << "the sums round";
    EXPECT_LT(answer.error, 1);
    EXPECT_TRUE(answer.ranks_are_equal);
  }
  EXPECT_EQ(compare_canary(probe, one, one).differing, 0);
  const auto difference = compare_canary(probe, one, other);
  EXPECT_EQ(difference.elements, 5000);
  EXPECT_GT(difference.differing, 500);
  EXPECT_GE(difference.largest, 1u);
}

// HARNESS-062@c30c
TEST(Canary, WhatNoOrderExplainsIsWrong) {
  const CanaryProbe probe{.ranks = 4, .elements = 10, .seed = 7};
  auto outs = added_from(probe, 0);
  change(outs[2], 9, [](float x) { return x + 0.01F; });
  auto answer = judge_canary(probe, outs);
  EXPECT_THAT(answer.wrong, HasSubstr("rank 2, element 9: "));
  EXPECT_GT(answer.error, 1);
  EXPECT_FALSE(answer.ranks_are_equal);
  outs = added_from(probe, 0);
  change(outs[0], 0, [](float) { return std::numeric_limits<float>::quiet_NaN(); });
  EXPECT_THAT(judge_canary(probe, outs).wrong, HasSubstr("rank 0, element 0: nan"));
  outs[1].pop_back();
  EXPECT_THAT(judge_canary(probe, outs).wrong, HasSubstr("rank 1 has 39 bytes, and not 10 elements"));
  // A share of a rank that is left out is never within the bound.
  const CanaryProbe fewer{.ranks = 3, .elements = 10, .seed = 7};
  auto short_sums = added_from(fewer, 0);
  short_sums.push_back(short_sums[0]);
  EXPECT_NE(judge_canary(probe, short_sums).wrong, "");
}

TEST(Canary, MovesKeepEveryBit) {
  for (const Operation operation : {Operation::all_gather, Operation::all_to_all, Operation::broadcast}) {
    const CanaryProbe probe{.operation = operation, .dtype = DType::bf16, .ranks = 3, .elements = 4, .seed = 5};
    std::vector<Bytes> outs;
    for (int rank = 0; rank < 3; ++rank) {
      Bytes out;
      for (int from = 0; from < (operation == Operation::broadcast ? 1 : 3); ++from) {
        const Bytes in = canary_inputs(probe, from);
        const auto begin = in.begin() + (operation == Operation::all_to_all ? 8 * rank : 0);
        out.insert(out.end(), begin, begin + 8);
      }
      outs.push_back(out);
    }
    EXPECT_EQ(judge_canary(probe, outs).wrong, "") << name_of(operation);
    outs[2][5] ^= std::byte{1};
    EXPECT_THAT(judge_canary(probe, outs).wrong, HasSubstr("rank 2, element 2: ")) << name_of(operation);
  }
}

TEST(Canary, DistanceCountsTheNumbersBetween) {
  const CanaryProbe probe{.operation = Operation::broadcast, .ranks = 1, .elements = 1};
  const auto distance = [&](float one, float other) {
    const auto bytes = [](float x) {
      const auto view = std::as_bytes(std::span(&x, 1));
      return std::vector<Bytes>{Bytes(view.begin(), view.end())};
    };
    return compare_canary(probe, bytes(one), bytes(other)).largest;
  };
  EXPECT_EQ(distance(1, std::nextafter(1.0F, 2.0F)), 1u);
  EXPECT_EQ(distance(-1, std::nextafter(-1.0F, 0.0F)), 1u);
  EXPECT_EQ(distance(0.0F, -0.0F), 0u);
  EXPECT_EQ(distance(std::bit_cast<float>(1), std::bit_cast<float>(0x80000001u)), 2u) << "the least, of both signs";
}

// ---- the order of additions ----

// The sizes that an adder over ranks shows to the probes.
SubtreeSizes probed(int ranks, const std::function<float(const std::vector<float>&)>& add) {
  SubtreeSizes sizes;
  for (int i = 0; i < ranks; ++i)
    for (int j = i + 1; j < ranks; ++j) {
      std::vector<float> values(static_cast<std::size_t>(ranks), 1.0F);
      values[static_cast<std::size_t>(i)] = kAbsorbing;
      values[static_cast<std::size_t>(j)] = -kAbsorbing;
      sizes[{i, j}] = ranks - static_cast<int>(add(values));
    }
  return sizes;
}

float in_order(const std::vector<float>& values, const std::vector<int>& order) {
  float sum = values[static_cast<std::size_t>(order[0])];
  for (std::size_t i = 1; i < order.size(); ++i) sum += values[static_cast<std::size_t>(order[i])];
  return sum;
}

float pairwise(std::span<const float> values) {
  if (values.size() == 1) return values[0];
  return pairwise(values.first(values.size() / 2)) + pairwise(values.subspan(values.size() / 2));
}

std::string order_of(int ranks, const std::function<float(const std::vector<float>&)>& add) {
  return order_of_additions(ranks, probed(ranks, add));
}

TEST(ReductionOrder, IsThatOfTheAdder) {
  EXPECT_EQ(order_of(4, [](const auto& x) { return in_order(x, {0, 1, 2, 3}); }), "((0+1)+2)+3");
  EXPECT_EQ(order_of(4, [](const auto& x) { return in_order(x, {2, 3, 0, 1}); }), "((2+3)+0)+1");
  EXPECT_EQ(order_of(5, [](const auto& x) { return in_order(x, {4, 3, 2, 1, 0}); }), "(((3+4)+2)+1)+0");
  EXPECT_EQ(order_of(8, [](const auto& x) { return pairwise(x); }), "((0+1)+(2+3))+((4+5)+(6+7))");
  EXPECT_EQ(order_of(5, [](const auto& x) { return (x[0] + x[4]) + ((x[1] + x[2]) + x[3]); }), "((1+2)+3)+(0+4)");
  EXPECT_EQ(order_of(2, [](const auto& x) { return x[0] + x[1]; }), "0+1");
  // Exactly: 1 is not lost.
  EXPECT_EQ(order_of(4,
                     [](const auto& x) {
                       long double sum = 0;
                       for (const float one : x) sum += one;
                       return static_cast<float>(sum);
                     }),
            "all at once");
  EXPECT_EQ(order_of_additions(4, {{{0, 1}, 2}, {{0, 2}, 3}, {{0, 3}, 4}, {{1, 2}, 4}, {{1, 3}, 4}, {{2, 3}, 4}}), "")
      << "no tree";
}

TEST(ReductionOrder, HasItsName) {
  const auto name = [](int ranks, std::vector<std::string> orders) { return name_of_order(ranks, orders); };
  EXPECT_EQ(name(4, {"((0+1)+2)+3"}), "sequential");
  EXPECT_EQ(name(2, {"0+1"}), "sequential");
  EXPECT_EQ(name(4, {"((2+3)+0)+1"}), "ring");
  EXPECT_EQ(name(4, {"((0+1)+2)+3", "((1+2)+3)+0", "((2+3)+0)+1", "((0+3)+1)+2"}), "ring");
  EXPECT_EQ(name(4, {"((2+3)+1)+0"}), "ring") << "the other way around";
  EXPECT_EQ(name(4, {"((0+2)+1)+3"}), "tree");
  EXPECT_EQ(name(8, {"((0+1)+(2+3))+((4+5)+(6+7))"}), "pairwise");
  EXPECT_EQ(name(4, {"(0+2)+(1+3)"}), "pairwise");
  EXPECT_EQ(name(5, {"((1+2)+3)+(0+4)"}), "tree");
  EXPECT_EQ(name(4, {"((0+1)+2)+3", "(0+2)+(1+3)"}), "mixed");
  EXPECT_EQ(name(4, {"all at once"}), "all at once");
  EXPECT_EQ(name(4, {""}), "none");
}

}  // namespace
}  // namespace plumbline::bench
