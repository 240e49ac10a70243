#include "harness/bench/canary_probe.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::bench {

using comm::DType;
using comm::Operation;

namespace {

// Mixes the bits of a number (splitmix64: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, 2014).
std::uint64_t mixed(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

// Plus or minus 1 to 2, times 2^-4 to 2^3.
double drawn(std::uint64_t seed, int rank, std::int64_t element) {
  const std::uint64_t bits =
      mixed(mixed(seed + (static_cast<std::uint64_t>(rank) << 48)) ^ static_cast<std::uint64_t>(element));
  const double significand = 1 + static_cast<double>(bits >> 12) * 0x1p-52;
  const int exponent = static_cast<int>(bits & 7u) - 4;
  return std::ldexp((bits & 8u) != 0 ? -significand : significand, exponent);
}

template <class T>
double value_of(T value) {
  if constexpr (sizeof(T) == 2)
    return comm::to_float(value);
  else
    return value;
}
template <class T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, comm::Float16>)
    return comm::to_float16(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, comm::BFloat16>)
    return comm::to_bfloat16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

// Calls body(T{}) with the element type.
template <class Body>
auto with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f16:
      return body(comm::Float16{});
    case DType::bf16:
      return body(comm::BFloat16{});
    case DType::f32:
      return body(float{});
    case DType::f64:
      return body(double{});
    default:
      throw InvalidArgument(fmt::format("dtype {}; sums that round are of f16, bf16, f32 and f64", name_of(dtype)));
  }
}

template <class T>
constexpr double unit_roundoff() {
  if constexpr (std::is_same_v<T, comm::Float16>) return 0x1p-11;
  if constexpr (std::is_same_v<T, comm::BFloat16>) return 0x1p-8;
  if constexpr (std::is_same_v<T, float>) return 0x1p-24;
  return 0x1p-53;
}

template <class T>
T element_of(const std::vector<std::byte>& bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

// The place of a number among all of its type, in their order; both zeros have one.
template <class T>
std::int64_t position_of(T value) {
  if constexpr (sizeof(T) == 8) {
    const auto bits = std::bit_cast<std::int64_t>(value);
    return bits < 0 ? std::numeric_limits<std::int64_t>::min() - bits : bits;
  } else if constexpr (sizeof(T) == 4) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    return bits < 0 ? std::int64_t{std::numeric_limits<std::int32_t>::min()} - bits : bits;
  } else {
    const auto bits = static_cast<std::int16_t>(value.bits);
    return bits < 0 ? std::int64_t{std::numeric_limits<std::int16_t>::min()} - bits : bits;
  }
}

// The element of rank `from` that arrives at `index` of rank `to`.
struct Source {
  int from;
  std::int64_t index;
};
Source source_of(const CanaryProbe& probe, int to, std::int64_t index) {
  const std::int64_t block = index / probe.elements, within = index % probe.elements;
  switch (probe.operation) {
    case Operation::broadcast:
      return {0, index};
    case Operation::all_gather:
      return {static_cast<int>(block), within};
    default:
      return {static_cast<int>(block), to * probe.elements + within};  // all_to_all
  }
}

// What a rank's element is the sum of, at each rank.
std::int64_t summed_index(const CanaryProbe& probe, int rank, std::int64_t index) {
  return probe.operation == Operation::reduce_scatter ? rank * probe.elements + index : index;
}

template <class T>
void judge_sums(const CanaryProbe& probe, int rank, const std::vector<std::byte>& out, CanaryAnswer& answer) {
  for (std::int64_t i = 0; i < elements_out(probe, rank); ++i) {
    long double exact = 0, magnitude = 0;
    for (int r = 0; r < probe.ranks; ++r) {
      const double x = value_of(rounded<T>(drawn(probe.seed, r, summed_index(probe, rank, i))));
      exact += x;
      magnitude += std::abs(x);
    }
    const double got = value_of(element_of<T>(out, i));
    const long double bound = (probe.ranks - 1) * unit_roundoff<T>() * magnitude + unit_roundoff<T>() * std::abs(exact);
    const auto error =
        std::isnan(got) ? std::numeric_limits<double>::infinity() : static_cast<double>(std::abs(got - exact) / bound);
    answer.error = std::max(answer.error, error);
    if (error > 1 && answer.wrong.empty())
      answer.wrong = fmt::format("rank {}, element {}: {}, and the sum is {}: {:.3g} times what rounding explains",
                                 rank, i, got, static_cast<double>(exact), error);
  }
}

template <class T>
void judge_moves(const CanaryProbe& probe, int rank, const std::vector<std::byte>& out, CanaryAnswer& answer) {
  for (std::int64_t i = 0; i < elements_out(probe, rank) && answer.wrong.empty(); ++i) {
    const auto [from, index] = source_of(probe, rank, i);
    const T due = rounded<T>(drawn(probe.seed, from, index)), got = element_of<T>(out, i);
    if (std::memcmp(&due, &got, sizeof(T)) != 0)
      answer.wrong =
          fmt::format("rank {}, element {}: {}, and rank {} gave {}", rank, i, value_of(got), from, value_of(due));
  }
}

constexpr std::array kOperations{Operation::all_reduce, Operation::reduce,     Operation::reduce_scatter,
                                 Operation::all_gather, Operation::all_to_all, Operation::broadcast};

}  // namespace

std::span<const Operation> canary_operations() { return kOperations; }

std::int64_t elements_in(const CanaryProbe& probe, int rank) {
  if (probe.operation == Operation::broadcast) return rank == 0 ? probe.elements : 0;
  const bool is_split = probe.operation == Operation::reduce_scatter || probe.operation == Operation::all_to_all;
  return is_split ? probe.ranks * probe.elements : probe.elements;
}

std::int64_t elements_out(const CanaryProbe& probe, int rank) {
  if (probe.operation == Operation::reduce) return rank == 0 ? probe.elements : 0;
  const bool is_joined = probe.operation == Operation::all_gather || probe.operation == Operation::all_to_all;
  return is_joined ? probe.ranks * probe.elements : probe.elements;
}

std::vector<std::byte> canary_inputs(const CanaryProbe& probe, int rank) {
  return with_type(probe.dtype, [&]<class T>(T) {
    const std::int64_t count = elements_in(probe, rank);
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(T));
    for (std::int64_t i = 0; i < count; ++i) {
      const T value = rounded<T>(drawn(probe.seed, rank, i));
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
    }
    return bytes;
  });
}

CanaryAnswer judge_canary(const CanaryProbe& probe, std::span<const std::vector<std::byte>> outs) {
  CanaryAnswer answer;
  with_type(probe.dtype, [&]<class T>(T) {
    for (int rank = 0; rank < probe.ranks; ++rank) {
      const auto& out = outs[static_cast<std::size_t>(rank)];
      if (out.size() != static_cast<std::size_t>(elements_out(probe, rank)) * sizeof(T)) {
        answer.wrong =
            fmt::format("rank {} has {} bytes, and not {} elements", rank, out.size(), elements_out(probe, rank));
        return;
      }
      if (is_reduction(probe.operation))
        judge_sums<T>(probe, rank, out, answer);
      else
        judge_moves<T>(probe, rank, out, answer);
      if (probe.operation == Operation::all_reduce && out != outs[0]) answer.ranks_are_equal = false;
    }
  });
  return answer;
}

CanaryDifference compare_canary(const CanaryProbe& probe, std::span<const std::vector<std::byte>> left,
                                std::span<const std::vector<std::byte>> right) {
  CanaryDifference difference;
  with_type(probe.dtype, [&]<class T>(T) {
    for (int rank = 0; rank < probe.ranks; ++rank)
      for (std::int64_t i = 0; i < elements_out(probe, rank); ++i) {
        const T one = element_of<T>(left[static_cast<std::size_t>(rank)], i);
        const T other = element_of<T>(right[static_cast<std::size_t>(rank)], i);
        ++difference.elements;
        if (std::memcmp(&one, &other, sizeof(T)) == 0) continue;
        ++difference.differing;
        const auto here = static_cast<std::uint64_t>(position_of(one));
        const auto there = static_cast<std::uint64_t>(position_of(other));
        const bool is_above = position_of(one) > position_of(other);
        difference.largest = std::max(difference.largest, is_above ? here - there : there - here);
      }
  });
  return difference;
}

}  // namespace plumbline::bench
