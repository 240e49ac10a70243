// Complex numbers, where they are claimed: moved whole, added part by part, and multiplied as complex numbers.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
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

using Complex = std::array<long double, 2>;  // real and imaginary part

// Each operation at every length, in and out of place, with random and with special bits; then of blocks that no small
// buffer holds, in each way of completing a call. The root changes from length to length.
void complex_copies(Context& context) {
  constexpr std::int64_t kMany = 4099;
  int turn = 0;
  const auto trial = [&](Operation operation, std::int64_t elements, bool in_place, bool special) {
    return Trial{.operation = operation,
                 .dtype = context.parameters().dtype(),
                 .root = turn % context.size(),
                 .elements = elements,
                 .in_place = in_place,
                 .seed = context.seed() + static_cast<std::uint64_t>(turn),
                 .special = special};
  };
  for (const Operation operation : exercised_operations(context.world())) {
    if (is_reduction(operation)) continue;
    for (const std::int64_t elements : usual_lengths(context.size())) {
      for (const bool in_place : {false, true})
        for (const bool special : {false, true})
          expect_result(context.world(), trial(operation, elements, in_place, special));
      ++turn;
    }
    for (const Way way : ways(context.capabilities())) {
      for (const bool in_place : {false, true}) {
        const Exercise exercise(context.world(), trial(operation, kMany, in_place, false));
        complete(context.world(), exercise.calls(), way);
        report(exercise.problem());
      }
      ++turn;
    }
  }
}

// In and out of place; the root changes from length to length.
void exact_complex(Context& context, ReduceOp op) {
  int turn = 0;
  for (const Operation operation : kReductions)
    for (const std::int64_t elements : {1, context.size(), 17, 65}) {
      for (const bool in_place : {false, true})
        expect_result(context.world(), {.operation = operation,
                                        .dtype = context.parameters().dtype(),
                                        .op = op,
                                        .root = turn % context.size(),
                                        .elements = elements,
                                        .in_place = in_place,
                                        .seed = context.seed() + static_cast<std::uint64_t>(turn)});
      ++turn;
    }
}

void exact_complex_sums(Context& context) { exact_complex(context, context.parameters().op()); }
void exact_complex_products(Context& context) { exact_complex(context, ReduceOp::product); }

// The parts of element `index` that a member gives, as numbers of the part's type.
Complex given_number(Context& context, DType part, ReduceOp op, int rank, std::int64_t index) {
  Complex number{};
  for (std::size_t i = 0; i < 2; ++i)
    number[i] =
        number_of(part, rounding_bits(part, op, context.seed(), rank, 2 * index + static_cast<std::int64_t>(i)));
  return number;
}

// Reductions of numbers that round. `problem_of` has what all members gave for an element, and what came.
void judge_rounded(
    Context& context, ReduceOp op,
    const std::function<std::string(const std::vector<Complex>& given, const Complex& got)>& problem_of) {
  constexpr std::int64_t kCount = 499;
  const DType dtype = context.parameters().dtype();
  const DType part = component_of(dtype);
  const std::size_t width = size_of(part);
  for (const Operation operation : kReductions) {
    const Reduction reduction{operation, dtype, op, kCount};
    std::vector<std::byte> in(static_cast<std::size_t>(reduction.given(context.size())) * size_of(dtype));
    for (std::int64_t i = 0; i < reduction.given(context.size()); ++i)
      for (std::size_t k = 0; k < 2; ++k)
        put_bits(part, &in[(static_cast<std::size_t>(2 * i) + k) * width],
                 nearest_bits(part, given_number(context, part, op, context.rank(), i)[k]));
    const Reduced got = reduce(context.world(), reduction, in);
    if (!reduction.reaches(context.rank(), context.size())) continue;
    for (std::int64_t i = 0; i < kCount; ++i) {
      std::vector<Complex> all;
      for (int rank = 0; rank < context.size(); ++rank)
        all.push_back(given_number(context, part, op, rank, reduction.first(context.rank()) + i));
      Complex came{};
      for (std::size_t k = 0; k < 2; ++k)
        came[k] =
            number_of(part, bits_at(part, got.out.bytes().data() + (static_cast<std::size_t>(2 * i) + k) * width));
      const std::string problem = problem_of(all, came);
      if (problem.empty()) continue;
      report(fmt::format("{}: element {}: {}", got.call, i, problem));
      break;
    }
  }
}

std::string complex_text(const Complex& number) {
  return fmt::format("{:.17g}{:+.17g}i", static_cast<double>(number[0]), static_cast<double>(number[1]));
}

void complex_sum_bound(Context& context) {
  const DType part = component_of(context.parameters().dtype());
  const ReduceOp op = context.parameters().op();
  judge_rounded(context, op, [&](const std::vector<Complex>& given, const Complex& got) -> std::string {
    for (std::size_t k = 0; k < 2; ++k) {
      std::vector<long double> numbers;
      for (const Complex& one : given) numbers.push_back(one[k]);
      const Bounded right = bounded_result(part, part, op, numbers);
      if (!(std::fabs(got[k] - right.expected) <= right.bound))
        return fmt::format("got {}, whose {} part is off by {:.3g} where {:.3g} is allowed", complex_text(got),
                           k == 0 ? "real" : "imaginary", static_cast<double>(std::fabs(got[k] - right.expected)),
                           static_cast<double>(right.bound));
    }
    return {};
  });
}

// Each multiplication is off by sqrt(5) units of round-off of its magnitude at most (Brent, Percival and Zimmermann,
// Error bounds on complex floating-point multiplication, 2007); the last term is for the products that are formed here.
void complex_product_bound(Context& context) {
  const DType part = component_of(context.parameters().dtype());
  const auto steps = static_cast<long double>(context.size() - 1);
  const long double growth = std::sqrt(5.0L) * steps * round_off(part);
  const long double allowed = growth / (1 - growth) + 8 * steps * std::numeric_limits<long double>::epsilon();
  judge_rounded(context, ReduceOp::product, [&](const std::vector<Complex>& given, const Complex& got) -> std::string {
    Complex right{1, 0};
    for (const auto& [a, b] : given) right = {right[0] * a - right[1] * b, right[0] * b + right[1] * a};
    const long double error = std::hypot(got[0] - right[0], got[1] - right[1]);
    const long double bound = allowed * std::hypot(right[0], right[1]);
    if (error <= bound) return {};
    return fmt::format("the product is {}, got {}, off by {:.3g} where {:.3g} is allowed", complex_text(right),
                       complex_text(got), static_cast<double>(error), static_cast<double>(bound));
  });
}

}  // namespace

void add_complex_checks(suite::Suite& suite) {
  const suite::Axis dtypes{"dtype", {"c64", "c128"}};
  const suite::Axis sums{"op", {"sum", "avg"}};
  suite.add({.id = "collectives.complex.copies",
             .verifies = {"COLL-120@097b"},
             .axes = {dtypes, suite::worlds()},
             .body = complex_copies});
  suite.add({.id = "collectives.complex.exact_sums",
             .verifies = {"COLL-121@aeb3"},
             .axes = {dtypes, sums, suite::worlds({2, 3, 5, 8})},
             .body = exact_complex_sums});
  suite.add({.id = "collectives.complex.sum_bound",
             .verifies = {"COLL-121@aeb3"},
             .axes = {dtypes, sums, suite::worlds({2, 3, 5})},
             .body = complex_sum_bound});
  suite.add({.id = "collectives.complex.exact_products",
             .verifies = {"COLL-122@8d84"},
             .axes = {dtypes, suite::worlds({2, 3, 5, 8})},
             .body = exact_complex_products});
  suite.add({.id = "collectives.complex.product_bound",
             .verifies = {"COLL-122@8d84"},
             .axes = {dtypes, suite::worlds({2, 3, 5})},
             .body = complex_product_bound});
}

}  // namespace plumbline::conformance
