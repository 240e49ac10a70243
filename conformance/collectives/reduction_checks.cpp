// Reductions: values on exact data and on data that rounds, order, wrapping.
#include <algorithm>
#include <array>

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

void all_reduce_exact(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  for (const std::int64_t elements : usual_lengths(context.size()))
    expect_result(context.world(), {.operation = Operation::all_reduce,
                                    .dtype = parameters.dtype(),
                                    .op = parameters.op(),
                                    .elements = elements,
                                    .seed = context.seed() + static_cast<std::uint64_t>(elements)});
}

void reduce_exact(Context& context) {
  const DType dtype = context.parameters().dtype();
  int turn = 0;  // each member is the root in some calls
  for (const ReduceOp op : ops_on(dtype))
    for (const std::int64_t elements : {1, context.size(), 17, 64})
      expect_result(context.world(), {.operation = Operation::reduce,
                                      .dtype = dtype,
                                      .op = op,
                                      .root = turn++ % context.size(),
                                      .elements = elements,
                                      .seed = context.seed() + static_cast<std::uint64_t>(elements)});
}

void reduce_scatter_exact(Context& context) {
  const DType dtype = context.parameters().dtype();
  for (const ReduceOp op : ops_on(dtype))
    for (const std::int64_t elements : {1, 3, 16, 17})
      expect_result(context.world(), {.operation = Operation::reduce_scatter,
                                      .dtype = dtype,
                                      .op = op,
                                      .elements = elements,
                                      .seed = context.seed() + static_cast<std::uint64_t>(elements)});
}

// ---- data that rounds ----

constexpr std::array kRoundingOps{ReduceOp::sum, ReduceOp::avg, ReduceOp::product};

// Calls that fit into a message, and calls that are cut into parts. The data repeat after kRoundingPeriod elements,
// which no power of two divides: so a part in the wrong place shows, and the oracle is worked out for one period.
constexpr std::array<std::int64_t, 3> kRoundingCounts{67, 5001, 70001};
constexpr std::int64_t kRoundingPeriod = 997;

/// What the members give to a reduction: rounding_bits().
struct RoundingData {
  DType dtype;
  ReduceOp op;
  int ranks;
  std::uint64_t seed;

  [[nodiscard]] std::vector<std::byte> of(int rank, std::int64_t count) const {
    const std::size_t element = size_of(dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * element);
    const std::size_t period = std::min(bytes.size(), static_cast<std::size_t>(kRoundingPeriod) * element);
    for (std::size_t at = 0; at < period; at += element)
      put_bits(dtype, bytes.data() + at, rounding_bits(dtype, op, seed, rank, static_cast<std::int64_t>(at / element)));
    for (std::size_t at = period; at < bytes.size(); ++at) bytes[at] = bytes[at - period];
    return bytes;
  }
  [[nodiscard]] std::vector<long double> at(std::int64_t index) const {
    std::vector<long double> numbers;
    for (int rank = 0; rank < ranks; ++rank)
      numbers.push_back(number_of(dtype, rounding_bits(dtype, op, seed, rank, index % kRoundingPeriod)));
    return numbers;
  }
};

// What of a result is further from the exact one than the accumulator may take it. A result that repeats as its data do
// is judged by its first period.
std::string outside_bounds(const RoundingData& data, DType accumulator, std::span<const std::byte> got,
                           std::int64_t first) {
  const std::size_t period = std::min(got.size(), static_cast<std::size_t>(kRoundingPeriod) * size_of(data.dtype));
  const bool repeats = std::ranges::equal(got.subspan(period), got.first(got.size() - period));
  const std::span judged = got.first(repeats ? period : got.size());
  std::vector<long double> expected, bound;
  for (std::size_t i = 0; i < judged.size() / size_of(data.dtype); ++i) {
    const Bounded right =
        bounded_result(data.dtype, accumulator, data.op, data.at(first + static_cast<std::int64_t>(i)));
    expected.push_back(right.expected);
    bound.push_back(right.bound);
  }
  return first_excess(data.dtype, expected, bound, judged);
}

void rounding_bound(Context& context) {
  const DType dtype = context.parameters().dtype();
  for (const ReduceOp op : kRoundingOps)
    for (const Operation operation : kReductions)
      for (const std::int64_t count : kRoundingCounts) {
        if (operation != Operation::all_reduce && count > kRoundingCounts[1]) continue;  // of n times that, in all
        const RoundingData data{dtype, op, context.size(), context.seed()};
        const Reduction reduction{operation, dtype, op, count};
        const Reduced got =
            reduce(context.world(), reduction, data.of(context.rank(), reduction.given(context.size())));
        if (!reduction.reaches(context.rank(), context.size())) continue;
        const std::string problem = outside_bounds(data, context.capabilities().accumulator(dtype, op), got.out.bytes(),
                                                   reduction.first(context.rank()));
        if (!problem.empty()) report(got.call + ": " + problem);
      }
}

// A member's result of an all_reduce of data that rounds.
GuardedOutput rounded_all_reduce(Context& context, const RoundingData& data, std::int64_t count) {
  const GuardedInput in(data.dtype, data.of(context.rank(), count));
  GuardedOutput out(data.dtype, count);
  context.world().all_reduce(in.view(), out.view(), data.op);
  report(out.unwritten());
  return out;
}

void expect_equal_bits(Context& context, DType dtype, std::initializer_list<std::int64_t> counts) {
  for (const ReduceOp op : kRoundingOps)
    for (const std::int64_t count : counts) {
      const RoundingData data{dtype, op, context.size(), context.seed()};
      const GuardedOutput mine = rounded_all_reduce(context, data, count);
      const GuardedInput told(dtype, {mine.bytes().begin(), mine.bytes().end()});
      GuardedOutput all(dtype, count * context.size());
      context.world().all_gather(told.view(), all.view());
      report(all.unwritten());
      const std::string problem = first_difference(dtype, all.bytes().first(mine.bytes().size()), mine.bytes());
      if (!problem.empty())
        report(fmt::format("all_reduce({} x {}, {}): rank {} differs from rank 0: {}", name_of(dtype), count,
                           name_of(op), context.rank(), problem));
    }
}

void equal_on_all_ranks(Context& context) { expect_equal_bits(context, context.parameters().dtype(), {1, 67, 1025}); }

// What a claim promises holds for long calls too, which are cut into parts.
void claimed_equal_results(Context& context) {
  for (const DType dtype : claimed(context.capabilities(), std::array{DType::f16, DType::bf16, DType::f32, DType::f64}))
    expect_equal_bits(context, dtype, {3, 2001});
  if (context.capabilities().supports(DType::f32)) expect_equal_bits(context, DType::f32, {70001});
}

// The fold in rank order in the accumulator, rounded to the dtype once.
template <class Accumulator>
std::uint64_t folded_in_rank_order(DType dtype, ReduceOp op, const std::vector<long double>& given) {
  auto value = static_cast<Accumulator>(given.front());
  for (std::size_t rank = 1; rank < given.size(); ++rank) {
    const auto next = static_cast<Accumulator>(given[rank]);
    value = op == ReduceOp::product ? value * next : value + next;
  }
  if (op == ReduceOp::avg) value /= static_cast<Accumulator>(given.size());
  return nearest_bits(dtype, value);
}

// What a member gets of a reduction, folded in rank order.
std::vector<std::byte> folded_in_rank_order(const RoundingData& data, const Reduction& reduction, int rank) {
  const std::size_t element = size_of(data.dtype);
  std::vector<std::byte> expected(static_cast<std::size_t>(reduction.count) * element);
  const std::size_t period = std::min(expected.size(), static_cast<std::size_t>(kRoundingPeriod) * element);
  for (std::size_t at = 0; at < period; at += element) {
    const auto given = data.at(reduction.first(rank) + static_cast<std::int64_t>(at / element));
    const std::uint64_t bits = data.dtype == DType::f64 ? folded_in_rank_order<double>(data.dtype, data.op, given)
                                                        : folded_in_rank_order<float>(data.dtype, data.op, given);
    put_bits(data.dtype, expected.data() + at, bits);
  }
  for (std::size_t at = period; at < expected.size(); ++at) expected[at] = expected[at - period];
  return expected;
}

void rank_order(Context& context) {
  const DType dtype = context.parameters().dtype();
  for (const ReduceOp op : kRoundingOps)
    for (const Operation operation : kReductions)
      for (const std::int64_t count : {5, 67, 5000}) {
        const RoundingData data{dtype, op, context.size(), context.seed()};
        const Reduction reduction{operation, dtype, op, count};
        const std::vector<std::byte> given = data.of(context.rank(), reduction.given(context.size()));
        const Reduced got = reduce(context.world(), reduction, given),
                      again = reduce(context.world(), reduction, given);
        if (!reduction.reaches(context.rank(), context.size())) continue;
        const std::string order =
            first_difference(dtype, folded_in_rank_order(data, reduction, context.rank()), got.out.bytes());
        if (!order.empty()) report(got.call + " is not the fold in rank order: " + order);
        const std::string rerun = first_difference(dtype, got.out.bytes(), again.out.bytes());
        if (!rerun.empty()) report(got.call + " made again gives other bits: " + rerun);
      }
}

// ---- all values of integers, and what min and max choose ----

// What a member gives: integers of any bits; floating numbers of both signs that need every bit.
std::vector<std::byte> values_of(Context& context, const Reduction& reduction, int rank) {
  const std::int64_t count = reduction.given(context.size());
  if (is_floating(reduction.dtype))
    return RoundingData{reduction.dtype, reduction.op, context.size(), context.seed()}.of(rank, count);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(reduction.dtype));
  fill_with_bits(context.seed(), rank, reduction.dtype, 0, bytes);
  return bytes;
}

// The reduction of one element's contributions, where nothing rounds.
std::uint64_t reduced_bits(DType dtype, ReduceOp op, const std::vector<std::uint64_t>& given) {
  if (!is_floating(dtype)) return reduce_integers(dtype, op, given);
  std::vector<long double> numbers;
  for (const std::uint64_t bits : given) numbers.push_back(number_of(dtype, bits));
  return nearest_bits(dtype, reduce_numbers(op, numbers));
}

// The requirement that the results of an operation are of.
std::string_view requirement_of(Operation operation) {
  return operation == Operation::all_reduce ? "COLL-001" : operation == Operation::reduce ? "COLL-002" : "COLL-003";
}

// `of` says which requirement a wrong result is of, where a check has several.
void expect_exact_values(Context& context, std::initializer_list<ReduceOp> ops,
                         std::string_view (*of)(Operation) = nullptr) {
  const DType dtype = context.parameters().dtype();
  for (const ReduceOp op : ops)
    for (const Operation operation : kReductions) {
      const Reduction reduction{operation, dtype, op, 131};
      std::vector<std::vector<std::byte>> given;
      for (int rank = 0; rank < context.size(); ++rank) given.push_back(values_of(context, reduction, rank));
      const auto me = static_cast<std::size_t>(context.rank());
      const std::size_t begin = static_cast<std::size_t>(reduction.first(context.rank())) * size_of(dtype);
      const bool reached = reduction.reaches(context.rank(), context.size());
      std::vector<std::byte> expected(reached ? static_cast<std::size_t>(reduction.count) * size_of(dtype) : 0);
      for (std::size_t at = 0; at < expected.size(); at += size_of(dtype)) {
        std::vector<std::uint64_t> elements;
        for (const auto& bytes : given) elements.push_back(bits_at(dtype, bytes.data() + begin + at));
        put_bits(dtype, expected.data() + at, reduced_bits(dtype, op, elements));
      }
      const Reduced got = reduce(context.world(), reduction, given[me], expected);
      const std::string problem = first_difference(dtype, expected, got.out.bytes());
      const std::string start = of != nullptr ? fmt::format("{}: ", of(operation)) : "";
      if (!problem.empty()) report(start + got.call + ": " + problem);
    }
}

void integers_wrap(Context& context) { expect_exact_values(context, {ReduceOp::sum, ReduceOp::product}); }
void min_max(Context& context) { expect_exact_values(context, {ReduceOp::min, ReduceOp::max}, requirement_of); }

}  // namespace

void add_reduction_checks(suite::Suite& suite) {
  suite.add(
      {.id = "collectives.all_reduce.exact",
       .verifies = {"COLL-001@041a"},
       .axes = {suite::dtypes(), suite::ops(), suite::worlds()},
       .applies = [](const suite::Parameters& parameters) { return is_defined(parameters.dtype(), parameters.op()); },
       .body = all_reduce_exact});
  suite.add({.id = "collectives.reduce.exact",
             .verifies = {"COLL-002@65e3"},
             .axes = {suite::dtypes(), suite::worlds()},
             .body = reduce_exact});
  suite.add({.id = "collectives.reduce_scatter.exact",
             .verifies = {"COLL-003@d46f"},
             .axes = {suite::dtypes(), suite::worlds()},
             .body = reduce_scatter_exact});
  suite.add({.id = "collectives.reductions.rounding_bound",
             .verifies = {"COLL-004@e6c4"},
             .axes = {suite::floating_dtypes(), suite::worlds({2, 3, 4, 5, 6, 8})},
             .body = rounding_bound});
  suite.add({.id = "collectives.reductions.integers_wrap",
             .verifies = {"COLL-009@a48c"},
             .axes = {{"dtype", {"i32", "i64", "u8"}}, suite::worlds()},
             .body = integers_wrap});
  suite.add({.id = "collectives.reductions.min_max",
             .verifies = {"COLL-001@041a", "COLL-002@65e3", "COLL-003@d46f"},
             .axes = {suite::dtypes(), suite::worlds()},
             .body = min_max});
  suite.add({.id = "collectives.reductions.equal_on_all_ranks",
             .verifies = {"COLL-014@45a4"},
             .axes = {suite::floating_dtypes(), suite::worlds({2, 3, 4, 5, 6, 8})},
             .body = equal_on_all_ranks});
  suite.add({.id = "collectives.capabilities.equal_results",
             .verifies = {"COLL-030@a4f9"},
             .axes = {suite::worlds({3, 5})},
             .needs = {comm::Capability::equal_results},
             .body = claimed_equal_results});
  suite.add({.id = "collectives.reductions.rank_order",
             .verifies = {"COLL-015@34fa"},
             .axes = {suite::floating_dtypes(), suite::worlds({2, 3, 5, 6, 8})},
             .body = rank_order});
}

}  // namespace plumbline::conformance
