// Sums of inputs that each member multiplies by a factor of its own.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

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

using Bytes = std::vector<std::byte>;

// Products and sums of these and of small integers need few bits, whatever the order.
long double factor_of(const std::string& factors, int rank) {
  constexpr std::array own{1.0L, -2.0L, 0.5L, 0.0L, 3.0L, -1.0L, 2.0L};
  if (factors == "one") return 1;
  return factors == "equal" ? 0.5L : own[static_cast<std::size_t>(rank) % own.size()];
}

// From -4 to 4.
long double small_number(Context& context, int rank, std::int64_t index) {
  return static_cast<long double>(
             mixed(context.seed(), static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index)) % 9) -
         4;
}

// `count` elements from `first` on: number(index), rounded to the dtype.
Bytes elements(DType dtype, std::int64_t first, std::int64_t count, const auto& number) {
  Bytes bytes(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i)
    put_bits(dtype, bytes.data() + static_cast<std::size_t>(i) * size_of(dtype),
             nearest_bits(dtype, number(first + i)));
  return bytes;
}

// The sum over the members of their factors times what they give at an index.
long double sum_of_products(int ranks, const auto& factor, const auto& given, std::int64_t index) {
  long double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += factor(rank) * given(rank, index);
  return sum;
}

using Difference = std::string(DType, std::span<const std::byte> expected, std::span<const std::byte> got);

// Makes the sum, and reports where it is not that of the products.
void judge_sum(Context& context, const Reduction& reduction, const auto& factor, const auto& given,
               Difference& difference) {
  const bool is_reached = reduction.reaches(context.rank(), context.size());
  const Bytes expected =
      elements(reduction.dtype, reduction.first(context.rank()), is_reached ? reduction.count : 0,
               [&](std::int64_t index) { return sum_of_products(context.size(), factor, given, index); });
  const Reduced got = reduce(context.world(), reduction,
                             elements(reduction.dtype, 0, reduction.given(context.size()),
                                      [&](std::int64_t index) { return given(context.rank(), index); }),
                             expected, static_cast<double>(factor(context.rank())));
  if (!is_reached) return;
  const std::string problem = difference(reduction.dtype, expected, got.out.bytes());
  if (!problem.empty()) report(got.call + ": " + problem);
}

void exact(Context& context) {
  const DType dtype = context.parameters().dtype();
  const auto factor = [&](int rank) { return factor_of(context.parameters().text("factors"), rank); };
  const auto given = [&](int rank, std::int64_t index) { return small_number(context, rank, index); };
  for (const Operation operation : kReductions)
    for (const std::int64_t count : {0, 1, 17, 3000})
      judge_sum(context, {operation, dtype, ReduceOp::sum, count}, factor, given, first_difference);
}

// ---- data and factors that round ----

// The bound of the sum of products, each of which was rounded to the dtype first.
Bounded bounded_sum(DType dtype, DType accumulator, const std::vector<long double>& products) {
  Bounded right = bounded_result(dtype, accumulator, ReduceOp::sum, products);
  long double rounded = 0;
  for (const long double product : products) rounded += round_off(dtype) * std::fabs(product);
  right.bound = (right.bound + rounded) * (1 + round_off(dtype));
  return right;
}

void rounding_bound(Context& context) {
  constexpr std::int64_t kCount = 997;
  const DType dtype = context.parameters().dtype();
  const DType accumulator = context.capabilities().accumulator(dtype, ReduceOp::sum);
  const auto number = [&](std::uint64_t seed, int rank, std::int64_t index) {
    return number_of(dtype, rounding_bits(dtype, ReduceOp::sum, seed, rank, index));
  };
  const auto factor = [&](int rank) { return number(context.seed() + 1, rank, 0); };
  const auto given = [&](int rank, std::int64_t index) { return number(context.seed(), rank, index); };
  for (const Operation operation : kReductions) {
    const Reduction reduction{operation, dtype, ReduceOp::sum, kCount};
    const Reduced got = reduce(context.world(), reduction,
                               elements(dtype, 0, reduction.given(context.size()),
                                        [&](std::int64_t index) { return given(context.rank(), index); }),
                               {}, static_cast<double>(factor(context.rank())));
    if (!reduction.reaches(context.rank(), context.size())) continue;
    std::vector<long double> expected, bound;
    for (std::int64_t i = reduction.first(context.rank()); std::ssize(expected) < kCount; ++i) {
      std::vector<long double> products;
      for (int rank = 0; rank < context.size(); ++rank) products.push_back(factor(rank) * given(rank, i));
      const Bounded right = bounded_sum(dtype, accumulator, products);
      expected.push_back(right.expected);
      bound.push_back(right.bound);
    }
    const std::string problem = first_excess(dtype, expected, bound, got.out.bytes());
    if (!problem.empty()) report(got.call + ": " + problem);
  }
}

// ---- in place ----

// The call of a rank whose input is `whole`, the result taking the place of all of it or of the own block.
comm::Call in_place(const Reduction& reduction, const comm::Communicator& group, const comm::Buffer& whole) {
  comm::Call call{.operation = reduction.operation, .in = whole, .out = whole};
  if (reduction.operation == Operation::reduce_scatter)
    call.out = part_of(whole, reduction.first(group.rank()), reduction.count);
  if (reduction.operation == Operation::reduce) call.root = group.size() - 1;
  return call;
}

void sums_in_place(Context& context) {
  const DType dtype = context.parameters().dtype();
  const int me = context.rank();
  const auto factor = [](int rank) { return factor_of("own", rank); };
  const auto given = [&](int rank, std::int64_t index) { return small_number(context, rank, index); };
  for (const Operation operation : kReductions)
    for (const std::int64_t count : {1, 130, 3000}) {
      const Reduction reduction{operation, dtype, ReduceOp::sum, count};
      const std::int64_t all = reduction.given(context.size()), first = reduction.first(me);
      const Bytes mine = elements(dtype, 0, all, [&](std::int64_t index) { return given(me, index); });
      Bytes expected = mine;
      if (reduction.reaches(me, context.size()))
        std::ranges::copy(
            elements(dtype, first, count,
                     [&](std::int64_t index) { return sum_of_products(context.size(), factor, given, index); }),
            expected.begin() + first * static_cast<std::int64_t>(size_of(dtype)));
      GuardedOutput both(dtype, std::move(expected));
      std::memcpy(both.view().data, mine.data(), mine.size());
      const comm::Call call = in_place(reduction, context.world(), both.view());
      context.world().run_scaled(call, static_cast<double>(factor(me)));
      const std::string problem = both.wrong_result();
      if (!problem.empty()) report(describe(call, context.size()) + " in place: " + problem);
    }
}

// ---- NaN and infinity ----

// The last member's factor is zero, and it gives Inf, -Inf and NaN among numbers.
void zero_meets_overflow(Context& context) {
  constexpr std::int64_t kCount = 61;
  using Limits = std::numeric_limits<long double>;
  const DType dtype = context.parameters().dtype();
  const int last = context.size() - 1;
  const auto factor = [&](int rank) { return rank == last ? 0.0L : 1.0L; };
  const auto given = [&](int rank, std::int64_t index) {
    constexpr std::array kNoNumbers{Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()};
    const auto kind = static_cast<std::size_t>(index % 7);
    return rank == last && kind < kNoNumbers.size() ? kNoNumbers[kind] : small_number(context, rank, index);
  };
  for (const Operation operation : kReductions)
    judge_sum(context, {operation, dtype, ReduceOp::sum, kCount}, factor, given, first_difference_but_nan);
}

}  // namespace

void add_scaled_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.scaled.exact",
             .verifies = {"COLL-111@8b9b"},
             .axes = {suite::floating_dtypes(), {"factors", {"one", "equal", "own"}}, suite::worlds({2, 3, 5, 8})},
             .body = exact});
  const auto add = [&](const char* id, const char* citation, void (*body)(Context&)) {
    suite.add(
        {.id = id, .verifies = {citation}, .axes = {suite::floating_dtypes(), suite::worlds({2, 3, 5})}, .body = body});
  };
  add("collectives.scaled.rounding_bound", "COLL-112@20c0", rounding_bound);
  add("collectives.scaled.in_place", "COLL-113@b5d2", sums_in_place);
  add("collectives.scaled.zero_meets_overflow", "COLL-114@11dd", zero_meets_overflow);
}

}  // namespace plumbline::conformance
