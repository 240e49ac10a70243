// Element types that a backend claims one by one: bool and the formats of 8 bits.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/compare.hpp"
#include "conformance/collectives/data.hpp"
#include "conformance/collectives/reduction_trials.hpp"
#include "conformance/collectives/trials.hpp"
#include "conformance/support/element.hpp"

namespace plumbline::conformance {

using comm::DType;
using comm::Operation;
using comm::ReduceOp;
using suite::Context;

namespace {

// Every value of the dtype, and more.
constexpr std::int64_t kAllValues = 259;
constexpr std::int64_t kFloat8Elements = 997;

Trial copy_of(Context& context, Operation operation, std::int64_t elements, int turn) {
  const DType dtype = context.parameters().dtype();
  return {.operation = operation,
          .dtype = dtype,
          .root = turn % context.size(),
          .elements = elements,
          .in_place = turn % 2 != 0,
          .seed = context.seed() + static_cast<std::uint64_t>(turn),
          .special = is_float8(dtype)};
}

void copies(Context& context) {
  int turn = 0;
  for (const Operation operation : exercised_operations(context.world())) {
    if (is_reduction(operation)) continue;
    for (const std::int64_t elements : usual_lengths(context.size()))
      expect_result(context.world(), copy_of(context, operation, elements, turn++));
    for (const Way way : ways(context.capabilities())) {
      const Exercise exercise(context.world(), copy_of(context, operation, kAllValues, turn++));
      complete(context.world(), exercise.calls(), way);
      report(exercise.problem());
    }
  }
}

// Blocks of member r have r + 1 times 100 elements.
void uneven_copies(Context& context) {
  const DType dtype = context.parameters().dtype();
  const auto fill = [&](int rank, std::span<std::byte> to) {
    if (is_float8(dtype)) return fill_with_special_bits(rank, dtype, 0, to);
    fill_with_bits(context.seed(), rank, dtype, 0, to);
  };
  std::vector<std::int64_t> counts;
  std::vector<std::byte> expected;
  for (int rank = 0; rank < context.size(); ++rank) {
    std::vector<std::byte> block(static_cast<std::size_t>(100 * (rank + 1)));
    fill(rank, block);
    counts.push_back(std::ssize(block));
    expected.insert(expected.end(), block.begin(), block.end());
  }
  std::vector<std::byte> mine(static_cast<std::size_t>(counts[static_cast<std::size_t>(context.rank())]));
  fill(context.rank(), mine);
  const GuardedInput in(dtype, mine);
  GuardedOutput out(dtype, expected);
  context.world().run_uneven(
      {.operation = Operation::all_gather, .in = in.view(), .out = out.view(), .out_counts = counts});
  report(out.wrong_result());
}

// Each reduction of exact data, in and out of place; each member is the root in turn.
void exact_reductions(Context& context) {
  int turn = 0;
  for (const Operation operation : kReductions)
    for (const std::int64_t elements : {1, context.size(), 17, 65})
      for (const bool in_place : {false, true})
        expect_result(context.world(), {.operation = operation,
                                        .dtype = context.parameters().dtype(),
                                        .op = context.parameters().op(),
                                        .root = turn++ % context.size(),
                                        .elements = elements,
                                        .in_place = in_place,
                                        .seed = context.seed() + static_cast<std::uint64_t>(turn)});
}

// Of what a member got of a reduction of given(rank, index), the first element that `problem_of` objects to.
using Bits = std::function<std::uint64_t(int rank, std::int64_t index)>;
using Judge = std::function<std::string(const std::vector<std::uint64_t>& given, std::uint64_t got)>;
void judge_reductions(Context& context, ReduceOp op, std::int64_t count, const Bits& given, const Judge& problem_of) {
  const DType dtype = context.parameters().dtype();
  for (const Operation operation : kReductions) {
    const Reduction reduction{operation, dtype, op, count};
    std::vector<std::byte> in(static_cast<std::size_t>(reduction.given(context.size())));
    for (std::size_t i = 0; i < in.size(); ++i)
      put_bits(dtype, &in[i], given(context.rank(), static_cast<std::int64_t>(i)));
    const Reduced got = reduce(context.world(), reduction, in);
    if (!reduction.reaches(context.rank(), context.size())) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<std::uint64_t> all;
      for (int rank = 0; rank < context.size(); ++rank) all.push_back(given(rank, reduction.first(context.rank()) + i));
      const std::string problem = problem_of(all, bits_at(dtype, got.out.bytes().data() + i));
      if (problem.empty()) continue;
      report(fmt::format("{}: element {}: {}", got.call, i, problem));
      break;
    }
  }
}

std::string beyond_bound(DType dtype, const Bounded& right, std::uint64_t got) {
  const long double error = std::fabs(number_of(dtype, got) - right.expected);
  if (error <= right.bound) return {};
  return fmt::format("expected {:.9g}, got {}, off by {:.3g} where {:.3g} is allowed",
                     static_cast<double>(right.expected), text_of(dtype, got), static_cast<double>(error),
                     static_cast<double>(right.bound));
}

void float8_bound(Context& context) {
  const DType dtype = context.parameters().dtype();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
    judge_reductions(
        context, op, kFloat8Elements,
        [&](int rank, std::int64_t index) { return rounding_bits(dtype, op, context.seed(), rank, index); },
        [&](const std::vector<std::uint64_t>& given, std::uint64_t got) {
          return beyond_bound(dtype, float8_result(dtype, context.capabilities().accumulator(dtype, op), op, given),
                              got);
        });
    // Of many ranks the bound is wide: the same of numbers whose result is exact.
    const ExactNumbers exact(dtype, op, context.size(), context.seed());
    judge_reductions(
        context, op, kFloat8Elements,
        [&](int rank, std::int64_t index) {
          std::byte bits{};
          exact.give(rank, index, std::span(&bits, 1));
          return bits_at(dtype, &bits);
        },
        [&](const std::vector<std::uint64_t>& given, std::uint64_t got) {
          std::vector<long double> numbers;
          for (const std::uint64_t bits : given) numbers.push_back(number_of(dtype, bits));
          return beyond_bound(dtype, {reduce_numbers(op, numbers), 0}, got);
        });
  }
}

// A NaN of one member; a sum past the largest number, of either sign; and 1 beside them, of the first two members.
void float8_limits(Context& context) {
  const DType dtype = context.parameters().dtype();
  const std::uint64_t sign = 0x80;
  const std::uint64_t most = nearest_bits(dtype, largest(dtype));
  const std::uint64_t nan = nearest_bits(dtype, std::numeric_limits<long double>::quiet_NaN());
  const std::uint64_t one = nearest_bits(dtype, 1);
  const int n = context.size();
  const auto given = [&](int rank, std::int64_t index) -> std::uint64_t {
    if (index % 4 == 0) return rank == index / 4 % n ? nan | (index / 8 % 2 != 0 ? sign : 0) : one;
    if (index % 4 == 3) return rank < 2 ? one : 0;
    return most | (index % 4 == 2 ? sign : 0);
  };
  judge_reductions(context, ReduceOp::sum, 97, given,
                   [&](const std::vector<std::uint64_t>& all, std::uint64_t got) -> std::string {
                     long double sum = 0;
                     for (const std::uint64_t bits : all) sum += number_of(dtype, bits);
                     const std::uint64_t right = nearest_bits(dtype, sum);  // NaN or infinity where it is too large
                     const bool both_nan = std::isnan(number_of(dtype, got)) && std::isnan(number_of(dtype, right));
                     const bool saturates = std::fabs(sum) > largest(dtype) && got == (most | (sum < 0 ? sign : 0));
                     if (got == right || both_nan || saturates) return {};
                     return fmt::format("the sum is {}, got {}", static_cast<double>(sum), text_of(dtype, got));
                   });
}

suite::Axis float8_dtypes() { return {"dtype", {"f8_e4m3", "f8_e5m2"}}; }

}  // namespace

void add_optional_dtype_checks(suite::Suite& suite) {
  const suite::Axis any{"dtype", {"bool", "f8_e4m3", "f8_e5m2"}};
  suite.add({.id = "collectives.optional_dtypes.copies",
             .verifies = {"COLL-107@0ba3"},
             .axes = {any, suite::worlds()},
             .body = copies});
  suite.add({.id = "collectives.optional_dtypes.uneven_copies",
             .verifies = {"COLL-107@0ba3"},
             .axes = {any, suite::worlds({2, 3, 5})},
             .needs = {comm::Capability::all_gather_v},
             .body = uneven_copies});
  suite.add({.id = "collectives.optional_dtypes.bool_reductions",
             .verifies = {"COLL-108@1694"},
             .axes = {{"dtype", {"bool"}}, {"op", {"min", "max"}}, suite::worlds()},
             .body = exact_reductions});
  suite.add({.id = "collectives.optional_dtypes.float8_exact",
             .verifies = {"COLL-109@51a2"},
             .axes = {float8_dtypes(), suite::ops(), suite::worlds()},
             .body = exact_reductions});
  suite.add({.id = "collectives.optional_dtypes.float8_bound",
             .verifies = {"COLL-109@51a2"},
             .axes = {float8_dtypes(), suite::worlds()},
             .body = float8_bound});
  suite.add({.id = "collectives.optional_dtypes.float8_limits",
             .verifies = {"COLL-110@17ea"},
             .axes = {float8_dtypes(), suite::worlds()},
             .body = float8_limits});
}

}  // namespace plumbline::conformance
