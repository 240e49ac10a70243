// Averages and groups of one.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/compare.hpp"
#include "conformance/collectives/data.hpp"
#include "conformance/collectives/reduction_trials.hpp"
#include "conformance/collectives/trials.hpp"
#include "conformance/support/element.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::DType;
using comm::Operation;
using comm::ReduceOp;
using suite::Context;

namespace {

void divisor(Context& context) {
  const std::string& length = context.parameters().text("length");
  const std::int64_t elements = length == "one" ? 1 : length == "world" ? context.size() : 3 * context.size() + 1;
  for (const DType dtype : claimed(context.capabilities(), std::array{DType::f16, DType::bf16, DType::f32, DType::f64}))
    for (const Operation operation : kReductions)
      expect_result(
          context.world(),
          {.operation = operation, .dtype = dtype, .op = ReduceOp::avg, .elements = elements, .seed = context.seed()});
}

void no_overflow(Context& context) {
  constexpr std::int64_t kCount = 64;
  // From half the largest number upward, all representable.
  const auto given = [&](int rank, std::int64_t index) {
    return 32768.0L + 1024.0L * static_cast<long double>((index * 5 + rank * 3) % 32);
  };
  std::vector<std::byte> mine(kCount * 2);
  for (std::int64_t i = 0; i < kCount; ++i)
    put_bits(DType::f16, mine.data() + i * 2, nearest_bits(DType::f16, given(context.rank(), i)));
  const GuardedInput in(DType::f16, mine);
  GuardedOutput out(DType::f16, kCount);  // begins with NaN
  context.world().all_reduce(in.view(), out.view(), ReduceOp::avg);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const long double average = number_of(DType::f16, bits_at(DType::f16, out.bytes().data() + i * 2));
    EXPECT_TRUE(std::isfinite(average)) << "element " << i << " is " << average;
  }
}

// A property of the interface: Communicator refuses before a backend is called, so this fails for no backend alone.
void integers_refused(Context& context) {
  for (const DType dtype : claimed(context.capabilities(), std::array{DType::i32, DType::i64, DType::u8}))
    for (const Operation operation : kReductions) {
      // The data and counts of a sum, so that nothing but the op is wrong.
      const Exercise sum(context.world(),
                         {.operation = operation, .dtype = dtype, .elements = 9, .seed = context.seed()});
      comm::Call average = sum.calls().front();
      average.op = ReduceOp::avg;
      EXPECT_THROW(context.world().run(average), Unsupported) << describe(average, context.size());
      EXPECT_THROW((void)context.world().start(average), Unsupported) << describe(average, context.size());
      expect_usable_beside(context.world(), [&] { context.world().run(average); });
      report(sum.touched());
    }
}

void one_rank_identity(Context& context) {
  const int only[] = {context.rank()};
  const auto group = context.world().create_group(only);
  const bool in_place = context.parameters().text("place") == "in";
  for (const DType dtype : claimed(context.capabilities()))
    for (const std::int64_t elements : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65}) {
      const Trial trial{.dtype = dtype, .elements = elements, .in_place = in_place, .seed = context.seed()};
      for (Trial one = trial; const Operation operation : exercised_operations(context.world())) {
        one.operation = operation;
        if (operation == Operation::send || (in_place && operation == Operation::broadcast)) continue;
        if (!is_reduction(operation)) {
          expect_result(*group, one);
          continue;
        }
        for (const ReduceOp op : ops_on(dtype)) {
          one.op = op;
          expect_result(*group, one);
        }
      }
    }
}

}  // namespace

void add_average_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.average.divisor",
             .verifies = {"COLL-010@a099"},
             .axes = {{"length", {"one", "world", "many"}}, suite::worlds()},
             .body = divisor});
  suite.add({.id = "collectives.average.no_overflow",
             .verifies = {"COLL-011@f694"},
             .axes = {{"dtype", {"f16"}}, suite::worlds({2, 3, 4, 5, 6, 8})},
             .body = no_overflow});
  suite.add({.id = "collectives.average.integers_refused",
             .verifies = {"COLL-012@ecb8"},
             .axes = {suite::worlds({1, 2, 3})},
             .body = integers_refused});
  suite.add({.id = "collectives.one_rank.identity",
             .verifies = {"COLL-013@4f5a"},
             .axes = {{"place", {"out", "in"}}, suite::worlds({1, 3})},
             .body = one_rank_identity});
}

}  // namespace plumbline::conformance
