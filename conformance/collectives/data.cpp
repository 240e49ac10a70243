#include "conformance/collectives/data.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "conformance/support/element.hpp"

namespace plumbline::conformance {

using comm::DType;
using comm::ReduceOp;

namespace {

// Nothing that sums of all ranks' magnitudes pass this has more than eight significant bits: exact in bf16 and u8.
constexpr int kExactSum = 255;

// How many different magnitudes 1, 2, … the ranks may give. A prime other than 3, for the signs repeat after 3.
int magnitudes(ReduceOp op, int ranks) {
  int divisor = 1;  // of an average: contributions are its multiples, so that the division is exact
  if (op == ReduceOp::avg) divisor = ranks;
  while (divisor % 2 == 0) divisor /= 2;  // factors of two cost no significant bits
  for (const int prime : {31, 23, 19, 13, 11, 7, 5})
    if (prime * divisor * ranks <= kExactSum) return prime;
  return 2;
}

// Of formats with two or three fraction bits: a few members give 1 or 2, or the divisor of an average, the others 0. So
// no sum of some of them has more than three significant bits.
long double summand_of_8_bits(ReduceOp op, int ranks, int rank, std::uint64_t index) {
  const auto turn = static_cast<std::uint64_t>(rank);
  const std::uint64_t place = (index + turn) % static_cast<std::uint64_t>(ranks);
  if (op == ReduceOp::avg) return place < 2 ? ranks : 0;
  return place < 4 ? static_cast<long double>(1 + (index * 3 + turn) % 2) : 0;
}

// All true, all false, one false, one true.
long double truth(int ranks, int rank, std::uint64_t index) {
  const bool is_one = index / 4 % static_cast<std::uint64_t>(ranks) == static_cast<std::uint64_t>(rank);
  const std::array<bool, 4> given{true, false, !is_one, is_one};
  return given[index % 4] ? 1 : 0;
}

long double summand(DType dtype, ReduceOp op, int ranks, int rank, std::uint64_t index) {
  if (dtype == DType::boolean) return truth(ranks, rank, index);
  const auto count = static_cast<std::uint64_t>(magnitudes(op, ranks));
  const auto turn = static_cast<std::uint64_t>(rank);
  auto number = static_cast<long double>(1 + (index * 3 + turn) % count);
  if (op == ReduceOp::avg) number *= ranks;
  if (is_float8(dtype)) number = summand_of_8_bits(op, ranks, rank, index);
  // Of 3 or 6 ranks the places repeat with the signs, and averages of 8 bits would all be 0.
  const std::uint64_t place = is_float8(dtype) ? index / static_cast<std::uint64_t>(ranks) : index;
  const bool negative = dtype != DType::u8 && (place + turn) % 3 == 0;
  return negative && number != 0 ? -number : number;
}

// Powers of two for floating dtypes; small primes for integers, whose products wrap.
long double factor(DType dtype, int rank, std::uint64_t index) {
  constexpr std::array<long double, 5> floating{2, -2, 0.5, -0.5, -1};
  constexpr std::array<long double, 5> integer{2, -3, 5, -1, 7};
  const std::size_t choice = (index + static_cast<std::uint64_t>(rank) * 2) % 5;
  const long double number = has_float_format(dtype) ? floating[choice] : integer[choice];
  return dtype == DType::u8 ? std::fabs(number) : number;
}

// Of complex numbers as pairs of parts: 2 + i times a power of i and one of two, of the first rank and some others; of
// the rest a power of i. No power of 2 + i has a part that is zero, whose sign would depend on the formula.
std::array<long double, 2> complex_factor(int rank, std::uint64_t index) {
  constexpr std::array<std::array<long double, 2>, 4> kPowers{{{1, 0}, {0, 1}, {-1, 0}, {0, -1}}};
  constexpr std::array<long double, 3> kScales{1, 2, 0.5};
  const auto turn = static_cast<std::uint64_t>(rank);
  const auto [c, d] = kPowers[(index + turn * 3) % kPowers.size()];
  if (rank != 0 && (rank >= 12 || (index + turn) % 3 == 0)) return {c, d};
  const long double scale = kScales[(index / 4 + turn) % kScales.size()];
  return {scale * (2 * c - d), scale * (2 * d + c)};
}

std::array<long double, 2> complex_product(std::span<const std::array<long double, 2>> given) {
  std::array<long double, 2> value{1, 0};
  for (const auto& [a, b] : given) value = {value[0] * a - value[1] * b, value[0] * b + value[1] * a};
  return value;
}

std::size_t period_of(DType dtype, ReduceOp op, int ranks) {
  if (dtype == DType::boolean) return 4 * static_cast<std::size_t>(ranks);
  if (is_float8(dtype) && op != ReduceOp::product) return 6 * static_cast<std::size_t>(ranks);
  return op == ReduceOp::product ? 5 : 3 * static_cast<std::size_t>(magnitudes(op, ranks));
}

std::uint64_t result_bits(DType dtype, ReduceOp op, std::span<const std::uint64_t> given) {
  if (!has_float_format(dtype)) return reduce_integers(dtype, op, given);
  std::vector<long double> numbers;
  for (const std::uint64_t bits : given) numbers.push_back(number_of(dtype, bits));
  return nearest_bits(dtype, reduce_numbers(op, numbers));
}

bool comes_before(long double a, long double b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }

}  // namespace

std::uint64_t mixed(std::uint64_t seed, std::uint64_t rank, std::uint64_t index) {
  // The finaliser of splitmix64 (Steele, Lea, Flood 2014) over a sum that is different for different arguments.
  std::uint64_t x = seed * 0xd6e8feb86659fd93u + rank * 0xa0761d6478bd642fu + (index + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

void fill_with_bits(std::uint64_t seed, int rank, DType dtype, std::int64_t first, std::span<std::byte> to) {
  if (is_complex(dtype)) return fill_with_bits(seed, rank, component_of(dtype), 2 * first, to);
  const std::size_t element = size_of(dtype);
  auto index = static_cast<std::uint64_t>(first);
  for (std::size_t at = 0; at + element <= to.size(); at += element) {
    std::uint64_t bits = mixed(seed, static_cast<std::uint64_t>(rank), index++);
    if (dtype == DType::boolean) bits &= 1;  // no other byte is a bool
    std::memcpy(to.data() + at, &bits, element);
  }
}

void fill_with_special_bits(int rank, DType dtype, std::int64_t first, std::span<std::byte> to) {
  if (is_complex(dtype)) return fill_with_special_bits(rank, component_of(dtype), 2 * first, to);
  if (is_float8(dtype)) {  // every pattern
    for (std::size_t at = 0; at < to.size(); ++at)
      to[at] = static_cast<std::byte>(static_cast<std::uint64_t>(first) + at + static_cast<std::uint64_t>(rank));
    return;
  }
  const int fraction_bits = format_of(dtype).fraction_bits;
  const std::uint64_t infinity = nearest_bits(dtype, std::numeric_limits<long double>::infinity());
  const std::uint64_t quiet = std::uint64_t{1} << (fraction_bits - 1);
  const std::uint64_t one = nearest_bits(dtype, 1);
  const std::array<std::uint64_t, 10> magnitudes{infinity | 1,
                                                 infinity | quiet | 3,
                                                 infinity,
                                                 0,
                                                 1,
                                                 quiet,
                                                 (std::uint64_t{1} << fraction_bits) - 1,
                                                 infinity - 1,
                                                 one,
                                                 one + 1};
  const std::uint64_t sign = nearest_bits(dtype, -0.0L);
  const std::size_t element = size_of(dtype);
  auto index = static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(rank);
  for (std::size_t at = 0; at + element <= to.size(); at += element, ++index)
    put_bits(dtype, to.data() + at,
             magnitudes[index % magnitudes.size()] | (index / magnitudes.size() % 2 != 0 ? 0 : sign));
}

// One period has as many elements as the parts have values, and so whole ones.
ExactNumbers::ExactNumbers(DType dtype, ReduceOp op, int ranks, std::uint64_t seed)
    : element_(size_of(component_of(dtype))), parts_(components_of(dtype)) {
  if (is_complex(dtype) && op == ReduceOp::product)
    make_complex_factors(component_of(dtype), ranks, seed);
  else
    make_parts(component_of(dtype), op, ranks, seed);
}

void ExactNumbers::make_complex_factors(DType part, int ranks, std::uint64_t seed) {
  constexpr std::size_t kPeriod = 12;  // of complex_factor()
  given_.assign(static_cast<std::size_t>(ranks), std::vector<std::byte>(2 * kPeriod * element_));
  result_.resize(2 * kPeriod * element_);
  const auto put = [&](std::vector<std::byte>& to, std::size_t place, const std::array<long double, 2>& number) {
    for (std::size_t i = 0; i < 2; ++i)
      put_bits(part, to.data() + (2 * place + i) * element_, nearest_bits(part, number[i]));
  };
  for (std::size_t place = 0; place < kPeriod; ++place) {
    std::vector<std::array<long double, 2>> factors;
    for (std::size_t rank = 0; rank < given_.size(); ++rank) {
      factors.push_back(complex_factor(static_cast<int>(rank), place + seed % kPeriod));
      put(given_[rank], place, factors.back());
    }
    put(result_, place, complex_product(factors));
  }
}

void ExactNumbers::make_parts(DType dtype, ReduceOp op, int ranks, std::uint64_t seed) {
  const std::size_t period = period_of(dtype, op, ranks);
  given_.assign(static_cast<std::size_t>(ranks), std::vector<std::byte>(period * element_));
  result_.resize(period * element_);
  std::vector<std::uint64_t> given(given_.size());
  for (std::size_t place = 0; place < period; ++place) {
    for (std::size_t rank = 0; rank < given.size(); ++rank) {
      const auto turn = static_cast<int>(rank);
      const std::uint64_t index = place + seed % period;
      given[rank] = nearest_bits(
          dtype, op == ReduceOp::product ? factor(dtype, turn, index) : summand(dtype, op, ranks, turn, index));
      put_bits(dtype, given_[rank].data() + place * element_, given[rank]);
    }
    put_bits(dtype, result_.data() + place * element_, result_bits(dtype, op, given));
  }
}

void tile(std::span<const std::byte> period, std::size_t element, std::int64_t first, std::span<std::byte> to) {
  std::size_t at = static_cast<std::size_t>(first) * element % period.size();
  for (std::size_t done = 0; done < to.size();) {
    const std::size_t step = std::min(to.size() - done, period.size() - at);
    std::memcpy(to.data() + done, period.data() + at, step);
    done += step;
    at = 0;
  }
}

std::uint64_t reduce_integers(DType dtype, ReduceOp op, std::span<const std::uint64_t> given) {
  const auto less = [dtype](std::uint64_t a, std::uint64_t b) { return number_of(dtype, a) < number_of(dtype, b); };
  if (op == ReduceOp::min) return *std::ranges::min_element(given, less);
  if (op == ReduceOp::max) return *std::ranges::max_element(given, less);
  std::uint64_t value = op == ReduceOp::product ? 1 : 0;
  for (const std::uint64_t bits : given) value = op == ReduceOp::product ? value * bits : value + bits;
  const std::size_t unused = 64 - 8 * size_of(dtype);
  return value << unused >> unused;
}

long double reduce_numbers(ReduceOp op, std::span<const long double> given) {
  if (op == ReduceOp::min || op == ReduceOp::max) {
    const auto nan = std::ranges::find_if(given, [](long double number) { return std::isnan(number); });
    if (nan != given.end()) return *nan;
    return op == ReduceOp::min ? *std::ranges::min_element(given, comes_before)
                               : *std::ranges::max_element(given, comes_before);
  }
  long double value = given.front();
  for (const long double number : given.subspan(1)) value = op == ReduceOp::product ? value * number : value + number;
  return op == ReduceOp::avg ? value / static_cast<long double>(given.size()) : value;
}

std::uint64_t rounding_bits(DType dtype, ReduceOp op, std::uint64_t seed, int rank, std::int64_t index) {
  const std::uint64_t random = mixed(seed, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index));
  const int bits = format_of(dtype).fraction_bits;
  const std::uint64_t units = std::uint64_t{1} << bits | (random & ((std::uint64_t{1} << bits) - 1));
  const auto choice = static_cast<int>(random >> 56);
  const int exponent = op == ReduceOp::product ? choice % 2 - 1 : choice % 5 - 2;
  const long double magnitude = std::ldexp(static_cast<long double>(units), exponent - bits);
  return nearest_bits(dtype, random >> 55 & 1 ? -magnitude : magnitude);
}

Bounded bounded_result(DType dtype, DType accumulator, ReduceOp op, std::span<const long double> given) {
  const long double u = round_off(accumulator);
  const auto steps = static_cast<long double>(given.size() - 1);
  // Sums in any order are off by less than steps * u (Jeannerod and Rump, 2013); in formats of 8 bits what the fraction
  // adds would let anything pass. The last term is for the sums that are formed here.
  const long double rounded = op == ReduceOp::product ? steps * u / (1 - steps * u) : steps * u;
  const long double growth = rounded + steps * std::numeric_limits<long double>::epsilon();
  const long double expected = reduce_numbers(op, given);
  long double bound = 0;
  if (op == ReduceOp::product) bound = growth * std::fabs(expected);
  if (op == ReduceOp::sum || op == ReduceOp::avg)
    for (const long double number : given) bound += growth * std::fabs(number);
  if (op == ReduceOp::avg) {
    bound /= static_cast<long double>(given.size());
    bound += u * (std::fabs(expected) + bound);
  }
  if (accumulator != dtype) bound += round_off(dtype) * (std::fabs(expected) + bound);
  return {expected, bound};
}

Bounded float8_result(DType dtype, DType accumulator, ReduceOp op, std::span<const std::uint64_t> given) {
  std::vector<long double> numbers;
  for (const std::uint64_t bits : given) numbers.push_back(number_of(dtype, bits));
  Bounded right = bounded_result(dtype, accumulator, op, numbers);
  right.bound += static_cast<long double>(numbers.size()) * smallest_subnormal(dtype) / 2;
  return right;
}

}  // namespace plumbline::conformance
