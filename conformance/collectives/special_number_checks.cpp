// Infinities, NaN, subnormals and signed zeros in reductions.
#include <cmath>
#include <functional>
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
using comm::ReduceOp;
using suite::Context;

namespace {

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();
constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();

/// What a rank gives at an index.
using Given = std::function<long double(int rank, std::int64_t index)>;

// Enough to fill vectors of every width, with a tail.
constexpr std::int64_t kCount = 83;

// Each reduction of what the ranks give; any NaN stands for any other.
void expect_reduction(Context& context, ReduceOp op, const Given& given) {
  const DType dtype = context.parameters().dtype();
  const std::size_t element = size_of(dtype);
  for (const comm::Operation operation : kReductions) {
    const Reduction reduction{operation, dtype, op, kCount};
    std::vector<std::byte> in;
    for (std::int64_t i = 0; i < reduction.given(context.size()); ++i) {
      in.resize(in.size() + element);
      put_bits(dtype, &in.back() + 1 - element, nearest_bits(dtype, given(context.rank(), i)));
    }
    const std::int64_t first = reduction.first(context.rank());
    std::vector<std::byte> expected(reduction.reaches(context.rank(), context.size()) ? kCount * element : 0);
    for (std::int64_t i = 0; i < kCount && !expected.empty(); ++i) {
      std::vector<long double> all;
      for (int rank = 0; rank < context.size(); ++rank) all.push_back(given(rank, first + i));
      put_bits(dtype, expected.data() + static_cast<std::size_t>(i) * element,
               nearest_bits(dtype, reduce_numbers(op, all)));
    }
    const Reduced got = reduce(context.world(), reduction, in, expected);
    const std::string problem = first_difference_but_nan(dtype, expected, got.out.bytes());
    if (!problem.empty()) report(got.call + ": " + problem);
  }
}

// What is not special: small powers of two, exact in every op.
long double plain(int rank, std::int64_t index) { return (index + rank) % 3 == 0 ? -2 : 1; }

void nonfinite(Context& context) {
  const DType dtype = context.parameters().dtype();
  const int n = context.size();
  for (const ReduceOp op : comm::kAllReduceOps) {
    const bool orders = op == ReduceOp::min || op == ReduceOp::max;
    expect_reduction(context, op, [&](int rank, std::int64_t index) -> long double {
      const bool first = rank == index % n;
      const bool second = rank == (index + 1) % n && n > 1;
      switch (index % 8) {
        case 0:
          return first ? kInfinity : plain(rank, index);
        case 1:
          return first ? -kInfinity : plain(rank, index);
        case 2:
          return first && !orders ? kNan : plain(rank, index);
        case 3:  // opposite infinities make NaN in a sum
          return first ? kInfinity : second ? -kInfinity : plain(rank, index);
        case 4:  // infinity times zero
          return first ? kInfinity : second ? 0 : plain(rank, index);
        case 5:
          return first && !orders ? kNan : second ? kInfinity : plain(rank, index);
        case 6:  // a sum that overflows; an average may do so or not
          return op == ReduceOp::sum ? largest(dtype) : plain(rank, index);
        default:
          return plain(rank, index);
      }
    });
  }
}

void nan_in_min_max(Context& context) {
  const int n = context.size();
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max})
    expect_reduction(context, op, [n](int rank, std::int64_t index) -> long double {
      if (index % 3 == 2) return plain(rank, index);
      if (rank == index % n) return index % 2 == 0 ? kNan : -kNan;
      return rank == (index + 1) % n ? (index % 3 == 0 ? kInfinity : -kInfinity) : plain(rank, index);
    });
}

// Which members give NaN at an index: each alone, two neighbours, all but one, all; each of them with the smallest of
// the values, 1 to n or their opposites, at every place.
bool gives_nan(int rank, std::int64_t index, int n) {
  const std::int64_t first = index % n;
  switch (index / n / n % 4) {
    case 0:
      return rank == first;
    case 1:
      return rank == first || rank == (first + 1) % n;
    case 2:
      return rank != first;
    default:
      return true;
  }
}
long double value_beside_nan(int rank, std::int64_t index, int n) {
  const auto value = static_cast<long double>(1 + (rank + index / n) % n);
  return index / n / n / 4 % 2 == 0 ? value : -value;
}

void nan_or_the_others(Context& context) {
  const DType dtype = context.parameters().dtype();
  const std::size_t element = size_of(dtype);
  const int n = context.size();
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max})
    for (const comm::Operation operation : kReductions) {
      const Reduction reduction{operation, dtype, op, 8 * n * n};
      std::vector<std::byte> in(static_cast<std::size_t>(reduction.given(n)) * element);
      for (std::size_t at = 0; at < in.size(); at += element) {
        const auto index = static_cast<std::int64_t>(at / element);
        const long double nan = index % 2 == 0 ? kNan : -kNan;
        const long double value = value_beside_nan(context.rank(), index, n);
        put_bits(dtype, in.data() + at, nearest_bits(dtype, gives_nan(context.rank(), index, n) ? nan : value));
      }
      // That of the others, NaN where there is none. The output begins as its complement, which is neither.
      std::vector<std::byte> expected(
          reduction.reaches(context.rank(), n) ? static_cast<std::size_t>(reduction.count) * element : 0);
      for (std::size_t at = 0; at < expected.size(); at += element) {
        const std::int64_t index = reduction.first(context.rank()) + static_cast<std::int64_t>(at / element);
        std::vector<long double> others;
        for (int rank = 0; rank < n; ++rank)
          if (!gives_nan(rank, index, n)) others.push_back(value_beside_nan(rank, index, n));
        put_bits(dtype, expected.data() + at, nearest_bits(dtype, others.empty() ? kNan : reduce_numbers(op, others)));
      }
      const Reduced got = reduce(context.world(), reduction, in, expected);
      // What is NaN is right everywhere.
      std::vector<std::byte> allowed = expected;
      for (std::size_t at = 0; at < expected.size(); at += element)
        if (const std::uint64_t bits = bits_at(dtype, got.out.bytes().data() + at); std::isnan(number_of(dtype, bits)))
          put_bits(dtype, allowed.data() + at, bits);
      const std::string problem = first_difference_but_nan(dtype, allowed, got.out.bytes());
      if (!problem.empty()) report(got.call + ", some of NaN: neither NaN nor that of the other members: " + problem);
    }
}

void subnormals(Context& context) {
  const DType dtype = context.parameters().dtype();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max})
    expect_reduction(context, op, [dtype](int rank, std::int64_t index) {
      const auto units = static_cast<long double>((index * 3 + rank) % 7 + 1);
      return ((index + rank) % 2 == 0 ? units : -units) * smallest_subnormal(dtype);
    });
}

void zero_sign(Context& context) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max})
    expect_reduction(context, op, [](int rank, std::int64_t index) -> long double {
      if (index % 3 == 0) return -0.0L;
      if (index % 3 == 1) return 0.0L;
      return (index / 3 + rank) % 2 == 0 ? 0.0L : -0.0L;
    });
}

}  // namespace

void add_special_number_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* citation, std::function<void(Context&)> body) {
    suite.add({.id = id,
               .verifies = {citation},
               .axes = {suite::floating_dtypes(), suite::worlds()},
               .body = std::move(body)});
  };
  add("collectives.reductions.nonfinite", "COLL-005@9653", nonfinite);
  add("collectives.reductions.nan_in_min_max", "COLL-006@06e8", nan_in_min_max);
  add("collectives.reductions.nan_or_the_others", "COLL-062@1366", nan_or_the_others);
  add("collectives.reductions.subnormals", "COLL-007@6e73", subnormals);
  add("collectives.reductions.zero_sign", "COLL-008@d2d5", zero_sign);
}

}  // namespace plumbline::conformance
